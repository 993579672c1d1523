"""A changelog as a table: the newest row of each key, and what is different between two such tables."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.cells import ValueFormat

Headers = tuple[tuple[str, bytes | None], ...]

# Partition, key, and for a versioned store the moment from which the version is valid.
Identity = tuple[int, bytes, int]

# Their changelogs hold keys and values as the application serialised them. Of the others only the bytes can be shown.
READABLE = frozenset({StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFormat:
    """How a store's changelog is to be read: its kind decides about the bytes behind the key, the formats about the key itself and the value."""

    kind: StoreKind
    key: ValueFormat
    value: ValueFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a changelog with a key. ``value`` is None for a tombstone. ``timestamp`` (ms) is part of the state of a timestamped store, of a
    versioned one it is when the version begins; the value in a changelog has no time of its own. ``headers`` are state of headers-aware stores.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    headers: Headers | None


def identity(kind: StoreKind, entry: Entry) -> Identity:
    """What there is only one of in a store of this kind: a key of a partition, and in a versioned store a version of it."""
    return entry.partition, entry.key, entry.timestamp if kind is StoreKind.VERSIONED else 0


def newest(kind: StoreKind, entries: Iterable[Entry]) -> dict[Identity, Entry]:
    """The newest of all ``entries`` of each identity, tombstones included. They may come in any order; memory holds what is returned."""
    found: dict[Identity, Entry] = {}
    for entry in entries:
        known = found.get(at := identity(kind, entry))
        if known is None or known.offset < entry.offset:
            found[at] = entry
    return found


def undeleted(table: Mapping[Identity, Entry]) -> dict[Identity, Entry]:
    """Those that are not deleted."""
    return {at: entry for at, entry in table.items() if entry.value is not None}


def ends_of_versions(table: Mapping[Identity, Entry]) -> dict[Identity, int | None]:
    """When each version of a versioned store ends: where the next one of its key begins, a deletion included; None for the newest."""
    later = dict(pairwise(sorted(table)))
    return {at: after[2] if (after := later.get(at)) is not None and after[:2] == at[:2] else None for at in table}


class Change(enum.StrEnum):
    """What happened to a key between two tables."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key that is not the same on both sides. ``parts`` of a changed one: value, timestamp, headers."""

    change: Change
    before: Entry | None
    after: Entry | None
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffCounts:
    """A comparison in numbers of existing keys. ``compared`` are the keys of either side."""

    before: int
    after: int
    compared: int
    added: int
    removed: int
    changed: int

    @property
    def equal(self) -> bool:
        """True when something was compared and nothing was different."""
        return self.compared > 0 and not (self.added or self.removed or self.changed)

    def __add__(self, other: DiffCounts) -> DiffCounts:
        """The numbers of two comparisons of other keys together."""
        return DiffCounts(
            before=self.before + other.before,
            after=self.after + other.after,
            compared=self.compared + other.compared,
            added=self.added + other.added,
            removed=self.removed + other.removed,
            changed=self.changed + other.changed,
        )


def differences(before: Mapping[Identity, Entry], after: Mapping[Identity, Entry]) -> Iterator[Difference]:
    """Every existing key that is not the same on both sides, in the order of partitions and keys. Offsets do not count."""
    old, new = undeleted(before), undeleted(after)
    for at in sorted({*old, *new}):
        one, other = old.get(at), new.get(at)
        if one is None or other is None:
            yield Difference(change=Change.ADDED if one is None else Change.REMOVED, before=one, after=other, parts=())
        elif parts := different_parts(one, other):
            yield Difference(change=Change.CHANGED, before=one, after=other, parts=parts)


def different_parts(one: Entry, other: Entry) -> tuple[str, ...]:
    """In what two entries of a key differ. A record without headers and one with an empty list of them are the same."""
    checks = {
        "value": one.value == other.value,
        "timestamp": one.timestamp == other.timestamp,
        "headers": (one.headers or None) == (other.headers or None),
    }
    return tuple(name for name, same in checks.items() if not same)


def counted(before: Mapping[Identity, Entry], after: Mapping[Identity, Entry], found: Iterable[Difference]) -> DiffCounts:
    """The comparison that ``found`` belongs to, in numbers."""
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
    """Raise ``Refused`` for a store of which nothing is known: what its rows mean depends on its kind."""
    if kind is StoreKind.UNKNOWN:
        raise Refused(
            f"the kind of store {store} is not known, so its changelog cannot be shown as a table",
            next_step=f"declare `kind` for {store} under `stores` in the configuration",
            store=store,
        )
