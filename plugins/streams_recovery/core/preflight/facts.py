"""What a preflight has looked up, without a judgement: the cluster, its topics and the application."""

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
# What a topic without an override has, by the name of the broker's setting.
BROKER_DEFAULTS = {
    MIN_IN_SYNC: MIN_IN_SYNC,
    UNCLEAN: UNCLEAN,
    TIMESTAMP_TYPE: "log.message.timestamp.type",
    MAX_MESSAGE: "message.max.bytes",
}
LOG_APPEND = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """``brokers`` counts those that are up. ``settings`` are broker settings, empty when they may not be read. ``metadata_level`` is the highest
    level of ``metadata.version`` that the broker knows, which dates its release; None when it does not tell.
    """

    brokers: int
    settings: Mapping[str, str]
    metadata_level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic that exists. ``settings`` are those in force, defaults included; empty when they may not be read."""

    name: str
    role: TopicRole
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """``application_id`` is the target's and ``group_kind`` as in ``GroupDescription``. ``client_ids`` are those of the group's members,
    ``instances`` those that are not gone.
    """

    application_id: str
    group_kind: str
    client_ids: tuple[str, ...]
    instances: tuple[str, ...]
