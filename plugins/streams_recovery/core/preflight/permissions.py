"""Compares the permissions that a Kafka user needs for a savepoint or a restore with those it has, and makes the commands that grant the missing ones.

Each need is the minimum, with the step that would fail without it. Operations have the names of the Kafka protocol, such as ``DESCRIBE_CONFIGS``. Some
operations imply others. A broker's answer about a user's permissions includes the implied ones.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity, warning
from streams_recovery.core.remedies.access import SEE_GROUPS, compare_rights, grant
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.words import first_names

DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"
READ, WRITE, CREATE, DELETE = "READ", "WRITE", "CREATE", "DELETE"

# Operations that these imply (StandardAuthorizerData).
_IMPLIED = {READ: DESCRIBE, WRITE: DESCRIBE, DELETE: DESCRIBE, ALTER_CONFIGS: DESCRIBE_CONFIGS}

Operations = frozenset[str]
# What changes nothing, whosever topic it is.
LOOKING: Operations = frozenset({DESCRIBE, DESCRIBE_CONFIGS})
# None: the cluster has no authorizer, or does not report permissions.
Answer = Operations | None


class ResourceKind(enum.StrEnum):
    """The kind of resource, as the option of ``kafka-acls.sh`` that names it."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredAcl:
    """Operations that are needed on one resource, and the reason. ``advised`` is the name to grant them on; it is a prefix when ``prefixed``.
    Permissions on internal topics are granted on a prefix, so that they include future topics. A need that is not ``blocking`` gives only a warning.
    """

    kind: ResourceKind
    name: str
    operations: Operations
    why: str
    advised: str
    prefixed: bool = False
    blocking: bool = True


def perhaps_compacted(name: str) -> RequiredAcl:
    """What is needed on a topic whose settings cannot be seen."""
    why = "if it is compacted, which cannot be seen: to keep the log cleaner away"
    operations = frozenset({ALTER_CONFIGS})
    return RequiredAcl(kind=ResourceKind.TOPIC, name=name, operations=operations, why=why, advised=name, blocking=False)


