"""The value of a topic setting while the topic is held. It contains the value that the topic's owner had set.

Several applications, each with its own repository, may hold the same topic without knowing of each other. Every reader of such a value can tell that
it belongs to a hold, and what the owner had set. So a hold is never taken for an owner's setting, and the value that is put back comes from the topic
itself, never from a repository.

Every such value means "no limit" to a broker. In decimal it has 19 digits. The first digits mark it as a held value. The last digits are the owner's
value plus 2, or 0 if the owner had set none. The digits between are a note of the hold. docs/architecture.md has a table.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.errors import Damaged

MIN_COMPACTION_LAG = "min.compaction.lag.ms"
MAX_COMPACTION_LAG = "max.compaction.lag.ms"
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
TIMESTAMP_BEFORE, TIMESTAMP_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"

# Put back for an owner's value that is too large to be stored: 31 years, or 10 petabytes, have the same effect as no limit.
UNLIMITED = 2**63 - 1
_UNIT = 10**18
# The smallest value of an owner is -1, and 0 stands for none.
_SHIFT = 2


@dataclass(frozen=True, slots=True)
class _Form:
    """The format of held values of one setting: ``span`` numbers from ``start`` on, with the owner's value in the last ``digits``. ``least`` is the
    smallest value that a broker accepts.
    """

    start: int
    digits: int
    least: int
    span: int = _UNIT

    @property
    def largest(self) -> int:
        """The value that represents an owner's value that is too large to be stored."""
        return int(10**self.digits) - 1


FORMS = {
    # The broker refuses a minimum lag above the maximum lag, so held values of the maximum lag are larger.
    MIN_COMPACTION_LAG: _Form(6 * _UNIT, 13, 0),
    MAX_COMPACTION_LAG: _Form(7 * _UNIT, 13, 1),
    RETENTION_MS: _Form(8 * _UNIT, 13, -1),
    RETENTION_BYTES: _Form(8 * _UNIT, 16, -1),
    TIMESTAMP_BEFORE: _Form(8 * _UNIT, 13, 0),
    # A record may have the largest possible timestamp, which is further ahead of the clock.
    TIMESTAMP_AFTER: _Form(9_223_371 * 10**12, 12, 0, 10**12),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldValue:
    """The content of a held value. ``owner`` is the override that the owner had set, None for none. ``note`` is the hold's own number."""

    owner: str | None
    note: int


def held_value(key: str, owner: str | None, note: int = 0) -> str:
    """The held value of ``key`` that contains ``owner`` and ``note``. Raises ``Damaged`` for an owner's value that is not a whole number."""
    form = FORMS[key]
    carried = 0 if owner is None else min(max(_whole(key, owner), form.least) + _SHIFT, form.largest)
    return str(form.start + note * 10**form.digits + carried)


def read_held(key: str, value: str | None) -> HeldValue | None:
    """The content of a held value, None if the value does not belong to a hold."""
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
