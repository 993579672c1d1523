"""The tasks of a restore in place, in the order in which they are taken, and the parts of a chain that several DAGs draw. The Spark jobs are in spark.py.

Task groups give the ids of their tasks no prefix, so a task is called the same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import BaseOperator, Context, TaskGroup, chain
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.config.loader import load_application
from streams_recovery.config.offsets import inside
from streams_recovery.core.approval import approval
from streams_recovery.core.escaping import joined, md
from streams_recovery.core.project_files import config_directory
from streams_recovery.core.restore.plan import require_agreement
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import STRATEGIES, FromSavepoint, RestoreRequest
from streams_recovery.operations.restore.strategies.requested import RequestReader
from streams_recovery.operations.second_place import lost_if_turned_round
from streams_recovery.operators.base import (
    NOTHING,
    ParamsOperator,
    StepOperator,
    group_prefix,
    received,
    requested_by,
    result_of,
    run_id_of,
)
from streams_recovery.operators.spark import (
    CompareDeferredInputOperator,
    CompareRecordsOperator,
    CopyStateOperator,
    LoadDeferredInputOperator,
    LoadRecordsOperator,
)
from streams_recovery.workflows import restore as steps
from streams_recovery.workflows.step import SHORT


class RequestedOperator(ParamsOperator):
    """A task that begins with a person's request. ``strategy`` is the name of one in ``STRATEGIES``, such as ``rebuild``. The params have the names of the
    request's fields. ``fixed`` has values that the DAG decides; they may be templates. ``source`` is the name of a configured application. Without
    ``offsets`` the configuration says where the application reads on in its inputs.
    """

    template_fields: Sequence[str] = (*ParamsOperator.template_fields, "fixed")

    def __init__(self, *, strategy: str = FromSavepoint.KIND, fixed: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.strategy = strategy
        self.fixed = dict(fixed or {})

    @property
    def request(self) -> RestoreRequest:
        """The request itself. Raises ``ConfigInvalid``."""
        config = load_application(self.application_name)
        reader = RequestReader(config=config, application=load_application, read=inside(config_directory()))
        return reader.request(STRATEGIES[self.strategy], self.given())

    def given(self) -> dict[str, Any]:
        """The given values of the request, by the names of its form's fields."""
        return self.params_of_run() | self.fixed

    def site(self) -> str | None:
        return self.request.site


class PlanRestoreOperator(RequestedOperator):
    """Show what the restore would do. Changes nothing; the result is what is approved."""

    takes = steps.PLAN

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str | None]:
        request, began_at = self.request, recovery.clock()
        lost = lost_if_turned_round(recovery)
        planned = restore.plan(recovery, request)
        text = joined([md("> **Warning:** {}", lost), md(""), planned.text]) if lost else planned.text
        self.log.info("%s", text)
        require_agreement(planned, request.safeguards)
        return {"hash": approval(planned), "savepoint": planned.savepoint_id, "text": text, "began_at": str(began_at)}


