"""Checks an application's repository: is everything that its savepoints name still there, and still what was written?

*plan* reads every manifest and asks for every file's size, *read_files* is the Spark job that reads the files themselves, all of them or a
share, *conclude* gives the verdict: it names every damaged file with its topic, partition and offsets, and the savepoints that need it. The
verdict is kept in the repository. Nothing is changed, and no lock is taken: savepoints go on meanwhile.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.ids import PATTERN
from streams_recovery.operators.maintenance import ConcludeCheckOperator, PlanCheckOperator
from streams_recovery.operators.spark import ReadFilesOperator


def streams_verify(name: str, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    params = {
        "savepoint": Param("all", type="string", pattern=f"^(all|{PATTERN})$", title="Savepoint", description="all: every one there is"),
        "level": Param(
            config.verify.level,
            type="string",
            pattern=r"^(structure|full|sample=\d{1,3}(\.\d+)?%)$",
            title="Level",
            description="structure: manifests and sizes; full: every byte; sample=10%: a share of the files",
        ),
    }
    with DAG(
        f"streams_verify_{name}",
        schedule=config.verify.schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=params,
        doc_md=__doc__,
        description=f"Check of the savepoints of {config.application.id}",
        tags=["streams-recovery", "verify", name],
    ) as dag:
        (
            PlanCheckOperator(application_name=name, savepoint="{{ params.savepoint }}", level="{{ params.level }}")
            >> ReadFilesOperator(application_name=name)
            >> ConcludeCheckOperator(application_name=name)
        )
    return dag


for _name, _config in load_applications().items():
    globals()[f"streams_verify_{_name}"] = streams_verify(_name, _config)
