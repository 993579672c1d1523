"""Restores that failed after they had begun to destroy: until one of them is finished, the application has no state worth saving.

Pins are here too, the marks on single savepoints: kept whatever the rules of retention say, or left to them again. Persons set them, and restores that need
one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.names import is_name
from streams_recovery.core.repository.journal import JournalEntry, Phase, RestoreScope, created_by, may_restart, result_of
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.retention import DAY_MS, KeepRules, Pin, Pins
from streams_recovery.core.words import command, in_order, is_ahead, is_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import held_lock
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.json_object import UNREADABLE, only_this_one
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.run_artifacts import RunArtifacts

if TYPE_CHECKING:
    from streams_recovery.core.restore.plan import RestorePlan

PLAN: Final = "restore-plan"
# Of a rescale, behind the placing of its records.
PLACED: Final = "placed-plan"


def unfinished_restore(recovery: RecoveryContext) -> str | None:
    """The id of the newest restore that began to destroy, when it is not finished, else None. A restore that destroyed nothing says nothing about the state
    that it found, also when it was declared over; nor does one of single topics, and a restore of copies does not count. Raises ``Damaged`` for a journal that
    cannot be read: how far that restore came is unknown.
    """
    for restore_id in reversed(in_order(restores_of(recovery), recovery.clock())):
        last = _last(recovery, restore_id)
        if last is None or may_restart(last.phase) or last.scope is RestoreScope.COPIES:
            continue
        if last.phase is not Phase.CLOSED:
            return restore_id
        if any(_replaced_state(entry) for entry in readable_back(recovery, restore_id)):
            return _begun_ahead(recovery, restore_id)
    return None


def _begun_ahead(recovery: RecoveryContext, over: str) -> str | None:
    """The restore that is half way and has the id of a clock that was ahead, if it went on behind the one that is ``over``, by the times at which the store got
    their entries: where a clock was set back, its id tells nothing, and what it left is no state.
    """
    ahead = [one for one in restores_of(recovery) if is_ahead(one, recovery.clock())]
    if not ahead or over in ahead:
        return None
    stored = dict[str, int]()
    for file in recovery.repository.listed(recovery.layout.restores):
        restore_id = file.key.removeprefix(recovery.layout.restores).split("/")[0]
        stored[restore_id] = max(file.modified, stored.get(restore_id, file.modified))
    for restore_id in ahead:
        last = _last(recovery, restore_id) if stored.get(restore_id, 0) > stored.get(over, 0) else None
        if last is not None and last.phase is not Phase.CLOSED and _replaced_topics(last):
            return restore_id
    return None


def _took_over_from(recovery: RecoveryContext, newest: str) -> Iterator[str]:
    """Restores that the ``newest`` one, which is half way, may have taken over from: the earlier ones that replaced state, back to the last that was finished.
    As far as journals can be read.
    """
    before = in_order(restores_of(recovery), recovery.clock())
    for restore_id in reversed(before[: before.index(newest)]):
        written = list(readable_back(recovery, restore_id))
        if any(map(_replaced_state, written)):
            if written[0].phase is Phase.CLOSED:
                return
            yield restore_id


def _replaced_state(entry: JournalEntry) -> bool:
    return entry.scope is RestoreScope.STATE and _replaced_topics(entry)


def _replaced_topics(entry: JournalEntry) -> bool:
    return entry.scope is not RestoreScope.COPIES and entry.phase is not Phase.CLOSED and not may_restart(entry.phase)


def has_destroyed(recovery: RecoveryContext, restore_id: str) -> bool:
    """True when this restore began to destroy, whatever became of it; also when it was declared over. False for what is no restore. Raises
    ``Damaged``.
    """
    last = _last(recovery, restore_id)
    return last is not None and not may_restart(last.phase)


def restore_journals(recovery: RecoveryContext) -> Iterator[tuple[JournalEntry, ...]]:
    """The journal of every restore of the application, as far as it can be read. An entry that is passed over can only make a topic look like one that no
    restore has made, which is told or refused.
    """
    return (tuple(reversed(list(readable_back(recovery, restore_id)))) for restore_id in in_order(restores_of(recovery), recovery.clock()))


def created_by_restores(recovery: RecoveryContext) -> dict[str, set[str]]:
    """Ids of the topics that restores of the application have created, by name."""
    ids: dict[str, set[str]] = {}
    for entries in restore_journals(recovery):
        for name, found in created_by(entries).items():
            ids.setdefault(name, set()).update(found)
    return ids


def newest_restore(recovery: RecoveryContext) -> str | None:
    """The id of the restore that began last, None when there was none."""
    return next(reversed(in_order(restores_of(recovery), recovery.clock())), None)


def last_deploying(recovery: RecoveryContext, *, before: str | None = None) -> str | None:
    """The id of the newest restore that has deployed a version, or of the newest ``before`` another one, as far as journals can be read; None if none has."""
    ids = in_order(restores_of(recovery), recovery.clock())
    earlier = ids[: ids.index(before)] if before in ids else ids
    return next((one for one in reversed(earlier) if any(entry.phase is Phase.DEPLOYED for entry in readable_back(recovery, one))), None)


def last_replacing(recovery: RecoveryContext) -> str | None:
    """The id of the newest restore that began to replace the state, whatever became of it, as far as journals can be read; None when there was none."""
    newest_first = reversed(in_order(restores_of(recovery), recovery.clock()))
    return next((one for one in newest_first if any(map(_replaced_state, readable_back(recovery, one)))), None)


def replaced_at(recovery: RecoveryContext, application_id: str, upto: int) -> int:
    """The last time (ms) up to which a restore of an application was at work on its state, as far as journals can be read, and no later than ``upto``: what was
    before it was given up. 0 where there was none.
    """
    own = replace(recovery, layout=Layout(application_id))
    for one in reversed(in_order(restores_of(own), recovery.clock())):
        if at := max((entry.at for entry in readable_back(own, one) if _replaced_state(entry) and entry.at <= upto), default=0):
            return at
    return 0


def replaced_since(recovery: RecoveryContext, moment: int) -> str | None:
    """The id of the newest restore that has replaced state or topics of the application after a moment (ms), as far as journals can be read; None if none has.
    Those that came to nothing, and copies, hide no earlier one.
    """
    for one in reversed(in_order(restores_of(recovery), recovery.clock())):
        if any(entry.at > moment and _replaced_topics(entry) for entry in readable_back(recovery, one)):
            return one
    return None


def replaced_nothing(recovery: RecoveryContext, restore_id: str) -> bool:
    """True for a restore whose journal, as far as it can be read, shows none of the state replaced. False for one without a journal."""
    written = list(readable_back(recovery, restore_id))
    return bool(written) and not any(map(_replaced_state, written))


def restores_of(recovery: RecoveryContext) -> set[str]:
    """Ids of all restores that were begun. Objects of other names are passed over."""
    return set(
        filter(
            is_id, (key.removeprefix(recovery.layout.restores).split("/")[0] for key in recovery.repository.keys(recovery.layout.restores))
        )
    )


def plan_of(recovery: RecoveryContext, restore_id: str) -> RestorePlan:
    """The plan of a restore that is not this run's own; of a rescale that of the records placed anew. Raises ``NotFound`` and ``Damaged``."""
    # Every kind of restore with all of its parts, which a listing without one does not need.
    from streams_recovery.core.restore.plan import RestorePlan, check_plan  # noqa: PLC0415

    placed = result_of(tuple(readable_back(recovery, restore_id))[::-1], Phase.SAVED)
    try:
        planned = recovery.artifacts.read_once(RestorePlan, restore_id, PLAN)
        planned = planned if placed is None else recovery.artifacts.read_own(RestorePlan, restore_id, placed)
    except NotFound as error:
        raise half_there(recovery, restore_id, error) from None
    check_plan(planned, where=recovery.layout.work(restore_id, PLAN))
    return planned


