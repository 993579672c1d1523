"""The run of an interval: its slot, its plan, a restore that is open, and its end.

Slots are taken from the application's own part of the repository, so that no orchestrator can start too many. At the end everything is taken away but what the
interval published, its slot is given back, and an entry says what came of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.config.sandbox import Reprocess
from streams_recovery.config.sandbox_application import SandboxApplication, SandboxName
from streams_recovery.core.approval import approval
from streams_recovery.core.errors import ConfigInvalid, Damaged, LockHeld, Refused
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.restore.parts.interval import own_records
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import NO_STATE
from streams_recovery.core.sandbox import results
from streams_recovery.core.sandbox.drill import furthest
from streams_recovery.core.sandbox.interval_log import (
    IntervalBase,
    PublishReport,
    ReprocessEntry,
    ReprocessOptions,
    ReprocessRequest,
    reprocess_request,
    succeeded,
)
from streams_recovery.core.sandbox.results import PublishPolicy, SlotEntry, SlotLease, why_not_replaced
from streams_recovery.core.words import LATEST, moment, run_suffix
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.strategies import OfInterval
from streams_recovery.operations.restore.strategies.interval import OwnRecords
from streams_recovery.operations.sandbox import teardown
from streams_recovery.operations.sandbox.teardown import Removed
from streams_recovery.operations.unfinished import newest_restore
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.run_artifacts import RunArtifacts

WHAT = "reprocessing"
# Intervals end side by side, and the entry of a step that is repeated is among the newest.
_NEWEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An interval with its slot. ``application`` is the configured name of what processes it."""

    application: str
    slot: int
    request: ReprocessRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The base and the input of an interval. ``records`` are its own; with none nothing is to be done. ``late`` more are left out, as the request allows.
    ``text`` is for people.
    """

    records: int
    savepoint: str | None
    text: str
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The progress of an interval. ``planned``, ``ticket`` and ``published`` are what its steps returned, None for a step that did not succeed. It is
    ``finished`` when the last step of its restore has succeeded. ``left`` names what could not be removed.
    """

    planned: Planned | None
    ticket: RestoreTicket | None
    published: PublishReport | None
    finished: bool
    left: tuple[str, ...]


def _section(recovery: RecoveryContext) -> Reprocess:
    """The application's section ``reprocess``. Raises ``ConfigInvalid`` when there is none, or it is not enabled."""
    found = recovery.config.reprocess
    if found is None or not found.enabled:
        raise ConfigInvalid(f"reprocessing is not configured for {recovery.config.name}", next_step="write a reprocess section")
    return found


def requested(recovery: RecoveryContext, asked: ReprocessOptions, interval: Interval) -> ReprocessRequest:
    """The request to the application that ``recovery`` is of: options that are not set are those of its configuration. Raises ``ConfigInvalid`` and
    ``Refused``.
    """
    own = _section(recovery)
    filled = {name: getattr(asked, name) or getattr(own, name) for name in ("lateness", "overlap", "beyond", "base")}
    return reprocess_request(replace(asked, **filled), interval, recovery.application_id, own.tables)


def claim(recovery: RecoveryContext, request: ReprocessRequest, *, run_id: str) -> Claimed | None:
    """A slot for the interval, the one it has when its last run has ended or died; None while all of them are taken. ``recovery`` is that of the application
    itself. Raises ``LockHeld`` while the interval is being processed.
    """
    reprocess, name = _section(recovery), request.slice.interval.name
    held = _lock(recovery, name).holder()
    if held is not None:
        raise LockHeld(
            f"interval {name} is being processed: the lock is held by {held.owner!r}",
            next_step="wait until that run has ended; if it is dead, its lock runs out by itself",
            owner=held.owner,
        )
    log = _slot_log(recovery, recovery.application_id)
    if results.take(log.last(), name, run=run_id, at=recovery.clock(), slots=reprocess.parallel).slot is None:
        return None
    taken: list[SlotEntry] = []

    def decide(last: SlotEntry | None, _number: int) -> SlotEntry:
        taken.append(results.take(last, name, run=run_id, at=recovery.clock(), slots=reprocess.parallel))
        return taken[-1]

    log.append_after(decide)
    slot = taken[-1].slot
    return (
        None
        if slot is None
        else Claimed(application=str(SandboxName(application=recovery.config.name, interval=name, slot=slot)), slot=slot, request=request)
    )


