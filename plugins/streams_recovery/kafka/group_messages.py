"""The groups of a cluster: their kinds, their members, the topics that members read, and the positions of share groups.

Only a listing knows the kind of a group: a client that asks for it in the words of another protocol is told that it is dead and has no members.
The client has requests for groups of the classic protocol only. Those for the newer protocols are made here from their published schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from confluent_kafka import ConsumerGroupState
from kafka.protocol.api_message import ApiMessage

from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.core.kafka_types import GroupDescription, GroupMember, ListedGroup, TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients

Schema = dict[str, Any]
# Groups that one request asks about.
_MOST: Final = 100
# States of a group without members.
_STILL: Final = ("Empty", "Dead")
# The broker's words, in place of those the client made of them.
_STATES: Final = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}


def _field(name: str, kind: str, fields: Iterable[Schema] = (), **more: object) -> Schema:
    return {"name": name, "type": kind, "versions": "0+", **({"fields": list(fields)} if fields else {}), **more}


def _nullable(name: str, kind: str, fields: Iterable[Schema] = ()) -> Schema:
    return _field(name, kind, fields, nullableVersions="0+", default="null")


def _message(key: int, way: str, versions: str, fields: Iterable[Schema]) -> Any:
    """A message of the protocol. The client finds the schema of a class by the class's name, so the class is created with a name that the client knows, and
    then gets this schema.
    """
    known = f"DescribeGroups{way}"
    schema = {
        "apiKey": key,
        "type": way.lower(),
        "name": known,
        "validVersions": versions,
        "flexibleVersions": "0+",
        "fields": list(fields),
    }

    def ours(_cls: object, _theirs: object) -> Schema:
        return schema

    return type(ApiMessage)(known, (ApiMessage,), {"json_patch": classmethod(ours), "__module__": __name__})


# The client finds the answer to a request by its key, and keeps none alive.
_ANSWERS: Final[list[Any]] = []


def _answered(key: int, versions: str, *fields: Schema) -> None:
    _ANSWERS.append(_message(key, "Response", versions, [_field("ThrottleTimeMs", "int32"), *fields]))


def _description(key: int, versions: str, group: Iterable[Schema], *more: Schema) -> Any:
    """The request that describes groups of one protocol."""
    _answered(key, versions, _field("Groups", "[]DescribedGroup", group))
    asked = [_field("GroupIds", "[]string"), _field("IncludeAuthorizedOperations", "bool"), *more]
    return _message(key, "Request", versions, asked)


_TEXTS = [_field("Key", "string"), _field("Value", "string")]
_ASSIGNED = [
    _field(
        "TopicPartitions", "[]TopicPartitions", [_field("TopicId", "uuid"), _field("TopicName", "string"), _field("Partitions", "[]int32")]
    )
]
_HEAD = [
    _field("ErrorCode", "int16"),
    _nullable("ErrorMessage", "string"),
    _field("GroupId", "string"),
    _field("GroupState", "string"),
    _field("GroupEpoch", "int32"),
    _field("AssignmentEpoch", "int32"),
]
_TAIL = [_field("AuthorizedOperations", "int32", default="-2147483648")]
_CLIENT = [_field("ClientId", "string"), _field("ClientHost", "string")]
_CONSUMER_MEMBER = [
    _field("MemberId", "string"),
    _nullable("InstanceId", "string"),
    _nullable("RackId", "string"),
    _field("MemberEpoch", "int32"),
    *_CLIENT,
    _field("SubscribedTopicNames", "[]string"),
    _nullable("SubscribedTopicRegex", "string"),
    _field("Assignment", "Assignment", _ASSIGNED),
    _field("TargetAssignment", "Assignment", _ASSIGNED),
    {**_field("MemberType", "int8", default="-1"), "versions": "1+"},
]
_SHARE_MEMBER = [
    _field("MemberId", "string"),
    _nullable("RackId", "string"),
    _field("MemberEpoch", "int32"),
    *_CLIENT,
    _field("SubscribedTopicNames", "[]string"),
    _field("Assignment", "Assignment", _ASSIGNED),
]
_TOPIC_INFO = [
    _field("Name", "string"),
    _field("Partitions", "int32"),
    _field("ReplicationFactor", "int16"),
    _field("TopicConfigs", "[]KeyValue", _TEXTS),
]
_TOPOLOGY = [
    _field("Epoch", "int32"),
    _nullable(
        "Subtopologies",
        "[]Subtopology",
        [
            _field("SubtopologyId", "string"),
            _field("SourceTopics", "[]string"),
            _field("RepartitionSinkTopics", "[]string"),
            _field("StateChangelogTopics", "[]TopicInfo", _TOPIC_INFO),
            _field("RepartitionSourceTopics", "[]TopicInfo", _TOPIC_INFO),
        ],
    ),
]
_TASK_OFFSETS = [_field("SubtopologyId", "string"), _field("Partition", "int32"), _field("Offset", "int64")]
_TASK_IDS = [_field("SubtopologyId", "string"), _field("Partitions", "[]int32")]
_TASKS = [_field(name, "[]TaskIds", _TASK_IDS) for name in ("ActiveTasks", "StandbyTasks", "WarmupTasks")]
_STREAMS_MEMBER = [
    _field("MemberId", "string"),
    _field("MemberEpoch", "int32"),
    _nullable("InstanceId", "string"),
    _nullable("RackId", "string"),
    *_CLIENT,
    _field("TopologyEpoch", "int32"),
    _field("ProcessId", "string"),
    _nullable("UserEndpoint", "Endpoint", [_field("Host", "string"), _field("Port", "uint16")]),
    _field("ClientTags", "[]KeyValue", _TEXTS),
    _field("TaskOffsets", "[]TaskOffset", _TASK_OFFSETS),
    _field("TaskEndOffsets", "[]TaskOffset", _TASK_OFFSETS),
    _field("Assignment", "Assignment", _TASKS),
    _field("TargetAssignment", "Assignment", _TASKS),
    _field("IsClassic", "bool"),
]
_ASSIGNOR = _field("AssignorName", "string")
# What a broker with a plugin for it tells of a topology (KIP-1331), since version 1 of the message.
_LATER: Final[dict[str, Any]] = {"versions": "1+"}
_NODE = [
    _field("Name", "string", **_LATER),
    _field("NodeType", "int8", **_LATER),
    _field("SourceTopics", "[]string", **_LATER),
    _field("SinkTopic", "string", nullableVersions="1+", default="null", **_LATER),
    _field("Stores", "[]string", **_LATER),
    _field("Successors", "[]string", **_LATER),
]
_PART = [_field("SubtopologyId", "string", **_LATER), _field("Nodes", "[]TopologyDescriptionNode", _NODE, **_LATER)]
_GLOBAL = [_field(name, "TopologyDescriptionNode", _NODE, **_LATER) for name in ("Source", "Processor")]
_DESCRIBED = [
    _field("Subtopologies", "[]TopologyDescriptionSubtopology", _PART, **_LATER),
    _field("GlobalStores", "[]TopologyDescriptionGlobalStore", _GLOBAL, **_LATER),
]
_OF_LATER = [
    _field("TopologyDescription", "TopologyDescription", _DESCRIBED, nullableVersions="1+", default="null", **_LATER),
    _field("TopologyDescriptionStatus", "int8", default="0", **_LATER),
    _field("AssignorName", "string", nullableVersions="1+", default="null", ignorable=True, **_LATER),
]
_ASKED_LATER = _field("IncludeTopologyDescription", "bool", default="false", ignorable=True, **_LATER)
_SHARE_POSITION = [
    _field("PartitionIndex", "int32"),
    _field("StartOffset", "int64"),
    _field("LeaderEpoch", "int32"),
    {**_field("Lag", "int64", default="-1"), "versions": "1+"},
    _field("ErrorCode", "int16"),
    _nullable("ErrorMessage", "string"),
]
_SHARE_TOPIC = [_field("TopicName", "string"), _field("TopicId", "uuid"), _field("Partitions", "[]Partition", _SHARE_POSITION)]
_SHARE_ANSWER = [
    _field("GroupId", "string"),
    _field("Topics", "[]Topic", _SHARE_TOPIC),
    _field("ErrorCode", "int16"),
    _nullable("ErrorMessage", "string"),
]
_SHARE_ASKED = [
    _field("GroupId", "string"),
    _nullable("Topics", "[]RequestTopic", [_field("TopicName", "string"), _field("Partitions", "[]int32")]),
]


@cache
def _requests() -> Mapping[str, Any]:
    """The requests that describe groups, by protocol. Made when first needed: every task imports this module, and few of them ask."""
    streams = [*_HEAD, _nullable("Topology", "Topology", _TOPOLOGY), _field("Members", "[]Member", _STREAMS_MEMBER), *_TAIL, *_OF_LATER]
    return {
        "consumer": _description(69, "0-1", [*_HEAD, _ASSIGNOR, _field("Members", "[]Member", _CONSUMER_MEMBER), *_TAIL]),
        "share": _description(77, "0-1", [*_HEAD, _ASSIGNOR, _field("Members", "[]Member", _SHARE_MEMBER), *_TAIL]),
        "streams": _description(89, "0-1", streams, _ASKED_LATER),
    }


@cache
def _share_offsets() -> Any:
    """The request for the positions of share groups."""
    _answered(90, "0-1", _field("Groups", "[]Group", _SHARE_ANSWER))
    return _message(90, "Request", "0-1", [_field("Groups", "[]RequestGroup", _SHARE_ASKED)])


def _by_coordinator(clients: Clients, names: list[str]) -> Iterable[tuple[int, list[str]]]:
    """These groups with the broker that coordinates them, no more at once than one request may name."""
    if not names:
        return
    where = clients.coordinators(names)
    for coordinator in sorted(set(where.values())):
        here = [name for name in names if where[name] == coordinator]
        yield from ((coordinator, here[start : start + _MOST]) for start in range(0, len(here), _MOST))


def _described_groups(clients: Clients, kind: str, names: list[str], coordinator: int, **more: bool) -> list[Any] | None:
    """Groups of one protocol as their coordinator describes them, each with its own ``error_code``. None for a protocol without such a request here."""
    request = _requests().get(kind)
    if request is None:
        return None
    return list(clients.send(request(group_ids=names, include_authorized_operations=False, **more), coordinator).groups)


def _ask_share_offsets(clients: Clients, names: list[str], coordinator: int) -> list[Any]:
    """The positions of share groups, as their coordinator tells them."""
    request = _share_offsets()
    asked = [request.RequestGroup(group_id=name, topics=None) for name in names]
    return list(clients.send(request(groups=asked), coordinator).groups)


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
    """One group with its members. The listing's state is kept for kinds that no request here describes, and for states that no client knows."""
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
    found = clients.patiently(f"describing group {group_id}", lambda: message_of(clients, "streams", group_id))
    parts = subtopologies(found)
    return frozenset(name for part in parts for name in part.source_topics) if parts else None


