"""Cuts by the names of transactions at many moments: every shape of state at full load, brokers and applications of several versions, both group protocols,
and an instance that is killed now and then. Each cut is compared with what its committed offsets explain.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedded.processes import Processes
from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.named_transactions.cut import NamedCut, cut_at_names
from streams_recovery.core.named_transactions.readings import read_named
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.operations.discovery import discover
from streams_recovery.operations.savepoint.cut import logs_of
from tests.support.applications.shape_inputs import HOUR
from tests.support.applications.shape_moments import Moments, feeding
from tests.support.applications.shapes import Fleet, Shaped, shaped
from tests.support.programs.kafka_versions import STREAMS_PROTOCOL, broker_of, kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_200)]
# So often a savepoint looks by default: backup.consistency.attempts.
ATTEMPTS = 5
RATE = 1_500
NAMED = ("4.0.1", "4.3.1", "4.4.0")
FLEETS = {
    "joins of streams": ("inner", "left", "outer", "suppressed"),
    "tables": ("tables", "foreign", "punctuated"),
    "stores": ("memory", "unlogged", "globals", "versioned"),
}


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("broker")
    with Processes(directory / "processes") as processes:
        version, *arguments = request.param.split()
        yield broker_of(version, directory, processes, *arguments)


@dataclass
class Found:
    """What was found at many moments. ``none`` are moments without a cut, ``again`` looks that found none; ``seconds`` are those of each look."""

    cuts: list[NamedCut] = field(default_factory=list)
    none: int = 0
    again: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def kill_one(app: Shaped) -> None:
    """One instance is gone at once, and another one comes in its place."""
    status = next(one for one in app.recovery.application.status() if one.state is not InstanceState.GONE)
    os.kill(int(status.detail.split("pid ")[1].split()[0].rstrip(",;")), signal.SIGKILL)
    app.start()


def look(app: Shaped, number: int, kill_each: int) -> tuple[Found, dict[TopicPartition, int]]:
    recovery, found, dice = app.recovery, Found(), random.Random(number)
    discovered = discover(recovery)
    changelogs, outputs = discovered.partitions(TopicRole.CHANGELOG), discovered.partitions(TopicRole.OUTPUT)
    logs = (*changelogs, *discovered.partitions(TopicRole.REPARTITION), *outputs)
    with NamedLogs(recovery.connection, logs_of(recovery, discovered)) as reader:
        reader.check_version()
        for at in range(number):
            if at % kill_each == kill_each // 2:
                kill_one(app)
            time.sleep(dice.random() * 0.2)
            for _ in range(ATTEMPTS):
                began = time.monotonic()
                try:
                    found.cuts.append(cut_at_names(read_named(reader, logs, patience=60), changelogs, outputs))
                except OffsetsUnstable as error:
                    found.again.append(error.reason)
                else:
                    break
                finally:
                    found.seconds.append(time.monotonic() - began)
            else:
                found.none += 1
        return found, dict(reader.last_stable_offsets((*logs, *discovered.partitions(TopicRole.INPUT))))


def await_work(app: Shaped) -> None:
    """Until something of each input was read, and internal topics are there."""
    inputs = app.recovery.config.topics.inputs

    def works() -> bool | None:
        committed = app.recovery.groups.committed(app.recovery.application_id, app.partitions(*inputs))
        return True if {*inputs} == {tp.topic for tp, found in committed.items() if found is not None} else None

    assert poll(works, seconds=120, interval=0.5), "the application does not process"


def check(broker: str, directory: Path, fleet: Fleet, number: int, kill_each: int) -> None:
    zero = (time.time_ns() // 1_000_000 - 20 * HOUR) // HOUR * HOUR
    with shaped(broker, directory, fleet) as app, feeding(broker, app.recovery.application_id, fleet.shapes, RATE, zero):
        app.start()
        await_work(app)
        found, ends = look(app, number, kill_each)
        moments = Moments(broker, app.recovery.application_id, ends)
        torn = [wrong for cut in found.cuts for wrong in moments.wrong(cut, fleet.shapes)]
    middle = sorted(found.seconds)[len(found.seconds) // 2]
    left_out = sum(any(one.left_out for one in cut.logs.values()) for cut in found.cuts)
    records = sum(len(log.records) for log in moments.logs.values())
    sys.stdout.write(
        f"{fleet.protocol} {', '.join(fleet.shapes)}: {len(found.cuts)} cuts at {number} moments, {len(found.again)} looks without one, {len(torn)} torn; "
        f"in {left_out} of them something is left out; {records:,} records; a look took {middle:.2f} s, at most {max(found.seconds):.2f} s\n"
    )
    for reason in sorted(set(found.again)):
        sys.stdout.write(f"    {found.again.count(reason)} times: {reason[:150]}\n")
    sys.stdout.writelines(f"    {wrong}\n" for wrong in torn[:20])
    assert torn == []
    assert moments.settled > 0 or "foreign" not in fleet.shapes
    assert found.none <= number // 100
    first, last = (sum(one.offset for one in found.cuts[at].committed.values()) for at in (0, -1))
    assert last > first > 0


@pytest.mark.deep
@pytest.mark.parametrize("shapes", FLEETS.values(), ids=FLEETS)
@pytest.mark.parametrize(
    ("broker", "protocol"),
    [*((version, "classic") for version in NAMED), *((version, "streams") for version in STREAMS_PROTOCOL)],
    indirect=["broker"],
    scope="module",
)
def test_each_shape_has_a_cut_at_every_moment_and_none_is_torn(
    request: pytest.FixtureRequest, broker: str, protocol: str, shapes: tuple[str, ...], tmp_path: Path
) -> None:
    version = request.node.callspec.params["broker"]
    fleet = Fleet(shapes=shapes, protocol=protocol, mode="live", instances=2, kafka=kafka(version), purge_ms=HOUR)
    check(broker, tmp_path, fleet, number=200, kill_each=50)
