"""Spark jobs as tasks: planned by a step, submitted by Airflow's own operator, believed only by the result they leave."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.config.backup import Spark
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, RecoveryError
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.outcome import read_outcome
from streams_recovery.engine.spark_submit import JobName, SparkCall
from streams_recovery.engine.submitter import RESULTS, SparkJob, Submitter, needs_cluster, prepared
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.hooks.context import airflow_errors, context_of
from streams_recovery.operations import compaction, maintenance, restore, savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import Locked, renewed_lock
from streams_recovery.operations.savepoint import JobPlan
from streams_recovery.operators.base import received
from streams_recovery.storage.receipts import read_receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOutcome:
    """What a job did, and what it was planned from where steps behind it need that. ``result`` is None when there was nothing to do and no job was
    submitted.
    """

    result: ArtifactRef | None
    plan: ArtifactRef | None
    ranges: int
    offsets: int


class SparkJobOperator(SparkSubmitOperator):
    """One job of a savepoint or a restore. ``ticket`` is the JSON that the run's first step returned.

    Submits in client mode, so that secrets can stay in a file of this machine. A killed task kills its job; what the job had written by then
    is never referenced. Keeps the application's lock alive meanwhile. Only code can set ``submitter``, to run the job in place of Airflow's own
    spark-submit: no connection, param or environment variable reaches it.
    """

    job: JobName
    submitter: Submitter | None = None
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "application_name", "ticket")

    def __init__(self, *, application_name: str, ticket: str, **kwargs: Any) -> None:
        super().__init__(durable=False, deploy_mode="client", **kwargs)
        self.application_name = application_name
        self.ticket = ticket
        self._environment: dict[str, str] = {}

    @abstractmethod
    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked | None]:
        """The job to run, and the ticket whose lock it runs under, None for one that changes nothing."""

    def execute(self, context: Context) -> Any:
        """Plan, submit, and see that the result is there."""
        with airflow_errors(), context_of(self.application_name) as recovery:
            plan, ticket = self.plan_job(recovery)
            outcome = SparkOutcome(result=None, plan=plan.plan, ranges=plan.ranges, offsets=plan.offsets)
            if plan.spec is None or plan.result_key is None:
                self.log.info("Nothing to do: no Spark job is submitted.")
                return codec.encode(outcome)
            job = SparkJob(
                name=self.job,
                spec=plan.spec,
                result_key=plan.result_key,
                repository=recovery.repository,
                connection=recovery.connection if needs_cluster(self.job) else None,
                credentials=recovery.credentials,
            )
            submitter = self.submitter or _AirflowSubmit(self, context, recovery.config.spark)
            with renewed_lock(recovery, ticket) if ticket is not None else nullcontext():
                return codec.encode(replace(outcome, result=submitter.submit(job)))

    def submit_call(self, call: SparkCall, connection: str, context: Context) -> None:
        """One spark-submit by the provider, to its end. Raises whatever the provider raises."""
        self._conn_id = connection
        self.application, self.application_args = str(call.application), list(call.arguments)
        self.name, self.py_files, self.conf, self.env_vars = call.name, str(call.py_files), dict(call.conf), None
        self._environment, self._hook = dict(call.environment), None
        super().execute(context)

    def _get_hook(self) -> SparkSubmitHook:
        # Not by env_vars: the hook lays those over all that this process has, and for a master of Kubernetes it gives them to a driver in the cluster
        # and not to the process that it starts.
        hook = super()._get_hook()
        hook.submit = partial(hook.submit, env=self._environment)  # type: ignore[method-assign]
        return hook


@dataclass(frozen=True, slots=True)
class _AirflowSubmit:
    """See Submitter. Airflow's spark-submit, by the operator of a running task, so that Airflow can end it."""

    operator: SparkJobOperator
    context: Context
    spark: Spark

    def submit(self, job: SparkJob) -> ArtifactRef:
        master = AirflowConnections().spark_master(self.spark.connection)
        _check_provider(master)
        with prepared(job, master, allow_insecure_rpc=self.spark.allow_insecure_rpc) as call:
            try:
                self.operator.submit_call(call, self.spark.connection, self.context)
            except RecoveryError:
                raise
            except Exception:
                # The provider only knows that the process failed; the job itself may have left the reason.
                self.operator.log.exception("spark-submit failed")
            return read_outcome(job.repository, read_receipt(call.receipt), job.result_key, RESULTS[job.name])