class OpenRestoreOperator(RequestedOperator):
    """Take the application's lock and plan again under it. Another plan than the one whose hash is ``approved_hash`` stops the run here. A run that
    has the lock is waited for ``patience`` seconds.
    """

    takes = steps.OPEN_RESTORE
    after_approval = True
    template_fields: Sequence[str] = (*RequestedOperator.template_fields, "approved_hash")

    def __init__(self, *, approved_hash: str = "", patience: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved_hash = approved_hash or planned("hash", self.task_id)
        self.patience = patience

    def step(self, recovery: RecoveryContext, context: Context) -> restore.RestoreTicket:
        lost_if_turned_round(recovery)
        return restore.open_restore(
            recovery,
            self.request,
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            approved_hash=self.approved_hash,
            patience=self.patience,
        )


class StopApplicationOperator(StepOperator):
    """Stop every instance, prove that none runs, and empty the consumer group."""

    takes = steps.STOP_APPLICATION


class SaveStateOperator(StepOperator):
    """Read the cut of what is about to be replaced, for the safety savepoint."""

    takes = steps.SAVE_STATE


class KeepStateOperator(StepOperator):
    """Publish the safety savepoint."""

    takes = steps.KEEP_STATE


class PrepareTopicsOperator(StepOperator):
    """Create the topics that will be loaded, empty and held back from retention and compaction. From here on the application stays down until it is whole."""

    takes = steps.PREPARE_TOPICS


class CheckLoadOperator(StepOperator):
    """Compare what the load wrote with the plan and with the logs' ends."""

    takes = steps.CHECK_LOAD


class VerifyChangelogsOperator(StepOperator):
    """Fail unless there is a proof for every partition that it equals the savepoint's."""

    takes = steps.VERIFY_CHANGELOGS


class VerifyClearedOperator(StepOperator):
    """Fail unless every internal topic is gone, before state is rebuilt from the input."""

    takes = steps.VERIFY_CLEARED


class ResetConsumerGroupOperator(StepOperator):
    """Set the group's committed offsets and their metadata, and read them back."""

    takes = steps.RESET_CONSUMER_GROUP


class WipeStateOperator(StepOperator):
    """Remove local state on every instance: RocksDB, checkpoints and lock files."""

    takes = steps.WIPE_STATE


class StartApplicationOperator(StepOperator):
    """Start every instance on the restored state."""

    takes = steps.START_APPLICATION


class AwaitRecoveredOperator(StepOperator):
    """Wait until the application is RUNNING and has read its inputs to the ends they had at the start."""

    takes = steps.AWAIT_RECOVERED


class RecordSiteOperator(StepOperator):
    """Write down that the application has arrived at its new site, and is at work there."""

    takes = steps.ARRIVE


class DrainOperator(StepOperator):
    """Wait until the application has processed all of its input, and stop it there."""

    takes = steps.DRAIN


class DrainBeforeIntervalOperator(StepOperator):
    """Wait until what comes before an interval is processed, and stop the application there."""

    takes = steps.DRAIN_BEFORE_INTERVAL


class CheckDeferredInputOperator(StepOperator):
    """Compare what the load of the deferred input wrote with the plan and with the logs' ends."""

    takes = steps.CHECK_DEFERRED


class VerifyDeferredInputOperator(StepOperator):
    """Fail unless there is a proof for every deferred input that it equals the archive's."""

    takes = steps.VERIFY_DEFERRED


class StartOnIntervalOperator(StepOperator):
    """Start the application on the interval, and wait until it is RUNNING."""

    takes = steps.START_ON_INTERVAL


class PrepareSingleTopicsOperator(StepOperator):
    """Create single topics, empty and held back from retention and compaction. Nothing else is replaced."""

    takes = steps.PREPARE_SINGLE


class WipeNotedOffsetsOperator(StepOperator):
    """Remove local state where it notes offsets of a topic that was brought back by itself."""

    takes = steps.WIPE_NOTED


class FinishSingleTopicsOperator(StepOperator):
    """Put topic settings back, write the evidence, give the lock back. The application is left as it is."""

    takes = steps.FINISH_SINGLE


class CheckPlacementOperator(StepOperator):
    """Fail unless every record lies where its key puts it."""

    takes = steps.CHECK_PLACEMENT


class KeepPlacedOperator(StepOperator):
    """Publish the savepoint with the records placed anew, and plan the restore of it. A drill publishes none, and only plans."""

    takes = steps.KEEP_PLACED


class CheckVersionOperator(StepOperator):
    """Compare the new version with the savepoint that the old one has left. From here on only this upgrade starts the application."""

    takes = steps.CHECK_VERSION


class WatchVersionOperator(StepOperator):
    """Watch the new version, and fail as soon as it does not do its work."""

    takes = steps.WATCH_VERSION


class FinishUpgradeOperator(StepOperator):
    """Write the evidence of the upgrade, give the lock back."""

    takes = steps.FINISH_UPGRADE


class AbandonUpgradeOperator(StepOperator):
    """After a failure: bring the old version back where the new one was not deployed, else leave it to the way back. Nothing after success."""

    takes = steps.ABANDON_UPGRADE


class WhetherToRollBackOperator(Logged, BaseOperator):
    """Stops the new version and goes on to the way back when an upgrade has failed after that was deployed; else what follows is skipped. ``ticket`` renders
    to what *open_restore* returned. The result says what is taken back.
    """

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, application_name: str, **kwargs: Any) -> None:
        super().__init__(
            task_id="whether_to_roll_back",
            trigger_rule="all_done",
            retries=3,
            retry_delay=timedelta(seconds=15),
            execution_timeout=SHORT,
            **kwargs,
        )
        self.application_name = application_name
        self.ticket = result_of("open_restore")

    def execute(self, context: Context) -> dict[str, str]:
        if self.ticket == NOTHING:
            raise AirflowSkipException("Nothing was begun")
        ticket = received(restore.RestoreTicket, self.ticket, "open_restore")
        with airflow_errors(), context_of(self.application_name, ticket.site) as recovery:
            request = restore.way_back(recovery, ticket)
            if request is None:
                raise AirflowSkipException("Nothing is to be taken back")
            restore.stop_failed(recovery, ticket)
        return {"restore_id": request.restore_id, "reason": request.reason, "application_id": request.safeguards.confirm}


