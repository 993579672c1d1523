"""What is different between two sides of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streams_recovery.core.errors import Refused
from streams_recovery.core.state.table import DiffCounts, Entry, counted, differences
from streams_recovery.operations.state.read import Side, tables
from streams_recovery.serdes.rows import RowCodec


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides by name, the numbers, and each key that differs: ``change``, ``parts``, and its rows ``before`` and ``after``."""

    before: str
    after: str
    counts: DiffCounts
    rows: tuple[dict[str, Any], ...]


def compare(one: Side, other: Side) -> Comparison:
    """Compare two sides key by key. Memory holds one partition's keys of both, and what differs.

    Raises ``Refused`` when the sides have different numbers of partitions: then no key of one is where it is in the other.
    """
    if one.partitions != other.partitions:
        raise Refused(
            f"{one.topic} has {len(one.partitions)} partitions in {one.name} and {len(other.partitions)} in {other.name}",
            next_step="compare savepoints from after the change",
        )
    rows: list[dict[str, Any]] = []
    total = DiffCounts(before=0, after=0, compared=0, added=0, removed=0, changed=0)
    before, after = RowCodec(one.form), RowCodec(other.form)
    for old, new in zip(tables(one), tables(other), strict=True):
        found = list(differences(old, new))
        total = total + counted(old, new, found)
        rows += [
            {
                "change": difference.change.value,
                "parts": list(difference.parts),
                "before": _row(before, difference.before),
                "after": _row(after, difference.after),
            }
            for difference in found
        ]
    return Comparison(before=one.name, after=other.name, counts=total, rows=tuple(rows))


def _row(codec: RowCodec, entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else codec.row(entry)
