"""Holds: topic settings that keep retention and the log cleaner away for a while, and how they are put back.

A record of what was there before is stored before anything is altered; it, not the cluster, is the truth about what to put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.model import TopicDescription

MAX = str(2**63 - 1)
MIN_COMPACTION_LAG = "min.compaction.lag.ms"
MAX_COMPACTION_LAG = "max.compaction.lag.ms"

# The cleaner compares a finite lag with record timestamps, which are event time, so only the maximum protects late data
# (LogCleanerManager#cleanableOffsets).
COMPACTION_GUARD = {MIN_COMPACTION_LAG: MAX}

# What a topic is created with while it is being loaded and caught up on. Timestamps are set open because brokers from 4.0 on reject
# records more than an hour ahead, and CreateTime because LogAppendTime would silently replace what is being restored.
RESTORE_HOLD = {
    **COMPACTION_GUARD,
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": MAX,
    "message.timestamp.after.max.ms": MAX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHold:
    """One topic under hold. ``previous`` has the override each held key had before, None where there was none; None is put back by deleting."""

    topic: str
    topic_id: str
    previous: dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRecord:
    """All topics one run holds, since ``applied_at``."""

    run: str
    applied_at: int
    topics: tuple[TopicHold, ...]


def guard_settings(config: Mapping[str, str]) -> dict[str, str | None]:
    """What to set on a topic with these overrides so that the cleaner leaves it alone; None means delete the override.

    The broker rejects a minimum lag above the maximum lag, so an override of the latter has to go for the time of the hold.
    """
    settings: dict[str, str | None] = dict(COMPACTION_GUARD)
    if MAX_COMPACTION_LAG in config:
        settings[MAX_COMPACTION_LAG] = None
    return settings


def needs_guard(description: TopicDescription, default_policy: str) -> bool:
    """True for a topic the cleaner may compact. ``default_policy`` is the broker's ``log.cleanup.policy`` for topics without an override."""
    return "compact" in description.config.get("cleanup.policy", default_policy)


def topic_hold(description: TopicDescription, settings: Mapping[str, str | None]) -> TopicHold:
    """The record of what ``settings`` is about to replace."""
    return TopicHold(
        topic=description.name,
        topic_id=description.topic_id,
        previous={key: description.config.get(key) for key in settings},
    )


def released_config(current: Mapping[str, str], hold: TopicHold) -> dict[str, str]:
    """A topic's overrides as they are without the hold: what a manifest should show while a hold is in force."""
    kept = {key: value for key, value in current.items() if key not in hold.previous}
    return kept | {key: value for key, value in hold.previous.items() if value is not None}
