"""The log of topic holds. A hold changes topic settings for a while, so that retention and the log cleaner leave the records alone.

An entry is stored before any setting is changed, so that after a crash at any point it is known which holds must be released. An entry names only
topics. The values that their owners had set are in the held settings themselves.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from streams_recovery.core.errors import Damaged
from streams_recovery.core.topic_holds.compaction_guard import (
    COPY_MARKS,
    CREATE_TIME,
    MIN_COMPACTION_LAG,
    RESTORE_MARK,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    Changes,
    Overrides,
    guarded,
    held_value,
    joined,
    left,
    owner_config,
    put_back,
)
from streams_recovery.core.topic_settings import compacts, deletes_above, deletes_after

# What Kafka has by default.
_SEGMENT_MS = str(7 * 86_400_000)
_SEGMENT_BYTES = str(1 << 30)
_LIMITS = (RETENTION_MS, RETENTION_BYTES, TIMESTAMP_BEFORE, TIMESTAMP_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHold:
    """A held topic."""

    topic: str
    topic_id: str


class HoldPurpose(enum.StrEnum):
    """``copy`` protects a log while it is read, and can be released as soon as it is not read any more. ``restore`` protects restored records, and
    can be released only when none of them would expire because of that.
    """

    COPY = "copy"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldEntry:
    """A numbered entry of the hold log. An ``applied`` entry is written before the first topic is changed, a ``released`` entry of the same ``run``
    after the last topic was put back. ``topics`` are the topics of this entry, so one hold can be released in several parts. ``mark`` is the run's
    mark on the compaction guard. ``clear`` means that nothing is held after this entry, so that readers can stop here.
    """

    kind: Literal["applied", "released"]
    purpose: HoldPurpose
    run: str
    at: int
    mark: int
    topics: tuple[TopicHold, ...]
    clear: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingHold:
    """A topic that is still held: by which run, with which mark, and since when."""

    run: str
    purpose: HoldPurpose
    mark: int
    since: int
    hold: TopicHold


def outstanding(entries: Iterable[HoldEntry]) -> tuple[OutstandingHold, ...]:
    """The holds in force after these entries, oldest first."""
    held: dict[tuple[str, TopicHold], OutstandingHold] = {}
    for entry in entries:
        for topic in entry.topics:
            if entry.kind == "applied":
                held[entry.run, topic] = OutstandingHold(run=entry.run, purpose=entry.purpose, mark=entry.mark, since=entry.at, hold=topic)
            else:
                held.pop((entry.run, topic), None)
    return tuple(held.values())


def restore_hold(final: Overrides) -> dict[str, str]:
    """The settings of a topic that is created for a restore, until the application has caught up. Later the topic gets the overrides ``final``.
    Timestamp limits are opened, because brokers from 4.0 on reject records more than an hour ahead. The timestamp type is CreateTime, because
    LogAppendTime would replace the restored timestamps. Raises ``Damaged`` for settings that no broker accepts.
    """
    kind = final.get(TIMESTAMP_TYPE)
    if kind not in TIMESTAMP_TYPES:
        raise Damaged(f"{TIMESTAMP_TYPE} of a topic is {kind!r:.60}", next_step="find out who wrote that; no broker takes it", value=kind)
    notes = {TIMESTAMP_BEFORE: TIMESTAMP_TYPES.index(kind)}
    limits = {key: held_value(key, final.get(key), notes.get(key, 0)) for key in _LIMITS}
    return {**final, **limits, **guarded(final, {RESTORE_MARK}, 0), TIMESTAMP_TYPE: CREATE_TIME}


def restore_joined(config: Overrides, today: int) -> Changes:
    """The changes that put a restore's hold on a topic that is there already, of whose partitions some are loaded; empty if it is held. ``today`` is the number
    of days since the epoch.
    """
    held = restore_hold(owner_config(config))
    changes: Changes = {key: held[key] for key in (*_LIMITS, TIMESTAMP_TYPE) if config.get(key) != held[key]}
    return {**changes, **joined(config, RESTORE_MARK, today)}


def restore_released(config: Overrides) -> Changes:
    """The changes that end a restore's hold. The guard of a copy stays."""
    return {**put_back(config, _LIMITS), **left(config, RESTORE_MARK)}


def change_of_release(purpose: HoldPurpose, mark: int) -> Callable[[Overrides], Changes]:
    """The changes at the end of such a hold. Purpose and mark may be forged: the release of a copy cannot end what a restore holds."""
    if purpose is HoldPurpose.RESTORE:
        return restore_released
    return partial(left, mark=mark) if mark in COPY_MARKS else lambda _config: {}


def expires_on_release(newest_timestamp: int | None, final: Overrides, now: int, margin_ms: int) -> bool:
    """True if putting the owner's settings back could delete records that the state still needs. ``final`` are the settings that are then in effect,
    including broker defaults.

    A windowed store needs the records within its retention before stream time. A versioned store needs the versions within its history, which
    min.compaction.lag.ms protects from the cleaner. Kafka Streams adds ``margin_ms`` to both (windowstore.changelog.additional.retention.ms, a day by
    default). The broker counts from the wall clock. So no needed record expires as long as stream time is at most this margin behind the clock.
    ``newest_timestamp`` is the partition's stream time, None when empty.
    """
    kept = deletes_after(final)
    expiring = kept is not None and kept < now
    compacted = compacts(final) and 0 < int(final.get(MIN_COMPACTION_LAG, "0")) < now
    return (expiring or compacted) and newest_timestamp is not None and newest_timestamp < now - margin_ms


def too_old_from(final: Overrides, now: int, held_since: int) -> int | None:
    """The time (ms) before which no record of a topic can be that kept its records by these settings; None when it may have any. For topics of which each
    record counts, not only the newest ones as in a windowed store.

    A record goes with its segment, which may stay open for segment.ms (a week by default) after the record was due, and nothing went while it was held. An
    older one was kept in another way, and putting these settings back would delete it.
    """
    kept = deletes_after(final)
    if kept is None:
        return None
    return max(now - kept - int(final.get("segment.ms", _SEGMENT_MS)) - max(now - held_since, 0), 0)


def too_large(final: Overrides, restored: int, later: int) -> bool:
    """True if putting back these settings would delete, by their size, records of a partition that has so many ``restored`` bytes and so many that came
    ``later``.

    The oldest segment goes while the others have as much as retention.bytes, so no partition that was kept in this way is larger than that and a segment. One
    that is had more: its topic was kept in another way, the records came from an archive, or they take more room here. Once what came later fills
    retention.bytes by itself, the owner wants the restored ones gone.
    """
    kept = deletes_above(final)
    return kept is not None and restored > kept + int(final.get("segment.bytes", _SEGMENT_BYTES)) and later < kept
