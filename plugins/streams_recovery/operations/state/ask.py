"""A key of a store asked of the running application, beside what a savepoint has for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid, RecoveryError
from streams_recovery.core.ids import LIVE
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, SavedValue, agrees
from streams_recovery.core.state.table import StoreFormat
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.read import StoreSide, matching_rows, open_side
from streams_recovery.serdes.rows import Row

# By whether the running application has the key, and whether that is what the savepoint has.
LIVE_WORDS: Final = {
    (True, True): "the same for it",
    (True, False): "something else for it",
    (True, None): "the key, and what it has cannot be compared",
    (False, True): "no such key either",
    (False, False): "no such key",
    (False, None): "no such key, and that cannot be compared",
}
# Versions and windows of one key that are held. Of more present ones it is not told whether they are equal.
MOST_ROWS: Final = 1_000
_WINDOWED = (StoreKind.WINDOW, StoreKind.SESSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the running application has for a key, and the rows that a savepoint has, at most ``MOST_ROWS``. ``savepoint_id`` is None if only the application
    was asked. ``equal`` is None where that cannot be told. ``more``: the savepoint has more than these rows.
    """

    live: KeyAnswer
    savepoint_id: str | None
    form: StoreFormat | None
    rows: tuple[Row, ...]
    equal: bool | None
    more: bool = False


def ask_key(recovery: RecoveryContext, question: KeyQuestion, savepoint: str, *, seconds: float | None = None) -> Asked:
    """Ask the running application for a key, for up to ``seconds``, and compare with a savepoint: an id, or ``latest``; with ``live`` nothing is compared.

    Raises what ``open_side`` and asking raise, and ``ConfigInvalid`` for a time where the store has no windows.
    """
    if savepoint == LIVE:
        [live] = recovery.application.query_keys([question], seconds=seconds)
        return Asked(live=live, savepoint_id=None, form=None, rows=(), equal=None)
    side = open_side(recovery, question.store, savepoint)
    if question.bounds and side.form.kind not in _WINDOWED:
        raise ConfigInvalid(
            f"store {question.store} has no windows: its kind is {side.form.kind}", next_step="leave the time out", store=question.store
        )
    [live] = recovery.application.query_keys([question], seconds=seconds)
    return _compared(live, side, (row for row in matching_rows(side, question.key, deleted=True) if _within(row, question)))


def answered_or_why(recovery: RecoveryContext, side: StoreSide, key: str, *, seconds: float) -> Asked | str:
    """The same for a side that is open; the reason where the application cannot be asked."""
    try:
        [live] = recovery.application.query_keys([KeyQuestion(store=side.store, key=key)], seconds=seconds)
    except RecoveryError as error:
        return error.reason
    return _compared(live, side, matching_rows(side, key, deleted=True))


def live_cells(key: str, live: KeyAnswer) -> list[dict[str, str]]:
    """The rows of an answer, below the names that the columns of a store's table have."""
    if live.windows is not None:
        ends = [{} if one.end is None else {"window_end": str(one.end)} for one in live.windows]
        return [
            {"key": key, "window_start": str(one.start), **end, "value": _shown(one.value)}
            for one, end in zip(live.windows, ends, strict=True)
        ]
    return [{"key": key, "value": _shown(live.value)}] if live.found else []


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _compared(live: KeyAnswer, side: StoreSide, rows: Iterable[Row]) -> Asked:
    """Of all rows; only so many of them are held at once."""
    held, newest, more, many = list[Row](), list[SavedValue](), False, False
    for row in rows:
        if len(held) < MOST_ROWS:
            held.append(row)
        else:
            more = True
        if _newest(row) and row["value"] is not None:
            many = len(newest) == MOST_ROWS
            newest += [] if many else [SavedValue(value=row["value"], start=row.get("window_start"), end=row.get("window_end"))]
    equal = None if many else agrees(side.form.kind, side.form.value, newest, live)
    return Asked(live=live, savepoint_id=side.name, form=side.form, rows=tuple(held), equal=equal, more=more)


def _newest(row: Row) -> bool:
    """Whether a row is the present value: of a versioned store the one that no later version has ended."""
    return row.get("valid_to") is None


def _within(row: Row, question: KeyQuestion) -> bool:
    """Whether a window or a session is in the time that was asked for: a window by its start, a session if it has a part of it."""
    start: int | None = row.get("window_start")
    if start is None:
        return True
    last: int = row.get("window_end", start)
    return (question.start is None or last >= question.start) and (question.end is None or start <= question.end)
