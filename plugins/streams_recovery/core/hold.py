"""Holds: topic settings that keep retention and the log cleaner away for a while, and how they are put back.

A record of what was there before is stored before anything is altered; it, not the cluster, is the truth about what to put back.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

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


class HoldPurpose(enum.StrEnum):
    """``copy`` guards a log while it is read and may go as soon as nobody reads; ``restore`` guards restored records and may go only when none
    of them would expire by it.
    """

    COPY = "copy"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldEntry:
    """One numbered entry of the hold log. An ``applied`` entry is written before the first topic is altered, a ``released`` entry of the same
    ``run`` after the last topic was put back; ``topics`` names what this entry is about, so a release may come in parts. ``clear`` says that
    nothing is held after this entry, so that nobody has to read further back.
    """

    kind: Literal["applied", "released"]
    purpose: HoldPurpose
    run: str
    at: int
    topics: tuple[TopicHold, ...]
    clear: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingHold:
    """A topic still under hold, and by whom since when."""

    run: str
    purpose: HoldPurpose
    since: int
    hold: TopicHold


def outstanding(entries: Iterable[HoldEntry]) -> tuple[OutstandingHold, ...]:
    """The holds in force after these entries, oldest first."""
    held: dict[tuple[str, str], OutstandingHold] = {}
    for entry in entries:
        for topic in entry.topics:
            if entry.kind == "applied":
                held[entry.run, topic.topic] = OutstandingHold(run=entry.run, purpose=entry.purpose, since=entry.at, hold=topic)
            else:
                held.pop((entry.run, topic.topic), None)
    return tuple(held.values())


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


def expires_on_release(newest_timestamp: int | None, final: Mapping[str, str], now: int, margin_ms: int) -> bool:
    """True when putting retention back could delete records that the state still needs.

    A windowed store needs what lies within its retention before stream time, and Kafka Streams gives its changelog ``margin_ms`` on top
    (windowstore.changelog.additional.retention.ms, a day by default). The broker counts from the wall clock, so nothing live expires only
    while stream time is no further behind the clock than that margin. ``newest_timestamp`` is the partition's stream time, None when empty.
    """
    retention = int(final.get("retention.ms", "-1"))
    deletes = "delete" in final.get("cleanup.policy", "delete")
    return deletes and retention >= 0 and newest_timestamp is not None and newest_timestamp < now - margin_ms
