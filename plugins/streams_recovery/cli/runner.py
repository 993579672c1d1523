"""Takes the steps of a workflow, in their order, from a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from streams_recovery.cli.advice import advice
from streams_recovery.cli.context import DEFAULT_LOGS
from streams_recovery.cli.screen import command_line, say, shown_progress
from streams_recovery.core import codec
from streams_recovery.core.errors import WAITED_OUT, RecoveryError
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.one_process import ProcessSubmit
from streams_recovery.engine.submitter import SparkJob, SparkStart, SparkSubmit, Submitter, needs_cluster
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import renewed_lock
from streams_recovery.workflows.step import JobOutcome, JobStep, Step, When, Workflow

T = TypeVar("T")
# By the name of a step: what shows how far its Spark job is, while the job runs.
ProgressView = Callable[[str], AbstractContextManager[Callable[[JobProgress], object] | None]]


def _unseen(_step: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """The results of the steps of a workflow, by their names, and the error that ended it."""

    results: dict[str, Any]
    error: BaseException | None = None
    teardown_errors: list[str] = field(default_factory=list)

    def of(self, step: Step[T]) -> T | None:
        """The result of a step; None when it was not taken or failed."""
        return self.results.get(step.name)

    def require(self, step: Step[T]) -> T:
        """The result of a step. Raises the error that ended the workflow."""
        if self.error is not None:
            raise self.error
        result: T = self.results[step.name]
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Takes the steps: with the application's context, for steps of a pair those of an application and its clone, and with what runs Spark jobs, tells a
    person, and shows how far a job is. ``ahead`` starts Spark before there is a job for it, as ``SparkSubmit.ahead``. ``alone`` runs small jobs without
    Spark; without it all go to Spark.
    """

    recovery: RecoveryContext
    submitter: Submitter
    say: Callable[[str], None]
    pair: tuple[RecoveryContext, RecoveryContext] | None = None
    sleep: Callable[[float], None] = time.sleep
    progress: ProgressView = _unseen
    ahead: Callable[[SparkStart], AbstractContextManager[Submitter]] | None = None
    alone: Submitter | None = None

    def run(self, workflow: Workflow[T], ticket: Any, *, reached: Phase | None = None) -> T:
        """Take a workflow that was opened with this ticket to its end, and return its result. Raises the error that ended it."""
        return self.take(workflow.steps, {workflow.opening.name: ticket}, reached=reached).require(workflow.result)

    def take(self, steps: Sequence[Step[Any]], given: Mapping[str, Any], *, reached: Phase | None = None) -> RunOutcome:
        """Take ``steps``; ``given`` has results of steps before them, such as the ticket. A restore that has ``reached`` a phase goes on behind it. After
        a failure only the teardowns are taken, whatever becomes of them, and the first error is the outcome's.
        """
        outcome = RunOutcome(results=dict(given))
        with ExitStack() as stack:
            submitter = self._started_ahead(steps, reached, outcome, stack)
            replace(self, submitter=submitter)._take(steps, reached, outcome)  # noqa: SLF001  # its own
            # What is left of a Spark that was not needed does not change what became of the steps.
            with suppress(OSError):
                stack.close()
        return outcome

    def _started_ahead(self, steps: Sequence[Step[Any]], reached: Phase | None, outcome: RunOutcome, stack: ExitStack) -> Submitter:
        if self.ahead is None:
            return self.submitter
        try:
            jobs = (step for step in steps if isinstance(step, JobStep) and not _done(step, reached))
            job = next((step for step in jobs if self._expects_spark(step, outcome.results)), None)
            return self.submitter if job is None else stack.enter_context(self.ahead(self._start(job)))
        except Exception:  # noqa: BLE001  # the step that needs it says what is wrong, and has its retries
            return self.submitter
        except BaseException as error:  # noqa: BLE001  # Ctrl-C: the ends are taken all the same
            outcome.error = error
            return self.submitter

    def _expects_spark(self, step: JobStep, results: Mapping[str, Any]) -> bool:
        volume = step.expected(self.recovery, results.get(step.needed[0].name)) if step.needed else None
        return volume is not None and self._without_spark(volume) is None

    def _without_spark(self, volume: JobVolume | None) -> Submitter | None:
        return self.alone if volume is not None and volume.small else None

    def _start(self, step: JobStep) -> SparkStart:
        recovery = self.recovery
        connection = recovery.connection if needs_cluster(step.job) else None
        return SparkStart(name=step.job, repository=recovery.repository, connection=connection, credentials=recovery.credentials)

    def _take(self, steps: Sequence[Step[Any]], reached: Phase | None, outcome: RunOutcome) -> None:
        for step in steps:
            if step.when is When.FAILURE and outcome.error is None:
                continue
            if step.when is When.SUCCESS and outcome.error is not None:
                continue
            if _done(step, reached):
                continue
            try:
                result = self._taken(step, outcome.results)
                outcome.results[step.name] = result
                if (message := step.message(result)) is not None:
                    self.say(message)
                for command in step.commands(result):
                    self.say(command_line(command))
            # Also Ctrl-C, and a closed terminal: the application must come back whatever ends the run.
            except BaseException as error:  # noqa: BLE001
                self._failed(step, error, outcome)

    def _failed(self, step: Step[Any], error: BaseException, outcome: RunOutcome) -> None:
        if outcome.error is None:
            outcome.error = error
        if step.when is When.SUCCESS:
            return
        outcome.teardown_errors.append(error.reason if isinstance(error, RecoveryError) else str(error))
        with suppress(OSError):
            self._tell(f"{step.name} failed", error)
            if isinstance(error, WAITED_OUT):
                self.say("what could not be put back stays on record: the next savepoint of the application tries again")

    def _tell(self, what: str, error: BaseException) -> None:
        """An error that does not end the run, with each command to run next on a line of its own."""
        if not isinstance(error, RecoveryError):
            self.say(f"{what}: {error}")
            return
        self.say(f"{what}: {error.reason}. Next: {advice(error.next_step)}")
        for command in error.commands:
            self.say(command_line(command))

    def _taken(self, step: Step[Any], results: Mapping[str, Any]) -> Any:
        arguments = step.arguments(results)
        for attempt in range(1, step.retries + 2):
            try:
                return self._job(step, arguments) if isinstance(step, JobStep) else self._called(step, arguments)
            except step.tried_again as error:
                if attempt > step.retries:
                    raise
                self.say(f"{step.name}, attempt {attempt} of {step.retries + 1}: {error.reason}")
                self.sleep(step.pause(attempt).total_seconds())
        raise AssertionError(step.name)

    def _called(self, step: Step[Any], arguments: Sequence[Any]) -> Any:
        if not step.pair:
            return step.call(self.recovery, *arguments)
        if self.pair is None:
            raise AssertionError(f"{step.name} needs two applications")
        return step.call(*self.pair, *arguments)

    def _job(self, step: JobStep, arguments: Sequence[Any]) -> JobOutcome | None:
        plan = self._called(step, arguments)
        lock = renewed_lock(self.recovery, arguments[0]) if step.locked else nullcontext()
        try:
            with lock:
                result = self._submitted(step, plan)
        except RecoveryError as error:
            if not step.may_fail(arguments[0]):
                raise
            self._tell(f"{step.name} failed, and the restore goes on without it", error)
            return None
        return JobOutcome(result=result, plan=plan.plan, ranges=plan.ranges, offsets=plan.offsets)

    def _submitted(self, step: JobStep, plan: JobPlan) -> ArtifactRef | None:
        if plan.spec is None or plan.result_key is None:
            self.say(f"{step.name}: nothing to do")
            return None
        alone = self._without_spark(plan.volume)
        self.say(f"{step.name}: {'a Spark job over' if alone is None else 'one process, without Spark, for'} {plan.ranges} ranges")
        with self.progress(step.name) as report:
            job = SparkJob(**codec.fields_of(SparkStart, self._start(step)), spec=plan.spec, result_key=plan.result_key, report=report)
            return (alone or self.submitter).submit(job)


