"""Judges one key of two outputs, the real one and the other one, and counts the keys of each finding. Pure.

The real output is read up to two ends: the other application had processed everything that caused the records below the first one, the *settled* ones, and
the real application had processed everything that the other one has, when the second end was read. So of each key

* every settled record must be in the other output, and
* every record of the other output must be in the real one, below its second end.

Records between the two ends came while the comparison was prepared. They may be in the other output, or not yet.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Self

Same = Callable[[bytes | None, bytes | None], bool]


class ReadBy(enum.StrEnum):
    """The way an output is read: as a table, by the ``latest`` record of each key, or as a stream, by all ``records`` of each key in their order."""

    LATEST = "latest"
    RECORDS = "records"


class KeyFinding(enum.StrEnum):
    """Finding of a key. ``behind``: the records of one side are the first ones of the other side. ``in flux``: results of the key came while the comparison was
    prepared, and nothing can be said of it. ``superseded``: the newest record of the key is later than the compared interval.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    BEHIND = "behind"
    ONLY_HERE = "only in the real output"
    ONLY_THERE = "only in the other output"
    IN_FLUX = "in flux"
    SUPERSEDED = "superseded"

    @property
    def wrong(self) -> bool:
        """True if it proves that the two outputs are not equal."""
        return self in _WRONG


_WRONG = frozenset({KeyFinding.DIFFERENT, KeyFinding.BEHIND, KeyFinding.ONLY_HERE, KeyFinding.ONLY_THERE})


class RecordPart(enum.IntEnum):
    """The part of an output that a record is in: ``SETTLED``, between the two ends (``ARRIVED``), or ``LATER`` than the compared interval, of a table."""

    SETTLED = 0
    ARRIVED = 1
    LATER = 2


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record of a key. ``here`` is True for the real output. ``position`` numbers the records of each side of a key; it is not used of a table."""

    here: bool
    part: RecordPart
    position: int
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The judgement of a key. ``records`` is by how many the ``behind`` one is behind. ``position`` is that of the first record that differs. ``here`` and
    ``there`` are records that show it, None for a side without one.
    """

    finding: KeyFinding
    records: int = 0
    behind: str = ""
    position: int = 0
    here: SeenRecord | None = None
    there: SeenRecord | None = None


def judge(way: ReadBy, seen: Iterable[SeenRecord], same: Same) -> Judged:
    """Judge one key. For a table the other side's records come first, each side's in the order of offsets. For a stream they come in the order of positions,
    the two records of one position one behind the other. Each record is looked at once, so that a key may have any number of them.
    """
    return _latest(seen, same) if way is ReadBy.LATEST else _records(seen, same)


def _latest(seen: Iterable[SeenRecord], same: Same) -> Judged:
    there: SeenRecord | None = None
    settled: SeenRecord | None = None
    arrived: SeenRecord | None = None
    matched = superseded = False
    for one in seen:
        if not one.here:
            there = one
        elif one.part is RecordPart.LATER:
            superseded = True
        elif one.part is RecordPart.SETTLED:
            settled = one
        else:
            arrived = one
            matched = matched or (there is not None and same(one.value, there.value))
    newest = arrived or settled

    def found(finding: KeyFinding) -> Judged:
        return Judged(finding=finding, here=newest, there=there)

    if superseded:
        return found(KeyFinding.SUPERSEDED)
    if there is None:
        return found(KeyFinding.IN_FLUX if settled is None else KeyFinding.ONLY_HERE)
    if newest is None:
        return found(KeyFinding.ONLY_THERE)
    if matched or (settled is not None and same(settled.value, there.value)):
        return found(KeyFinding.EQUAL)
    # A cache may have left out on one side what it wrote on the other: only the key's last value counts, and that is still to come.
    return found(KeyFinding.DIFFERENT if arrived is None else KeyFinding.IN_FLUX)


def _records(seen: Iterable[SeenRecord], same: Same) -> Judged:
    settled = here = there = 0
    first: dict[bool, SeenRecord] = {}
    pending: SeenRecord | None = None
    differs: Judged | None = None
    for one in seen:
        first.setdefault(one.here, one)
        if one.here:
            here += 1
            settled += one.part is RecordPart.SETTLED
        else:
            there += 1
        if pending is None or pending.position != one.position:
            pending = one
        elif differs is None and not same(pending.value, one.value):
            mine, other = (pending, one) if pending.here else (one, pending)
            differs = Judged(finding=KeyFinding.DIFFERENT, position=one.position, here=mine, there=other)
    if differs is not None:
        return differs
    real, own = first.get(True), first.get(False)
    if there < settled:
        missing = Judged(finding=KeyFinding.BEHIND, records=settled - there, behind="other", here=real, there=own)
        return missing if there else Judged(finding=KeyFinding.ONLY_HERE, here=real)
    if there > here:
        ahead = Judged(finding=KeyFinding.BEHIND, records=there - here, behind="real", here=real, there=own)
        return ahead if here else Judged(finding=KeyFinding.ONLY_THERE, there=own)
    return Judged(finding=KeyFinding.EQUAL if there else KeyFinding.IN_FLUX, here=real, there=own)


def what_text(judged: Judged) -> str:
    """The finding, with the place and the number that belong to it."""
    if judged.finding is KeyFinding.BEHIND:
        return f"the {judged.behind} output is behind by {judged.records:,} {'record' if judged.records == 1 else 'records'}"
    if judged.finding is KeyFinding.DIFFERENT and judged.position:
        return f"different in record {judged.position:,} of the key"
    return judged.finding.value


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """The numbers of one output, or of several: keys of each finding, the ``missing`` records of those that are behind, and the records that were read."""

    equal: int = 0
    different: int = 0
    behind: int = 0
    only_here: int = 0
    only_there: int = 0
    in_flux: int = 0
    superseded: int = 0
    missing: int = 0
    records_here: int = 0
    records_there: int = 0

    def __add__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(KeyCounts)})

    @classmethod
    def of(cls, judged: Judged) -> Self:
        """The numbers of one key."""
        return cls(**{judged.finding.name.lower(): 1, "missing": judged.records})

    @property
    def compared(self) -> int:
        """Keys of which values of both sides were compared."""
        return self.equal + self.different + self.behind

    @property
    def wrong(self) -> int:
        """Keys that prove that the outputs are not equal."""
        return self.different + self.behind + self.only_here + self.only_there
