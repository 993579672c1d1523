"""Takes savepoints of one Kafka Streams application, by default every hour.

The application is paused or stopped from *capture_cut* to *resume*. That takes seconds: the Spark job runs after it. *resume* runs whatever fails. A
savepoint exists when *publish* has succeeded. A run whose copy failed publishes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.operators import form
from streams_recovery.operators.base import result_of, topics_of
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.savepoint import (
    BeginSavepointOperator,
    CaptureCutOperator,
    FinishSavepointOperator,
    PublishSavepointOperator,
    ResumeApplicationOperator,
)
from streams_recovery.operators.spark import CopyRecordsOperator
from streams_recovery.operators.state import ReportSavepointOperator

PARAMS = form.of(*SavepointRequest.FORM)


def streams_backup(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    schedule = config.backup.schedule
    with scheduled(
        "streams_backup",
        name,
        config,
        doc=__doc__,
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        params=PARAMS,
        description=f"Savepoints of {config.application.id}",
    ) as dag:
        begin = BeginSavepointOperator(
            application_name=name,
            reason="{{ params.reason or '' }}",
            mode="{{ params.mode }}",
            changed_state="{{ params.changed_state }}",
            confirm="{{ params.confirm or '' }}",
            schedule=schedule,
        ).as_setup()
        capture_cut = CaptureCutOperator(application_name=name)
        publish = PublishSavepointOperator(application_name=name)
        # Whatever fails in between, a teardown runs once its setup succeeded. Both fail the run when they fail; *report* fails it
        # when anything before it did, which a teardown that succeeds would hide.
        resume = ResumeApplicationOperator(application_name=name).as_teardown(setups=begin, on_failure_fail_dagrun=True)
        finish = FinishSavepointOperator(application_name=name).as_teardown(setups=begin, on_failure_fail_dagrun=True)
        report = ReportSavepointOperator(summary=result_of("publish"), about=name, inlets=topics_of(config))
        begin >> capture_cut >> resume >> finish
        capture_cut >> CopyRecordsOperator(application_name=name) >> publish >> [report, finish]
    return dag


globals().update(by_id(streams_backup(name, config) for name, config in drawn("streams_backup").items()))
