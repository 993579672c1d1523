"""Requests for groups of the newer protocols, made here from their published schemas: the client has them for groups of the classic protocol only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from streams_recovery.kafka.clients import Clients

Schema = dict[str, Any]
# Protocols whose groups these requests describe.
DESCRIBED: Final = ("consumer", "share", "streams")
# Groups that one request asks about.
_MOST: Final = 100


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


def _description(key: int, versions: str, group: Iterable[Schema]) -> Any:
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
        "consumer": _description(69, "0-1", [*_HEAD, _ASSIGNOR, _field("Members", "[]Member", _CONSUMER_MEMBER), *_TAIL]),
        "share": _description(77, "0-1", [*_HEAD, _ASSIGNOR, _field("Members", "[]Member", _SHARE_MEMBER), *_TAIL]),
        "streams": _description(89, "0", streams),
    }


@cache
def _share_offsets() -> Any:
    """The request for the positions of share groups."""
    _answered(90, "0-1", _field("Groups", "[]Group", _SHARE_ANSWER))
    return _message(90, "Request", "0-1", [_field("Groups", "[]RequestGroup", _SHARE_ASKED)])


def by_coordinator(clients: Clients, names: list[str]) -> Iterable[tuple[int, list[str]]]:
    """These groups with the broker that coordinates them, no more at once than one request may name."""
    if not names:
        return
    where = clients.coordinators(names)
    for coordinator in sorted(set(where.values())):
        here = [name for name in names if where[name] == coordinator]
        yield from ((coordinator, here[start : start + _MOST]) for start in range(0, len(here), _MOST))


def described_groups(clients: Clients, kind: str, names: list[str], coordinator: int) -> list[Any] | None:
    """What their coordinator says of groups of one protocol. None for a protocol without such a request here. Each has its own ``error_code``."""
    request = _requests().get(kind)
    if request is None:
        return None
    return list(clients.send(request(group_ids=names, include_authorized_operations=False), coordinator).groups)


def ask_share_offsets(clients: Clients, names: list[str], coordinator: int) -> list[Any]:
    """What their coordinator says of the positions of share groups."""
    request = _share_offsets()
    asked = [request.RequestGroup(group_id=name, topics=None) for name in names]
    return list(clients.send(request(groups=asked), coordinator).groups)
