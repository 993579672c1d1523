"""Where an application goes on after a restore, on a real broker: each strategy by what a consumer then reads, and all or nothing."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.config.offsets import inside, offset_strategy
from streams_recovery.core.errors import ApplicationRunning, Damaged, PlanChanged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.strategy import OffsetStrategy
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations import restore
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.storage.append_log import NumberedLog
from tests.integration.groups import cli, committed, first_read, member, running_once
from tests.integration.small import Small, asked, produce, small_application, take


def strategy(bench: Workbench, text: str, directory: Path) -> OffsetStrategy:
    return offset_strategy(bench.config, text, read=inside(directory))


def produce_at(bench: Workbench, tp: TopicPartition, timestamps: list[int]) -> None:
    producer = Producer({"bootstrap.servers": bench.connection.bootstrap_servers, "log_level": 0})
    errors: list[object] = []
    for timestamp in timestamps:
        producer.produce(tp.topic, b"v", b"k", tp.partition, timestamp=timestamp, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * len(timestamps)


def reach(bench: Workbench, ticket: RestoreTicket, phase: Phase) -> None:
    log = NumberedLog(bench.repository, bench.layout.journal(ticket.restore_id), JournalEntry)
    log.append(JournalEntry(phase=phase, at=bench.clock(), created=()))


def verified(bench: Workbench, request: restore.RestoreRequest) -> tuple[RestoreTicket, RestorePlan]:
    """A restore as it stands right before the offsets are set. Nothing was deleted: it is about offsets."""
    planned = restore.plan(bench, request)
    ticket = restore.open_restore(bench, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(bench, ticket)
    reach(bench, ticket, Phase.VERIFIED)
    return ticket, planned


def released(bench: Workbench, ticket: RestoreTicket) -> None:
    reach(bench, ticket, Phase.CLOSED)
    bench.lock.release(ticket.lock)


def test_every_strategy_sets_what_a_consumer_then_reads_from(small: Small, tmp_path: Path) -> None:
    """Committed at 4 of 5 at the savepoint; seven more since, two of them a second apart."""
    bench, topic = small.bench, small.input.topic
    take(small)
    # Ahead of all others, so that a time between two of them can be named; brokers take up to an hour.
    ahead = bench.clock() + 600_000
    produce_at(bench, small.input, [ahead, ahead + 1_000])
    produce(bench, small.input, 5)
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
        "file:offsets.csv": (3, ""),
    }
    found = {}
    for text in expected:
        request = asked(bench, replace=True, offsets=strategy(bench, text, tmp_path))
        ticket, planned = verified(bench, request)
        assert restore.set_offsets(bench, ticket).partitions == 2
        found[text], tail = committed(bench, small.input, small.tail)
        assert tail == (0, ""), "the tail that would be loaded begins with what was not read"
        assert planned.offsets_agree == (found[text] == (4, "AgAA"))
        released(bench, ticket)
        if text in ("exact", "shift:-2", f"timestamp:{between}", "file:offsets.csv", "latest"):
            read = first_read(bench, bench.application_id, topic)
            assert read == (None if text == "latest" else expected[text][0]), text
    assert found == expected


def test_what_lies_outside_a_log_is_refused_before_anything_happens(small: Small, tmp_path: Path) -> None:
    bench = small.bench
    take(small)
    for text, said in (
        (f"specific:{small.input.topic}:0=6", r"offset 6 is outside \[0, 5\]"),
        (f"specific:{small.changelog.topic}:0=1", "that are no inputs"),
        ("specific:nobody:0=1", "that are no inputs"),
    ):
        with pytest.raises(Refused, match=said):
            restore.plan(bench, asked(bench, replace=True, offsets=strategy(bench, text, tmp_path)))
    assert bench.lock.holder() is None


def test_offsets_that_disagree_with_the_state_need_the_application_id(small: Small, tmp_path: Path) -> None:
    bench = small.bench
    take(small)
    bench.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    request = asked(bench, confirm="", offsets=strategy(bench, "shift:-1", tmp_path))
    planned = restore.plan(bench, request)
    assert any("up to 1 input records are counted a second time" in told for told in planned.warnings)
    with pytest.raises(Refused, match=r"'shift:-1' disagree.*type the application id"):
        restore.open_restore(bench, request, run_id="r", requested_by="test", approved_hash=planned.hash)
    assert bench.lock.holder() is None
    exact = replace(request, offsets=strategy(bench, "shift:0", tmp_path))
    ticket = restore.open_restore(bench, exact, run_id="r", requested_by="test", approved_hash=restore.plan(bench, exact).hash)
    released(bench, ticket)


def test_going_on_at_the_end_can_be_approved_while_the_input_is_written_to(small: Small, tmp_path: Path) -> None:
    bench = small.bench
    take(small)
    request = asked(bench, replace=True, offsets=strategy(bench, "latest", tmp_path))
    approved = restore.plan(bench, request)
    produce(bench, small.input, 3)
    ticket = restore.open_restore(bench, request, run_id="r", requested_by="test", approved_hash=approved.hash)
    released(bench, ticket)
    by_number = asked(bench, replace=True, offsets=strategy(bench, f"specific:{small.input.topic}:0=2", tmp_path))
    with pytest.raises(PlanChanged):
        restore.open_restore(bench, by_number, run_id="r", requested_by="test", approved_hash=approved.hash)


@pytest.mark.fault("F42")
def test_a_consumer_that_joins_before_the_offsets_are_set_keeps_its_own_and_stops_the_restore(small: Small) -> None:
    bench = small.bench
    take(small)
    ticket, _ = verified(bench, asked(bench, replace=True))
    before = committed(bench, small.input, small.tail)
    with member(bench, bench.application_id, small.input.topic), pytest.raises(ApplicationRunning, match="it-member"):
        restore.set_offsets(bench, ticket)
    assert committed(bench, small.input, small.tail) == before
    with pytest.raises(Refused, match="in phase verified"):
        restore.wipe(bench, ticket)
    bench.groups.wait_empty(bench.application_id, 30)
    restore.set_offsets(bench, ticket)
    assert committed(bench, small.input, small.tail) == [(4, "AgAA"), (0, "")]
    released(bench, ticket)


@pytest.mark.fault("F48")
def test_an_offset_that_is_gone_or_moved_after_it_was_set_stops_the_start(small: Small) -> None:
    """Kafka deletes the offsets of a deleted topic some time after it; and somebody may commit."""
    bench = small.bench
    take(small)
    ticket, _ = verified(bench, asked(bench, replace=True))
    restore.set_offsets(bench, ticket)
    reach(bench, ticket, Phase.WIPED)
    for spoilt, said in (
        (None, "nothing in place of 4"),
        (CommittedOffset(offset=5, metadata="AgAA", leader_epoch=None), "5 in place of 4"),
        (CommittedOffset(offset=4, metadata="", leader_epoch=None), "4 in place of 4"),
    ):
        bench.groups.set_offsets(bench.application_id, {small.input: spoilt})
        with pytest.raises(Damaged, match=f"1 committed offsets .* {small.input}: {said}"):
            restore.start(bench, ticket)
    bench.groups.set_offsets(bench.application_id, {small.input: CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)})
    assert restore.start(bench, ticket).ends == {f"{small.input.topic} 0": 5}
    released(bench, ticket)


@pytest.mark.fault("F20")
def test_a_start_that_is_repeated_does_not_mind_what_the_application_has_committed_since(bootstrap: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"status": running_once(started)}) as running:
        bench = running.bench
        take(running)
        ticket, _ = verified(bench, asked(bench, replace=True))
        restore.set_offsets(bench, ticket)
        reach(bench, ticket, Phase.STARTED)
        started.touch()
        bench.groups.set_offsets(bench.application_id, {running.input: CommittedOffset(offset=5, metadata="AgAB", leader_epoch=None)})
        assert restore.start(bench, ticket).instances == ("one",)
        released(bench, ticket)


def test_a_strategy_is_planned_from_a_terminal(small: Small, tmp_path: Path) -> None:
    take(small)
    bench = small.bench
    (tmp_path / "export.csv").write_text(f"{bench.application_id},{small.input.topic},0,2\n")
    code, out, err = cli(tmp_path, bench, "plan", "restore", "small", "--replace", "--offsets", f"file:{tmp_path / 'export.csv'}", "--json")
    assert code == 0, err
    planned = json.loads(out)
    assert [item["offset"] for item in planned["offsets"] if item["topic"] == small.input.topic] == [2]
    assert planned["offsets_agree"] is False
    code, _, err = cli(tmp_path, bench, "plan", "restore", "small", "--replace", "--offsets", "timestamp:2026-11-21T12:00:00")
    assert (code, "has no time zone" in err) == (2, True)
