"""What a run has found in savepoints, as text for a log; and records and differences as cells."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.state.inspection import Inspection
from streams_recovery.core.state.peek import PeekRecord, shown_bytes
from streams_recovery.core.state.table import DiffCounts
from streams_recovery.core.text.restore_plan import moment

RECORD_COLUMNS: Final = ("partition", "offset", "time", "key", "value", "headers")


def inspection_lines(found: Inspection) -> list[str]:
    """All of it: the question, what came out, and the rows."""
    rows = found.found
    lines = [f"{found.question}: {found.outcome.value}", *(f"  {sentence}" for sentence in found.sentences)]
    if rows.rows:
        lines += ["  | ".join(rows.columns), *("  | ".join(row) for row in rows.rows)]
    if rows.more:
        lines.append(f"{rows.more:,} more are not shown")
    return lines


def counts_text(store: str, counts: DiffCounts) -> str:
    """What the comparison of one store found, in numbers."""
    if not counts.compared:
        return f"{store}: nothing was compared: neither side holds a key"
    return (
        f"{store}: {counts.compared:,} keys compared, {counts.before:,} and {counts.after:,}: "
        f"{counts.changed:,} changed, {counts.added:,} added, {counts.removed:,} removed"
    )


def record_cells(record: PeekRecord) -> tuple[str, ...]:
    """One record below ``RECORD_COLUMNS``."""
    headers = ", ".join(f"{name}={_cell(data)}" for name, data in record.headers)
    return f"{record.partition}", f"{record.offset}", moment(record.timestamp), _cell(record.key), _cell(record.value), headers


def _cell(data: bytes | None) -> str:
    return "null" if data is None else shown_bytes(data) or ""
