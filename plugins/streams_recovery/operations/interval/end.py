"""The end of an interval: everything of it is taken away but what it published, its slot is given back, and an entry says what came of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.sandbox.drill import furthest
from streams_recovery.core.sandbox.interval_log import PublishReport, ReprocessEntry, ReprocessRequest, succeeded
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.interval.begin import WHAT, Planned, outputs_of
from streams_recovery.operations.interval.slots import release
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.strategies import OfInterval
from streams_recovery.operations.sandbox import teardown
from streams_recovery.operations.sandbox.teardown import Removed
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.run_artifacts import RunArtifacts

# Intervals end side by side, and the entry of a step that is repeated is among the newest.
_NEWEST = 100


def remove(recovery: RecoveryContext, ticket: RestoreTicket, published: PublishReport | None) -> Removed:
    """Stop the interval's application and take away all of it, but for results that were published side by side: ``published`` is what ``publish_results``
    returned, None when it did not come so far. Then its slot is free. Raises ``ApplicationRunning``, and ``Damaged`` when something is left: the slot
    stays taken then.
    """
    keep = outputs_of(recovery).values() if published is not None and published.how is PublishPolicy.SIDE_BY_SIDE else ()
    removed = teardown.remove(recovery, ticket, keep=tuple(keep), what=WHAT)
    if isinstance(ticket.request, OfInterval):
        release(recovery, ticket.request.source, ticket.request.slice.interval.name, run_id=None)
    return removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How far an interval came. ``planned``, ``ticket`` and ``published`` are what its steps returned, None where one did not succeed; it is ``finished``
    when the last step of its restore has succeeded, and ``left`` names what could not be removed.
    """

    planned: Planned | None
    ticket: RestoreTicket | None
    published: PublishReport | None
    finished: bool
    left: tuple[str, ...]


def conclude(recovery: RecoveryContext, request: ReprocessRequest, done: Done, *, run_id: str, requested_by: str) -> ReprocessEntry:
    """Add the interval to the history, however it ended, and return its entry; an interval of which nothing is left gives its slot back. ``recovery`` is that
    of the application itself. Repeating it adds nothing.
    """
    interval = request.slice.interval
    journal, savepoint = ((), None) if done.ticket is None else _restored(recovery, done.ticket)
    # What is removed is closed by that, wherever it failed.
    own = journal if done.finished else tuple(step for step in journal if step.phase is not Phase.CLOSED)
    reached = furthest(own) if journal else None
    records = None if done.planned is None else done.planned.records
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
        succeeded=succeeded(records, reached, done.published, done.left),
        late=0 if done.planned is None else done.planned.late,
    )
    if not done.left:
        release(recovery, recovery.application_id, interval.name, run_id=run_id)
    log = _log(recovery)
    known = next((one for one in itertools.islice(log.read_back(), _NEWEST) if (one.run, one.start) == (run_id, interval.start)), None)
    if known is not None and (known.restore_id, known.outcome) == (entry.restore_id, entry.outcome):
        return known
    log.append(entry)
    return entry


def raise_unless_succeeded(entry: ReprocessEntry) -> None:
    """Raise ``Damaged``, so that nobody takes an interval for processed that is not."""
    if not entry.succeeded:
        left = f"; left: {', '.join(entry.left)}" if entry.left else ""
        raise Damaged(
            f"the interval {entry.outcome}{left}",
            next_step="see the first task of this run that failed; the application itself was not changed, and the interval can be run again",
            run=entry.run,
        )


def history(recovery: RecoveryContext) -> list[ReprocessEntry]:
    """Every interval that was processed again, oldest run first."""
    return _log(recovery).read_all()


def _restored(recovery: RecoveryContext, ticket: RestoreTicket) -> tuple[tuple[JournalEntry, ...], str | None]:
    layout = Layout(ticket.application_id)
    journal = AppendLog(recovery.repository, layout.journal(ticket.restore_id), JournalEntry).read_all()
    planned = RunArtifacts(recovery.repository, layout).read(RestorePlan, ticket.plan)
    with_state = planned.point is not None and planned.point.with_state
    return tuple(journal), planned.savepoint_id if with_state else None


def _log(recovery: RecoveryContext) -> AppendLog[ReprocessEntry]:
    return AppendLog(recovery.repository, recovery.layout.reprocessed, ReprocessEntry)
