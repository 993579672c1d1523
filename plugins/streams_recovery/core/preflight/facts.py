"""Facts that a preflight check has read: the cluster, its topics and the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicRole

MIN_IN_SYNC, UNCLEAN, TIMESTAMP_TYPE, MAX_MESSAGE = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.timestamp.type",
    "max.message.bytes",
)
AUTO_CREATE = "auto.create.topics.enable"
# The broker setting that applies to a topic without an override.
BROKER_DEFAULTS = {
    MIN_IN_SYNC: MIN_IN_SYNC,
    UNCLEAN: UNCLEAN,
    TIMESTAMP_TYPE: "log.message.timestamp.type",
    MAX_MESSAGE: "message.max.bytes",
}
LOG_APPEND = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """``brokers`` counts running brokers. ``settings`` are broker settings, empty if they cannot be read. ``metadata_level`` is the highest level of
    ``metadata.version`` that the broker supports, which shows its release; None if the broker does not report it.
    """

    brokers: int
    settings: Mapping[str, str]
    metadata_level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """An existing topic. ``settings`` are the effective settings, including defaults; empty if they cannot be read."""

    name: str
    role: TopicRole
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """``application_id`` is that of the target. ``group_kind`` is as in ``GroupDescription``. ``client_ids`` are those of the group's members,
    ``instances`` those that are not stopped.
    """

    application_id: str
    group_kind: str
    client_ids: tuple[str, ...]
    instances: tuple[str, ...]
