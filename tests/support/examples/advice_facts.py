"""Facts about which no rule has anything to say, to change one thing of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams_recovery.core.checks.facts import AdviceFacts, BrokerFacts, TopicFacts
from streams_recovery.core.kafka_types import Guarantee, StoreKind, TopicRole
from streams_recovery.core.remedies.remedy import KafkaTools

_ALL = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
_REPLICAS = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
CHANGELOG = TopicFacts(
    name="orders-totals-changelog",
    role=TopicRole.CHANGELOG,
    archived=True,
    settings=_ALL
    | {"cleanup.policy": "compact", "delete.retention.ms": "86400000", "min.compaction.lag.ms": "0", "segment.bytes": "1073741824"},
    overrides=frozenset({"cleanup.policy"}),
    offsets=(1_000, 1_000, 1_000),
    replicas=_REPLICAS,
    store=StoreKind.KEY_VALUE,
    held=False,
    attributed=True,
)
REPARTITION = TopicFacts(
    name="orders-by-item-repartition",
    role=TopicRole.REPARTITION,
    archived=True,
    settings=_ALL | {"cleanup.policy": "delete", "retention.ms": "-1"},
    overrides=frozenset({"cleanup.policy", "retention.ms"}),
    offsets=(10, 10, 10),
    replicas=_REPLICAS,
    store=StoreKind.UNKNOWN,
    held=False,
    attributed=True,
)
INPUT = TopicFacts(
    name="orders",
    role=TopicRole.INPUT,
    archived=False,
    settings=_ALL | {"cleanup.policy": "delete", "retention.ms": "604800000"},
    overrides=frozenset({"cleanup.policy", "retention.ms"}),
    offsets=(5_000, 5_000, 5_000),
    replicas=_REPLICAS,
    store=StoreKind.UNKNOWN,
    held=False,
    attributed=True,
)
GOOD = AdviceFacts(
    application_id="orders",
    tools=KafkaTools("broker-1:9092", secured=True),
    topics=(CHANGELOG, REPARTITION, INPUT),
    unreadable=(),
    brokers=BrokerFacts(
        racks={1: None, 2: None, 3: None},
        settings={
            "auto.create.topics.enable": "false",
            "offsets.retention.minutes": "10080",
            "log.cleaner.enable": "true",
            "transaction.max.timeout.ms": "900000",
        },
        metadata_level=30,
    ),
    survives=False,
    interval_seconds=3600.0,
    down_seconds=None,
    guarantee=Guarantee.EXACTLY_ONCE_V2,
    commit_interval_ms=100,
    capture_seconds=120.0,
    standbys=0,
    pauses=True,
    session_timeout_ms=45_000,
    group_kind="classic",
    state_directories=("/var/lib/orders",),
    streams={"acceptable.recovery.lag": str(2**63 - 1)},
    deletes_read=True,
)


def with_topic(topic: TopicFacts, *, offsets: tuple[int, ...] | None = None, replicas: int | None = None, **settings: str) -> AdviceFacts:
    """``GOOD`` with ``topic`` changed in this. Settings have underscores for dots."""
    changed = replace(
        topic,
        settings=dict(topic.settings) | {name.replace("_", "."): value for name, value in settings.items()},
        offsets=topic.offsets if offsets is None else offsets,
        replicas=topic.replicas if replicas is None else tuple(brokers[:replicas] for brokers in topic.replicas),
    )
    return replace(GOOD, topics=tuple(changed if one is topic else one for one in GOOD.topics))


def with_facts(**facts: Any) -> AdviceFacts:
    """``GOOD`` with other facts."""
    return replace(GOOD, **facts)


def with_broker(**settings: str) -> AdviceFacts:
    """``GOOD`` with other settings of the brokers. They have underscores for dots."""
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    return replace(GOOD, brokers=replace(GOOD.brokers, settings=dict(GOOD.brokers.settings) | changed))
