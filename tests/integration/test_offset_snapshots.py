"""Snapshots of groups' offsets on a real broker, and the way back to them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition

from streams_recovery.config.application import Groups
from streams_recovery.core.errors import ApplicationRunning, Damaged, LockHeld, NotFound, PlanChanged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.group_changes import GroupAction, GroupRequest
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets import group_changes, snapshots
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import Small, small_application
from tests.support.applications.topic_records import produce
from tests.support.kafka.consumers import cli, committed, first_read, member, running_once


def with_groups(recovery: RecoveryContext, *globs: str) -> RecoveryContext:
    return replace(recovery, config=recovery.config.model_copy(update={"groups": Groups(include=globs)}))


@pytest.fixture
def reader(small: Small) -> Iterator[str]:
    """Another team's group: it has read three of the application's outputs, and something of its own."""
    name = f"{small.recovery.application_id}.reader"
    known = CommittedOffset(offset=3, metadata="mine", leader_epoch=None)
    small.recovery.groups.set_offsets(name, {small.output: known})
    yield name
    small.recovery.groups.wait_empty(name, 30)
    small.recovery.groups.delete(name)


def to(snapshot: str, group: str) -> GroupRequest:
    """The request to take a group back to a snapshot."""
    return GroupRequest(action=GroupAction.ROLLBACK, groups=(group,), snapshot=snapshot)


@pytest.mark.deep
def test_a_savepoint_keeps_the_offsets_of_other_groups_on_request(small: Small, reader: str) -> None:
    recovery = with_groups(small.recovery, "*.reader")
    plain = take(small).savepoint_id
    assert snapshots.ids(recovery) == [], "only on request"
    savepoint = take(small, recovery=recovery).savepoint_id
    assert snapshots.ids(recovery) == [savepoint] != [plain]
    kept = snapshots.find(recovery, savepoint)
    assert (kept.savepoint_id, kept.unread) == (savepoint, {})
    assert [(group.group_id, group.offsets) for group in kept.groups] == [
        (reader, {small.output: CommittedOffset(offset=3, metadata="mine")})
    ]
    key = recovery.layout.work(savepoint, f"{snapshots.NOTE}.0001")
    snapshots.keep_with_savepoint(recovery, ArtifactRef.of(key, recovery.repository.get(key)))
    assert len(list(recovery.repository.keys(recovery.layout.offset_snapshots))) == 1, "repeating it adds nothing"


@pytest.mark.way("offsets of groups")
def test_a_group_goes_back_to_a_snapshot_and_forward_again(small: Small, reader: str) -> None:
    recovery = with_groups(small.recovery, "*.reader")
    savepoint = take(small, recovery=recovery).savepoint_id
    produce(recovery, small.output, 3)
    moved = {
        small.output: CommittedOffset(offset=6, metadata="later", leader_epoch=None),
        small.input: CommittedOffset(offset=1, metadata="", leader_epoch=None),
    }
    recovery.groups.set_offsets(reader, moved)
    planned = group_changes.plan(recovery, to(savepoint, reader))
    assert [(change.tp, change.before, change.after) for change in planned.groups[0].changes] == [
        (small.output, 6, CommittedOffset(offset=3, metadata="mine"))
    ]

    def back(snapshot: str, approved: str) -> str | None:
        return group_changes.carry_out(
            recovery, to(snapshot, reader), approved_hash=approved, run_id=uuid.uuid4().hex, requested_by="test"
        ).before

    with member(recovery, reader, small.output.topic), pytest.raises(ApplicationRunning, match="it-member"):
        back(savepoint, planned.hash)
    recovery.groups.wait_empty(reader, 30)
    with pytest.raises(PlanChanged):
        back(savepoint, "0" * 64)
    assert committed(recovery, small.output, small.input, group=reader) == [(6, "later"), (1, "")], "nothing happened yet"

    before = back(savepoint, planned.hash)
    assert committed(recovery, small.output, small.input, group=reader) == [(3, "mine"), (1, "")], "other topics are left alone"
    assert first_read(recovery, reader, small.output.topic) == 3
    recovery.groups.wait_empty(reader, 30)
    back(before, group_changes.plan(recovery, to(before, reader)).hash)
    assert committed(recovery, small.output, group=reader) == [(6, "later")]
    assert recovery.lock.holder() is None


@pytest.mark.deep
def test_a_partition_that_had_no_offset_has_none_again(small: Small) -> None:
    recovery, group = small.recovery, f"{small.recovery.application_id}.fresh"
    tp = small.input
    recovery.cluster.create_topic(f"{tp.topic}.two", partitions=2, replication_factor=1, config={})
    first, second = (TopicPartition(f"{tp.topic}.two", number) for number in range(2))
    try:
        recovery.groups.set_offsets(group, {first: CommittedOffset(offset=0, metadata="a", leader_epoch=None)})
        taken = snapshots.take(recovery, [group], snapshot_id="20261121T012345Z-0123456789", topics=None, requested_by="test", reason="")
        snapshots.keep(recovery, taken)
        recovery.groups.set_offsets(group, {second: CommittedOffset(offset=0, metadata="b", leader_epoch=None)})
        planned = group_changes.plan(recovery, to(taken.snapshot_id, group))
        assert {change.tp: change.after for change in planned.groups[0].changes} == {
            first: CommittedOffset(offset=0, metadata="a"),
            second: None,
        }
        group_changes.carry_out(recovery, to(taken.snapshot_id, group), approved_hash=planned.hash, run_id="r", requested_by="test")
        assert committed(recovery, first, second, group=group) == [(0, "a"), None]
        recovery.cluster.delete_topics([first.topic])
        recovery.cluster.create_topic(first.topic, partitions=2, replication_factor=1, config={})
        with pytest.raises(Refused, match="was created again"):
            group_changes.plan(recovery, to(taken.snapshot_id, group))
    finally:
        recovery.groups.delete(group)
        recovery.cluster.delete_topics([first.topic])


@pytest.mark.deep
def test_a_group_that_cannot_be_read_is_noted_and_the_savepoint_is_taken(small: Small, reader: str) -> None:
    """It has sent offsets in a transaction that nobody ends."""
    recovery = with_groups(small.recovery, "*.reader")
    producer = Producer(recovery.connection.client_config(**{"transactional.id": f"txn-{reader}"}))
    producer.init_transactions(30)
    with member(recovery, reader, small.output.topic) as consumer:
        producer.begin_transaction()
        where = [ClientPartition(small.output.topic, 0, 4)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), 30)
    try:
        with ConsumerGroups(recovery.connection, timeout=1.0) as hasty:
            savepoint = take(small, recovery=replace(recovery, groups=hasty)).savepoint_id
    finally:
        producer.abort_transaction(30)
    kept = snapshots.find(recovery, savepoint)
    assert kept.groups == ()
    assert "an open transaction kept 1 of its offsets from settling" in kept.unread[reader]
    with pytest.raises(NotFound, match="it has: none"):
        group_changes.plan(recovery, to(savepoint, reader))


def test_what_somebody_adds_behind_a_snapshot_changes_nothing_that_it_says(small: Small) -> None:
    recovery, name = small.recovery, small.recovery.application_id
    taken = snapshots.take(recovery, [name], snapshot_id="20261121T012345Z-00000000f0", topics=None, requested_by="test", reason="")
    snapshots.keep(recovery, taken)
    AppendLog(recovery.repository, recovery.layout.offset_snapshot(taken.snapshot_id), type(taken)).append(
        replace(taken, groups=(), reason="forged")
    )
    assert snapshots.find(recovery, taken.snapshot_id) == taken
    with pytest.raises(Damaged, match="another offset snapshot"):
        snapshots.keep(recovery, replace(taken, reason="forged"))


@pytest.mark.deep
@pytest.mark.parametrize("obstacle", ["it runs", "a restore is unfinished", "another run has the lock", "another cluster"])
def test_the_application_s_own_offsets_go_back_only_when_nothing_else_goes_on(bootstrap: str, tmp_path: Path, obstacle: str) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"status": running_once(started)}) as found:
        recovery, name = found.recovery, found.recovery.application_id
        taken = snapshots.take(recovery, [name], snapshot_id="20261121T012345Z-0123456789", topics=None, requested_by="test", reason="")
        snapshots.keep(recovery, taken)
        recovery.groups.set_offsets(name, {found.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
        approved = group_changes.plan(recovery, to(taken.snapshot_id, name)).hash
        expected: type[Refused] = Refused
        if obstacle == "it runs":
            started.touch()
            expected = ApplicationRunning
        elif obstacle == "a restore is unfinished":
            log = AppendLog(recovery.repository, recovery.layout.journal("20261121T020000Z-00000000aa"), JournalEntry)
            log.append(JournalEntry(phase=Phase.CREATED, at=1, created=()))
        elif obstacle == "another run has the lock":
            recovery.lock.acquire("savepoint r", lease_seconds=60, purpose="savepoint")
            expected = LockHeld
        else:
            recovery.repository.delete([f"{recovery.layout.offset_snapshot(taken.snapshot_id)}000000000001.json"])
            snapshots.keep(recovery, replace(taken, cluster_id="another"))
        with pytest.raises(expected):
            group_changes.carry_out(recovery, to(taken.snapshot_id, name), approved_hash=approved, run_id="r", requested_by="test")
        assert committed(recovery, found.input) == [(1, "")]
        holder = recovery.lock.holder()
        assert (holder.owner if holder else None) == ("savepoint r" if obstacle == "another run has the lock" else None)


@pytest.mark.deep
def test_a_person_goes_back_from_a_terminal(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    code, out, err = cli(tmp_path, recovery, "offsets", "snapshot", "small", "--json", "--reason", "before the change")
    assert code == 0, err
    taken = json.loads(out)
    (group,) = taken["groups"]
    assert (group["group_id"], len(group["offsets"])) == (recovery.application_id, 2)
    assert json.loads(cli(tmp_path, recovery, "offsets", "show", "small", taken["snapshot_id"])[1]) == taken

    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=5, metadata="", leader_epoch=None)})
    code, out, err = cli(tmp_path, recovery, "offsets", "restore", "small", taken["snapshot_id"], "--plan", "--json")
    assert code == 0, err
    planned = json.loads(out)
    assert "only offsets change" in planned["groups"][0]["warnings"][0]
    code, _, err = cli(tmp_path, recovery, "offsets", "restore", "small", taken["snapshot_id"], "--approve", "0" * 64)
    assert (code, "was not approved" in err) == (3, True)
    assert committed(recovery, small.input) == [(5, "")]
    code, out, err = cli(tmp_path, recovery, "offsets", "restore", "small", taken["snapshot_id"], "--approve", planned["hash"], "--json")
    assert code == 0, err
    assert (json.loads(out)["moved"], json.loads(out)["partitions"]) == (1, 2)
    assert committed(recovery, small.input) == [(4, "AgAA")]
