"""Copies what is missing in the second place of the repository, `storage.mirror`: savepoints with all that they name, and the records that a restore needs.

*mirror* runs behind each savepoint, or at the times of `storage.mirror.schedule`. Segments and range tables are copied first, and each is read in the second
place and compared. A manifest comes when all that it names is there. It holds nothing and takes no lock, so savepoints and restores go on. Nothing in the
second place is overwritten or deleted. An object that is there with other bytes fails the run, and everything else is copied all the same.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.config.backup import Mirror
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.rules import AFTER_SAVEPOINTS
from streams_recovery.operators.base import savepoints_of
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.form import utc
from streams_recovery.operators.maintenance import MirrorOperator


def streams_mirror(name: str, mirror: Mirror, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    with scheduled(
        "streams_mirror",
        name,
        config,
        doc=__doc__,
        schedule=savepoints_of(name) if mirror.schedule == AFTER_SAVEPOINTS else utc(mirror.schedule),
        description=f"Second place of the savepoints of {config.application.id}",
    ) as dag:
        MirrorOperator(application_name=name)
    return dag


globals().update(
    by_id(
        streams_mirror(name, config.storage.second_place, config)
        for name, config in drawn("streams_mirror").items()
        if config.storage.second_place is not None
    )
)
