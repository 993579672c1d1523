"""A step of a workflow, as a value: what is called, what it needs, and what is done when it fails."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import JobName

# What a step may take that asks a cluster, and one that waits for a Spark job or an application.
SHORT: Final = timedelta(minutes=30)
LONG: Final = timedelta(hours=12)


class When(enum.StrEnum):
    """When a step is taken. ``ALWAYS`` and ``FAILURE`` are teardowns: they are taken once the workflow was opened, whatever failed. Airflow takes those of
    ``FAILURE`` after a success too, where they find nothing to do.
    """

    SUCCESS = "success"
    ALWAYS = "always"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What a Spark job did, and what it was planned from where later steps need that. ``result`` is None when there was nothing to do and no job ran."""

    result: ArtifactRef | None
    plan: ArtifactRef | None
    ranges: int
    offsets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. ``name`` is its task id. ``call`` gets a RecoveryContext (two of them, the original's and the clone's, where ``pair`` is set) and the results
    of the steps it ``needs``, None for one that was not taken or failed; it returns a ``result``.

    A transient error is tried again ``retries`` times, ``delay`` apart; ``limit`` bounds one attempt. In a restore that is resumed the step is not taken
    again once its journal shows the phase ``done_in``: those who need its result get None. ``message`` is what a person is told of a result, and
    ``commands`` are what can be run next, each shown on a line of its own.
    """

    name: str
    call: Callable[..., Any]
    result: Any
    needs: tuple[Step, ...] = ()
    pair: bool = False
    when: When = When.SUCCESS
    retries: int = 0
    delay: timedelta = timedelta(seconds=15)
    limit: timedelta | None = SHORT
    done_in: Phase | None = None
    message: Callable[[Any], str | None] = lambda _result: None
    commands: Callable[[Any], tuple[str, ...]] = lambda _result: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep(Step):
    """A step that is a Spark job. ``call`` plans it and returns a JobPlan. The application's lock is renewed meanwhile, by the first result that the step
    needs, where ``locked`` is set. Where ``may_fail`` says so of that result, a failure is told, and the step has no result.
    """

    job: JobName
    result: Any = JobOutcome
    limit: timedelta | None = LONG
    locked: bool = True
    may_fail: Callable[[Any], bool] = lambda _ticket: False