def _done(step: Step[Any], reached: Phase | None) -> bool:
    return step.done_in is not None and reached is not None and reached.rank >= step.done_in.rank


def runner(
    recovery: RecoveryContext,
    logs: Path = DEFAULT_LOGS,
    pair: tuple[RecoveryContext, RecoveryContext] | None = None,
    *,
    has_jobs: bool = True,
) -> Runner:
    """Takes the steps of workflows. ``pair``: an application and its clone. A run that ``has_jobs`` is refused here when no Spark is configured for them:
    later the application could be held or stopped already.
    """
    if has_jobs:
        recovery.spark_master()
    spark = ConfiguredSpark(recovery, logs)
    alone = None if recovery.config.spark.always else ProcessSubmit(logs=logs)
    return Runner(recovery=recovery, submitter=spark, ahead=spark.ahead, alone=alone, say=say, pair=pair, progress=shown_progress)


@dataclass(frozen=True, slots=True)
class ConfiguredSpark:
    """See Submitter: spark-submit to the configured master, which is looked for with each job."""

    recovery: RecoveryContext
    logs: Path

    def submit(self, job: SparkJob) -> ArtifactRef:
        return self._configured().submit(job)

    def ahead(self, start: SparkStart) -> AbstractContextManager[Submitter]:
        """See SparkSubmit."""
        return self._configured().ahead(start)

    def _configured(self) -> SparkSubmit:
        allowed = self.recovery.config.spark.allow_insecure_rpc
        return SparkSubmit(master=self.recovery.spark_master(), logs=self.logs, allow_insecure_rpc=allowed)
