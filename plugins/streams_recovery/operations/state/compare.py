"""What is different between two sides of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streams_recovery.core.errors import Refused
from streams_recovery.core.state.table import DiffCounts, Entry, counted, differences
from streams_recovery.operations.state.files import in_columns
from streams_recovery.operations.state.read import StoreSide, tables
from streams_recovery.serdes.rows import RowCodec


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides by name, the numbers, and each key that differs: ``change``, ``parts``, and its rows ``before`` and ``after``."""

    before: str
    after: str
    counts: DiffCounts
    rows: tuple[dict[str, Any], ...]


def compare(one: StoreSide, other: StoreSide, *, most: int | None = None) -> Comparison:
    """Compare two sides key by key. Memory holds one partition's keys of both, and the rows of what differs: the first ``most`` of them, all without that.
    The counts are always of all.

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
            for difference in (found if most is None else found[: most - len(rows)])
        ]
    return Comparison(before=one.name, after=other.name, counts=total, rows=tuple(rows))


def _row(codec: RowCodec, entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else codec.row(entry)


def difference_cells(row: dict[str, Any], one: StoreSide, other: StoreSide) -> tuple[str, str, str, str]:
    """A row of a comparison for a terminal: the key with its window or version, what changed, and that of both sides."""
    sides = {
        side: dict(zip(row[side], in_columns(row[side], form), strict=True))
        for side, form in (("before", one.form), ("after", other.form))
        if row[side]
    }
    known = sides.get("after") or sides["before"]
    key = [known[part] for part in ("key", "window_start", "window_end", "window_seq", "valid_from") if part in known]
    before, after = (_cells(sides.get(side), row["parts"]) for side in ("before", "after"))
    return " ".join(key), ", ".join([row["change"], *row["parts"]]), before, after


def _cells(row: dict[str, str] | None, parts: list[str]) -> str:
    names = parts or ["value"]
    return "" if row is None else " ".join(row.get(name, row.get("valid_from", "")) for name in names)
