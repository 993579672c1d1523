"""``python -m embedded.prepare``: make now what saves time at every later start. Kafka's jars, the example compiled, archives of classes, Airflow's empty
database.
"""

from __future__ import annotations

import sys

from embedded import airflow_database, broker, broker_classes, example, spark_start
from embedded.class_archive import archive_of
from streams_recovery.core.errors import RecoveryError


def prepare() -> None:
    """Make what is not there or is of no use any more. Raises what stands in the way of the rest; an archive that cannot be made is told of only."""
    spark_start.prepare()
    archive_of(broker_classes.program(), broker.EXERCISE, again=True)
    archive_of(example.program(), example.exercise, again=True)
    airflow_database.template()


if __name__ == "__main__":
    try:
        prepare()
    except RecoveryError as error:
        sys.exit(f"{type(error).__name__}: {error}")
