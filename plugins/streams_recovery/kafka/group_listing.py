"""Which groups there are, of which kind, and who is in them. Only a listing knows a group of the streams protocol for what it is."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import ConsumerGroupState

from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.core.kafka_types import GroupDescription, GroupMember
from streams_recovery.kafka.clients import Clients

# The broker's words, in place of those the client made of them.
_STATES = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}


class ListedGroup(NamedTuple):
    """A group as a listing shows it; ``state`` is the broker's word."""

    kind: str
    state: str


def list_group_kinds(clients: Clients) -> dict[str, ListedGroup]:
    """Every group of the cluster. A broker that does not answer is an error: its groups would look absent."""

    def ask() -> list[dict[str, str]]:
        return list(clients.pure.list_groups())

    answer = clients.patiently("listing groups", ask)
    # Brokers older than the new protocols name no type; all their groups are classic.
    return {
        group["group_id"]: ListedGroup((group.get("group_type") or "classic").lower(), group.get("group_state") or "") for group in answer
    }


def describe_group(clients: Clients, group_id: str) -> GroupDescription:
    """One group with its members. Of kinds that cannot be described, and of states no client has a word for, the listing's state is kept."""
    listed = list_group_kinds(clients).get(group_id)
    if listed is None:
        return GroupDescription(group_id=group_id, kind="absent", state="Dead", members=())
    # Described, a running group of the streams protocol is Dead and has no members: that would pass for a stopped application.
    if listed.kind not in ("classic", "consumer"):
        return GroupDescription(group_id=group_id, kind=listed.kind, state=listed.state, members=())

    def ask() -> GroupDescription:
        found = clients.librdkafka.describe_consumer_groups([group_id], request_timeout=clients.timeout)[group_id].result()
        members = tuple(
            GroupMember(
                member_id=member.member_id,
                client_id=member.client_id or "",
                host=member.host or "",
                group_instance_id=member.group_instance_id or None,
            )
            for member in found.members
        )
        return GroupDescription(group_id=group_id, kind=listed.kind, state=_state(_STATES.get(found.state), listed.state), members=members)

    return clients.patiently(f"describing group {group_id}", ask)


def in_use(group: GroupDescription, why: str) -> ApplicationRunning:
    """The error for a group that is not empty: its members, or the state of one whose members cannot be named."""
    names = ", ".join(f"{member.client_id} on {member.host} ({member.member_id})" for member in group.members)
    who = f"has members: {names}" if names else f"of the {group.kind} protocol is {group.state}"
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
