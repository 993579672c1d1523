"""Decides whether results of an interval can replace those in an output, and how many intervals are processed at the same time. Pure: uses names, times and
digests.

Records in a log cannot be changed. If readers use only the newest record of each key (a compacted topic), a later record replaces a result. If
readers use every record, they see both. So the two kinds of topics have different rules.

Each interval that is processed takes one of a fixed number of slots.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.topic_settings import LOG_APPEND, TIMESTAMP_TYPE, compacts, deletes_after


class PublishPolicy(enum.StrEnum):
    """``side_by_side``: results stay in separate topics of the interval. ``replace``: they are written into the application's outputs."""

    SIDE_BY_SIDE = "side_by_side"
    REPLACE = "replace"


class Readers(enum.StrEnum):
    """The use of a topic by its readers: only the ``newest`` record of each key, or ``every`` record."""

    NEWEST = "newest"
    EVERY = "every"


def readers(settings: Mapping[str, str]) -> Readers:
    """The use of a topic with these settings."""
    return Readers.NEWEST if compacts(settings) else Readers.EVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRecord:
    """The newest record of a key: its offset, its time, a digest of the whole record, and whether it is a tombstone."""

    offset: int
    timestamp: int
    digest: bytes
    tombstone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Decision about the keys of one partition. ``write`` are the offsets of results to write. ``same`` keys already have their result and
    ``superseded`` keys have a later one; both are left alone. ``vanished`` keys have an old result of the interval, and no new one.
    """

    write: frozenset[int]
    same: int
    superseded: int
    vanished: tuple[bytes, ...]


def decide_newest(interval: Interval, results: Mapping[bytes, NewestRecord], there: Mapping[bytes, NewestRecord]) -> Newest:
    """Decide for one partition. ``results`` are the interval's new results, ``there`` the records of the output since the interval began; both are
    the newest of each key.
    """
    write, same, superseded = set(), 0, 0
    for key, result in results.items():
        known = there.get(key)
        if known is not None and known.timestamp >= interval.end:
            superseded += 1
        elif known is not None and known.digest == result.digest:
            same += 1
        else:
            write.add(result.offset)
    vanished = [key for key, known in there.items() if known.timestamp in interval and not known.tombstone and key not in results]
    return Newest(write=frozenset(write), same=same, superseded=superseded, vanished=tuple(sorted(vanished)))


class Every(enum.StrEnum):
    """Decision where every record counts. ``append``: the output has no record of the interval, so the results are written. ``same``: it already
    has exactly these results. ``different``: it has others, which cannot be replaced.
    """

    APPEND = "append"
    SAME = "same"
    DIFFERENT = "different"


def decide_every(results: Counter[bytes], there: Counter[bytes]) -> Every:
    """Decide for one partition. Both arguments are digests of records of the interval, in any order."""
    if there == results:
        return Every.SAME
    return Every.DIFFERENT if there else Every.APPEND


def why_not_replaced(topic: str, settings: Mapping[str, str], partitions: int, expected: int, earliest: int, now: int) -> str | None:
    """The reason results as old as ``earliest`` cannot be written into an output with these settings, or None if they can."""
    if partitions != expected:
        return f"{topic} has {partitions} partitions, and the results have {expected}"
    if settings.get(TIMESTAMP_TYPE) == LOG_APPEND:
        return f"{topic} gives every record the time of its arrival, so that the results would be of now"
    before = int(settings.get("message.timestamp.before.max.ms", str(2**63 - 1)))
    if earliest < now - before:
        return f"{topic} takes no record that is more than {before} ms old (message.timestamp.before.max.ms)"
    retention = deletes_after(settings)
    if retention is not None and retention < now - earliest:
        return f"{topic} keeps records for {retention} ms (retention.ms), so that the results could be deleted at once"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLease:
    """A slot, and the run that took it."""

    slot: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotEntry:
    """An interval took a slot or released it. ``slot`` is None if no slot was free; such an entry changes nothing. Every entry contains all slots
    ``taken`` after it, by interval, so the newest entry is enough.
    """

    interval: str
    at: int
    slot: int | None
    taken: dict[str, SlotLease]


def take(last: SlotEntry | None, interval: str, *, run: str, at: int, slots: int) -> SlotEntry:
    """The entry that takes the lowest free slot. An interval that already has a slot keeps it: its earlier run has ended or died."""
    taken = {} if last is None else dict(last.taken)
    known = taken.pop(interval, None)
    used = {one.slot for one in taken.values()}
    free = next((slot for slot in range(slots) if slot not in used), None)
    slot = known.slot if known is not None and known.slot < slots else free
    if slot is not None:
        taken[interval] = SlotLease(slot=slot, run=run)
    elif known is not None:
        taken[interval] = known
    return SlotEntry(interval=interval, at=at, slot=slot, taken=taken)


def release(last: SlotEntry | None, interval: str, *, run: str, at: int) -> SlotEntry | None:
    """The entry that releases an interval's slot. None if it has no slot, or if another run than ``run`` has taken it."""
    known = lease_of(last, interval)
    if last is None or known is None or run != known.run:
        return None
    taken = {name: one for name, one in last.taken.items() if name != interval}
    return SlotEntry(interval=interval, at=at, slot=known.slot, taken=taken)


def lease_of(last: SlotEntry | None, interval: str) -> SlotLease | None:
    """The slot that an interval has, and the run it belongs to; None without one."""
    return None if last is None else last.taken.get(interval)


def busy(last: SlotEntry | None) -> tuple[str, ...]:
    """The intervals that have a slot."""
    return () if last is None else tuple(sorted(last.taken))
