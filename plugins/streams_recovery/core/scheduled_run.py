"""A scheduled run: its limit, which is the ends of its input or a given time, and its record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import Unread
from streams_recovery.core.words import milliseconds

ENDS = "ends"
_DURATION = "duration:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """With ``ends``, ``milliseconds`` is None: the run goes up to the ends that the inputs had at the start. Otherwise it is the duration."""

    text: str
    milliseconds: int | None

    def until(self, now: int) -> int | None:
        """The end of a run that starts ``now``, None if it ends by its input."""
        return None if self.milliseconds is None else now + self.milliseconds


def parse_limit(text: str) -> Limit:
    """``ends`` or ``duration:PT30M``. Raises ``ConfigInvalid``."""
    if text == ENDS:
        return Limit(text=text, milliseconds=None)
    if not text.startswith(_DURATION):
        raise ConfigInvalid(f"{text[:80]!r} is no limit for a run", next_step="use ends, or a duration such as duration:PT30M")
    length = milliseconds(text.removeprefix(_DURATION))
    if length == 0:
        raise ConfigInvalid(f"{text!r} is no time at all", next_step="use ends, or a duration such as duration:PT30M")
    return Limit(text=text, milliseconds=length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The progress of a run. ``targets`` are the offsets to reach next. At ``hop`` 0 they are the ends of the inputs.
    Later they are the ends of the application's own topics, read after the previous targets were reached. ``lag`` is the result of the last check.
    """

    targets: dict[TopicPartition, int]
    hop: int
    lag: dict[TopicPartition, Unread]


def next_hop(reading: Reading, own: Mapping[TopicPartition, int]) -> Reading | None:
    """The next targets, None when everything that the input had caused is processed. ``own`` are the ends of the application's own topics, read after
    the targets were reached.

    A record's effects pass through these topics one after the other, through each at most once. So each hop completes at least one more topic, even
    while new input adds records to all of them.
    """
    if reading.hop >= len({tp.topic for tp in own}):
        return None
    return Reading(targets=dict(sorted(own.items())), hop=reading.hop + 1, lag=reading.lag)


def processed(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Number of offsets that each partition has advanced. ``before`` is where it read on, so that what was deleted before counts as nothing processed."""
    return {tp: moved for tp, offset in sorted(after.items()) if (moved := offset - before.get(tp, 0)) > 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """A run under way. ``ends`` are the last stable offsets of its inputs when it began, ``before`` where the application reads on in them, and ``gone`` how
    many offsets were deleted before it had read them. ``until`` is the moment it ends at, None when it ends by its input.
    ``instances`` were started.
    """

    run_id: str
    started_at: int
    until: int | None
    ends: dict[TopicPartition, int]
    before: dict[TopicPartition, int]
    gone: dict[TopicPartition, int]
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One entry of the log of runs; only the newest counts. ``begins`` is written before the first instance is started, ``ended`` when all are proven
    down.
    """

    kind: Literal["begins", "ended"]
    at: int
    run: ScheduledRun


def is_over(last: RunEntry | None, run: ScheduledRun) -> bool:
    """True if this run has ended, or a later one has begun: what runs by now is not its own."""
    if last is None or last.run.started_at > run.started_at:
        return last is not None
    return last.kind == "ended" and last.run.run_id == run.run_id and last.run.started_at == run.started_at


def under_way(last: RunEntry | None) -> ScheduledRun | None:
    """The run that began and has not ended, None without one."""
    return last.run if last is not None and last.kind == "begins" else None