def _described(clients: Clients, group_id: str, listed: ListedGroup) -> GroupDescription:
    found = clients.librdkafka.describe_consumer_groups([group_id], request_timeout=clients.attempt_timeout)[group_id].result()
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
    found = message_of(clients, listed.kind, group_id)
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


def message_of(clients: Clients, kind: str, group_id: str, **more: bool) -> Any:
    """The coordinator's description. None for a kind without such a request, for a group that is gone since it was listed, and for a group with a topic that
    this user may not see: then the coordinator tells nothing of the group.
    """
    for coordinator, names in _by_coordinator(clients, [group_id] if kind in _requests() else []):
        for found in _described_groups(clients, kind, names, coordinator, **more) or ():
            if found.error_code not in (0, errors.GROUP_ID_NOT_FOUND, errors.TOPIC_AUTHORIZATION_FAILED):
                name = errors.name_of(found.error_code)
                raise errors.by_code(found.error_code, f"describing group {group_id} failed: {name} {found.error_message or ''}".rstrip())
            return found if found.error_code == 0 else None
    return None


def subtopologies(found: Any) -> list[Any]:
    """Parts of the topology of a described group; none where it has no topology, or there is no description."""
    topology = getattr(found, "topology", None)
    return list(topology.subtopologies or ()) if topology is not None else []


