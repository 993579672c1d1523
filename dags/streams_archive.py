"""Archives inputs and globals all the time, behind the newest savepoint, so that the loss of a cluster costs seconds of input and not an hour.

*archive_inputs* is one Spark job that does not end: every `archive.interval` it copies what is new. It touches neither the application nor its cluster's
settings, and takes no lock that savepoints need. When it fails it is tried again after 5 seconds, then later each time, up to a minute. After a day it ends,
and the next run goes on where it ended. While it works the task has a slot of its worker. To archive outside of Airflow, with `streams-recovery archive`, set
`archive.dag: false`: then there is no such DAG. See docs/archive.md.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.savepoint import BeginArchiveOperator
from streams_recovery.operators.spark import ArchiveInputsOperator


def streams_archive(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    with scheduled(
        "streams_archive",
        name,
        config,
        doc=__doc__,
        schedule="@continuous",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        # Runs that fail at once, one behind the other, help nobody: the DAG is paused, and the monitor tells that nothing is archived.
        max_consecutive_failed_dag_runs=5,
        description=f"The continuous archive of {config.application.id}",
    ) as dag:
        BeginArchiveOperator(application_name=name) >> ArchiveInputsOperator(application_name=name)
    return dag


globals().update(
    by_id(
        streams_archive(name, config) for name, config in drawn("streams_archive").items() if config.archive.enabled and config.archive.dag
    )
)