def _check_provider(master: str) -> None:
    # Without it the hook ends in a NameError, whose reason nobody could guess.
    if "k8s" in master and not hasattr(spark_submit, "kube_client"):
        raise ConfigInvalid(
            f"Airflow submits to {master} only with its provider for Kubernetes, which is not installed",
            next_step="install apache-airflow-providers-cncf-kubernetes where Airflow's tasks run",
            master=master,
        )


class CopyRecordsOperator(SparkJobOperator):
    """Copy what is new since the last savepoint. ``cut`` is the JSON that capturing the cut returned."""

    job: JobName = "backup"
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "cut")

    def __init__(self, *, cut: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cut = cut

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked]:
        """Which ranges are missing."""
        ticket = received(savepoint.Ticket, self.ticket, "begin")
        return savepoint.plan_copy(recovery, ticket, received(savepoint.CutSummary, self.cut, "capture_cut").draft), ticket


class CopyStateOperator(SparkJobOperator):
    """Copy what is about to be replaced. ``begun`` is the JSON that saving the state returned. A failure of the copy is no failure of the restore
    when its safety savepoint is only ``best_effort``.
    """

    job: JobName = "backup"
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "begun")

    def __init__(self, *, begun: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.begun = begun

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked]:
        """What is missing, planned already."""
        begun = received(restore.SafetyBegun, self.begun, "saving the state")
        return begun.job, received(restore.RestoreTicket, self.ticket, "open")

    def execute(self, context: Context) -> Any:
        """Copy."""
        try:
            return super().execute(context)
        except (AirflowFailException, RecoveryError):
            if received(restore.RestoreTicket, self.ticket, "open").request.safety is restore.SafetyPolicy.REQUIRED:
                raise
            self.log.exception("The safety savepoint could not be copied; the restore goes on without one")
            return None


class RestoreJobOperator(SparkJobOperator):
    """A job of a restore that is open, planned by the step ``planned_by``."""

    planned_by: Callable[[RecoveryContext, restore.RestoreTicket], JobPlan]

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked]:
        """What the step says."""
        ticket = received(restore.RestoreTicket, self.ticket, "open")
        return type(self).planned_by(recovery, ticket), ticket


class LoadRecordsOperator(RestoreJobOperator):
    """Load every internal topic from the savepoint, and read what is there then."""

    job: JobName = "restore"
    planned_by = staticmethod(restore.plan_load)


class FeedRecordsOperator(RestoreJobOperator):
    """Load the input that was held back, now that the application has processed what comes before it."""

    job: JobName = "restore"
    planned_by = staticmethod(restore.plan_feed)


class AppendRecordsOperator(SparkJobOperator):
    """Append later input that a restore has set aside."""

    job: JobName = "restore"

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked]:
        """What is missing of it."""
        ticket = received(restore.AppendTicket, self.ticket, "open")
        return restore.plan_append_job(recovery, ticket), ticket


class CompareOperator(SparkJobOperator):
    """A comparison of what was loaded, planned by the step ``compared_by``. ``loaded`` is the JSON that checking the load returned."""

    job: JobName = "verify"
    compared_by: Callable[[RecoveryContext, restore.RestoreTicket, ArtifactRef | None], JobPlan]
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "loaded")

    def __init__(self, *, loaded: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.loaded = loaded

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked]:
        """What the step says."""
        ticket = received(restore.RestoreTicket, self.ticket, "open")
        return type(self).compared_by(recovery, ticket, received(restore.LoadSummary, self.loaded, "checking the load").result), ticket


class CompareRecordsOperator(CompareOperator):
    """Compare savepoint and topics row by row and key by key, where the load has not proven them equal, or it is asked for. Mostly there is nothing to do."""

    compared_by = staticmethod(restore.plan_verify)


class CompareFeedOperator(CompareOperator):
    """Compare the inputs that are whole now with the archive row by row, where their load has not proven them equal."""

    compared_by = staticmethod(restore.plan_verify_feed)


class ReadFilesOperator(SparkJobOperator):
    """Read the files that an audit chose."""

    job: JobName = "audit"

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked | None]:
        """Which files, planned already; where the result goes is this attempt's own."""
        return maintenance.plan_reading(recovery, received(maintenance.CheckTicket, self.ticket, "plan")), None


class ReduceRecordsOperator(SparkJobOperator):
    """Reduce the changelogs that the plan names, and compare the result with them."""

    job: JobName = "compact"

    def plan_job(self, recovery: RecoveryContext) -> tuple[JobPlan, Locked | None]:
        """Which partitions, planned already."""
        return compaction.plan_job(recovery, received(compaction.CompactTicket, self.ticket, "plan")), None
