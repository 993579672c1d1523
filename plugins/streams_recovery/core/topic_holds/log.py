"""Holds: what is written down of topics whose settings keep retention and the log cleaner away for a while, and those of a restore.

A record is stored before anything is altered, so that a crash at any point leaves somebody who knows what to release. It names topics only: what their
owners had set is in the held settings themselves.
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
    RESTORE_MARK,
    TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    Changes,
    Overrides,
    guarded,
    left,
    put_back,
)
from streams_recovery.core.topic_holds.held_value import (
    MIN_COMPACTION_LAG,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    held_value,
)

_LIMITS = (RETENTION_MS, RETENTION_BYTES, TIMESTAMP_BEFORE, TIMESTAMP_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHold:
    """One topic under hold."""

    topic: str
    topic_id: str


class HoldPurpose(enum.StrEnum):
    """``copy`` guards a log while it is read and may go as soon as nobody reads; ``restore`` guards restored records and may go only when none
    of them would expire by it.
    """

    COPY = "copy"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldEntry:
    """One numbered entry of the hold log. An ``applied`` entry is written before the first topic is altered, a ``released`` entry of the same
    ``run`` after the last topic was put back; ``topics`` names what this entry is about, so a release may come in parts. ``mark`` is the run's on
    the guard. ``clear`` says that nothing is held after this entry, so that nobody has to read further back.
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
    """A topic still under hold, by whom, with which mark and since when."""

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
    """The settings with which a topic that gets the overrides ``final`` is created, loaded and caught up on. Timestamps are set open because brokers
    from 4.0 on reject records more than an hour ahead, and CreateTime because LogAppendTime would silently replace what is being restored. Raises
    ``Damaged`` for settings that no broker takes.
    """
    kind = final.get(TIMESTAMP_TYPE)
    if kind not in TIMESTAMP_TYPES:
        raise Damaged(f"{TIMESTAMP_TYPE} of a topic is {kind!r:.60}", next_step="find out who wrote that; no broker takes it", value=kind)
    notes = {TIMESTAMP_BEFORE: TIMESTAMP_TYPES.index(kind)}
    limits = {key: held_value(key, final.get(key), notes.get(key, 0)) for key in _LIMITS}
    return {**final, **limits, **guarded(final, {RESTORE_MARK}, 0), TIMESTAMP_TYPE: CREATE_TIME}


def restore_released(config: Overrides) -> Changes:
    """What to set so that nothing of a restore's hold is left; the guard of a copy stays."""
    return {**put_back(config, _LIMITS), **left(config, RESTORE_MARK)}


def change_of_release(purpose: HoldPurpose, mark: int) -> Callable[[Overrides], Changes]:
    """What the end of such a hold changes. Both may come from anybody: a copy cannot end what a restore holds."""
    if purpose is HoldPurpose.RESTORE:
        return restore_released
    return partial(left, mark=mark) if mark in COPY_MARKS else _nothing


def _nothing(_config: Overrides) -> Changes:
    return {}


def expires_on_release(newest_timestamp: int | None, final: Overrides, now: int, margin_ms: int) -> bool:
    """True when putting the owner's settings back could delete records that the state still needs. ``final`` are those that are in force then, the
    broker's own included.

    A windowed store needs what lies within its retention before stream time, and a versioned store the versions within its history, which are safe from the
    cleaner for min.compaction.lag.ms. Kafka Streams gives both changelogs ``margin_ms`` on top (windowstore.changelog.additional.retention.ms, a day by
    default). The broker counts from the wall clock, so nothing live goes only while stream time is no further behind the clock than that margin.
    ``newest_timestamp`` is the partition's stream time, None when empty.
    """
    policy = final.get("cleanup.policy", "delete")
    expires = "delete" in policy and 0 <= int(final.get(RETENTION_MS, "-1")) < now
    compacted = "compact" in policy and 0 < int(final.get(MIN_COMPACTION_LAG, "0")) < now
    return (expires or compacted) and newest_timestamp is not None and newest_timestamp < now - margin_ms
