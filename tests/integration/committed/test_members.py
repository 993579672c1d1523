"""Members on a real broker: who is named, who is evicted, who comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from streams_recovery.core.errors import ApplicationRunning, Refused
from streams_recovery.core.kafka_types import CommittedOffset, GroupMember, TopicPartition
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.offset_commit import replace_offsets
from tests.support.kafka.committed_offsets import STREAM_TIME, committed, everything
from tests.support.kafka.streams_member import StreamsMember

pytestmark = pytest.mark.kafka


@pytest.mark.fault("F43")
@pytest.mark.parametrize("wanted", [committed(1, STREAM_TIME), None])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_joins_right_before_the_write_keeps_its_offsets(
    connection: KafkaConnection,
    groups: ConsumerGroups,
    topic: str,
    group_id: str,
    join: Callable[..., Consumer],
    protocol: str,
    wanted: CommittedOffset | None,
) -> None:
    """The group was seen empty; the member is there when the offsets arrive."""
    consumer = join(**{"group.protocol": protocol})
    consumer.commit(offsets=[ClientPartition(topic, 0, 5), ClientPartition(topic, 1, 6)], asynchronous=False)
    before = everything(groups, topic, group_id)
    refused = "UnknownMemberIdError" if wanted else "(GroupSubscribedToTopicError|NonEmptyGroupError)"
    with Clients(connection, timeout=20) as clients, pytest.raises(ApplicationRunning, match=f"it-member.*{refused}.*as they were before"):
        replace_offsets(clients, group_id, {TopicPartition(topic, 0): wanted, TopicPartition(topic, 1): wanted}, absent=False)
    assert everything(groups, topic, group_id) == before


@pytest.mark.fault("F44")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_member_is_named_and_its_offsets_are_not_touched(
    groups: ConsumerGroups, topic: str, group_id: str, join: Callable[..., Consumer], protocol: str
) -> None:
    consumer = join(**{"group.protocol": protocol})
    consumer.commit(offsets=[ClientPartition(topic, 0, 5)], asynchronous=False)
    described = groups.describe(group_id)
    assert (described.kind, described.state, described.empty) == (protocol, "Stable", False)
    assert [member.client_id for member in described.members] == ["it-member"]
    with pytest.raises(ApplicationRunning, match=r"it-member.*must be empty") as caught:
        groups.set_offsets(group_id, {TopicPartition(topic, 0): committed(1, STREAM_TIME)})
    assert caught.value.facts["members"] == [described.members[0].member_id]
    with pytest.raises(ApplicationRunning, match="it-member"):
        groups.delete(group_id)
    with pytest.raises(ApplicationRunning, match=r"within 0\.5 s"):
        groups.wait_empty(group_id, 0.5)
    found = groups.committed(group_id, [TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert found is not None
    assert found.offset == 5


@pytest.mark.fault("F44")
def test_members_that_are_gone_are_evicted_before_their_session_ends(
    groups: ConsumerGroups, topic: str, group_id: str, crash: Callable[..., None]
) -> None:
    crash()
    described = groups.describe(group_id)
    assert [member.client_id for member in described.members] == ["it-member"]
    groups.evict(group_id, described.members)
    # A session lasts 45 s.
    assert groups.wait_empty(group_id, 10).empty
    groups.evict(group_id, described.members)
    groups.set_offsets(group_id, {TopicPartition(topic, 1): committed(9, STREAM_TIME)})


@pytest.mark.fault("F44")
def test_a_static_member_is_evicted_too(groups: ConsumerGroups, group_id: str, crash: Callable[..., None]) -> None:
    crash("instance-1")
    described = groups.describe(group_id)
    assert [member.group_instance_id for member in described.members] == ["instance-1"]
    groups.evict(group_id, described.members)
    assert groups.wait_empty(group_id, 10, settle=0.5).empty


def test_an_evicted_member_that_is_alive_comes_back_and_is_seen(
    groups: ConsumerGroups, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    consumer = join(**{"session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
    stopped = threading.Event()

    def live() -> None:
        while not stopped.is_set():
            consumer.poll(0.05)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        groups.evict(group_id, groups.describe(group_id).members)
        with pytest.raises(ApplicationRunning, match="it-member"):
            groups.wait_empty(group_id, 4, settle=2)
    finally:
        stopped.set()
        thread.join()


def test_members_of_the_new_protocol_cannot_be_evicted(
    groups: ConsumerGroups, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    join(**{"group.protocol": "consumer"})
    with pytest.raises(Refused, match="consumer protocol"):
        groups.evict(group_id, groups.describe(group_id).members)


def test_a_group_of_the_streams_protocol_is_taken_for_what_it_is(groups: ConsumerGroups, bootstrap: str, topic: str, group_id: str) -> None:
    """Clients that do not know the protocol are told that a running one is dead and has no members."""
    partition = TopicPartition(topic, 0)
    member = StreamsMember(bootstrap, group_id, topic)
    member.join()
    running = groups.describe(group_id)
    assert (running.kind, running.empty) == ("streams", False)
    assert running.state not in ("Empty", "Dead")
    (named,) = running.members
    assert (named.client_id, named.group_instance_id) == ("it-member", None)
    assert groups.input_topics(group_id) == {topic}
    with pytest.raises(ApplicationRunning, match="it-member on ") as caught:
        groups.set_offsets(group_id, {partition: committed(1)})
    assert caught.value.facts["members"] == [named.member_id]
    with pytest.raises(ApplicationRunning, match="streams protocol"):
        groups.set_offsets(group_id, {partition: committed(1)})
    with pytest.raises(ApplicationRunning, match="streams protocol"):
        groups.delete(group_id)
    with pytest.raises(ApplicationRunning, match="streams protocol"):
        groups.wait_empty(group_id, 0.5)
    with pytest.raises(Refused, match="streams protocol"):
        groups.evict(group_id, [GroupMember(member_id="m", client_id="c", host="h", group_instance_id=None)])
    member.leave()
    stopped = groups.wait_empty(group_id, 10, settle=0.5)
    assert (stopped.kind, stopped.state, stopped.empty) == ("streams", "Empty", True)
    groups.set_offsets(group_id, {partition: committed(4, STREAM_TIME)})
    assert groups.committed(group_id, [partition]) == {partition: committed(4, STREAM_TIME)}


def test_groups_whose_names_overlap_are_told_apart(groups: ConsumerGroups, topic: str, group_id: str) -> None:
    longer = f"{group_id}-eu"
    tp = TopicPartition(topic, 0)
    groups.set_offsets(group_id, {tp: committed(1)})
    groups.set_offsets(longer, {tp: committed(2)})
    try:
        groups.delete(group_id)
        assert groups.describe(group_id).kind == "absent"
        assert groups.committed(longer, [tp]) == {tp: committed(2)}
    finally:
        groups.delete(longer)
