"""What several files of this tier use."""

from __future__ import annotations

import uuid
from contextlib import ExitStack

import pytest

from streams_recovery.core.repository.layout import StorageLocation
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import connect, read, topic
from tests.support.spark.interrupted_restore import PARTITIONS, ROWS, Case
from tests.support.spark.small_app import SmallApp
from tests.support.spark.submission import submitting


@pytest.fixture(scope="session")
def connection(bootstrap):
    return connect(bootstrap)


@pytest.fixture
def location(tmp_path):
    return StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))


@pytest.fixture
def access(connection, location):
    from spark_jobs.access import JobAccess

    return JobAccess(connection=connection, location=location, credentials=None)


@pytest.fixture
def new_key():
    return lambda name: f"app/work/run/{name}-{uuid.uuid4().hex}.json"


@pytest.fixture
def topics(connection):
    """Makes topics, gone at the end."""
    with ExitStack() as stack:
        yield lambda **config: stack.enter_context(topic(connection, **config))


@pytest.fixture
def submit(connection, location, package, tmp_path, new_key):
    """Runs a job as it is submitted, and returns its result."""
    return submitting(connection, location, package, tmp_path, new_key)


@pytest.fixture
def case(in_session, bootstrap, tmp_path):
    """An application whose changelog and group are lost, with a savepoint of them."""
    app = SmallApp(bootstrap=bootstrap, directory=tmp_path, partitions=PARTITIONS, rows=ROWS)
    app.configure("small")
    app.build()
    with app.recovery() as recovery:
        found = Case(in_session, app, recovery)
        found.savepoint()
        found.truth = app.contents()
        found.rows = {tp.partition: rows_in(read(recovery.connection, tp, 0, ROWS)) for tp in app.logs}
        app.lose()
        yield found
        recovery.cluster.delete_topics([name for name in (f"{app.id}.in", app.changelog) if name in recovery.cluster.topic_names()])
