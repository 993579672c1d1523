"""Checks the repository of an application: every file that a savepoint names must be there and unchanged.

*plan* reads every manifest and compares the size of every file. *read_files* is the Spark job that reads the files, all of them or a share.
*conclude* reports every damaged file with its topic, partition, offsets, and the savepoints that need it. The report is kept in the repository. A
check changes nothing and takes no lock, so savepoints go on meanwhile.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.words import PATTERN
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.form import utc
from streams_recovery.operators.maintenance import ConcludeCheckOperator, PlanCheckOperator
from streams_recovery.operators.spark import ReadFilesOperator


def streams_check(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    params = {
        "savepoint": Param(
            "all", type="string", pattern=f"^(all|latest|{PATTERN})$", title="Savepoint", description="all: every one there is"
        ),
        "level": Param(
            config.check.level,
            type="string",
            pattern=r"^(structure|full|sample=\d{1,3}(\.\d+)?%)$",
            title="Level",
            description="structure: manifests and sizes; full: every byte; sample=10%: a share of the files",
        ),
    }
    with scheduled(
        "streams_check",
        name,
        config,
        doc=__doc__,
        schedule=utc(config.check.schedule),
        params=params,
        description=f"Check of the savepoints of {config.application.id}",
    ) as dag:
        (
            PlanCheckOperator(application_name=name, savepoint="{{ params.savepoint }}", level="{{ params.level }}")
            >> ReadFilesOperator(application_name=name)
            >> ConcludeCheckOperator(application_name=name)
        )
    return dag


globals().update(by_id(streams_check(name, config) for name, config in drawn("streams_check").items()))
