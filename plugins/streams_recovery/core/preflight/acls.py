"""The minimum permissions that a savepoint and a restore need, each with the step that would fail without it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.preflight.permissions import (
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    WRITE,
    Operations,
    RequiredAcl,
    ResourceKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInUse:
    """A topic that a run uses. ``archived``: its records are read. ``compacted``: the log cleaner must be stopped. ``made``: a restore creates and
    loads it.
    """

    name: str
    role: TopicRole
    archived: bool
    compacted: bool
    made: bool = False


def backup_needs(application_id: str, topics: Iterable[TopicInUse], *, stops: bool, transactional: bool) -> tuple[RequiredAcl, ...]:
    """Permissions for a savepoint. ``stops``: the application may be stopped for it. ``transactional``: the application is exactly-once."""
    return (
        *(_topic_need(application_id, topic, _backup_operations(topic), "to read records, offsets and settings") for topic in topics),
        _group(application_id, {DESCRIBE, READ} if stops else {DESCRIBE}, "to read offsets" + (", and to remove members" if stops else "")),
        *_common(application_id, transactional=stops and transactional),
    )


def restore_needs(application_id: str, topics: Iterable[TopicInUse], *, transactional: bool) -> tuple[RequiredAcl, ...]:
    """Permissions for a restore in place. ``archived`` and ``compacted`` of ``topics`` are for its safety savepoint."""
    return (
        *(
            _topic_need(
                application_id, topic, _restore_operations(topic), "to make it anew" if topic.made else "to see it and set its offsets"
            )
            for topic in topics
        ),
        _group(application_id, {DESCRIBE, READ}, "to set offsets, and to remove members"),
        *_common(application_id, transactional=transactional),
    )


def _backup_operations(topic: TopicInUse) -> Operations:
    wanted = {DESCRIBE, DESCRIBE_CONFIGS}
    if topic.archived:
        wanted.add(READ)
    if topic.compacted:
        wanted.add(ALTER_CONFIGS)
    return frozenset(wanted)


def _restore_operations(topic: TopicInUse) -> Operations:
    if topic.made:
        return frozenset({DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, CREATE, DELETE, READ, WRITE})
    # Kafka requires Read on a topic to commit offsets on it.
    return _backup_operations(topic) | ({READ} if topic.role is TopicRole.INPUT else frozenset())


def _topic_need(application_id: str, topic: TopicInUse, operations: Operations, why: str) -> RequiredAcl:
    internal = topic.role.internal
    return RequiredAcl(
        kind=ResourceKind.TOPIC,
        name=topic.name,
        operations=operations,
        why=why,
        advised=f"{application_id}-" if internal else topic.name,
        prefixed=internal,
    )


def _group(application_id: str, operations: set[str], why: str) -> RequiredAcl:
    return RequiredAcl(kind=ResourceKind.GROUP, name=application_id, operations=frozenset(operations), why=why, advised=application_id)


def _common(application_id: str, *, transactional: bool) -> tuple[RequiredAcl, ...]:
    cluster = RequiredAcl(
        kind=ResourceKind.CLUSTER,
        name="",
        operations=frozenset({DESCRIBE_CONFIGS}),
        why="to read brokers' defaults",
        advised="",
    )
    others = RequiredAcl(
        kind=ResourceKind.CLUSTER,
        name="",
        operations=frozenset({DESCRIBE}),
        why="to see other groups: one whose id begins like this application's owns topics that look like this application's",
        advised="",
        blocking=False,
    )
    if not transactional:
        return cluster, others
    transactions = RequiredAcl(
        kind=ResourceKind.TRANSACTIONAL_ID,
        name=f"{application_id}-",
        operations=frozenset({DESCRIBE}),
        why="to see transactions that are still open: without it none is seen, open or not",
        advised=f"{application_id}-",
        prefixed=True,
    )
    return cluster, others, transactions
