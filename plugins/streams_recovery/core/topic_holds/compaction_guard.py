"""The compaction guard: topic settings that stop the log cleaner while a log is copied; and the values of settings while a topic is held.

Several savepoints may guard one topic at the same time, also savepoints of different applications with different repositories. Each has a mark on the
guard. The last one to leave puts the owner's settings back.

A held value contains the value that the topic's owner had set. Every reader can tell that it belongs to a hold, and what the owner had set. So a hold is
never taken for an owner's setting, and the value that is put back comes from the topic itself, never from a repository.

Every held value means "no limit" to a broker. In decimal it has 19 digits. The first digits mark it as a held value. The last digits are the owner's
value plus 2, or 0 if the owner had set none. The digits between are a note of the hold. docs/architecture.md has a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicDescription

Overrides = Mapping[str, str]
# Changes of a topic's settings; None deletes the override.
Changes = Mapping[str, str | None]
MIN_COMPACTION_LAG = "min.compaction.lag.ms"
MAX_COMPACTION_LAG = "max.compaction.lag.ms"
GUARD_SETTINGS = (MIN_COMPACTION_LAG, MAX_COMPACTION_LAG)
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
TIMESTAMP_BEFORE, TIMESTAMP_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
TIMESTAMP_TYPE, CREATE_TIME = "message.timestamp.type", "CreateTime"
# The owner's timestamp type is stored as the note of the setting that limits old timestamps, because a type is not a number and cannot contain a note.
TIMESTAMP_TYPES = (None, CREATE_TIME, "LogAppendTime")
RESTORE_MARK = 0
# Marks are bits of a note of five digits (see ``held_value``): 16 bits fit, 17 do not.
COPY_MARKS = range(1, 16)
# No copy takes this long. An older guard was left by a dead run.
FORGOTTEN_DAYS = 7
# Put back for an owner's value that is too large to be stored: 31 years, or 10 petabytes, have the same effect as no limit.
UNLIMITED = 2**63 - 1
_UNIT = 10**18
# The smallest value of an owner is -1, and 0 stands for none.
_SHIFT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The guard on a topic: its marks, and the day (since the epoch) on which the first copy set it, 0 while no copy needs it."""

    marks: frozenset[int]
    since: int


def guard_on(config: Overrides) -> Guard | None:
    """The guard on a topic with these overrides, of any run, or None."""
    lag = read_held(MIN_COMPACTION_LAG, config.get(MIN_COMPACTION_LAG))
    if lag is None:
        return None
    marks = frozenset(mark for mark in (RESTORE_MARK, *COPY_MARKS) if lag.note >> mark & 1)
    day = read_held(MAX_COMPACTION_LAG, config.get(MAX_COMPACTION_LAG))
    return Guard(marks=marks, since=day.note if day else 0)


def marked(config: Overrides, mark: int) -> bool:
    """True if a topic with these overrides has this mark on its guard."""
    guard = guard_on(config)
    return guard is not None and mark in guard.marks


def free_marks(configs: Iterable[Overrides], today: int) -> list[int]:
    """Marks for a copy that none of these topics has on its guard. ``today`` is the number of days since the epoch."""
    taken = {mark for config in configs if (guard := guard_on(config)) and not _forgotten(guard, today) for mark in guard.marks}
    return [mark for mark in COPY_MARKS if mark not in taken]


def joined(config: Overrides, mark: int, today: int) -> Changes:
    """The changes that add ``mark`` to the topic's guard; empty if it is already there. Marks on a forgotten guard are removed, except a restore's:
    that restore's application ends its own hold.
    """
    guard = guard_on(config) or Guard(marks=frozenset(), since=0)
    forgotten = _forgotten(guard, today)
    if mark in guard.marks and not forgotten:
        return {}
    marks = guard.marks & {RESTORE_MARK} if forgotten else guard.marks
    return guarded(owner_config(config), marks | {mark}, today if forgotten else guard.since or today)


def _forgotten(guard: Guard, today: int) -> bool:
    return guard.since > 0 and not today - FORGOTTEN_DAYS < guard.since <= today + 1


def left(config: Overrides, mark: int) -> Changes:
    """The changes that remove ``mark`` from the topic's guard. The last mark to leave puts the owner's settings back."""
    guard = guard_on(config)
    if guard is None or guard.marks <= {mark}:
        return put_back(config, GUARD_SETTINGS)
    if mark not in guard.marks:
        return {}
    marks = guard.marks - {mark}
    return guarded(owner_config(config), marks, 0 if marks == {RESTORE_MARK} else guard.since)


def guarded(owner: Overrides, marks: Collection[int], since: int) -> dict[str, str]:
    """The settings of a guard with these marks. The cleaner compares a lag with record timestamps, which are event time. Only a lag that is longer
    than the age of all records protects late data too (LogCleanerManager#cleanableOffsets). The lag of a hold is.
    """
    return {
        MIN_COMPACTION_LAG: held_value(MIN_COMPACTION_LAG, owner.get(MIN_COMPACTION_LAG), sum(1 << mark for mark in marks)),
        MAX_COMPACTION_LAG: held_value(MAX_COMPACTION_LAG, owner.get(MAX_COMPACTION_LAG), since),
    }


def needs_guard(config: Overrides, default_policy: str) -> bool:
    """True for a topic that the cleaner may compact. ``default_policy`` is the broker's ``log.cleanup.policy`` for topics without an override. A
    topic whose owner has set a lag of centuries needs no guard.
    """
    lag = owner_config(config).get(MIN_COMPACTION_LAG, "0")
    return "compact" in config.get("cleanup.policy", default_policy) and int(lag) <= FORMS[MIN_COMPACTION_LAG].largest


def unguarded(topics: Iterable[TopicDescription], mark: int, default_policy: str) -> list[TopicDescription]:
    """The topics that the cleaner may compact because their guard does not have this mark."""
    return [topic for topic in topics if needs_guard(topic.config, default_policy) and not marked(topic.config, mark)]


def owner_config(config: Overrides) -> dict[str, str]:
    """A topic's overrides as its owner set them, without any hold. Manifests contain these."""
    changes = put_back(config, FORMS)
    return {key: value for key, value in config.items() if key not in changes} | {
        key: value for key, value in changes.items() if value is not None
    }


def put_back(config: Overrides, keys: Iterable[str]) -> Changes:
    """The changes that restore the owner's values of ``keys``. Only keys that still have a held value are changed: any other value was set by the
    owner since.
    """
    carried = {key: held for key in keys if (held := read_held(key, config.get(key))) is not None}
    changes: dict[str, str | None] = {key: held.owner for key, held in carried.items()}
    kind = carried[TIMESTAMP_BEFORE].note if TIMESTAMP_BEFORE in carried else len(TIMESTAMP_TYPES)
    if kind < len(TIMESTAMP_TYPES) and config.get(TIMESTAMP_TYPE) == CREATE_TIME:
        changes[TIMESTAMP_TYPE] = TIMESTAMP_TYPES[kind]
    return changes


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
