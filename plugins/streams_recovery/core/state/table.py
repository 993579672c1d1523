"""A changelog as a table: the newest row of each key, and the differences between two tables."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.cells import ValueFormat

Headers = tuple[tuple[str, bytes | None], ...]

# Partition, key, and for a versioned store the start of the version's validity.
Identity = tuple[int, bytes, int]

# Stores whose changelogs contain the application's own keys and values. For other kinds only bytes can be shown.
READABLE = frozenset({StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFormat:
    """How to read a store's changelog: the kind decides about the bytes after the key, the formats about the key itself and the value."""

    kind: StoreKind
    key: ValueFormat
    value: ValueFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a changelog with a key. ``value`` is None for a tombstone. ``timestamp`` (ms) is part of the state of a timestamped store; in a
    versioned store it is the start of the version. ``headers`` are part of the state of headers-aware stores.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    headers: Headers | None


def identity(kind: StoreKind, entry: Entry) -> Identity:
    """What is unique in a store of this kind: partition and key, and in a versioned store also the version's start."""
    return entry.partition, entry.key, entry.timestamp if kind is StoreKind.VERSIONED else 0


def newest(kind: StoreKind, entries: Iterable[Entry]) -> dict[Identity, Entry]:
    """The newest entry of each identity, including tombstones. ``entries`` may come in any order. Memory use is that of the result."""
    found: dict[Identity, Entry] = {}
    for entry in entries:
        known = found.get(at := identity(kind, entry))
        if known is None or known.offset < entry.offset:
            found[at] = entry
    return found


def undeleted(table: Mapping[Identity, Entry]) -> dict[Identity, Entry]:
    """The entries that are not tombstones."""
    return {at: entry for at, entry in table.items() if entry.value is not None}


def ends_of_versions(table: Mapping[Identity, Entry]) -> dict[Identity, int | None]:
    """The end of each version of a versioned store: the start of the next version or deletion of its key, None for the newest."""
    later = dict(pairwise(sorted(table)))
    return {at: after[2] if (after := later.get(at)) is not None and after[:2] == at[:2] else None for at in table}


class Change(enum.StrEnum):
    """The kind of difference between two tables for a key."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key that differs between the two sides. ``parts`` of a changed key: value, timestamp, headers."""

    change: Change
    before: Entry | None
    after: Entry | None
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffCounts:
    """The numbers of a comparison, without deleted keys. ``compared`` counts the keys of either side."""

    before: int
    after: int
    compared: int
    added: int
    removed: int
    changed: int

    @property
    def equal(self) -> bool:
        """True if keys were compared and none differs."""
        return self.compared > 0 and not (self.added or self.removed or self.changed)

    def __add__(self, other: DiffCounts) -> DiffCounts:
        """The sum of two comparisons of different keys."""
        return DiffCounts(
            before=self.before + other.before,
            after=self.after + other.after,
            compared=self.compared + other.compared,
            added=self.added + other.added,
            removed=self.removed + other.removed,
            changed=self.changed + other.changed,
        )


def differences(before: Mapping[Identity, Entry], after: Mapping[Identity, Entry]) -> Iterator[Difference]:
    """Every key that differs between the two sides, deleted keys excluded, in the order of partitions and keys. Offsets are not compared."""
    old, new = undeleted(before), undeleted(after)
    for at in sorted({*old, *new}):
        one, other = old.get(at), new.get(at)
        if one is None or other is None:
            yield Difference(change=Change.ADDED if one is None else Change.REMOVED, before=one, after=other, parts=())
        elif parts := different_parts(one, other):
            yield Difference(change=Change.CHANGED, before=one, after=other, parts=parts)


def different_parts(one: Entry, other: Entry) -> tuple[str, ...]:
    """The parts in which two entries of a key differ. No headers and an empty list of headers are the same."""
    checks = {
        "value": one.value == other.value,
        "timestamp": one.timestamp == other.timestamp,
        "headers": (one.headers or None) == (other.headers or None),
    }
    return tuple(name for name, same in checks.items() if not same)


def counted(before: Mapping[Identity, Entry], after: Mapping[Identity, Entry], found: Iterable[Difference]) -> DiffCounts:
    """The numbers of the comparison that gave ``found``."""
    old, new = undeleted(before), undeleted(after)
    kinds = [difference.change for difference in found]
    return DiffCounts(
        before=len(old),
        after=len(new),
        compared=len({*old, *new}),
        added=kinds.count(Change.ADDED),
        removed=kinds.count(Change.REMOVED),
        changed=kinds.count(Change.CHANGED),
    )


def check_known(store: str, kind: StoreKind) -> None:
    """Raise ``Refused`` for a store of unknown kind, because the meaning of its rows depends on the kind."""
    if kind is StoreKind.UNKNOWN:
        raise Refused(
            f"the kind of store {store} is not known, so its changelog cannot be shown as a table",
            next_step=f"declare `kind` for {store} under `stores` in the configuration",
            store=store,
        )
