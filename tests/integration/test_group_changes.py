"""Changes of groups on a real broker: what is kept before them, the way back, and what stops them."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from typer.testing import Result

from streams_recovery.core.checks.facts import BrokerFacts
from streams_recovery.core.errors import ApplicationRunning, LockHeld, NotFound, OffsetsUnstable, PlanChanged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.group_changes import GroupAction, GroupChangeDone, GroupRequest, PartitionScope
from streams_recovery.core.offsets.reset_options import shift_by, to_earliest, to_latest, to_offset
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets import group_changes, snapshots
from streams_recovery.operations.status.cluster import look_at_group
from tests.support.applications.small import STREAMS_METADATA, Small, small_application
from tests.support.applications.topic_records import transaction
from tests.support.kafka.consumers import committed, invoked, member, running_once
from tests.support.kafka.streams_member import ShareMember, StreamsMember

pytestmark = pytest.mark.kafka


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata)


@pytest.fixture
def reader(small: Small) -> Iterator[str]:
    """Another team's group, which has read three of the application's outputs."""
    name = f"{small.recovery.application_id}.reader"
    small.recovery.groups.set_offsets(name, {small.output: at(3, "mine")})
    yield name
    small.recovery.groups.wait_empty(name, 30, settle=0)
    small.recovery.groups.delete(name)


def to(offset: int, *groups: str, topic: str) -> GroupRequest:
    return GroupRequest(action=GroupAction.RESET, groups=groups, scope=PartitionScope.parse([topic]), scenario=to_offset(offset))


def carried_out(recovery: RecoveryContext, request: GroupRequest, approved: str | None = None) -> GroupChangeDone:
    approved = approved or group_changes.plan(recovery, request).hash
    return group_changes.carry_out(recovery, request, approved_hash=approved, run_id=uuid.uuid4().hex, requested_by="test")


def back(recovery: RecoveryContext, snapshot: str | None, group: str) -> str:
    """Go back to a snapshot. Returns the one of what was there before."""
    assert snapshot is not None
    done = carried_out(recovery, GroupRequest(action=GroupAction.ROLLBACK, groups=(group,), snapshot=snapshot))
    assert done.before is not None
    return done.before


@pytest.mark.deep
def test_a_reset_is_taken_back_with_metadata_and_with_what_was_not_there(small: Small, reader: str) -> None:
    recovery = small.recovery
    request = GroupRequest(
        action=GroupAction.RESET,
        groups=(reader,),
        scope=PartitionScope.parse([small.output.topic, small.input.topic]),
        scenario=to_earliest(),
    )
    done = carried_out(recovery, request)
    assert done.moved == {reader: 2}
    assert committed(recovery, small.output, small.input, group=reader) == [(0, ""), (0, "")]
    kept = snapshots.find(recovery, done.before or "")
    assert kept.reason.startswith("before groups reset: --to-earliest --topic ")
    back(recovery, done.before, reader)
    assert committed(recovery, small.output, small.input, group=reader) == [(3, "mine"), None]
    assert recovery.lock.holder() is None


@pytest.mark.deep
def test_an_offset_that_does_not_move_is_not_written(small: Small, reader: str) -> None:
    recovery = small.recovery
    done = carried_out(recovery, to(3, reader, topic=small.output.topic))
    assert (done.before, done.moved) == (None, {reader: 0})
    assert committed(recovery, small.output, group=reader) == [(3, "mine")]


@pytest.mark.deep
def test_a_group_that_did_not_exist_has_no_offsets_again(small: Small) -> None:
    recovery, name = small.recovery, f"{small.recovery.application_id}.new"
    request = to(2, name, topic=small.output.topic)
    assert any("does not exist" in one for one in group_changes.plan(recovery, request).warnings)
    done = carried_out(recovery, request)
    try:
        assert committed(recovery, small.output, group=name) == [(2, "")]
        back(recovery, done.before, name)
        assert recovery.groups.committed_partitions(name) == ()
    finally:
        recovery.groups.delete(name)


@pytest.mark.deep
@pytest.mark.parametrize(("level", "said"), [(26, "Kafka 4.1"), (30, None)])
def test_the_defect_of_brokers_that_such_a_group_can_meet_is_said(small: Small, level: int, said: str | None) -> None:
    recovery = small.recovery
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery.cluster, "facts", lambda: BrokerFacts(racks={0: None}, settings={}, metadata_level=level))
        warnings = group_changes.plan(recovery, to(2, f"{recovery.application_id}.new", topic=small.output.topic)).warnings
    assert [said in one for one in warnings if "KAFKA-20254" in one] == ([] if said is None else [True])


@pytest.mark.deep
def test_a_deleted_group_comes_back_whole(small: Small, reader: str) -> None:
    recovery = small.recovery
    recovery.groups.set_offsets(reader, {small.input: at(1, "also")})
    done = carried_out(recovery, GroupRequest(action=GroupAction.DELETE, groups=(reader,)))
    assert recovery.groups.describe(reader).kind == "absent"
    assert done.moved == {reader: 2}
    deleted = back(recovery, done.before, reader)
    assert committed(recovery, small.output, small.input, group=reader) == [(3, "mine"), (1, "also")]
    back(recovery, deleted, reader)
    assert committed(recovery, small.output, small.input, group=reader) == [None, None], "and forward again"


@pytest.mark.deep
def test_a_group_with_members_is_described_planned_and_refused(small: Small, reader: str) -> None:
    recovery = small.recovery
    request = to(0, reader, topic=small.output.topic)
    with member(recovery, reader, small.output.topic):
        found = look_at_group(recovery, reader)
        assert [(one.committed, one.behind, one.client, one.role) for one in found.partitions] == [(3, 1, "it-member", None)]
        assert any("has members" in one for one in group_changes.plan(recovery, request).warnings)
        for one in (
            request,
            GroupRequest(action=GroupAction.DELETE, groups=(reader,)),
        ):
            with pytest.raises(ApplicationRunning, match="it-member"):
                carried_out(recovery, one)
        assert recovery.lock.holder() is None
    assert committed(recovery, small.output, group=reader) == [(3, "mine")]
    assert snapshots.ids(recovery) == []


@pytest.mark.deep
def test_what_was_not_approved_and_what_another_run_holds_is_refused(small: Small, reader: str) -> None:
    recovery = small.recovery
    request = GroupRequest(
        action=GroupAction.RESET, groups=(reader,), scope=PartitionScope.parse([], everything=True), scenario=shift_by(-1)
    )
    approved = group_changes.plan(recovery, request).hash
    recovery.groups.set_offsets(reader, {small.output: at(4)})
    with pytest.raises(PlanChanged, match="was not approved"):
        carried_out(recovery, request, approved)
    lock = recovery.lock.acquire("savepoint r", lease_seconds=60, purpose="savepoint")
    with pytest.raises(LockHeld):
        carried_out(recovery, request)
    recovery.lock.release(lock)
    assert committed(recovery, small.output, group=reader) == [(4, "")]
    for absent, what in ((f"{reader}.no", "there is no group"), (reader, "has no offset there")):
        with pytest.raises(NotFound, match=what):
            group_changes.plan(
                recovery, GroupRequest(action=GroupAction.DELETE_OFFSETS, groups=(absent,), scope=PartitionScope.parse([small.input.topic]))
            )


@pytest.mark.deep
def test_the_groups_that_were_changed_before_an_error_are_named(small: Small, reader: str) -> None:
    """A member joins the second one while the first one is changed."""
    recovery, first = small.recovery, f"{small.recovery.application_id}.a"
    recovery.groups.set_offsets(first, {small.output: at(3)})
    real = recovery.groups.set_offsets
    with ExitStack() as late, pytest.MonkeyPatch.context() as patch:

        def and_then_a_member_joins(group_id: str, offsets: dict[TopicPartition, CommittedOffset | None]) -> None:
            real(group_id, offsets)
            late.enter_context(member(recovery, reader, small.output.topic))

        patch.setattr(recovery.groups, "set_offsets", and_then_a_member_joins)
        with pytest.raises(ApplicationRunning, match=r"it-member.*Groups that were changed before that: .*\.a") as caught:
            carried_out(recovery, to(1, first, reader, topic=small.output.topic))
    assert caught.value.facts["changed"] == [first]
    assert committed(recovery, small.output, group=first) == [(1, "")]
    assert committed(recovery, small.output, group=reader) == [(3, "mine")]
    back(recovery, caught.value.facts["snapshot"], first)
    assert committed(recovery, small.output, group=first) == [(3, "")]
    recovery.groups.delete(first)


@pytest.mark.deep
def test_the_application_s_own_group_is_changed_only_when_its_instances_are_gone(bootstrap: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"status": running_once(started)}) as found:
        recovery = found.recovery
        request = GroupRequest(action=GroupAction.RESET, scope=PartitionScope.parse([], inputs=True), scenario=to_earliest())
        planned = group_changes.plan(recovery, request)
        assert [change.tp for change in planned.groups[0].changes] == [found.input], "its repartition topic is no input"
        assert "only offsets change: the state" in planned.warnings[0]
        started.touch()
        with pytest.raises(ApplicationRunning, match="instances of"):
            carried_out(recovery, request, planned.hash)
        started.unlink()
        carried_out(recovery, request, planned.hash)
        assert committed(recovery, found.input, found.tail) == [(0, ""), (1, "")]


@pytest.mark.deep
def test_a_group_of_another_kafka_streams_application_is_known_by_its_metadata(small: Small, reader: str) -> None:
    recovery = small.recovery
    request = to(1, reader, topic=small.output.topic)
    assert group_changes.plan(recovery, request).warnings == ()
    recovery.groups.set_offsets(reader, {small.output: at(3, STREAMS_METADATA)})
    assert "only offsets change" in group_changes.plan(recovery, request).warnings[0]
    with pytest.raises(Refused, match="are not known"):
        group_changes.plan(
            recovery,
            GroupRequest(action=GroupAction.RESET, groups=(reader,), scope=PartitionScope.parse([], inputs=True), scenario=to_earliest()),
        )


@pytest.mark.deep
def test_records_of_open_transactions_are_said_and_offsets_in_one_stop_a_change(small: Small, reader: str) -> None:
    recovery, latest = small.recovery, PartitionScope.parse([small.output.topic])
    request = GroupRequest(action=GroupAction.RESET, groups=(reader,), scope=latest, scenario=to_latest())
    assert group_changes.plan(recovery, request).warnings == ()
    with transaction(recovery) as producer, ConsumerGroups(recovery.connection, timeout=1.0) as hasty:
        producer.produce(small.output.topic, b"v", b"k", 0)
        producer.flush(30)
        assert "are skipped" in group_changes.plan(recovery, request).warnings[0]
        with member(recovery, reader, small.output.topic) as consumer:
            producer.send_offsets_to_transaction([ClientPartition(small.output.topic, 0, 4)], consumer.consumer_group_metadata(), 30)
        with pytest.raises(OffsetsUnstable):
            carried_out(replace(recovery, groups=hasty), request)
        producer.abort_transaction(30)
    assert committed(recovery, small.output, group=reader) == [(3, "mine")]


@pytest.mark.deep
def test_members_of_the_newer_protocols_are_named(bootstrap: str, small: Small) -> None:
    """A group of the streams protocol looks dead to who does not speak it, and so does a share group."""
    recovery, name = small.recovery, small.recovery.application_id
    streams, share = f"{name}.streams", f"{name}.share"
    joined = StreamsMember(bootstrap, streams, small.output.topic), ShareMember(bootstrap, share, small.output.topic)
    for one in joined:
        one.join()
    try:
        for group, kind in ((streams, "streams"), (share, "share")):
            found = look_at_group(recovery, group)
            assert (found.kind, [one.client_id for one in found.members]) == (kind, ["it-member"])
        with pytest.raises(Refused, match="have no committed offsets"):
            group_changes.plan(recovery, to(0, share, topic=small.output.topic))
        with pytest.raises(ApplicationRunning, match="of the streams protocol has members: it-member on"):
            carried_out(recovery, to(0, streams, topic=small.output.topic))
        with pytest.raises(NotFound, match="there is no group"):
            look_at_group(recovery, f"{name}.none")
    finally:
        for one in joined:
            one.leave()
        recovery.groups.wait_empty(streams, 30, settle=0)
        recovery.groups.delete(streams)
        recovery.groups.delete(share)


@pytest.mark.way("offsets of groups")
def test_a_person_resets_and_goes_back_from_a_terminal(small: Small, reader: str, tmp_path: Path) -> None:
    recovery, words = small.recovery, ("groups", "reset", "small", "--group", reader, "--shift-by", "-2", "--all-topics")

    def run(*arguments: str) -> Result:
        return invoked(tmp_path, recovery, *arguments)

    planned = run(*words, "--plan")
    assert f"| {reader} | {small.output} | 3 | 1 |" in planned.stdout.replace("\\", "")
    assert isinstance(run(*words).exception, Refused), "nobody typed it"
    approve = shlex.split(planned.stderr)[-1]
    done = run(*words, "--approve", approve)
    assert done.stdout == f"group {reader}: 1 offsets were set\n"
    assert committed(recovery, small.output, group=reader) == [(1, "")]
    snapshot = snapshots.ids(recovery)[-1]
    assert f"streams-recovery offsets restore small {snapshot} --group {reader}" in done.stderr
    described = json.loads(run("groups", "describe", "small", "--group", reader, "--json").stdout)
    assert (described["group_id"], described["behind"], described["partitions"][0]["committed"]) == (reader, 3, 1)
    for option, said in (("--state", f"group {reader}: classic, Empty, 0 members, 3 offsets behind"), ("--offsets", "committed")):
        assert said in run("groups", "describe", "small", "--group", reader, option).stdout
    assert f"group {recovery.application_id}: classic, Empty" in run("groups", "describe", "small").stdout
    listed = run("groups", "list", "small", "--state", "empty,stable", "--type", "classic").stdout
    assert reader in listed
    assert reader not in run("groups", "list", "small", "--type", "streams").stdout


@pytest.mark.deep
def test_all_groups_are_changed_but_those_with_members(own_bootstrap: str, tmp_path: Path) -> None:
    with small_application(own_bootstrap, tmp_path) as small:
        recovery, name = small.recovery, small.recovery.application_id
        for group in ("a", "b"):
            recovery.groups.set_offsets(group, {small.output: at(3)})
        request = GroupRequest(
            action=GroupAction.RESET, all_groups=True, scope=PartitionScope.parse([small.output.topic]), scenario=to_offset(1)
        )
        with member(recovery, "b", small.output.topic):
            planned = group_changes.plan(recovery, request)
            assert (planned.left_out, [one.group_id for one in planned.groups]) == (("b",), ["a", name])
            assert "groups with members are left as they are: b" in planned.warnings
            done = carried_out(recovery, request, planned.hash)
        assert done.moved == {"a": 1, name: 1}
        recovery.groups.wait_empty("b", 30, settle=0)
        assert [committed(recovery, small.output, group=group) for group in ("a", "b", name)] == [[(1, "")], [(3, "")], [(1, "")]]
        with pytest.raises(PlanChanged):
            carried_out(recovery, request, planned.hash)
        for group in ("a", name):
            back(recovery, done.before, group)
        assert [committed(recovery, small.output, group=group) for group in ("a", name)] == [[(3, "")], [None]]
        every = GroupRequest(action=GroupAction.DELETE, all_groups=True)
        assert carried_out(recovery, every).moved == {"a": 1, "b": 1, name: 2}
        with pytest.raises(NotFound, match="no group to change"):
            group_changes.plan(recovery, every)
