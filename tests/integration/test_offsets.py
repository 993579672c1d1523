"""Where an application goes on after a restore, on a real broker: each strategy by what a consumer then reads, and all or nothing."""

from __future__ import annotations

import json
import subprocess
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.config.offsets import inside, offset_strategy
from streams_recovery.core.errors import ApplicationRunning, Damaged, PlanChanged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.strategies import STRATEGIES, OffsetStrategy
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreTicket
from tests.support.applications.restore_steps import reach
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.topic_records import produce
from tests.support.kafka.consumers import cli, committed, first_read, member, running_once
from tests.support.programs.java import STREAMS, command_of


def strategy(recovery: RecoveryContext, text: str, directory: Path) -> OffsetStrategy:
    return offset_strategy(recovery.config, text, read=inside(directory))


def produce_at(recovery: RecoveryContext, tp: TopicPartition, timestamps: list[int]) -> None:
    producer = Producer({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    errors: list[object] = []
    for timestamp in timestamps:
        producer.produce(tp.topic, b"v", b"k", tp.partition, timestamp=timestamp, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * len(timestamps)


def verified(recovery: RecoveryContext, request: restore.RestoreRequest) -> tuple[RestoreTicket, RestorePlan]:
    """A restore as it stands right before the offsets are set. Nothing was deleted: it is about offsets."""
    planned = restore.plan(recovery, request)
    ticket = restore.open_restore(recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(recovery, ticket)
    reach(recovery, ticket, Phase.VERIFIED)
    return ticket, planned


def released(recovery: RecoveryContext, ticket: RestoreTicket) -> None:
    reach(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)


@pytest.mark.deep
def test_every_strategy_sets_what_a_consumer_then_reads_from(small: Small, tmp_path: Path) -> None:
    """Committed at 4 of 5 at the savepoint; seven more since, two of them a second apart."""
    recovery, topic = small.recovery, small.input.topic
    take(small)
    # Ahead of all others, so that a time between two of them can be named; brokers take up to an hour.
    ahead = recovery.clock() + 600_000
    produce_at(recovery, small.input, [ahead, ahead + 1_000])
    produce(recovery, small.input, 5)
    between = datetime.fromtimestamp(ahead / 1000 + 0.5, UTC).isoformat()
    (tmp_path / "offsets.csv").write_text(f"{topic},0,3\n{small.tail.topic},0,2\n")
    expected: dict[str, tuple[int, str]] = {
        "exact": (4, "AgAA"),
        "earliest": (0, ""),
        "latest": (12, ""),
        f"timestamp:{between}": (6, ""),
        "timestamp:2031-01-01T00:00:00Z": (12, ""),
        "shift:-2": (2, ""),
        "shift:3": (7, ""),
        "shift:0": (4, "AgAA"),
        "shift:-99": (0, ""),
        "shift:99": (12, ""),
        f"specific:{topic}:0=1": (1, ""),
        f"specific:{topic}:0=4": (4, "AgAA"),
        "offset:3": (3, ""),
        "duration:P1D": (0, ""),
        "file:offsets.csv": (3, ""),
    }
    assert {text.partition(":")[0] for text in expected} == {one.KIND for one in STRATEGIES}
    found = {}
    for text in expected:
        request = asked(recovery, replace=True, offsets=strategy(recovery, text, tmp_path))
        ticket, planned = verified(recovery, request)
        assert restore.set_offsets(recovery, ticket).partitions == 2
        found[text], tail = committed(recovery, small.input, small.tail)
        assert tail == (0, ""), "the tail that would be loaded begins with what was not read"
        assert planned.offsets_agree == (found[text] == (4, "AgAA"))
        released(recovery, ticket)
        if text in ("exact", "shift:-2", f"timestamp:{between}", "file:offsets.csv", "latest"):
            read = first_read(recovery, recovery.application_id, topic)
            assert read == (None if text == "latest" else expected[text][0]), text
    assert found == expected


@pytest.mark.deep
def test_what_lies_outside_a_log_is_refused_before_anything_happens(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    take(small)
    for text, said in (
        (f"specific:{small.input.topic}:0=6", r"offset 6 is outside \[0, 5\]"),
        (f"specific:{small.changelog.topic}:0=1", "that are no inputs"),
        ("specific:nobody:0=1", "that are no inputs"),
    ):
        with pytest.raises(Refused, match=said):
            restore.plan(recovery, asked(recovery, replace=True, offsets=strategy(recovery, text, tmp_path)))
    assert recovery.lock.holder() is None


@pytest.mark.deep
def test_offsets_that_disagree_with_the_state_need_the_application_id(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    take(small)
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    request = asked(recovery, confirm="", offsets=strategy(recovery, "shift:-1", tmp_path))
    planned = restore.plan(recovery, request)
    assert any("up to 1 input records are counted a second time" in told for told in planned.warnings)
    with pytest.raises(Refused, match=r"'shift:-1' disagree.*type the application id"):
        restore.open_restore(recovery, request, run_id="r", requested_by="test", approved_hash=planned.hash)
    assert recovery.lock.holder() is None
    exact = replace(request, offsets=strategy(recovery, "shift:0", tmp_path))
    ticket = restore.open_restore(recovery, exact, run_id="r", requested_by="test", approved_hash=restore.plan(recovery, exact).hash)
    released(recovery, ticket)


@pytest.mark.deep
def test_going_on_at_the_end_can_be_approved_while_the_input_is_written_to(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    take(small)
    request = asked(recovery, replace=True, offsets=strategy(recovery, "latest", tmp_path))
    approved = restore.plan(recovery, request)
    produce(recovery, small.input, 3)
    ticket = restore.open_restore(recovery, request, run_id="r", requested_by="test", approved_hash=approved.hash)
    released(recovery, ticket)
    by_number = asked(recovery, replace=True, offsets=strategy(recovery, f"specific:{small.input.topic}:0=2", tmp_path))
    with pytest.raises(PlanChanged):
        restore.open_restore(recovery, by_number, run_id="r", requested_by="test", approved_hash=approved.hash)


@pytest.mark.fault("F42")
def test_a_consumer_that_joins_before_the_offsets_are_set_keeps_its_own_and_stops_the_restore(small: Small) -> None:
    recovery = small.recovery
    take(small)
    ticket, _ = verified(recovery, asked(recovery, replace=True))
    before = committed(recovery, small.input, small.tail)
    with member(recovery, recovery.application_id, small.input.topic), pytest.raises(ApplicationRunning, match="it-member"):
        restore.set_offsets(recovery, ticket)
    assert committed(recovery, small.input, small.tail) == before
    with pytest.raises(Refused, match="in phase verified"):
        restore.wipe(recovery, ticket)
    recovery.groups.wait_empty(recovery.application_id, 30)
    restore.set_offsets(recovery, ticket)
    assert committed(recovery, small.input, small.tail) == [(4, "AgAA"), (0, "")]
    released(recovery, ticket)


@pytest.mark.fault("F48")
def test_an_offset_that_is_gone_or_moved_after_it_was_set_stops_the_start(small: Small) -> None:
    """Kafka deletes the offsets of a deleted topic some time after it; and somebody may commit."""
    recovery = small.recovery
    take(small)
    ticket, _ = verified(recovery, asked(recovery, replace=True))
    restore.set_offsets(recovery, ticket)
    reach(recovery, ticket, Phase.WIPED)
    for spoilt, said in (
        (None, "nothing in place of 4"),
        (CommittedOffset(offset=5, metadata="AgAA", leader_epoch=None), "5 in place of 4"),
        (CommittedOffset(offset=4, metadata="", leader_epoch=None), "4 in place of 4"),
    ):
        recovery.groups.set_offsets(recovery.application_id, {small.input: spoilt})
        with pytest.raises(Damaged, match=f"1 committed offsets .* {small.input}: {said}"):
            restore.start(recovery, ticket)
    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)})
    assert restore.start(recovery, ticket).ends == {small.input: 5}
    released(recovery, ticket)


@pytest.mark.fault("F20")
def test_a_start_that_is_repeated_does_not_mind_what_the_application_has_committed_since(bootstrap: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"status": running_once(started)}) as running:
        recovery = running.recovery
        take(running)
        ticket, _ = verified(recovery, asked(recovery, replace=True))
        restore.set_offsets(recovery, ticket)
        reach(recovery, ticket, Phase.STARTED)
        started.touch()
        recovery.groups.set_offsets(recovery.application_id, {running.input: CommittedOffset(offset=5, metadata="AgAB", leader_epoch=None)})
        assert restore.start(recovery, ticket).instances == ("one",)
        released(recovery, ticket)


@pytest.mark.deep
def test_a_strategy_is_planned_from_a_terminal(small: Small, tmp_path: Path) -> None:
    take(small)
    recovery = small.recovery
    (tmp_path / "export.csv").write_text(f"{recovery.application_id},{small.input.topic},0,2\n")
    code, out, err = cli(
        tmp_path, recovery, "restore", "small", "--plan", "--replace", "--offsets", f"file:{tmp_path / 'export.csv'}", "--json"
    )
    assert code == 0, err
    planned = json.loads(out)
    assert [item["wanted"]["offset"] for item in planned["offsets"] if item["tp"] == str(small.input)] == [2]
    assert planned["offsets_agree"] is False
    code, _, err = cli(tmp_path, recovery, "restore", "small", "--plan", "--replace", "--offsets", "timestamp:2026-11-21T12:00:00")
    assert (code, "has no time zone" in err) == (2, True)


# Why every partition gets an offset, and why they are compared before the start: a table restored from its source topic ends where they say.


@pytest.mark.fault("F48")
@pytest.mark.deep
def test_a_source_table_without_a_committed_offset_is_empty_and_nothing_tells(bootstrap: str, tmp_path: Path) -> None:
    connection = KafkaConnection.from_extra({"bootstrap.servers": bootstrap}, where="the tests' broker")
    name = f"table{uuid.uuid4().hex[:8]}"
    tp = TopicPartition(f"{name}.in", 0)

    def keys(state: str) -> int:
        argv = [*command_of(STREAMS / "SourceTable.java"), bootstrap, name, tp.topic, str(tmp_path / state)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)
        return int(done.stdout.split("KEYS ")[1])

    with KafkaCluster(connection, timeout=30) as cluster, ConsumerGroups(connection, timeout=30) as groups:
        cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
        try:
            producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
            for number in range(5):
                producer.produce(tp.topic, b"v", b"k%d" % number, tp.partition)
            assert producer.flush(30) == 0
            assert keys("without") == 0
            groups.wait_empty(name, 60)
            groups.set_offsets(name, {tp: CommittedOffset(offset=5, metadata="", leader_epoch=None)})
            assert keys("with") == 5
        finally:
            groups.wait_empty(name, 60)
            groups.delete(name)
            cluster.delete_topics([tp.topic])
