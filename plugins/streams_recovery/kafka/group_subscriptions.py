"""Which topics the live members of other groups read, whatever the protocol of their group, and for which share groups the cluster keeps a position.

The client has requests for groups of the classic protocol only. Those for the others are made here from their published schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.group_listing import list_group_kinds

Schema = dict[str, Any]
# Groups that one request asks about.
_MOST: Final = 100
_STILL: Final = ("Empty", "Dead")


def _field(name: str, kind: str, fields: Iterable[Schema] = (), **more: object) -> Schema:
    return {"name": name, "type": kind, "versions": "0+", **({"fields": list(fields)} if fields else {}), **more}


def _nullable(name: str, kind: str, fields: Iterable[Schema] = ()) -> Schema:
    return _field(name, kind, fields, nullableVersions="0+", default="null")


def _message(key: int, way: str, versions: str, fields: Iterable[Schema]) -> Any:
    """A message of the protocol. The client reads the schema of a class by the class's name, so it gets a name that it has, and then this schema."""
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


def _described(key: int, versions: str, group: Iterable[Schema]) -> Any:
    """The request that describes groups of one protocol."""
    _answered(key, versions, _field("Groups", "[]DescribedGroup", group))
    asked = [_field("GroupIds", "[]string"), _field("IncludeAuthorizedOperations", "bool")]
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
    streams = [*_HEAD, _nullable("Topology", "Topology", _TOPOLOGY), _field("Members", "[]Member", _STREAMS_MEMBER), *_TAIL]
    return {
        "consumer": _described(69, "0-1", [*_HEAD, _ASSIGNOR, _field("Members", "[]Member", _CONSUMER_MEMBER), *_TAIL]),
        "share": _described(77, "0-1", [*_HEAD, _ASSIGNOR, _field("Members", "[]Member", _SHARE_MEMBER), *_TAIL]),
        "streams": _described(89, "0", streams),
    }


@cache
def _share_offsets() -> Any:
    """The request for the positions of share groups."""
    _answered(90, "0-1", _field("Groups", "[]Group", _SHARE_ANSWER))
    return _message(90, "Request", "0-1", [_field("Groups", "[]RequestGroup", _SHARE_ASKED)])


def live_subscriptions(clients: Clients, *, but: str) -> dict[str, frozenset[str] | None]:
    """The topics that live members of every other group than ``but`` subscribe or are assigned, None for a group of which the cluster does not tell: it is
    just rebalancing, or this user may not describe it. Groups without members are left out, and so are those that are not for reading topics.
    """

    def ask() -> dict[str, frozenset[str] | None]:
        live = {name: one for name, one in list_group_kinds(clients).items() if name != but and one.state not in _STILL}
        found: dict[str, frozenset[str] | None] = dict.fromkeys(live)
        for kind in sorted({one.kind for one in live.values()}):
            names = sorted(name for name, one in live.items() if one.kind == kind)
            for coordinator, part in _by_coordinator(clients, names):
                found |= _classic(clients, part, coordinator) if kind == "classic" else _of_kind(clients, kind, part, coordinator)
        # Of classic groups that are for something else, as those of Connect.
        return {name: topics for name, topics in found.items() if topics != frozenset()}

    return clients.patiently("asking which topics other groups read", ask)


def share_positions(clients: Clients, groups: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics in which the cluster keeps a position of these share groups."""
    names = sorted(groups)

    def ask() -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for coordinator, part in _by_coordinator(clients, names):
            request = _share_offsets()
            asked = [request.RequestGroup(group_id=name, topics=None) for name in part]
            answer = clients.send(request(groups=asked), coordinator)
            for group in answer.groups:
                if group.error_code not in (0, errors.GROUP_ID_NOT_FOUND):
                    raise errors.by_code(group.error_code, f"asking where share group {group.group_id} is failed")
                at = (topic.topic_name for topic in group.topics if any(one.start_offset >= 0 for one in topic.partitions))
                found[group.group_id] = frozenset(at)
        return found

    return clients.patiently("asking where share groups are", ask) if names else {}


def _by_coordinator(clients: Clients, names: list[str]) -> Iterable[tuple[int, list[str]]]:
    if not names:
        return
    where = clients.coordinators(names)
    for coordinator in sorted(set(where.values())):
        here = [name for name in names if where[name] == coordinator]
        yield from ((coordinator, here[start : start + _MOST]) for start in range(0, len(here), _MOST))


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
    request = _requests().get(kind)
    if request is None:
        return dict.fromkeys(names)
    answer = clients.send(request(group_ids=names, include_authorized_operations=False), coordinator)
    return {group.group_id: topics_of(group) for group in answer.groups}


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
