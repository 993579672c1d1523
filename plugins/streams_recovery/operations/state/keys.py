"""A key of a store: what a savepoint or the changelog has for it, and what the running application answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid, RecoveryError
from streams_recovery.core.kafka_types import WINDOWED
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, SavedValue, agrees, check_times
from streams_recovery.core.state.table import StoreFormat
from streams_recovery.core.words import LIVE
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
# Versions and windows of one key that are held. With more present rows it is not told whether they are equal.
MOST_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKey:
    """A key of a store: the rows of ``side``, a savepoint's id or ``live`` for the changelog, at most ``MOST_ROWS``; and the answer of the running application.
    ``side`` is None if only that was asked, ``live`` if it was not. ``equal`` is None if that cannot be told. ``more``: there are more than these rows.
    """

    live: KeyAnswer | None = None
    side: str | None = None
    form: StoreFormat | None = None
    rows: tuple[Row, ...] = ()
    equal: bool | None = None
    more: bool = False

    @property
    def found(self) -> bool:
        """False if the key is nowhere, or deleted."""
        return (self.live is not None and self.live.found) or any(row["value"] is not None for row in self.rows)


def get_key(
    recovery: RecoveryContext, store: str, key: str, savepoint: str, *, ask: bool = False, start: int | None = None, end: int | None = None
) -> FoundKey:
    """The key in a savepoint: an id, or ``latest``; with ``live`` in the changelog as it is now. With ``ask`` the running application is asked too, and
    compared with the savepoint; with ``live`` only the application. ``start`` and ``end`` (ms) bound windows and sessions.

    Raises what ``open_side`` and asking raise, and ``ConfigInvalid`` for a time where the store has no windows.
    """
    check_times(start, end)
    if ask and savepoint == LIVE:
        [answer] = recovery.application.query_keys([KeyQuestion(store=store, key=key, start=start, end=end)])
        return FoundKey(live=answer)
    side = open_side(recovery, store, savepoint)
    if (start, end) != (None, None) and side.form.kind not in WINDOWED:
        raise ConfigInvalid(f"store {store} has no windows: its kind is {side.form.kind}", next_step="leave the time out", store=store)
    live = recovery.application.query_keys([KeyQuestion(store=store, key=key, start=start, end=end)])[0] if ask else None
    return _found(live, side, (row for row in matching_rows(side, key, deleted=True) if _within(row, start, end)))


def answered_or_why(recovery: RecoveryContext, side: StoreSide, key: str, *, seconds: float) -> tuple[KeyAnswer, bool | None] | str:
    """The running application's answer for a key, and whether it is what a side has that is open; the reason where the application cannot be asked."""
    try:
        [live] = recovery.application.query_keys([KeyQuestion(store=side.store, key=key)], seconds=seconds)
    except RecoveryError as error:
        return error.reason
    return live, _found(live, side, matching_rows(side, key, deleted=True)).equal


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


def _found(live: KeyAnswer | None, side: StoreSide, rows: Iterable[Row]) -> FoundKey:
    """Compare the answer with all rows; only so many of them are held at once."""
    held, newest, more, many = list[Row](), list[SavedValue](), False, False
    for row in rows:
        if len(held) < MOST_ROWS:
            held.append(row)
        else:
            more = True
        # In a versioned store the present value is the version that no later one has ended.
        if row.get("valid_to") is None and row["value"] is not None:
            many = len(newest) == MOST_ROWS
            newest += [] if many else [SavedValue(value=row["value"], start=row.get("window_start"), end=row.get("window_end"))]
    equal = None if many or live is None else agrees(side.form.kind, side.form.value, newest, live)
    return FoundKey(live=live, side=side.name, form=side.form, rows=tuple(held), equal=equal, more=more)


def _within(row: Row, begin: int | None, end: int | None) -> bool:
    """True if a window or a session is in the time that was asked for: a window by its start, a session if it has a part of it."""
    start: int | None = row.get("window_start")
    if start is None:
        return True
    last: int = row.get("window_end", start)
    return (begin is None or last >= begin) and (end is None or start <= end)