class FinishRestoreOperator(StepOperator):
    """Put topic settings back, write the evidence of the restore, give the lock back."""

    takes = steps.FINISH


class AbandonRestoreOperator(StepOperator):
    """After a failure: bring the application back while nothing was destroyed, else leave it down and say what to do. Nothing after success."""

    takes = steps.ABANDON


# A savepoint of what a restore is about to replace. `streams_undo` brings it back.
SAFETY_SAVEPOINT: Final = (SaveStateOperator, CopyStateOperator, KeepStateOperator)
# Topics loaded from the savepoint, and proven equal to it.
LOAD_AND_VERIFY: Final = (LoadRecordsOperator, CheckLoadOperator, CompareRecordsOperator, VerifyChangelogsOperator)


def replace_state(application_name: str, *, grouped: bool = True) -> tuple[BaseOperator | TaskGroup, ...]:
    """For Airflow's ``chain``: the application stopped, its state saved, its topics loaded and verified. Without ``grouped`` there are no task groups in it,
    for a chain that stands in one whose name begins the task ids.
    """
    return (
        StopApplicationOperator(application_name=application_name),
        *_part("safety_savepoint", SAFETY_SAVEPOINT, application_name, grouped=grouped),
        PrepareTopicsOperator(application_name=application_name),
        *_part("load_and_verify", LOAD_AND_VERIFY, application_name, grouped=grouped),
    )


def safety_savepoint(application_name: str) -> TaskGroup:
    """A savepoint of what is there."""
    return _group("safety_savepoint", SAFETY_SAVEPOINT, application_name)


def load_and_verify(application_name: str) -> TaskGroup:
    """Topics loaded from the savepoint, and proven equal to it."""
    return _group("load_and_verify", LOAD_AND_VERIFY, application_name)


def start_again(application_name: str) -> tuple[BaseOperator, ...]:
    """For Airflow's ``chain``: offsets set, local state wiped, the application started and waited for."""
    return (
        ResetConsumerGroupOperator(application_name=application_name),
        WipeStateOperator(application_name=application_name),
        StartApplicationOperator(application_name=application_name),
        AwaitRecoveredOperator(application_name=application_name),
    )


def load_deferred_input(application_name: str) -> TaskGroup:
    """The input of an interval, loaded once what comes before it is processed, while the application is down, and proven equal to the archive."""
    operators = (LoadDeferredInputOperator, CheckDeferredInputOperator, CompareDeferredInputOperator, VerifyDeferredInputOperator)
    return _group("deferred_input", operators, application_name)


def _part(name: str, operators: Sequence[type[Any]], application_name: str, *, grouped: bool) -> tuple[BaseOperator | TaskGroup, ...]:
    if grouped:
        return (_group(name, operators, application_name),)
    return tuple(operator(application_name=application_name) for operator in operators)


def _group(name: str, operators: Sequence[type[Any]], application_name: str) -> TaskGroup:
    with TaskGroup(name, prefix_group_id=False) as group:
        chain(*(operator(application_name=application_name) for operator in operators))
    return group


def planned(what: str, task_id: str = "") -> str:
    """Template of one fact of what the task *plan* returned, in the task group of ``task_id``."""
    return f"{{{{ ti.xcom_pull(task_ids='{group_prefix(task_id)}plan')['{what}'] }}}}"
