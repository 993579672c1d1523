"""Compacts the newest savepoint, so that a restore loads one record of each key and not the whole history.

*plan* lists the changelogs that can be compacted to the newest record of each key. For each other changelog it shows why not. When none can be
compacted, the other tasks are skipped. *compact_records* is the Spark job: it writes the compacted changelogs, reads them back, and compares their
state with that of the original ones. *publish* makes a savepoint when both states are equal. It has the cut, the time and the label of the original
savepoint, which stays until retention removes it.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from streams_recovery.config.loader import load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.words import PATTERN
from streams_recovery.operators.base import result_of, savepoints_of
from streams_recovery.operators.dags import by_id, scheduled
from streams_recovery.operators.form import utc
from streams_recovery.operators.maintenance import PlanCompactionOperator, PublishCompactedOperator
from streams_recovery.operators.spark import CompactRecordsOperator
from streams_recovery.operators.state import ReportCompactedOperator


def streams_compact(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    params = {
        "savepoint": Param("latest", type="string", pattern=f"^(latest|{PATTERN})$", title="Savepoint", description="latest: the newest"),
        "reason": Param("", type="string", maxLength=500, title="Reason", description="Kept with the new savepoint."),
    }
    with scheduled(
        "streams_compact",
        name,
        config,
        doc=__doc__,
        schedule=utc(config.compact.schedule),
        params=params,
        description=f"Compaction of savepoints of {config.application.id}",
        tags=["compact"],
    ) as dag:
        (
            PlanCompactionOperator(application_name=name, savepoint="{{ params.savepoint }}", reason="{{ params.reason or '' }}")
            >> CompactRecordsOperator(application_name=name)
            >> PublishCompactedOperator(application_name=name)
            >> ReportCompactedOperator(summary=result_of("publish"), about=name, inlets=[savepoints_of(name)])
        )
    return dag


globals().update(by_id(streams_compact(name, config) for name, config in load_applications().items()))