def half_there(recovery: RecoveryContext, restore_id: str, error: NotFound) -> NotFound:
    """The error for a restore of which a journal is there and nothing else, as after an undelete; ``error`` itself for one without a journal."""
    if restore_id not in restores_of(recovery):
        return error
    return NotFound(
        f"restore {restore_id} of {recovery.application_id} has a journal, and what it was to do is gone: nobody can go on with it",
        next_step="make sure that the application works as it is, or restore it again; then dismiss this restore",
        restore=restore_id,
    ).then(command("dismiss", recovery.config.name, restore_id, *recovery.config.storage.place_option))


def keeps_work(recovery: RecoveryContext, restore_id: str) -> str | None:
    """The reason why the run artifacts of a restore may not go: it may be resumed, or its journal cannot be read. None for a restore that is over, or that
    failed before it had destroyed anything: that one cannot go on once it has lost the lock.
    """
    try:
        last = _last(recovery, restore_id)
    except Damaged as error:
        return error.reason
    except UNREADABLE as error:
        return only_this_one(recovery.repository, recovery.layout, error)
    if last is None:
        return "it has no journal that can be read"
    return None if last.phase is Phase.CLOSED or may_restart(last.phase) else f"the restore failed after {last.phase} and is not over"


def needed_savepoints(recovery: RecoveryContext) -> frozenset[str]:
    """The application's own savepoints that its unfinished restores need, those of copies too: the savepoints that they bring back, and the safety savepoints
    that lead back. A restore that followed another one half way has no safety savepoint of its own: that of the earlier one leads back from both.
    ``needed_by_others`` has those that other applications' restores need. Raises what ``plan_of`` raises.
    """
    restore_id = unfinished_restore(recovery)
    found: set[str | None] = set()
    if restore_id is not None:
        found |= {recovery.safety.published_by_run(one) for one in _took_over_from(recovery, restore_id)}
    for one in (*_unfinished_copies(recovery), *(() if restore_id is None else (restore_id,))):
        planned = plan_of(recovery, one)
        found |= {planned.savepoint_id, planned.part.inputs_from} if planned.source_application_id == recovery.application_id else set()
        found.add(recovery.safety.published_by_run(one))
    return frozenset(one for one in found if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededByOthers:
    """The application's savepoints that unfinished restores of other applications in the repository need, such as that of a clone: ``by`` has these restores of
    each savepoint, in words. An ``unreadable`` restore may need any of them.
    """

    by: Mapping[str, tuple[str, ...]]
    unreadable: tuple[str, ...]


def needed_by_others(recovery: RecoveryContext) -> NeededByOthers:
    """Asks the journals of all applications in the repository. A restore that destroyed nothing yet counts while its application's lock is held: it may be at
    work, and this application's lock does not stop it.
    """
    found: dict[str, tuple[str, ...]] = {}
    unreadable: list[str] = []
    for other in other_parts(recovery):
        for restore_id, planned in _going_on(other, unreadable):
            if planned.source_application_id == recovery.application_id:
                for savepoint_id in filter(None, {planned.savepoint_id, planned.part.inputs_from}):
                    needed = (
                        f"restore {restore_id} of {other.layout.application_id}, which is not finished; {_how_to_end(other, restore_id)}"
                    )
                    found[savepoint_id] = (*found.get(savepoint_id, ()), needed)
    return NeededByOthers(by=found, unreadable=tuple(unreadable))


def other_parts(recovery: RecoveryContext) -> Iterator[RecoveryContext]:
    """The context with the part of each other application in the repository, configured here or not, to read its restores."""
    for application_id in filter(is_name, recovery.repository.directories("")):
        if application_id != recovery.application_id:
            layout = Layout(application_id)
            yield replace(
                recovery,
                layout=layout,
                artifacts=RunArtifacts(recovery.repository, layout),
                lock=ApplicationLock(recovery.repository, layout, recovery.clock),
            )


def _going_on(other: RecoveryContext, unreadable: list[str]) -> Iterator[tuple[str, RestorePlan]]:
    """Restores that may go on, with their plans. Journals of those of which that is not known are added to ``unreadable``."""
    replaced = False
    for restore_id in reversed(in_order(restores_of(other), other.clock())):
        try:
            last = _last(other, restore_id)
            if last is None:
                continue
            if last.phase is Phase.CLOSED:
                replaced = replaced or any(map(_replaced_state, readable_back(other, restore_id)))
            elif may_restart(last.phase):
                if other.lock.holder() is not None:
                    with contextlib.suppress(NotFound):
                        yield restore_id, plan_of(other, restore_id)
            elif last.scope is RestoreScope.COPIES or not replaced:
                yield restore_id, plan_of(other, restore_id)
        except (Damaged, NotFound):
            unreadable.append(f"{other.layout.journal(restore_id)} ({_how_to_end(other, restore_id)})")


def _how_to_end(other: RecoveryContext, restore_id: str) -> str:
    """The way to end a restore of another application that will not be finished, in words: by the name in its own configuration."""
    application_id = other.layout.application_id
    name = next((one.name for one in other.applications().values() if one.application.id == application_id), None)
    if name is None:
        return (
            f"no configuration here has the application id {application_id}: with one that has, `dismiss` and {restore_id} end that restore"
        )
    return f"to end that restore: {command('dismiss', name, restore_id)}"


def _unfinished_copies(recovery: RecoveryContext) -> Iterator[str]:
    """Restores of copies that may be resumed, by the newest entry of each that can be read."""
    for restore_id in restores_of(recovery):
        last = next(readable_back(recovery, restore_id), None)
        if last is not None and last.scope is RestoreScope.COPIES and last.phase is not Phase.CLOSED and not may_restart(last.phase):
            yield restore_id


def refuse_if_unfinished(recovery: RecoveryContext) -> None:
    """Raise ``Refused`` while a restore is unfinished: topics that are half loaded look as still as those of an application that was stopped."""
    restore_id = unfinished_restore(recovery)
    if restore_id is not None:
        # One of single topics has left the state as it is: its undo would bring back that of an earlier restore.
        ways = "resume it" if replaced_nothing(recovery, restore_id) else "resume it, undo it, or restore again"
        raise Refused(
            f"restore {restore_id} of {recovery.application_id} failed after it had begun to replace topics: its state is no savepoint",
            next_step=f"{ways}. Dismiss it only where the application was brought back in another way: that says that its state is whole",
            restore=restore_id,
        ).then(
            command("resume", recovery.config.name, restore_id, *recovery.config.storage.place_option),
            command("dismiss", recovery.config.name, restore_id, *recovery.config.storage.place_option),
        )


def dismiss(recovery: RecoveryContext, restore_id: str) -> None:
    """Declare a restore over that will not be finished, also one whose journal cannot be read or has a hole. Takes the application's lock for a moment: a
    restore at work is not over, and could not be resumed after this. Raises ``NotFound`` and ``LockHeld``.
    """
    if restore_id not in restores_of(recovery):
        raise NotFound(f"there is no restore {restore_id} of {recovery.application_id}", next_step="use the id from the error message")
    owner = f"dismiss {restore_id} {os.getpid()}-{os.urandom(4).hex()}"
    with held_lock(recovery, owner, purpose=f"dismissal of restore {restore_id}"):
        journal_of(recovery, restore_id).append(JournalEntry(phase=Phase.CLOSED, at=recovery.clock(), created=()), whole=False)


def _last(recovery: RecoveryContext, restore_id: str) -> JournalEntry | None:
    """The newest entry of a restore's journal, None without one. Nothing follows the end of a restore, so whatever is strange besides matters no more."""
    try:
        return journal_of(recovery, restore_id).last()
    except Damaged as error:
        readable = next(readable_back(recovery, restore_id), None)
        if readable is not None and readable.phase is Phase.CLOSED:
            return readable
        raise Damaged(
            f"how far restore {restore_id} of {recovery.application_id} came is not known: {error.reason}",
            next_step=f"{error.next_step}; when there was no such restore, or it is over, dismiss it",
            **error.facts,
        ).then(command("dismiss", recovery.config.name, restore_id, *recovery.config.storage.place_option)) from None


def readable_back(recovery: RecoveryContext, restore_id: str) -> Iterator[JournalEntry]:
    """The journal of a restore from its newest entry on, as far as it can be read."""
    return journal_of(recovery, restore_id).readable_back(whole=False)


def journal_of(recovery: RecoveryContext, restore_id: str) -> AppendLog[JournalEntry]:
    """The journal of a restore of the application."""
    return AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry)


