"""Takes savepoints of one Kafka Streams application, every hour unless its configuration says otherwise.

The application is held from *quiesce* to *resume*: seconds, never the Spark job. It comes back whatever fails. A savepoint exists when
*publish* has succeeded; a run whose copy failed ends as failed and publishes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.operators.assets import savepoints_of
from streams_recovery.operators.base import result_of
from streams_recovery.operators.report import ReportSavepointOperator
from streams_recovery.operators.restore_params import confirm
from streams_recovery.operators.savepoint import (
    BeginSavepointOperator,
    CaptureCutOperator,
    FinishSavepointOperator,
    GatherSegmentsOperator,
    PublishSavepointOperator,
    QuiesceOperator,
    ResumeApplicationOperator,
)
from streams_recovery.operators.spark import CopyRecordsOperator

SHORT = timedelta(minutes=15)
JOB = timedelta(hours=6)


def streams_backup(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    params = {
        "reason": Param("", type="string", maxLength=500, title="Reason", description="Kept with the savepoint."),
        "mode": Param(
            "",
            type="string",
            enum=["", "pause", "stop", "live"],
            title="Mode",
            description="How to hold the application; empty: as configured.",
        ),
        "changed_state": Param(
            ChangedState.REFUSE.value,
            type="string",
            enum=[choice.value for choice in ChangedState],
            title="State that changed outside a restore",
            description="refuse: take no savepoint of it. damaged: save what is left; nothing restores it by default, and retention does not count it. "
            "intended: it is the state now. Anything but refuse needs the confirmation below.",
        ),
        "confirm": confirm(),
    }
    schedule = config.backup.schedule
    with DAG(
        f"streams_backup_{name}",
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=params,
        doc_md=__doc__,
        description=f"Savepoints of {config.application.id}",
        tags=["streams-recovery", "backup", name],
        default_args={"retries": 0, "execution_timeout": SHORT},
    ) as dag:
        shared = {"application_name": name, "ticket": result_of("begin")}
        begin = BeginSavepointOperator(
            task_id="begin",
            application_name=name,
            reason="{{ params.reason }}",
            mode="{{ params.mode }}",
            changed_state="{{ params.changed_state }}",
            confirm="{{ params.confirm }}",
            schedule=schedule,
        ).as_setup()
        quiesce = QuiesceOperator(task_id="quiesce", **shared)
        capture = CaptureCutOperator(task_id="capture_cut", quiesced=result_of("quiesce"), **shared)
        resume = ResumeApplicationOperator(task_id="resume", retries=3, retry_delay=timedelta(seconds=5), **shared)
        copy = CopyRecordsOperator(
            task_id="copy_records",
            retries=2,
            retry_delay=timedelta(seconds=30),
            execution_timeout=JOB,
            application_name=name,
            ticket=result_of("begin"),
            cut=result_of("capture_cut"),
        )
        gather = GatherSegmentsOperator(task_id="verify_segments", copied=result_of("copy_records"), retries=2, **shared)
        publish = PublishSavepointOperator(task_id="publish", gathered=result_of("verify_segments"), retries=2, **shared)
        finish = FinishSavepointOperator(task_id="finish", retries=3, retry_delay=timedelta(seconds=5), **shared)
        report = ReportSavepointOperator(task_id="report", summary=result_of("publish"), asset=savepoints_of(name))
        # Whatever fails in between, a teardown runs once its setup succeeded. Both fail the run when they fail; the leaf fails it
        # when anything before it did, which a teardown that succeeds would hide.
        resume.as_teardown(setups=begin, on_failure_fail_dagrun=True)
        finish.as_teardown(setups=begin, on_failure_fail_dagrun=True)
        begin >> quiesce >> capture >> resume >> finish
        capture >> copy >> gather >> publish >> [report, finish]
    return dag


for _name, _config in load_applications().items():
    globals()[f"streams_backup_{_name}"] = streams_backup(_name, _config)
