"""Which topics the live members of groups read, whatever the protocol of their group, and for which share groups the cluster keeps a position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streams_recovery.core.kafka_types import ListedGroup
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.group_listing import list_group_kinds
from streams_recovery.kafka.group_messages import ask_share_offsets, by_coordinator, described_groups

_STILL: Final = ("Empty", "Dead")


def live_subscriptions(clients: Clients, *, but: str) -> dict[str, frozenset[str] | None]:
    """The topics that live members of every other group than ``but`` subscribe or are assigned, None for a group of which the cluster does not tell: it is
    just rebalancing, or this user may not describe it. Groups without members are left out, and so are those that are not for reading topics.
    """

    def ask() -> dict[str, frozenset[str] | None]:
        found = _of_live(clients, {name: one for name, one in list_group_kinds(clients).items() if name != but})
        # Of classic groups that are for something else, as those of Connect.
        return {name: topics for name, topics in found.items() if topics != frozenset()}

    return clients.patiently("asking which topics other groups read", ask)


def read_by(clients: Clients, group_id: str) -> frozenset[str] | None:
    """The topics that live members of one group subscribe or are assigned, also those that this user may not see; None where the cluster does not tell. With
    no members there are none.
    """

    def ask() -> frozenset[str] | None:
        found = _of_live(clients, {name: one for name, one in list_group_kinds(clients).items() if name == group_id})
        return found.get(group_id, frozenset())

    return clients.patiently(f"asking which topics group {group_id} reads", ask)


def _of_live(clients: Clients, groups: Mapping[str, ListedGroup]) -> dict[str, frozenset[str] | None]:
    live = {name: one for name, one in groups.items() if one.state not in _STILL}
    found: dict[str, frozenset[str] | None] = dict.fromkeys(live)
    for kind in sorted({one.kind for one in live.values()}):
        names = sorted(name for name, one in live.items() if one.kind == kind)
        for coordinator, part in by_coordinator(clients, names):
            found |= _classic(clients, part, coordinator) if kind == "classic" else _of_kind(clients, kind, part, coordinator)
    return found


def share_positions(clients: Clients, groups: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics in which the cluster keeps a position of these share groups."""
    names = sorted(groups)

    def ask() -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for coordinator, part in by_coordinator(clients, names):
            for group in ask_share_offsets(clients, part, coordinator):
                if group.error_code not in (0, errors.GROUP_ID_NOT_FOUND):
                    raise errors.by_code(group.error_code, f"asking where share group {group.group_id} is failed")
                at = (topic.topic_name for topic in group.topics if any(one.start_offset >= 0 for one in topic.partitions))
                found[group.group_id] = frozenset(at)
        return found

    return clients.patiently("asking where share groups are", ask) if names else {}


def _classic(clients: Clients, names: list[str], coordinator: int) -> dict[str, frozenset[str] | None]:
    described = clients.pure.describe_groups(names, group_coordinator_id=coordinator)
    return {name: classic_topics(described[name]) for name in names if name in described}


def classic_topics(group: Mapping[str, Any]) -> frozenset[str] | None:
    """What the members of a classic group read, by its description. While they rebalance the broker leaves out what they subscribe."""
    if group["error"] is not None:
        return None
    if group["protocol_type"] not in ("consumer", ""):
        return frozenset()
    topics: set[str] = set()
    for member in group["members"]:
        said, given = member["member_metadata"], member["member_assignment"]
        if not isinstance(said, Mapping):
            return None
        topics.update(said["topics"] or ())
        if isinstance(given, Mapping):
            topics.update(one["topic"] for one in given["assigned_partitions"] or ())
    return frozenset(topics) if topics else None


def _of_kind(clients: Clients, kind: str, names: list[str], coordinator: int) -> dict[str, frozenset[str] | None]:
    found = described_groups(clients, kind, names, coordinator)
    return dict.fromkeys(names) if found is None else {group.group_id: topics_of(group) for group in found}


def topics_of(group: Any) -> frozenset[str] | None:
    """What the members of a described group of a newer protocol read."""
    if group.error_code:
        return None
    topology = getattr(group, "topology", None)
    topics = {name for part in (topology.subtopologies or () if topology is not None else ()) for name in part.source_topics}
    for member in () if topology is not None else group.members:
        topics.update(member.subscribed_topic_names)
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            topics.update(one.topic_name for one in (assignment.topic_partitions if assignment is not None else ()))
        # A broker resolves the pattern. Before the group is stable, the assignment does not show all topics that it stands for.
        if getattr(member, "subscribed_topic_regex", None) and group.group_state != "Stable":
            return None
    return frozenset(topics) if topics else None
