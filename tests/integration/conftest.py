"""What several files of this tier use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core.model import TopicPartition
from streams_recovery.kafka.connection import KafkaConnection
from tests.integration.pairs import Both, two_applications
from tests.integration.small import Small, small_application
from tests.spark.rows import topic


@pytest.fixture(scope="session")
def connection(bootstrap: str) -> KafkaConnection:
    return KafkaConnection.from_extra({"bootstrap.servers": bootstrap}, where="the tests' broker")


@pytest.fixture
def tp(connection: KafkaConnection) -> Iterator[TopicPartition]:
    """The only partition of a topic of its own."""
    with topic(connection) as name:
        yield TopicPartition(name, 0)


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    with small_application(bootstrap, tmp_path) as found:
        yield found


@pytest.fixture
def both(bootstrap: str, tmp_path: Path) -> Iterator[Both]:
    with two_applications(bootstrap, tmp_path) as found:
        yield found
