"""Cuts by the names of transactions, of a real application at load on a broker: each is its state at one moment, and nothing was held for it."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from embedded.broker import BrokerExtras, start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.kafka_types import CommittedOffset
from streams_recovery.core.named_transactions.cut import EpochsStay, NamedCut, OffsetsByHand, OutsideTransactions, VersionTooLow
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from tests.support.applications.named_counts import NamedCounts, Truth, named_counts

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


def some_cuts(counts: NamedCounts, number: int, *, rate: int, killed_at: int | None) -> tuple[list[NamedCut], int, list[float], list[str]]:
    """Look ``number`` times while the application works at so many lines a second. Returns the cuts, how many looks found none, the seconds that each look
    took, and what is wrong with the cuts.
    """
    dice, found, none, seconds = random.Random(11), list[NamedCut](), 0, list[float]()
    with counts.reader() as reader:
        reader.check_version()
        with counts.feeding(rate):
            counts.start()
            counts.start()
            counts.await_work(reader)
            while len(found) < number:
                if len(found) == killed_at and len(counts.instances) == 2:
                    counts.kill()
                    counts.start()
                time.sleep(dice.random() * 0.2)
                began = time.monotonic()
                try:
                    found.append(counts.look(reader))
                except OffsetsUnstable as error:
                    sys.stdout.write(f"no cut: {error}\n")
                    none += 1
                    assert none < number
                seconds.append(time.monotonic() - began)
        truth = Truth.of(counts, reader)
    return found, none, seconds, [wrong for cut in found for wrong in truth.wrong(cut)]


@pytest.mark.parametrize(
    ("protocol", "number", "rate"),
    [
        ("classic", 60, 500),
        pytest.param("streams", 60, 500, marks=pytest.mark.deep),
        pytest.param("classic", 300, 1_500, marks=pytest.mark.deep),
        pytest.param("streams", 300, 1_500, marks=pytest.mark.deep),
    ],
)
def test_at_any_moment_there_is_a_cut_and_it_is_the_truth(bootstrap: str, tmp_path: Path, protocol: str, number: int, rate: int) -> None:
    with named_counts(bootstrap, tmp_path, protocol) as counts:
        found, none, seconds, wrong = some_cuts(counts, number, rate=rate, killed_at=number // 2)
    left_out = sum(bool(log.excluded) for cut in found for log in cut.logs.values())
    back = sum(len(cut.taken_back) for cut in found)
    middle = sorted(seconds)[len(seconds) // 2]
    sys.stdout.write(
        f"{protocol}, {counts.fed:,} lines fed: {len(found)} cuts and {none} looks without one, {len(wrong)} wrong, {left_out} logs with something left out, "
        f"{back} transactions taken back; a look took {middle:.3f} s, at most {max(seconds):.3f} s\n"
    )
    assert wrong == []
    assert none <= number // 10
    # Of few moments there may be none at which a transaction had begun and was not in the cut.
    assert left_out > 0 or number < 100
    assert found[-1].committed[counts.inputs[0]].offset > found[0].committed[counts.inputs[0]].offset > 0


@pytest.fixture
def old_names(tmp_path: Path) -> Iterator[str]:
    """A broker whose transactions have no names."""
    port, controller = free_ports(2)
    extras = BrokerExtras(format_arguments=("--feature", "transaction.version=1"))
    with Processes(tmp_path / "old-names") as processes:
        yield start_broker(processes, tmp_path / "old-names" / "broker", port=port, controller_port=controller, extras=extras)


def test_a_cluster_without_names_is_refused_by_its_feature_and_by_its_logs(old_names: str, tmp_path: Path) -> None:
    with named_counts(old_names, tmp_path, "classic") as counts, counts.reader() as reader:
        with pytest.raises(VersionTooLow) as caught:
            reader.check_version()
        assert caught.value.facts["version"] == 1
        assert "pause or stop" in str(caught.value)
        with counts.feeding(100):
            counts.start()
            counts.await_work(reader)
            with pytest.raises(EpochsStay) as stayed:
                for _ in range(20):
                    counts.look(reader)
        assert stayed.value.facts["producer_id"] >= 0


def test_records_and_offsets_outside_transactions_are_refused(bootstrap: str, connection: KafkaConnection, tmp_path: Path) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts:

        def write() -> None:
            producer = Producer({"bootstrap.servers": bootstrap})
            producer.produce(counts.changelogs[0].topic, b"value", b"key", 0)
            assert producer.flush(30) == 0

        with counts.reader(write) as reader, counts.feeding(100):
            counts.start()
            counts.await_work(reader)
            with pytest.raises(OutsideTransactions) as caught:
                counts.look(reader)
        assert caught.value.facts["tp"] == counts.changelogs[0]
        counts.processes.stop(counts.instances.pop())

        def commit() -> None:
            groups.wait_empty(counts.id, 60)
            groups.set_offsets(counts.id, {counts.inputs[0]: CommittedOffset(offset=1, metadata="")})

        with ConsumerGroups(connection) as groups, counts.reader(commit) as reader, pytest.raises(OffsetsByHand) as by_hand:
            counts.look(reader)
        assert by_hand.value.facts["tp"] == counts.inputs[0]
        with counts.reader() as reader:
            assert counts.look(reader).committed[counts.inputs[0]].offset == 1, "what was done before the look is known"
