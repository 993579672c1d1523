"""What several files of this tier use."""

from __future__ import annotations

import uuid

import pytest

from streams_recovery.core.repository.location import StorageLocation
from tests.support.kafka.records import connect


@pytest.fixture(scope="session")
def connection(bootstrap):
    return connect(bootstrap)


@pytest.fixture
def location(tmp_path):
    return StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))


@pytest.fixture
def access(connection, location):
    from spark_jobs.access import Access

    return Access(connection=connection, location=location, credentials=None)


@pytest.fixture
def new_key():
    return lambda name: f"app/work/run/{name}-{uuid.uuid4().hex}.json"