def _lock(recovery: RecoveryContext, interval: str) -> ApplicationLock:
    return ApplicationLock(recovery.repository, Layout(f"{_section(recovery).application_id}-{interval}"), recovery.clock)


def busy(recovery: RecoveryContext) -> tuple[str, ...]:
    """Intervals that have a slot now."""
    return results.busy(_slot_log(recovery, recovery.application_id).last())


def _release(recovery: RecoveryContext, application_id: str, interval: str, *, run_id: str) -> None:
    """Give the slot of an interval back, if ``run_id`` has it. ``application_id`` is the application's own. Repeating it is harmless."""
    log, at = _slot_log(recovery, application_id), recovery.clock()
    if results.release(log.last(), interval, run=run_id, at=at) is not None:
        # When another run was faster and nothing is left to give back, its entry is written once more: that changes nothing.
        same = SlotEntry(interval=interval, at=at, slot=None, taken={})
        log.append_after(lambda newest, _: results.release(newest, interval, run=run_id, at=at) or newest or same)


def _lease(recovery: RecoveryContext, source: str, interval: str) -> SlotLease | None:
    """The lease of the slot that ``recovery`` is of, None unless the interval has it. Once it was given back, what runs there may be another interval's."""
    name, lease = SandboxName.of(recovery.config.name), results.lease_of(_slot_log(recovery, source).last(), interval)
    return lease if lease is not None and name is not None and lease.slot == name.slot else None


def _require_slot(recovery: RecoveryContext, source: str, request: ReprocessRequest) -> SlotLease:
    interval = request.slice.interval.name
    lease = _lease(recovery, source, interval)
    if lease is None:
        raise Refused(
            f"interval {interval} has no slot any more: a run of it is over, and another interval may be in the slot that it had",
            next_step="nothing was changed; process the interval again from the beginning, in a new run or with all tasks of this one cleared",
            interval=interval,
        )
    return lease


def _slot_log(recovery: RecoveryContext, application_id: str) -> AppendLog[SlotEntry]:
    """The log of slots that were taken and given back."""
    return AppendLog(recovery.repository, Layout(application_id).slots, SlotEntry)


def clear(recovery: RecoveryContext, source: str, request: ReprocessRequest, *, run_id: str) -> Removed:
    """Remove the leftovers of an earlier run of this interval, also results that it published side by side. Nothing is removed if ``plan`` would refuse the
    interval, or it has no slot. ``recovery`` is that of the interval, ``source`` the id of the application itself.
    """
    _checked(recovery, source, request)
    _require_slot(recovery, source, request)
    return teardown.clear(recovery, run_id=run_id, what=WHAT)


def plan(recovery: RecoveryContext, source: str, request: ReprocessRequest) -> Planned:
    """Plan the interval. Changes nothing. ``source`` is the id of the application itself. Raises ``Refused`` for input that may not be whole, when there is no
    base, and when outputs cannot take the results.
    """
    own = _checked(recovery, source, request)
    if own.taken == 0:
        interval = request.slice.interval
        late = f" {own.left:,} records of it come behind the end of their log and are left out." if own.left else ""
        text = f"No input from {moment(interval.start)} to {moment(interval.end)}: 0 records. Nothing is started.{late}"
        return Planned(records=0, savepoint=None, text=text, late=own.left)
    planned = restore.plan(recovery, restore_request(source, request))
    return Planned(records=own_records(planned), savepoint=planned.savepoint_id, text=planned.text, late=own.left)


