"""Which groups there are, of which kind, and who is in them.

Only a listing knows the kind of a group: a client that asks for it in the words of another protocol is told that it is dead and has no members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from confluent_kafka import ConsumerGroupState

from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.core.kafka_types import GroupDescription, GroupMember, ListedGroup, TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.group_messages import DESCRIBED, by_coordinator, described_groups

# The broker's words, in place of those the client made of them.
_STATES = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}


def list_group_kinds(clients: Clients) -> dict[str, ListedGroup]:
    """Every group of the cluster. A broker that does not answer is an error: its groups would look absent."""

    def ask() -> list[dict[str, str]]:
        return list(clients.pure.list_groups())

    answer = clients.patiently("listing groups", ask)
    # Brokers older than the new protocols name no type; all their groups are classic.
    return {
        group["group_id"]: ListedGroup(
            kind=(group.get("group_type") or "classic").lower(),
            state=group.get("group_state") or "",
            protocol=group.get("protocol_type") or "",
        )
        for group in answer
    }


def describe_group(clients: Clients, group_id: str) -> GroupDescription:
    """One group with its members. Of kinds that no request here describes, and of states no client has a word for, the listing's state is kept."""
    listed = list_group_kinds(clients).get(group_id)
    if listed is None:
        return GroupDescription(group_id=group_id, kind="absent", state="Dead", members=())

    def ask() -> GroupDescription:
        if listed.kind in ("classic", "consumer"):
            return _described(clients, group_id, listed)
        # In the words of those, a running group of the streams protocol is Dead and has no members: that would pass for a stopped application.
        return _described_by_message(clients, group_id, listed)

    return clients.patiently(f"describing group {group_id}", ask)


def input_topics(clients: Clients, group_id: str) -> frozenset[str] | None:
    """The topics that a group of the streams protocol reads and does not write itself, by the topology that it has at its coordinator. None when it has
    none there.
    """
    found = clients.patiently(f"describing group {group_id}", lambda: _message_of(clients, "streams", group_id))
    parts = _subtopologies(found)
    return frozenset(name for part in parts for name in part.source_topics) if parts else None


def _described(clients: Clients, group_id: str, listed: ListedGroup) -> GroupDescription:
    found = clients.librdkafka.describe_consumer_groups([group_id], request_timeout=clients.timeout)[group_id].result()
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id or "",
            host=member.host or "",
            group_instance_id=member.group_instance_id or None,
            assigned=tuple(sorted(TopicPartition(tp.topic, tp.partition) for tp in member.assignment.topic_partitions))
            if member.assignment
            else (),
        )
        for member in found.members
    )
    return GroupDescription(group_id=group_id, kind=listed.kind, state=_state(_STATES.get(found.state), listed.state), members=members)


def _described_by_message(clients: Clients, group_id: str, listed: ListedGroup) -> GroupDescription:
    found = _message_of(clients, listed.kind, group_id)
    if found is None:
        return GroupDescription(group_id=group_id, kind=listed.kind, state=listed.state, members=())
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            group_instance_id=getattr(member, "instance_id", None),
            assigned=tuple(sorted(_assigned(found, member))),
            tasks=tuple(_tasks(member.assignment)) if listed.kind == "streams" else (),
        )
        for member in found.members
    )
    return GroupDescription(group_id=group_id, kind=listed.kind, state=_state(found.group_state or None, listed.state), members=members)


def _message_of(clients: Clients, kind: str, group_id: str) -> Any:
    """The coordinator's description. None for a kind that cannot be described so, for a group that went after it was listed, and for one with a topic that
    this user may not see: then the coordinator tells nothing of it.
    """
    for coordinator, names in by_coordinator(clients, [group_id] if kind in DESCRIBED else []):
        for found in described_groups(clients, kind, names, coordinator) or ():
            if found.error_code not in (0, errors.GROUP_ID_NOT_FOUND, errors.TOPIC_AUTHORIZATION_FAILED):
                name = errors.name_of(found.error_code)
                raise errors.by_code(found.error_code, f"describing group {group_id} failed: {name} {found.error_message or ''}".rstrip())
            return found if found.error_code == 0 else None
    return None


def _subtopologies(found: Any) -> list[Any]:
    topology = getattr(found, "topology", None)
    return list(topology.subtopologies or ()) if topology is not None else []


def _assigned(found: Any, member: Any) -> Iterator[TopicPartition]:
    """Partitions that a member reads. A task of Kafka Streams reads its partition of every topic that its part of the topology reads."""
    if not hasattr(member.assignment, "active_tasks"):
        yield from (TopicPartition(one.topic_name, number) for one in member.assignment.topic_partitions for number in one.partitions)
        return
    read = {
        part.subtopology_id: {*part.source_topics, *(topic.name for topic in part.repartition_source_topics)}
        for part in _subtopologies(found)
    }
    for task in member.assignment.active_tasks:
        yield from (TopicPartition(name, number) for name in read.get(task.subtopology_id, ()) for number in task.partitions)


def _tasks(assignment: Any) -> Iterator[str]:
    """Tasks as Kafka Streams names them."""
    for role, tasks in (("", assignment.active_tasks), (" standby", assignment.standby_tasks), (" warm-up", assignment.warmup_tasks)):
        yield from (f"{task.subtopology_id}_{number}{role}" for task in tasks for number in task.partitions)


def in_use(group: GroupDescription, why: str) -> ApplicationRunning:
    """The error for a group that is not empty: its members, or its state when it has none that are known."""
    names = ", ".join(f"{member.client_id} on {member.host} ({member.member_id})" for member in group.members)
    who = f"of the {group.kind} protocol " + (f"has members: {names}" if names else f"is {group.state}")
    return ApplicationRunning(
        f"group {group.group_id} {who}; {why}",
        next_step="stop these instances, or wait until the sessions of those that are gone have timed out",
        group=group.group_id,
        members=[member.member_id for member in group.members],
    )


def _state(described: str | None, listed: str) -> str:
    """A group counts as having no members only when both answers say so: one of them may be the older, or from the wrong protocol."""
    gone = ("Empty", "Dead")
    if described is None or (described in gone and listed not in ("", *gone)):
        return listed
    return described