def _assigned(found: Any, member: Any) -> Iterator[TopicPartition]:
    """Partitions that a member reads. A task of Kafka Streams reads its partition of every topic that its part of the topology reads."""
    if not hasattr(member.assignment, "active_tasks"):
        yield from (TopicPartition(one.topic_name, number) for one in member.assignment.topic_partitions for number in one.partitions)
        return
    read = {
        part.subtopology_id: {*part.source_topics, *(topic.name for topic in part.repartition_source_topics)}
        for part in subtopologies(found)
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
    if described is None or (described in _STILL and listed not in ("", *_STILL)):
        return listed
    return described


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
    """The topics that live members of one group subscribe or are assigned, also those that this user may not see; None if the cluster does not tell. Empty for
    a group without members.
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
        for coordinator, part in _by_coordinator(clients, names):
            found |= _classic(clients, part, coordinator) if kind == "classic" else _of_kind(clients, kind, part, coordinator)
    return found


def share_positions(clients: Clients, groups: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics in which the cluster keeps a position of these share groups."""
    names = sorted(groups)

    def ask() -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for coordinator, part in _by_coordinator(clients, names):
            for group in _ask_share_offsets(clients, part, coordinator):
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
    """The topics that the members of a classic group read, by its description. While they rebalance the broker leaves out what they subscribe."""
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
    found = _described_groups(clients, kind, names, coordinator)
    return dict.fromkeys(names) if found is None else {group.group_id: topics_of(group) for group in found}


def topics_of(group: Any) -> frozenset[str] | None:
    """The topics that the members of a described group of a newer protocol read."""
    if group.error_code:
        return None
    topics = {name for part in subtopologies(group) for name in part.source_topics}
    for member in group.members if getattr(group, "topology", None) is None else ():
        topics.update(member.subscribed_topic_names)
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            topics.update(one.topic_name for one in (assignment.topic_partitions if assignment is not None else ()))
        # A broker resolves the pattern. Before the group is stable, the assignment does not show all topics that it stands for.
        if getattr(member, "subscribed_topic_regex", None) and group.group_state != "Stable":
            return None
    return frozenset(topics) if topics else None
