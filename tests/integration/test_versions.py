"""Applications and brokers of several versions of Kafka, from 3.7 on: each pair that Kafka supports is saved, lost and brought back, with results that are
computed without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.processes import Processes
from streams_recovery.core.restore.report import Verdict
from streams_recovery.engine.submitter import Submitter
from tests.support.applications.shape_inputs import Batches, part
from tests.support.applications.shapes import Fleet, Shaped, shaped
from tests.support.programs.kafka_versions import STREAMS_PROTOCOL, VERSIONS, broker_of, kafka

pytestmark = [pytest.mark.deep, pytest.mark.spark, pytest.mark.timeout(600)]

HOUR = 3_600_000
# In the past, so that no moment of the inputs is still to come.
ZERO = (time.time_ns() // 1_000_000 - 3 * HOUR) // HOUR * HOUR
# A join of tables, a list store and repartition topics, windows, a suppress buffer.
SHAPES = ("tables", "left", "suppressed")
# Offsets of local state are inside RocksDB since then (KIP-1035), and in a file before.
INSIDE = "4.3"


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("broker")
    with Processes(directory / "processes") as processes:
        yield broker_of(request.param, directory, processes)


def parts(app: Shaped, number: int, *, last: bool = False) -> dict[str, Batches]:
    return {shape: part(shape, number, ZERO, last=last) for shape in app.fleet.shapes}


def comes_back(app: Shaped) -> None:
    """It is saved, goes on, is lost, and comes back with all its results right."""
    app.start()
    app.feed(parts(app, 1))
    app.savepoint()
    app.feed(parts(app, 2))
    app.lose()
    assert app.restore().verdict is Verdict.EQUAL
    app.feed(parts(app, 3, last=True))
    app.check()


def noted_in_files(state: Path) -> bool:
    """Whether the offsets of local state are in files beside it. The application is down."""
    return any(state.rglob(".checkpoint"))


@pytest.mark.parametrize(("guarantee", "mode"), [("exactly_once_v2", "pause"), ("at_least_once", "stop")])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("broker", VERSIONS, indirect=True, ids=lambda version: f"broker-{version}")
def test_an_application_of_each_version_comes_back_on_each_broker(
    broker: str, version: str, guarantee: str, mode: str, tmp_path: Path, in_session: Submitter
) -> None:
    fleet = Fleet(shapes=SHAPES, guarantee=guarantee, mode=mode, threads=1, kafka=kafka(version))
    with shaped(broker, tmp_path, fleet, in_session) as app:
        comes_back(app)
        assert noted_in_files(tmp_path / "state0") == (version < INSIDE)
        assert not app.recovery.application.wipe_state().remaining
        assert not [*(tmp_path / "state0").rglob("rocksdb")]


@pytest.mark.parametrize("version", STREAMS_PROTOCOL)
@pytest.mark.parametrize("broker", STREAMS_PROTOCOL, indirect=True, ids=lambda version: f"broker-{version}")
def test_a_group_of_the_streams_protocol_comes_back(broker: str, version: str, tmp_path: Path, in_session: Submitter) -> None:
    fleet = Fleet(shapes=SHAPES, protocol="streams", mode="stop", kafka=kafka(version))
    with shaped(broker, tmp_path, fleet, in_session) as app:
        comes_back(app)