def _checked(recovery: RecoveryContext, source: str, request: ReprocessRequest) -> OwnRecords:
    """The number of records that the interval has. Raises ``Refused`` when it could not be processed."""
    wanted = restore_request(source, request)
    own = restore.records_of(recovery, wanted)
    if own.taken:
        topics = {topic.name: len(topic.partitions) for topic in wanted.resolve(recovery).manifest.topics}
        if request.publish is PublishPolicy.REPLACE:
            check_outputs(recovery, topics, request)
    return own


def restore_request(source: str, request: ReprocessRequest, savepoint: str | None = None) -> OfInterval:
    """The restore that begins an interval. ``savepoint`` is the base that was planned, for an interval that has one."""
    base = NO_STATE if request.base is IntervalBase.NONE else savepoint or LATEST
    return OfInterval(source=source, savepoint=base, reason=request.reason or WHAT, slice=request.slice)


def open_interval(
    recovery: RecoveryContext, source: str, request: ReprocessRequest, planned: Planned, *, run_id: str, requested_by: str
) -> RestoreTicket:
    """Take the lock of the interval's application. No person approves its plan: it may replace nothing, and the same records are taken whatever was archived
    since. Raises ``Refused`` for an interval without a slot: a task that is cleared alone has that of a run that is over.
    """
    _require_slot(recovery, source, request)
    wanted = restore_request(source, request, planned.savepoint)
    ticket = restore.open_restore(
        recovery, wanted, run_id=run_id, requested_by=requested_by, approved_hash=approval(restore.plan(recovery, wanted))
    )
    try:
        _take_over(recovery, source, request, run_id=run_id)
    except BaseException:
        recovery.lock.release(ticket.lock)
        raise
    return ticket


def _take_over(recovery: RecoveryContext, source: str, request: ReprocessRequest, *, run_id: str) -> None:
    """The run that works has the slot, and no other that has claimed the interval meanwhile may give it back."""
    lease, name = _require_slot(recovery, source, request), request.slice.interval.name
    if lease.run != run_id:
        log, at = _slot_log(recovery, source), recovery.clock()
        log.append_after(lambda last, _: results.take(last, name, run=run_id, at=at, slots=lease.slot + 1))
        _require_slot(recovery, source, request)


def outputs_of(recovery: RecoveryContext) -> dict[str, str]:
    """The interval's own topic for each output of the application."""
    if not isinstance(recovery.config, SandboxApplication):
        raise ConfigInvalid(f"{recovery.config.name} is no interval of an application", next_step="open the interval by its name")
    mapped = set(recovery.config.topics.outputs)
    return {name: own for name, own in recovery.config.own.items() if own in mapped}


def check_outputs(recovery: RecoveryContext, partitions: Mapping[str, int], request: ReprocessRequest) -> None:
    """Raise ``Refused`` naming every output that cannot take results of the interval. ``partitions`` are those of the results, by the outputs' names."""
    outputs = outputs_of(recovery)
    described = recovery.cluster.describe_topics(list(outputs))
    settings = recovery.cluster.settings(list(described))
    problems = [f"{name} does not exist" for name in outputs if name not in described]
    for name, found in described.items():
        expected = partitions.get(name, found.partitions)
        why = why_not_replaced(name, settings[name], found.partitions, expected, request.slice.interval.start, recovery.clock())
        problems += [why] if why else []
    if problems:
        raise Refused(
            f"results of the interval cannot be put into the outputs: {'; '.join(problems)}",
            next_step="nothing was written; leave the results side by side, or change these topics",
            problems=problems,
        )


