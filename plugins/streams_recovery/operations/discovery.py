"""Looking at an application's topics and group on the cluster as they are now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import (
    ClaimedTopic,
    GroupDescription,
    Profile,
    StoreKind,
    TopicDescription,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.names import internal_role, store_kind, store_name
from streams_recovery.core.savepoint.topology import Topology, claimed_topics, owned_role, topology_of
from streams_recovery.operations.context import RecoveryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The application's topics, described, and its consumer group."""

    inventory: Topology
    topics: dict[str, TopicDescription]
    group: GroupDescription

    def partitions(self, *roles: TopicRole) -> tuple[TopicPartition, ...]:
        """Every partition of the topics with one of ``roles``, or of all."""
        return tuple(
            TopicPartition(name, partition) for name in self.inventory.names(*roles) for partition in range(self.topics[name].partitions)
        )

    @property
    def to_read(self) -> tuple[TopicDescription, ...]:
        """Every topic but internal ones whose records are not archived."""
        return tuple(description for name, description in self.topics.items() if name not in self.inventory.left_out)

    def store_kind(self, topic: str, application_id: str, config: dict[str, str]) -> StoreKind | None:
        """The kind of the store behind a changelog, None for other topics. ``config`` is the topic's without our holds."""
        entry = next(entry for entry in self.inventory.topics if entry.name == topic)
        if entry.role is not TopicRole.CHANGELOG:
            return None
        return store_kind(topic, application_id, config, entry.declared_store)


def discover(recovery: RecoveryContext) -> Discovery:
    """The application as the cluster has it. Raises ``NotFound`` for a group without offsets or declared topics that do not exist,
    ``Refused`` when not one changelog is there and state is to be saved: without any there is none.
    """
    profile = recovery.config.backup.profile
    application_id = recovery.application_id
    group = recovery.groups.describe(application_id)
    committed = recovery.groups.committed_partitions(application_id)
    if not committed:
        raise NotFound(
            f"the consumer group {application_id} has no committed offsets on this cluster",
            next_step="check application.id and the Kafka connection, and that the application has processed something",
            group=application_id,
        )
    inventory = topology_of(
        application_id,
        recovery.config.declared(profile),
        recovery.cluster.topic_names(),
        {tp.topic for tp in committed},
        other_groups(recovery),
    )
    if profile is Profile.FULL and not inventory.names(TopicRole.CHANGELOG):
        taken = "".join(f"; {one.topic} is assigned to {one.group}, a consumer group" for one in inventory.claimed)
        raise Refused(
            f"{application_id} has no changelog topic on this cluster{taken}",
            next_step="check application.id; name the application's stores under `stores` in the configuration if its topics are taken for another "
            "one's; for an application without state set backup.profile to minimal",
            application_id=application_id,
            taken_by={one.topic: one.group for one in inventory.claimed},
        )
    return _described(recovery, inventory, group)


def discover_remaining(recovery: RecoveryContext, expected: Collection[str]) -> tuple[Discovery, tuple[str, ...]]:
    """What is left of an application, and what is missing: offsets, and topics that are ``expected`` or declared."""
    group = recovery.groups.describe(recovery.application_id)
    committed = recovery.groups.committed_partitions(recovery.application_id)
    # What is about to be replaced is saved whole, whatever the savepoints of every day are like.
    existing, wanted = recovery.cluster.topic_names(), recovery.config.declared(Profile.FULL)
    changelogs = [name for name in expected if internal_role(name, recovery.application_id) is TopicRole.CHANGELOG]
    there = replace(
        wanted,
        # Whoever else might claim them: they are what is replaced.
        stores={**dict.fromkeys(store_name(name, recovery.application_id) for name in changelogs), **wanted.stores},
        inputs=tuple(name for name in wanted.inputs if name in existing),
        outputs=tuple(name for name in wanted.outputs if name in existing),
        globals=tuple(name for name in wanted.globals if name in existing),
    )
    inventory = topology_of(recovery.application_id, there, existing, {tp.topic for tp in committed}, other_groups(recovery))
    gone = sorted({*expected, *wanted.inputs, *wanted.outputs, *wanted.globals} - set(existing))
    missing = (*(() if committed else ("the committed offsets",)), *(f"topic {name}" for name in gone))
    return _described(recovery, inventory, group), missing


def other_groups(recovery: RecoveryContext) -> list[str]:
    """Every consumer group of the cluster but the application's own: any of them may be an application whose id begins alike."""
    return [group for group in recovery.cluster.groups() if group != recovery.application_id]


def _described(recovery: RecoveryContext, inventory: Topology, group: GroupDescription) -> Discovery:
    topics = recovery.cluster.describe_topics(inventory.names())
    vanished = sorted(set(inventory.names()) - set(topics))
    if vanished:
        raise Refused(f"topics vanished while they were described: {', '.join(vanished)}", next_step="run again", topics=vanished)
    return Discovery(inventory=inventory, topics=topics, group=group)


def internal_topics(recovery: RecoveryContext) -> list[str]:
    """Every changelog and repartition topic of the application that the cluster has now, whoever knows of it."""
    stores, others = recovery.config.stores, other_groups(recovery)
    return sorted(name for name in recovery.cluster.topic_names() if owned_role(name, recovery.application_id, stores, others))


def own_names(recovery: RecoveryContext) -> set[str]:
    """Names that a sandbox may make and remove: its internal topics that are there, and those that its configuration maps topics to. They follow from its
    application id and its configuration, never from what the repository says.
    """
    return {*internal_topics(recovery), *recovery.config.restore.topic_map.values()}


def known_topics(recovery: RecoveryContext, names: Collection[str]) -> set[str]:
    """Those of ``names``, which the repository says, that are topics of the application: internal, named in the configuration, or read by its group."""
    known = {*recovery.config.topics.declared, *recovery.config.restore.topic_map.values()}
    known |= {name for name in names if internal_role(name, recovery.application_id) is not None}
    if not known.issuperset(names):
        known |= {tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)}
    return known.intersection(names)


def claimed(recovery: RecoveryContext) -> tuple[ClaimedTopic, ...]:
    """Topics that ``internal_topics`` leaves out because a consumer group has a longer name that they begin with too."""
    return claimed_topics(recovery.application_id, recovery.config.stores, recovery.cluster.topic_names(), other_groups(recovery))


def repartition_partitions(recovery: RecoveryContext) -> list[TopicPartition]:
    """Every partition of the application's repartition topics."""
    names = [name for name in internal_topics(recovery) if internal_role(name, recovery.application_id) is TopicRole.REPARTITION]
    return [
        TopicPartition(name, number)
        for name, found in recovery.cluster.describe_topics(names).items()
        for number in range(found.partitions)
    ]
