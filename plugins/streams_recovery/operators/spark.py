"""Spark jobs as tasks: planned by a step, submitted by Airflow's own operator, believed only by the result they leave."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.config.backup import Spark
from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, LockHeld, LockLost, RecoveryError
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.one_process import ProcessCall, process_call
from streams_recovery.engine.spark_submit import SparkCall, read_outcome
from streams_recovery.engine.submitter import RESULTS, SparkJob, Submitter, end, needs_cluster, prepared
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import renewed_lock
from streams_recovery.operators.base import needed_results, place_of, results_of, site_of, treatment
from streams_recovery.storage.objects import read_receipt
from streams_recovery.workflows import maintenance, restore, savepoint
from streams_recovery.workflows.step import JobOutcome, JobStep


class SparkJobOperator(Logged, SparkSubmitOperator):  # type: ignore[override]
    """One step of a workflow that is a Spark job: planned first, submitted by Airflow's own spark-submit, believed only by the result it leaves.

    Submits in client mode, so that secrets can stay in a file of this machine. A killed task kills its job; what the job had written by then
    is never referenced. Renews the application's lock meanwhile. Only code can set ``submitter``, to run the job in place of Airflow's own
    spark-submit: no connection, param or environment variable reaches it.
    """

    takes: ClassVar[JobStep]
    submitter: Submitter | None = None
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "application_name", "results")

    def __init__(self, *, application_name: str, results: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(durable=False, deploy_mode="client", **treatment(self.takes) | kwargs)
        self.application_name = application_name
        self.results = results_of(self.takes, self.task_id) | dict(results or {})
        self._environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def execute(self, context: Context) -> Any:
        """Plan, submit, and see that the result is there."""
        with airflow_errors(self.takes):
            needed = needed_results(self.takes, self.results)
        try:
            with airflow_errors(self.takes), context_of(self.application_name, site_of(needed), place=place_of(self, context)) as recovery:
                return codec.encode(self._taken(recovery, needed, context))
        except (AirflowFailException, RecoveryError):
            if not self.takes.may_fail(needed[0]):
                raise
            self.log.exception("%s failed, and the restore goes on without it", self.task_id)
            return None

    def _taken(self, recovery: RecoveryContext, needed: Sequence[Any], context: Context) -> JobOutcome:
        plan: JobPlan = self.takes.call(recovery, *needed)
        outcome = JobOutcome(result=None, plan=plan.plan, ranges=plan.ranges, offsets=plan.offsets)
        if plan.spec is None or plan.result_key is None:
            self.log.info("Nothing to do.")
            return outcome
        job = SparkJob(
            name=self.takes.job,
            spec=plan.spec,
            result_key=plan.result_key,
            repository=recovery.repository,
            connection=recovery.connection if needs_cluster(self.takes.job) else None,
            credentials=recovery.credentials,
        )
        submitter = self.submitter or self._submitter(plan, recovery.config.spark, context)
        with renewed_lock(recovery, needed[0]) if self.takes.locked else nullcontext():
            return replace(outcome, result=submitter.submit(job))

    def _submitter(self, plan: JobPlan, spark: Spark, context: Context) -> Submitter:
        if plan.volume is None or not plan.volume.small or spark.always:
            return _AirflowSubmit(self, context, spark)
        self.log.info("One process, without Spark, for %s ranges.", plan.ranges)
        return _AirflowProcess(self)

    def on_kill(self) -> None:
        """End the job, whichever way it runs."""
        if self._process is not None:
            end(self._process)
        elif self._hook is not None:
            super().on_kill()

    def run_process(self, call: ProcessCall) -> None:
        """A job without Spark, to its end; what it prints goes to the task's log."""
        process = self._process = subprocess.Popen(
            call.argv,
            env=call.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            for line in process.stdout or ():
                self.log.info(line.decode(errors="replace").rstrip())
        finally:
            end(process)

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


@dataclass(frozen=True, slots=True)
class _AirflowProcess:
    """See Submitter. A small job in a process of its own, which ends with the task."""

    operator: SparkJobOperator

    def submit(self, job: SparkJob) -> ArtifactRef:
        with process_call(job) as call:
            self.operator.run_process(call)
            return read_outcome(job.repository, read_receipt(call.receipt), job.result_key, RESULTS[job.name])


def _check_provider(master: str) -> None:
    # Without it the hook ends in a NameError that does not tell the reason.
    if "k8s" in master and not hasattr(spark_submit, "kube_client"):
        raise ConfigInvalid(
            f"Airflow submits to {master} only with its provider for Kubernetes, which is not installed",
            next_step="install apache-airflow-providers-cncf-kubernetes where Airflow's tasks run",
            master=master,
        )


class CopyRecordsOperator(SparkJobOperator):
    """Copy what is new since the last savepoint."""

    takes = savepoint.COPY_RECORDS


class ArchiveInputsOperator(SparkJobOperator):
    """Archive inputs and globals until the next run takes over. A failed archiver is tried again, later each time. So is an archiver that finds the lock of
    another one: a killed archiver has the lock until its lease ends, and failed runs would get the DAG paused.
    """

    takes = savepoint.ARCHIVE_INPUTS

    def _taken(self, recovery: RecoveryContext, needed: Sequence[Any], context: Context) -> JobOutcome:
        try:
            return super()._taken(recovery, needed, context)
        except (LockHeld, LockLost) as error:
            raise ApplicationNotReady(
                error.reason, next_step="this run archives when the other one has ended, or was silent for 90 seconds"
            ) from error


class CopyStateOperator(SparkJobOperator):
    """Copy what is about to be replaced. Its failure is no failure of the restore when the safety savepoint is only ``best_effort``."""

    takes = restore.COPY_STATE


class LoadRecordsOperator(SparkJobOperator):
    """Load every topic from the savepoint, and read back what is there then."""

    takes = restore.LOAD_RECORDS


class CompareRecordsOperator(SparkJobOperator):
    """Compare savepoint and topics row by row, where the load has not proven them equal, and key by key where it is asked for. Mostly nothing is left to do."""

    takes = restore.COMPARE_RECORDS


class ProvePlacementOperator(SparkJobOperator):
    """Prove where the records lie of the savepoint that is there, before anything is stopped."""

    takes = restore.PROVE_PLACEMENT


class PlaceRecordsOperator(SparkJobOperator):
    """Place the records of a savepoint anew, as files of another one, or of a drill. The cluster is not touched. Drills without other numbers have none."""

    takes = restore.PLACE_RECORDS


class LoadDeferredInputOperator(SparkJobOperator):
    """Load the input that was deferred, now that the application has processed what comes before it."""

    takes = restore.LOAD_DEFERRED


class CompareDeferredInputOperator(SparkJobOperator):
    """Compare the inputs that are whole now with the archive, where their load has not proven them equal."""

    takes = restore.COMPARE_DEFERRED


class AppendRecordsOperator(SparkJobOperator):
    """Append later input that a restore has set aside."""

    takes = maintenance.APPEND_RECORDS


class ReadFilesOperator(SparkJobOperator):
    """Read the files that a check chose."""

    takes = maintenance.READ_FILES


class CompareOutputsOperator(SparkJobOperator):
    """Compare the outputs key by key."""

    takes = maintenance.COMPARE_OUTPUTS


class WriteFilesOperator(SparkJobOperator):
    """Write the files again that the plan names, and compare them with the old ones: the state of compacted changelogs, every record of merged files."""

    takes = maintenance.WRITE_FILES