def remove(recovery: RecoveryContext, ticket: RestoreTicket, published: PublishReport | None) -> Removed:
    """Stop the interval's application and take away all of it, but for results that were published side by side: ``published`` is what ``publish_results``
    returned, None when it did not come so far. Then its slot is free, unless a later run has claimed the interval. Raises ``ApplicationRunning``, and
    ``Damaged`` when something is left: the slot stays taken then. Nothing is left of a run whose slot was given back, or behind which the interval was
    begun again: what is there is not its own.
    """
    own = ticket.request
    lease = _lease(recovery, own.source, own.slice.interval.name) if isinstance(own, OfInterval) else None
    if isinstance(own, OfInterval) and (lease is None or newest_restore(recovery) != ticket.restore_id):
        return Removed(topics=(), directories=(), stopped=())
    keep = outputs_of(recovery).values() if published is not None and published.how is PublishPolicy.SIDE_BY_SIDE else ()
    removed = teardown.remove(recovery, ticket, keep=tuple(keep), what=WHAT)
    if isinstance(own, OfInterval) and lease is not None and ticket.restore_id.endswith(f"-{run_suffix(lease.run)}"):
        _release(recovery, own.source, own.slice.interval.name, run_id=lease.run)
    return removed


def conclude(recovery: RecoveryContext, request: ReprocessRequest, done: Done, *, run_id: str, requested_by: str) -> ReprocessEntry:
    """Add the interval to the history, however it ended, and return its entry; an interval of which nothing is left gives its slot back. ``recovery`` is that
    of the application itself. Repeating it adds nothing.
    """
    interval = request.slice.interval
    journal, savepoint = ((), None) if done.ticket is None else _restored(recovery, done.ticket)
    # The removal of a failed interval closes its journal too: that is not its own progress.
    own = journal if done.finished else tuple(step for step in journal if step.phase is not Phase.CLOSED)
    reached = furthest(own) if journal else None
    records = None if done.planned is None else done.planned.records
    late = 0 if done.planned is None else done.planned.late
    entry = ReprocessEntry(
        run=run_id,
        requested_by=requested_by,
        reason=request.reason,
        start=interval.start,
        end=interval.end,
        base=request.base,
        at=recovery.clock(),
        restore_id=None if done.ticket is None else done.ticket.restore_id,
        savepoint_id=savepoint,
        records=records,
        reached=reached,
        published=done.published,
        left=done.left,
        succeeded=succeeded(records, reached, done.published, done.left, late=late),
        late=late,
    )
    # Where this one never began, another run of the interval may have been faster, and works in the slot that both have claimed.
    if not done.left and (done.ticket is not None or _lock(recovery, interval.name).holder() is None):
        _release(recovery, recovery.application_id, interval.name, run_id=run_id)
    log = _log(recovery)
    known = next((one for one in itertools.islice(log.read_back(), _NEWEST) if (one.run, one.start) == (run_id, interval.start)), None)
    if known is not None and (known.restore_id, known.outcome) == (entry.restore_id, entry.outcome):
        return known
    log.append(entry)
    return entry


def raise_unless_succeeded(entry: ReprocessEntry) -> None:
    """Raise ``Damaged`` for an interval that was not processed, so that its run does not count as a success."""
    if not entry.succeeded:
        left = f"; left: {', '.join(entry.left)}" if entry.left else ""
        raise Damaged(
            f"the interval {entry.outcome}{left}",
            next_step="give a larger lateness, with which those records end nothing, and run the interval again"
            if entry.took_nothing
            else "see the first task of this run that failed; the application itself was not changed, and the interval can be run again",
            run=entry.run,
        )


def history(recovery: RecoveryContext) -> list[ReprocessEntry]:
    """Every interval that was processed again, oldest run first."""
    return _log(recovery).read_all()


def _restored(recovery: RecoveryContext, ticket: RestoreTicket) -> tuple[tuple[JournalEntry, ...], str | None]:
    layout = Layout(ticket.application_id)
    journal = AppendLog(recovery.repository, layout.journal(ticket.restore_id), JournalEntry).read_all()
    planned = RunArtifacts(recovery.repository, layout).read(RestorePlan, ticket.plan)
    return tuple(journal), planned.savepoint_id if planned.part.with_state else None


def _log(recovery: RecoveryContext) -> AppendLog[ReprocessEntry]:
    return AppendLog(recovery.repository, recovery.layout.reprocessed, ReprocessEntry)
