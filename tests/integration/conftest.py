"""What several files of this tier use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.engine.submitter import Submitter
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.native.library import SWITCH
from streams_recovery.kafka.native.librdkafka import native
from tests.support.applications.in_place import Here, application_here
from tests.support.applications.pair import Both, two_applications
from tests.support.applications.shapes import Open, shaped
from tests.support.applications.small import Small, small_application
from tests.support.kafka.records import topic


@pytest.fixture(scope="session")
def connection(bootstrap: str) -> KafkaConnection:
    return KafkaConnection.from_extra({"bootstrap.servers": bootstrap}, where="the tests' broker")


@pytest.fixture(params=["compiled", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of records between librdkafka and Arrow: neither is skipped where it is missing."""
    monkeypatch.setenv(SWITCH, "off" if request.param == "plain" else "on")
    assert (native() is None) == (request.param == "plain")
    return str(request.param)


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
def opened(bootstrap: str, tmp_path: Path, in_session: Submitter) -> Iterator[Open]:
    """Opens applications of these shapes, which end with the test."""
    with ExitStack() as stack:
        yield lambda fleet: stack.enter_context(shaped(bootstrap, tmp_path, fleet, in_session))


@pytest.fixture
def here(small: Small) -> Iterator[Here]:
    with application_here(small) as found:
        yield found


@pytest.fixture
def both(bootstrap: str, tmp_path: Path) -> Iterator[Both]:
    with two_applications(bootstrap, tmp_path) as found:
        yield found


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Starts a broker on the same data each time, after ending the one before."""
    with Processes(tmp_path / "processes") as processes:
        port, controller = free_ports(2)

        def start() -> str:
            processes.stop_all()
            return start_broker(processes, tmp_path / "broker", port=port, controller_port=controller)

        yield start
