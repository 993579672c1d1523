"""What is done with an application and its repository on a schedule, besides savepoints and drills."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from streams_recovery.config.fields import Integer, Section
from streams_recovery.config.rules import Level, RunLimit, Schedule
from streams_recovery.core.repository.announcement import Apply

Count = Annotated[Integer, Field(ge=0, le=100_000)]


def _merge_files(value: int) -> int:
    if value == 1:
        raise ValueError("expected 0 for never, or at least 2: one file alone cannot be merged")
    return value


MergeFiles = Annotated[Integer, Field(ge=0, le=10_000), AfterValidator(_merge_files)]


def _apply(value: Any) -> Any:
    # YAML has its own true and false.
    word = str(value).lower() if isinstance(value, (bool, str)) else value
    if word not in tuple(Apply):
        raise ValueError(f"expected true, false or after_days, found {value!r}")
    return Apply(word)


Applied = Annotated[
    Apply,
    BeforeValidator(_apply),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "after_days"}, {"type": "string", "pattern": r"\$\{"}]}),
]


class Retention(Section):
    """Which savepoints stay. One that any rule keeps is kept; ``minimum`` newest exact ones stay whatever the rules say. Files of one that expired
    stay ``grace_days`` longer. Safety savepoints are kept ``safety_days``, artifacts of runs that are over ``work_days``. ``schedule`` null or ``none``
    means only by hand. ``apply`` says whether runs of the schedule delete: always, never, or from ``after_days`` days after they have announced it.
    ``merge_files`` small files of a partition that lie side by side become one, before anything expires; fewer of them too when they make a file of at least
    half of ``backup.segment_max_records``. 0 means never.
    """

    schedule: Schedule = "H 2 * * *"
    apply: Applied = Apply.AFTER_DAYS
    after_days: Annotated[Integer, Field(ge=1, le=365)] = 14
    grace_days: Annotated[Integer, Field(ge=1, le=3_650)] = 7
    safety_days: Annotated[Integer, Field(ge=1, le=3_650)] = 30
    work_days: Annotated[Integer, Field(ge=7, le=3_650)] = 30

    keep_last: Count = 24
    keep_hourly: Count = 48
    keep_daily: Count = 14
    keep_weekly: Count = 8
    keep_monthly: Count = 12
    minimum: Annotated[Integer, Field(ge=1, le=1_000)] = 3
    merge_files: MergeFiles = 24


class Check(Section):
    """When the repository is checked, and how deep: ``structure``, ``full`` or a share such as ``sample=10%``."""

    schedule: Schedule = "H 3 * * 0"
    level: Level = "sample=10%"


class Compact(Section):
    """When the newest savepoint is compacted to the newest record of each key. ``schedule`` null or ``none`` means only by hand."""

    schedule: Schedule = None


class Run(Section):
    """When an application that is down in between is run, and how far: to the ``ends`` of its inputs at the start, or for a ``duration:PT30M``.
    ``schedule`` null or ``none`` means only by hand.
    """

    schedule: Schedule = None
    until: RunLimit = "ends"
    timeout_minutes: Annotated[Integer, Field(ge=1, le=10_080)] = 360
