"""Limits how many intervals are processed at the same time: each takes one of a fixed number of slots. Pure."""

from __future__ import annotations

from dataclasses import dataclass


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


def release(last: SlotEntry | None, interval: str, *, run: str | None, at: int) -> SlotEntry | None:
    """The entry that releases an interval's slot. None if it has no slot, or if another run than ``run`` has taken it."""
    known = None if last is None else last.taken.get(interval)
    if last is None or known is None or run not in (None, known.run):
        return None
    taken = {name: one for name, one in last.taken.items() if name != interval}
    return SlotEntry(interval=interval, at=at, slot=known.slot, taken=taken)


def busy(last: SlotEntry | None) -> tuple[str, ...]:
    """The intervals that have a slot."""
    return () if last is None else tuple(sorted(last.taken))