def pin_log(recovery: RecoveryContext) -> AppendLog[Pin]:
    """The log of pins, oldest first."""
    return AppendLog(recovery.repository, recovery.layout.pins, Pin, restricts=lambda mark: mark.keep)


def keep_rules(recovery: RecoveryContext) -> KeepRules:
    """The configured rules of retention."""
    rules = recovery.config.retention
    return KeepRules(
        last=rules.keep_last,
        hourly=rules.keep_hourly,
        daily=rules.keep_daily,
        weekly=rules.keep_weekly,
        monthly=rules.keep_monthly,
        minimum=rules.minimum,
    )


def pins_of(recovery: RecoveryContext, *, readable: bool = False) -> Pins:
    """All pins as retention counts them, each at the moment when it was stored, whatever time its writer names. ``readable`` is for lists that people look at:
    what cannot be read is passed over. Raises ``Damaged`` without it.
    """
    entries: Iterable[tuple[Pin, int]] = reversed(list(pin_log(recovery).dated_back(readable=readable)))
    marks = tuple(replace(mark, at=stored) for mark, stored in entries)
    return Pins(marks=marks, now=recovery.clock(), notice_ms=recovery.config.retention.grace_days * DAY_MS)


def pin(recovery: RecoveryContext, savepoint_id: str, *, keep: bool, requested_by: str, reason: str, restore_id: str | None = None) -> None:
    """Set or end a pin: that of ``restore_id``, or that of a person. Checks nothing: the savepoint may be gone, or expire meanwhile."""
    pin_log(recovery).append(
        Pin(savepoint_id=savepoint_id, keep=keep, at=recovery.clock(), requested_by=requested_by, reason=reason, restore_id=restore_id)
    )
