"""What settings of topics mean: which belong to the data, and come along with it, and which to the cluster where the topic was."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TIMESTAMP_TYPE: Final = "message.timestamp.type"
LOG_APPEND: Final = "LogAppendTime"
# The settings that decide which records a topic keeps, and which it takes.
IN_FORCE: Final = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)

# Named for the place: brokers that hold its replicas back, and records that lie in the remote storage of one cluster.
_OF_THE_PLACE: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)
# What a broker calls a setting of topics that it has a value of its own for.
BROKER_NAMES: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    TIMESTAMP_TYPE: "log.message.timestamp.type",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "segment.bytes": "log.segment.bytes",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
# Kafka has no setting of a topic that begins like this: a vendor's own, about its placement and storage.
_OF_A_VENDOR: Final = ("confluent.", "redpanda.", "aiven.", "inkless.", "diskless.")


class SettingSource(enum.StrEnum):
    """Where a setting comes from that is in force on a topic. ``broker``: from one of the three below ``topic``, and the topic's own hid which."""

    TOPIC = "topic"
    DYNAMIC_BROKER = "dynamic broker"
    STATIC_BROKER = "static broker"
    DEFAULT = "default"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A setting as it is in force on a topic."""

    value: str
    source: SettingSource


def without_hold(raw: Mapping[str, InForce], owner: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, InForce]:
    """The settings of ``IN_FORCE`` that are in force on a topic, without holds on it. ``raw`` are those that its broker tells, ``owner`` those that its owner
    has set, and ``defaults`` the broker's own. A setting that only a hold has set, and whose default is unknown, is left out.
    """
    found = {}
    for name in IN_FORCE:
        here = raw.get(name)
        if name in owner:
            found[name] = InForce(value=owner[name], source=SettingSource.TOPIC)
        elif here is not None and here.source is not SettingSource.TOPIC:
            found[name] = here
        elif here is not None and name in defaults:
            found[name] = InForce(value=defaults[name], source=SettingSource.BROKER)
    return found


def held(raw: Mapping[str, InForce], owner: Mapping[str, str]) -> bool:
    """True where a hold hides what a broker would have of one of these settings."""
    return any(name not in owner and name in raw and raw[name].source is SettingSource.TOPIC for name in IN_FORCE)


def of_the_place(name: str) -> bool:
    """True for a setting that says something about the cluster that the topic was on, and nothing about its records. All others come back with a topic."""
    return name in _OF_THE_PLACE or name.startswith(_OF_A_VENDOR)


def compacts(settings: Mapping[str, str]) -> bool:
    """True for a topic from which records go that newer ones replace. False where its policy is not known."""
    return "compact" in settings.get("cleanup.policy", "")


def expires(settings: Mapping[str, str], *, unknown: bool = True) -> bool:
    """True for a topic from which old records go. Where its policy is not known, Kafka's default counts, or ``unknown``."""
    return "delete" in settings["cleanup.policy"] if "cleanup.policy" in settings else unknown


def deletes_after(settings: Mapping[str, str]) -> int | None:
    """The time (ms) after which a topic deletes a record; None when it deletes none by its time, or nothing is known of that."""
    kept = settings.get("retention.ms", "-1")
    return int(kept) if expires(settings) and kept.isdecimal() else None


def deletes_above(settings: Mapping[str, str]) -> int | None:
    """The bytes of a partition above which a topic deletes the oldest records; None when it deletes none by its size, or nothing is known of that."""
    kept = settings.get("retention.bytes", "-1")
    return int(kept) if expires(settings) and kept.isdecimal() else None


def topic_defaults(broker: Mapping[str, str]) -> dict[str, str]:
    """Settings that a topic without overrides has on a broker with these settings, by the topic's names."""
    times = (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS))
    rolls = (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))
    # Of settings in different units a broker uses the finest that is set (KafkaConfig#logRetentionTimeMillis). Below zero means for ever.
    retention = next((int(broker[name]) * factor for name, factor in times if name in broker), None)
    roll = next((int(broker[name]) * factor for name, factor in rolls if name in broker), None)
    named = {name: broker[theirs] for name, theirs in BROKER_NAMES.items() if theirs in broker}
    return {
        "cleanup.policy": "delete",
        "min.compaction.lag.ms": "0",
        **named,
        # A managed cluster may hide them: what is not told is not known, and not for ever.
        **({} if retention is None else {"retention.ms": str(max(retention, -1))}),
        **({} if roll is None else {"segment.ms": str(roll)}),
    }
