"""Gathers what checks are asked of: an application's topics with the settings in force, and the brokers. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_recovery.core.checks.facts import BrokerFacts, Facts, TopicFacts
from streams_recovery.core.kafka_types import StoreKind, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.names import store_kind, store_name
from streams_recovery.core.savepoint.topology import Attribution
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.operations.context import RecoveryContext


def topic_facts(
    recovery: RecoveryContext,
    roles: Mapping[str, TopicRole],
    described: Mapping[str, TopicDescription],
    whose: Mapping[str, Attribution],
    *,
    sizes: bool = False,
) -> dict[str, TopicFacts]:
    """The topics that are ``described``, by name, with ``roles`` and ``whose`` they are. ``sizes``: also the offsets in their logs."""
    settings, replicas = recovery.cluster.settings(described), recovery.cluster.replicas(described)
    partitions = {name: [TopicPartition(name, number) for number in range(found.partitions)] for name, found in described.items()}
    every = [tp for several in partitions.values() for tp in several] if sizes else []
    starts = recovery.cluster.log_starts(every) if every else {}
    ends = recovery.cluster.high_watermarks(every) if every else {}
    declared, me = recovery.config.declared(recovery.config.backup.profile, roles), recovery.config.application.id

    def one(name: str, role: TopicRole, raw: Mapping[str, str]) -> TopicFacts:
        own = owner_config(raw)
        kind = recovery.config.store_kind(store_name(name, me))
        return TopicFacts(
            name=name,
            role=role,
            store=store_kind(name, me, own, kind) if role is TopicRole.CHANGELOG else StoreKind.UNKNOWN,
            held=own != raw,
            attributed=not role.internal or (name in whose and whose[name].evidence is not None),
            replicas=tuple(replicas.get(tp, ()) for tp in partitions[name]),
            settings=owner_config(settings[name]),
            overrides=frozenset(own),
            archived=declared.archives(name, role),
            offsets=tuple(max(0, ends[tp] - starts[tp]) for tp in partitions[name]) if sizes else (),
        )

    return {name: one(name, roles[name], found.config) for name, found in described.items()}


def facts_of(recovery: RecoveryContext, brokers: BrokerFacts, topics: Iterable[TopicFacts]) -> Facts:
    """The topics as checks get them."""
    return Facts(
        tools=recovery.connection.tools,
        topics=tuple(topics),
        brokers=brokers,
        survives=recovery.config.backup.survive_cluster_loss,
        archived_alone_seconds=recovery.config.archived_alone_seconds,
    )
