"""Compacts the newest savepoint: to one record of each key, so that a restore does not load the whole history, or its small files to larger ones.

With `how` *latest-per-key*, *plan* lists the changelogs that can be compacted to the newest record of each key. For each other changelog it shows why not.
With *small-files* it lists the partitions in which small files lie side by side. When there is nothing to do, the other tasks are skipped. *write_files* is
the Spark job: it writes the files anew, reads them back, and compares the state of both changelogs, or every record. *publish* makes a savepoint when both
are equal. It has the cut, the time and the label of the original savepoint, which stays until retention removes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import DAG, Asset, Param

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.words import PATTERN
from streams_recovery.operations.compaction import How
from streams_recovery.operators import form
from streams_recovery.operators.base import result_of, savepoints_of
from streams_recovery.operators.dags import by_hand_or_scheduled, by_id, requested, scheduled
from streams_recovery.operators.form import Scope, utc
from streams_recovery.operators.maintenance import PlanCompactionOperator, PublishCompactedOperator
from streams_recovery.operators.spark import WriteFilesOperator
from streams_recovery.operators.state import ReportCompactedOperator

HOW = {
    "latest-per-key": "Keep the newest record of each key of changelogs",
    "small-files": "Merge small files, with every record",
}


PARAMS = {
    "savepoint": Param("latest", type="string", pattern=f"^(latest|{PATTERN})$", title="Savepoint", description="latest: the newest"),
    "how": form.choice(How.LATEST_PER_KEY.value, "How", HOW),
    "reason": Param("", type="string", maxLength=500, title="Reason", description="Kept with the new savepoint."),
}


def compact(name: str, savepoints: Sequence[Asset], *, known: bool = True) -> None:
    """The tasks."""
    reason = "{{ params.reason or '' }}"
    (
        PlanCompactionOperator(application_name=name, savepoint="{{ params.savepoint }}", how="{{ params.how }}", reason=reason)
        >> WriteFilesOperator(application_name=name)
        >> PublishCompactedOperator(application_name=name)
        >> ReportCompactedOperator(summary=result_of("publish"), about=name, known=known, inlets=savepoints)
    )


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested("streams_compact", scope, params=PARAMS, doc=__doc__, description="Compact a savepoint") as dag:
        compact(scope.application, scope.savepoints, known=scope.known)
    return dag


def own_dag(name: str, config: ApplicationConfig, schedule: str) -> DAG:
    """The DAG of an application that is compacted on a schedule."""
    with scheduled(
        "streams_compact",
        name,
        config,
        doc=__doc__,
        schedule=utc(schedule),
        params=PARAMS,
        description=f"Compaction of savepoints of {config.application.id}",
    ) as dag:
        compact(name, [savepoints_of(name)])
    return dag


SCOPES, SCHEDULED = by_hand_or_scheduled("streams_compact", lambda config: config.compact.schedule)
globals().update(by_id(dag_of(scope) for scope in SCOPES))
globals().update(by_id(own_dag(name, *found) for name, found in SCHEDULED.items()))
