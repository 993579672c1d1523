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
from streams_recovery.core.savepoint.topology import Inventory, claimed_topics, discover, owned_role
from streams_recovery.operations.context import Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The application's topics, described, and its consumer group."""

    inventory: Inventory
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


def survey(bench: Workbench) -> Survey:
    """The application as the cluster has it. Raises ``NotFound`` for a group without offsets or declared topics that do not exist,
    ``Refused`` when not one changelog is there and state is to be saved: without any there is none.
    """
    profile = bench.config.backup.profile
    application_id = bench.application_id
    group = bench.groups.describe(application_id)
    committed = bench.groups.committed_partitions(application_id)
    if not committed:
        raise NotFound(
            f"the consumer group {application_id} has no committed offsets on this cluster",
            next_step="check application.id and the Kafka connection, and that the application has processed something",
            group=application_id,
        )
    inventory = discover(
        application_id, bench.config.declared(profile), bench.cluster.topic_names(), {tp.topic for tp in committed}, other_groups(bench)
    )
    if profile is Profile.FULL and not inventory.names(TopicRole.CHANGELOG):
        taken = "".join(f"; {one.topic} is taken for a topic of {one.group}, a consumer group" for one in inventory.claimed)
        raise Refused(
            f"{application_id} has no changelog topic on this cluster{taken}",
            next_step="check application.id; name the application's stores under `stores` in the configuration if its topics are taken for another "
            "one's; for an application without state set backup.profile to minimal",
            application_id=application_id,
        )
    return _described(bench, inventory, group)


def survey_remains(bench: Workbench, expected: Collection[str]) -> tuple[Survey, tuple[str, ...]]:
    """What is left of an application, and what is missing: offsets, and topics that are ``expected`` or declared."""
    group = bench.groups.describe(bench.application_id)
    committed = bench.groups.committed_partitions(bench.application_id)
    # What is about to be replaced is saved whole, whatever the savepoints of every day are like.
    existing, wanted = bench.cluster.topic_names(), bench.config.declared(Profile.FULL)
    changelogs = [name for name in expected if internal_role(name, bench.application_id) is TopicRole.CHANGELOG]
    there = replace(
        wanted,
        # Whoever else might claim them: they are what is replaced.
        stores={**dict.fromkeys(store_name(name, bench.application_id) for name in changelogs), **wanted.stores},
        inputs=tuple(name for name in wanted.inputs if name in existing),
        outputs=tuple(name for name in wanted.outputs if name in existing),
        globals=tuple(name for name in wanted.globals if name in existing),
    )
    inventory = discover(bench.application_id, there, existing, {tp.topic for tp in committed}, other_groups(bench))
    gone = sorted({*expected, *wanted.inputs, *wanted.outputs, *wanted.globals} - set(existing))
    missing = (*(() if committed else ("the committed offsets",)), *(f"topic {name}" for name in gone))
    return _described(bench, inventory, group), missing


def other_groups(bench: Workbench) -> list[str]:
    """Every consumer group of the cluster but the application's own: any of them may be an application whose id begins alike."""
    return [group for group in bench.cluster.groups() if group != bench.application_id]


def _described(bench: Workbench, inventory: Inventory, group: GroupDescription) -> Survey:
    topics = bench.cluster.describe_topics(inventory.names())
    vanished = sorted(set(inventory.names()) - set(topics))
    if vanished:
        raise Refused(f"topics vanished while they were described: {', '.join(vanished)}", next_step="run again", topics=vanished)
    return Survey(inventory=inventory, topics=topics, group=group)


def internal_topics(bench: Workbench) -> list[str]:
    """Every changelog and repartition topic of the application that the cluster has now, whoever knows of it."""
    stores, others = bench.config.stores, other_groups(bench)
    return sorted(name for name in bench.cluster.topic_names() if owned_role(name, bench.application_id, stores, others))


def claimed(bench: Workbench) -> tuple[ClaimedTopic, ...]:
    """Topics that ``internal_topics`` leaves out because a consumer group has a longer name that they begin with too."""
    return claimed_topics(bench.application_id, bench.config.stores, bench.cluster.topic_names(), other_groups(bench))


def repartition_partitions(bench: Workbench) -> list[TopicPartition]:
    """Every partition of the application's repartition topics."""
    names = [name for name in internal_topics(bench) if internal_role(name, bench.application_id) is TopicRole.REPARTITION]
    return [
        TopicPartition(name, number) for name, found in bench.cluster.describe_topics(names).items() for number in range(found.partitions)
    ]
