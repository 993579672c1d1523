"""A workflow and its steps, as values: what is called in which order, what each step needs, and what is done when it fails."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from typing import Any, Final, Generic, TypeVar

from streams_recovery.core.errors import WAITED_OUT, RecoveryError, Refused, TransientError
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import JobName
from streams_recovery.operations.context import RecoveryContext

T = TypeVar("T")

# What a step may take that asks a cluster, and one that waits for a Spark job or an application.
SHORT: Final = timedelta(minutes=30)
LONG: Final = timedelta(hours=12)
# More would be no time that a clock has.
_MOST_DOUBLINGS: Final = 20


class When(enum.StrEnum):
    """When a step is taken. ``ALWAYS`` and ``FAILURE`` are teardowns: they are taken once the workflow was opened, whatever failed. Airflow takes those of
    ``FAILURE`` after a success too, where they find nothing to do.
    """

    SUCCESS = "success"
    ALWAYS = "always"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The outcome of a job, and the ``plan`` that it was made from, where later steps need that. ``result`` is None when there was nothing to do and no
    job ran.
    """

    result: ArtifactRef | None
    plan: ArtifactRef | None
    ranges: int
    offsets: int


@dataclass(frozen=True, slots=True)
class ResultPart:
    """The part of the result of ``step`` that a step needs when it does not need the whole. It is None when the result is."""

    step: Step[Any]
    of: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[T]):
    """One step. ``name`` is its task id. ``call`` gets a RecoveryContext (two of them, the original's and the clone's, where ``pair`` is set) and the results
    of the steps it ``needs``, or parts of them; it returns a ``result``. Where a parameter's annotation has None, the step goes on without that result.

    A transient error is tried again ``retries`` times, ``delay`` apart, or each time twice as long up to ``most_delay``, and so is ``NoRoom`` by a step that
    ``waits_for_room``; ``limit`` bounds one attempt. In a
    restore that is resumed the step is not taken again once its journal shows the phase ``done_in``: those who need its result get none. ``message`` is what
    a person is told of a result, and ``commands`` are what can be run next, each shown on a line of its own.
    """

    name: str
    call: Callable[..., Any]
    result: type[T] | None
    needs: tuple[Step[Any] | ResultPart, ...] = ()
    pair: bool = False
    when: When = When.SUCCESS
    retries: int = 0
    delay: timedelta = timedelta(seconds=15)
    waits_for_room: bool = False
    most_delay: timedelta | None = None
    limit: timedelta | None = SHORT
    done_in: Phase | None = None
    message: Callable[[T], str | None] = lambda _result: None
    commands: Callable[[T], tuple[str, ...]] = lambda _result: ()

    def part(self, of: Callable[[T], Any]) -> ResultPart:
        """The part that ``of`` takes out of this step's result, for a step that needs no more of it."""
        return ResultPart(self, of)

    @property
    def tried_again(self) -> tuple[type[RecoveryError], ...]:
        """The errors after which it is tried again."""
        return WAITED_OUT if self.waits_for_room else (TransientError,)

    def pause(self, attempt: int) -> timedelta:
        """The time to wait behind this attempt, the first one being 1."""
        return self.delay if self.most_delay is None else min(self.most_delay, self.delay * 2 ** min(attempt - 1, _MOST_DOUBLINGS))

    @property
    def needed(self) -> tuple[Step[Any], ...]:
        """The steps whose results it needs, each once."""
        return tuple(dict.fromkeys(need.step if isinstance(need, ResultPart) else need for need in self.needs))

    @property
    def optional(self) -> tuple[bool, ...]:
        """Whether ``call`` goes on without the result, or the part, for each that it ``needs``: its annotation has None then, or it takes any arguments."""
        taken = list(signature(self.call).parameters.values()) if self.needs else []
        if any(one.kind is one.VAR_POSITIONAL for one in taken):
            return (True,) * len(self.needs)
        positional = [str(one.annotation) for one in taken if one.kind is one.POSITIONAL_OR_KEYWORD]
        return tuple(annotation.endswith("| None") for annotation in positional[len(positional) - len(self.needs) :])

    def arguments(self, results: Mapping[str, Any]) -> list[Any]:
        """The arguments of ``call`` behind the applications, from the results of steps by their names. Raises ``Refused`` naming a step that has left none,
        where ``call`` does not go on without it.
        """
        found = []
        for need, optional in zip(self.needs, self.optional, strict=True):
            step, of = (need.step, need.of) if isinstance(need, ResultPart) else (need, None)
            result = results.get(step.name)
            argument = result if of is None or result is None else of(result)
            if argument is None and not optional:
                raise _no_answer(self.name, step.name)
            found.append(argument)
        return found


def _no_answer(name: str, needed: str) -> Refused:
    return Refused(
        f"{name} needs what {needed} returns, and there is nothing: {needed} did not run, or a person has marked it as done",
        next_step=f"{name} changed nothing; trigger a new run, and for a restore that was opened use `resume`",
        step=name,
        needs=needed,
    )


def _file(outcome: JobOutcome) -> ArtifactRef | None:
    return outcome.result


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep(Step[JobOutcome]):
    """A step that is a Spark job. ``call`` plans it. The application's lock is renewed meanwhile, by the first result that the step needs, where
    ``locked`` is set. Where ``may_fail`` says so of that result, a failure is told, and the step has no result. ``expected`` is given that result too and
    says how much work it will have, so that Spark may start for it while the steps before it are taken; None where there may be none.
    """

    job: JobName
    call: Callable[..., JobPlan]
    result: type[JobOutcome] | None = JobOutcome
    limit: timedelta | None = LONG
    locked: bool = True
    expected: Callable[[RecoveryContext, Any], JobVolume | None] = lambda _recovery, _ticket: None
    may_fail: Callable[[Any], bool] = lambda _ticket: False

    @property
    def file(self) -> ResultPart:
        """The file with the job's result, for a step that needs no more; None when there was nothing to do."""
        return ResultPart(self, _file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow(Generic[T]):
    """Steps in their order. ``before`` are steps that hold and change nothing, so that a person can be asked behind them. ``opening`` returns the ticket that
    the ``steps`` behind it need; teardowns are the last of these. ``result`` is the step that the workflow is taken for. ``after`` are ends
    that are taken even if it was not opened.
    """

    before: tuple[Step[Any], ...] = ()
    opening: Step[Any]
    steps: tuple[Step[Any], ...] = ()
    result: Step[T]
    after: tuple[Step[Any], ...] = ()

    @property
    def all_steps(self) -> tuple[Step[Any], ...]:
        """All of them, as a DAG draws them."""
        return (*self.before, self.opening, *self.steps, *self.after)
