"""The value that a topic's setting has while the topic is held. It carries what the owner had set.

Applications may hold one topic at the same time, and know nothing of each other: each has a repository of its own. Whoever reads such a value
sees that no owner has set it, and what the owner had set. So a hold is never taken for an owner's setting, and what is put back comes from the topic
itself, never from a repository.

A broker takes every such value for "no limit". In decimals, for the person who finds one: it has 19 digits, the first of which say that it is a hold's. The
last ones are the owner's value plus 2, or 0 where the owner had set none; those between are a note of the hold's own. docs/architecture.md has a table.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.errors import Damaged

MIN_COMPACTION_LAG = "min.compaction.lag.ms"
MAX_COMPACTION_LAG = "max.compaction.lag.ms"
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
TIMESTAMP_BEFORE, TIMESTAMP_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"

# What comes back of a value that is too large to be carried: 31 years, or 10 petabytes, are as good as no limit.
UNLIMITED = 2**63 - 1
_UNIT = 10**18
_SHIFT = 2


@dataclass(frozen=True, slots=True)
class _Form:
    """How held values of one setting look: ``span`` numbers from ``start`` on, with the owner's value in the last ``digits``. ``least`` is the smallest
    value that a broker takes.
    """

    start: int
    digits: int
    least: int
    span: int = _UNIT

    @property
    def largest(self) -> int:
        """What stands for an owner's value that is too large to be carried."""
        return int(10**self.digits) - 1


FORMS = {
    # The broker refuses a minimum lag above the maximum lag, so the latter's values are the larger ones.
    MIN_COMPACTION_LAG: _Form(6 * _UNIT, 13, 0),
    MAX_COMPACTION_LAG: _Form(7 * _UNIT, 13, 1),
    RETENTION_MS: _Form(8 * _UNIT, 13, -1),
    RETENTION_BYTES: _Form(8 * _UNIT, 16, -1),
    TIMESTAMP_BEFORE: _Form(8 * _UNIT, 13, 0),
    # A record may have the largest timestamp there is, which is farther ahead of the clock than that.
    TIMESTAMP_AFTER: _Form(9_223_371 * 10**12, 12, 0, 10**12),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldValue:
    """A hold's value. ``owner`` is the override that the owner had set, None for none; ``note`` is the hold's own number."""

    owner: str | None
    note: int


def held_value(key: str, owner: str | None, note: int = 0) -> str:
    """The value of ``key`` that carries ``owner`` and ``note``. Raises ``Damaged`` for an owner's value that is no whole number."""
    form = FORMS[key]
    carried = 0 if owner is None else min(max(_whole(key, owner), form.least) + _SHIFT, form.largest)
    return str(form.start + note * 10**form.digits + carried)


def read_held(key: str, value: str | None) -> HeldValue | None:
    """What a value of a topic's setting carries, None when it is no hold's."""
    form = FORMS.get(key)
    if form is None or value is None or not (value.isdecimal() and form.start <= int(value) < form.start + form.span):
        return None
    note, carried = divmod(int(value) - form.start, 10**form.digits)
    if carried == form.largest:
        return HeldValue(owner=str(UNLIMITED), note=note)
    owner = carried - _SHIFT
    return HeldValue(owner=str(owner) if carried and owner >= form.least else None, note=note)


def _whole(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise Damaged(
            f"{key} of a topic is {value[:40]!r}, which is no whole number",
            next_step="find out who wrote that; no broker takes it",
            key=key,
        ) from None