def see_all(application_id: str, probe: str, *, blocking: bool) -> RequiredAcl:
    """To see all internal topics, of which ``probe`` could be one. ``blocking``: no changelog is seen, and each is granted by its name."""
    return RequiredAcl(
        kind=ResourceKind.TOPIC,
        name=probe,
        operations=frozenset({DESCRIBE}),
        why="to see every internal topic: one that cannot be seen would be missing from the savepoint without a word",
        advised=f"{application_id}-",
        prefixed=True,
        blocking=blocking,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The permissions of a connection's user. None means that the cluster does not report them. ``transactional_ids``: the user can see those of the
    application. ``cluster_readable``: the user can read broker settings. Without Describe on the cluster, the broker reports no other permission on
    it.
    """

    principal: str
    bootstrap_servers: str
    topics: Mapping[str, Answer]
    group: Answer
    cluster: Answer
    cluster_readable: bool
    transactional_ids: bool

    def allowed(self, need: RequiredAcl) -> Answer:
        """The operations that are allowed on the resource of ``need``."""
        if need.kind is ResourceKind.TOPIC:
            own = self.topics.get(need.name, frozenset())
            # Create may also be allowed on the whole cluster.
            return own | {CREATE} if own is not None and CREATE in (self.cluster or ()) else own
        if need.kind is ResourceKind.GROUP:
            return self.group
        if need.kind is ResourceKind.TRANSACTIONAL_ID:
            return frozenset({DESCRIBE}) if self.transactional_ids else frozenset()
        return None if self.cluster is None else self.cluster | ({DESCRIBE_CONFIGS} if self.cluster_readable else frozenset())


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


def backup_needs(
    application_id: str, topics: Iterable[TopicInUse], *, stops: bool, transactional: bool, shared: bool = False
) -> tuple[RequiredAcl, ...]:
    """Permissions for a savepoint. ``stops``: the application may be stopped for it. ``transactional``: the application is exactly-once. ``shared``: another
    application's id begins like this one's, and so do its topics, so rights to read or change are on full names.
    """
    why = "to read records, offsets and settings"
    return (
        *(_topic_need(application_id, topic, _backup_operations(topic), why, shared=shared) for topic in topics),
        _group(application_id, {DESCRIBE, READ} if stops else {DESCRIBE}, "to read offsets" + (", and to remove members" if stops else "")),
        *_common(application_id, transactional=stops and transactional),
    )


def restore_needs(
    application_id: str, topics: Iterable[TopicInUse], *, transactional: bool, shared: bool = False
) -> tuple[RequiredAcl, ...]:
    """Permissions for a restore in place. ``archived`` and ``compacted`` of ``topics`` are for its safety savepoint. ``shared`` is as for a savepoint."""
    return (
        *(
            _topic_need(
                application_id,
                topic,
                _restore_operations(topic),
                "to make it anew" if topic.made else "to see it and set its offsets",
                shared=shared,
            )
            for topic in topics
        ),
        _group(application_id, {DESCRIBE, READ}, "to set offsets, and to remove members"),
        *_common(application_id, transactional=transactional),
    )


def missing(needs: Iterable[RequiredAcl], rights: Rights) -> tuple[PreflightFinding, ...]:
    """Every missing permission, each with the command that grants it, and a warning if the cluster does not report permissions."""
    # One command for each prefix. Topics that are granted by name share a command if they lack the same operations.
    lacking: dict[tuple[object, ...], tuple[list[RequiredAcl], Operations]] = {}
    untold: list[str] = []
    for need in needs:
        allowed = rights.allowed(need)
        if allowed is None:
            untold.append(f"{need.kind} {need.name}".strip())
        elif lacks := need.operations - allowed:
            group = (need.kind, need.blocking, need.advised if need.prefixed else lacks)
            known, operations = lacking.get(group, ([], frozenset()))
            lacking[group] = ([*known, need], operations | lacks)
    found = [_finding(needed, operations, rights) for needed, operations in lacking.values()]
    if untold:
        text = f"the cluster does not tell what {rights.principal} may do with {first_names(untold)}"
        found.append(warning("acl", text, compare_rights()))
    return tuple(found)


def least(operations: Operations) -> Operations:
    """The fewest operations to grant so that all of these are allowed."""
    return operations - {_IMPLIED[operation] for operation in operations & _IMPLIED.keys()}


def acl_text(operation: str) -> str:
    """An operation as ``kafka-acls.sh`` spells it."""
    return "".join(word.capitalize() for word in operation.split("_"))


def _finding(needs: list[RequiredAcl], operations: Operations, rights: Rights) -> PreflightFinding:
    first, operations = needs[0], least(operations)
    names = ["the cluster"] if first.kind is ResourceKind.CLUSTER else [need.name for need in needs]
    reasons = "; ".join(dict.fromkeys(need.why for need in needs))
    advised = dict.fromkeys(need.advised for need in needs)
    # A principal that may describe every group sees each application whose id begins like this one's. To look at such topics does no harm.
    proven = operations <= LOOKING or DESCRIBE in (rights.cluster or ())
    remedy = grant(
        KafkaTools(rights.bootstrap_servers, secured=True),
        rights.principal,
        first.kind,
        advised,
        map(acl_text, operations),
        prefixed=first.prefixed,
        proven=proven,
    )
    condition = f". {remedy.sentence}" if remedy.kind is SEE_GROUPS else ""
    what = "" if first.kind is ResourceKind.CLUSTER else f"{first.kind} "
    return PreflightFinding(
        severity=PreflightSeverity.BLOCKING if first.blocking else PreflightSeverity.WARNING,
        kind="acl",
        text=f"{rights.principal} lacks {', '.join(map(acl_text, sorted(operations)))} on {what}{first_names(names)} ({reasons}){condition}",
        remedy=remedy,
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


def _topic_need(application_id: str, topic: TopicInUse, operations: Operations, why: str, *, shared: bool) -> RequiredAcl:
    internal = topic.role.internal and not shared
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
        kind=ResourceKind.CLUSTER, name="", operations=frozenset({DESCRIBE_CONFIGS}), why="to read brokers' defaults", advised=""
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
