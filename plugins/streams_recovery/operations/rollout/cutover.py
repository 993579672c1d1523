"""The steps of a cut-over, and of an upgrade in one go. Each step of a cut-over proves the locks first and finds out from the repository how far it has come,
so each may be repeated.

In an upgrade in one go the old application is stopped for a savepoint and stays down, and the clone is started from that very savepoint as the live one. In
between the old application is on record as replaced, so that nothing starts it: no hourly savepoint, and no other run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning, Damaged, NotExact, Refused
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.ownership import OwnershipEntry, Role, agreed, unanswered
from streams_recovery.core.rollout.cutover import CutoverStep, UpgradePlan, counts_text, upgrade_plan, upgrade_problems
from streams_recovery.core.waiting import while_falling
from streams_recovery.operations import quiesce_record, savepoint
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import input_partitions
from streams_recovery.operations.ownership import entries_of
from streams_recovery.operations.ready import await_at_work
from streams_recovery.operations.renewed_lock import held_lock, renewed_lock, require_lock
from streams_recovery.operations.restore import RestoreTicket, phase_of
from streams_recovery.operations.rollout.discover import between, has_read, look, note_read, offsets_of, role, running, stranger, unread
from streams_recovery.operations.rollout.open import again_command, hold_both, refuse, release_both
from streams_recovery.operations.rollout.values import (
    BroughtBack,
    CutoverReport,
    CutoverRun,
    CutoverTicket,
    LiveStarted,
    OutputsTransferred,
    StoppedForCutover,
    await_repartition,
)
from streams_recovery.operations.savepoint.begin import owner
from streams_recovery.operations.unfinished import refuse_if_unfinished

REPORT = "cut-over-report"


def stop(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> StoppedForCutover:
    """Stop the clone, and for a cut-over also the old application, once it has processed all that the clone had. In this order no output can be
    missing. Raises ``ApplicationRunning``, ``Refused`` when the clone's state cannot be trusted, and ``ApplicationNotReady`` when the old application
    does not get so far.
    """
    hold_both(old, clone, ticket)
    if ticket.step is CutoverStep.ROLL_BACK:
        closed = _down(clone, ticket)
    elif role(clone) is Role.LIVE:
        # An earlier attempt came to the end. Now only the application that must not run is proven down.
        closed = _down(old, ticket)
    else:
        closed = _down(clone, ticket)
        if clone.config.application.guarantee is not Guarantee.EXACTLY_ONCE_V2 and not closed[clone.application_id]:
            raise Refused(
                f"{clone.application_id} did not close cleanly, so its state may hold more than its offsets say",
                next_step=f"the outputs stay with {old.application_id}; clone it again from a savepoint",
            )
        _await_old(old, clone, ticket)
        # The wait may have been long: an old application that goes on after all must not be stopped by a run that is over.
        hold_both(old, clone, ticket)
        closed |= _down(old, ticket)
        _require_nothing_missing(old, clone)
    return StoppedForCutover(closed_cleanly=closed)


def _down(recovery: RecoveryContext, ticket: CutoverTicket) -> dict[str, bool]:
    if role(recovery) is Role.LIVE:
        # Until the outputs are transferred it is to run: after a kill its next savepoint brings it back.
        quiesce_record.begin_stop(recovery, ticket.run, ())
    return {recovery.application_id: bring_down(recovery).clean}


def _missing(old: RecoveryContext, clone: RecoveryContext) -> dict[TopicPartition, int]:
    """Input that the clone has read and the old application has not: its output went to the clone's own topics only."""
    mine = offsets_of(clone, input_partitions(clone))
    theirs = offsets_of(old, mine)
    return between(clone, {tp: (theirs[tp], offset) for tp, offset in mine.items()})


def _require_nothing_missing(old: RecoveryContext, clone: RecoveryContext) -> None:
    left = _missing(old, clone)
    if left:
        raise ApplicationNotReady(
            f"{old.application_id} stopped before it had read what {clone.application_id} has, so output would be missing: {counts_text(left)}",
            next_step=f"start {old.application_id} and run the cut-over again",
            missing=left,
        )


def _await_old(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> None:
    """Wait until the old application has processed what the clone had read, and all that this caused."""
    target = offsets_of(clone, input_partitions(clone))
    if has_read(clone, target):
        return
    patience = float(old.config.restore.catch_up_timeout_seconds)
    if running(old):
        with ExitStack() as stack:
            stack.enter_context(renewed_lock(old, ticket.old))
            stack.enter_context(renewed_lock(clone, ticket.clone))
            what = f"{old.application_id} to process the input records that {clone.application_id} has read"
            while_falling(lambda: sum(_missing(old, clone).values()), patience=patience, what=what)
            _require_nothing_missing(old, clone)
            await_repartition(old, patience)
    else:
        _require_nothing_missing(old, clone)
        if left := unread(old):
            raise ApplicationNotReady(
                f"{old.application_id} is down with unread records in repartition topics: {counts_text(left)}",
                next_step=f"start {old.application_id} and run the cut-over again",
            )
    note_read(clone, target)


def transfer_outputs(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> OutputsTransferred:
    """Write down which application writes the outputs from now on. The entry of the retired one comes first, so that at no moment both may write. Raises
    ``ApplicationRunning`` unless those that must be down are.
    """
    hold_both(old, clone, ticket)
    if ticket.step is CutoverStep.ROLL_BACK:
        return _hand_back(old, clone, ticket)
    if role(clone) is not Role.LIVE:
        _require_down(clone)
        _require_down(old)
        _require_nothing_missing(old, clone)
        again, tail = _ahead(old, clone), unread(clone)
        # Both entries are of one run, also where an earlier run wrote the first of them and died: only so do they count.
        if not _said(old, Role.RETIRED, ticket.run):
            append_role(old, clone, ticket.run, Role.RETIRED)
        # What a savepoint that was killed had held would be started by the next one.
        quiesce_record.end(old)
        quiesce_record.end(clone)
        _close(old, clone, but=ticket.run)
        append_role(clone, old, ticket.run, Role.LIVE, again=again, tail=tail)
    return _transferred(old, clone, ticket)


def _said(recovery: RecoveryContext, now: Role, run: str) -> bool:
    last = recovery.ownership.last()
    return last is not None and last.role is now and last.run == run


def _hand_back(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> OutputsTransferred:
    _require_down(clone)
    # First: it would be brought back as one beside an application that does not run.
    quiesce_record.end(clone)
    retired = role(old) is Role.RETIRED
    strange = {recovery.application_id for recovery, other in ((old, clone), (clone, old)) if stranger(recovery, other) is not None}
    retired = retired or old.application_id in strange
    unsaid = retired or clone.application_id in strange
    if role(clone) is Role.LIVE or (unsaid and not _said(clone, Role.STANDBY, ticket.run)):
        append_role(clone, old, ticket.run, Role.STANDBY)
    if retired:
        quiesce_record.end(old)
        again, tail = ({}, {}) if ticket.restore_first else (_ahead(clone, old), unread(old))
        append_role(old, clone, ticket.run, Role.LIVE, again=again, tail=tail)
    _close(old, clone)
    return _transferred(old, clone, ticket)


def _close(old: RecoveryContext, clone: RecoveryContext, *, but: str | None = None) -> None:
    """Give every run that retired the old application and ended without the clone's entry one that does not make it live: of one run only the first entry in
    each log counts, so the missing entry cannot be added afterwards.
    """
    logs = entries_of(clone.ownership), entries_of(old.ownership)
    for run in unanswered(*logs, application_id=clone.application_id, of=old.application_id):
        if run != but:
            append_role(clone, old, run, Role.STANDBY)


def _transferred(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> OutputsTransferred:
    """The transfer that this run has made, or that it finishes for an earlier run."""
    live = clone if ticket.step is CutoverStep.CUT_OVER else old
    last = live.ownership.last()
    if last is None or (ticket.step is CutoverStep.ROLL_BACK and last.run != ticket.run):
        # Nothing was cut over, so nothing was taken back.
        return OutputsTransferred(live=live.application_id, again={}, tail={})
    return OutputsTransferred(live=live.application_id, again=last.again, tail=last.tail)


def _ahead(one: RecoveryContext, other: RecoveryContext) -> dict[TopicPartition, int]:
    """Input that ``one`` has read and ``other`` has not."""
    theirs = offsets_of(other, input_partitions(other))
    mine = offsets_of(one, theirs)
    return between(one, {tp: (offset, mine[tp]) for tp, offset in theirs.items()})


def append_role(
    recovery: RecoveryContext,
    other: RecoveryContext,
    run: str,
    now: Role,
    *,
    again: Mapping[TopicPartition, int] | None = None,
    tail: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Write down the role that an application has from now on, with the offsets it has."""
    recovery.ownership.append(
        OwnershipEntry(
            role=now,
            other=other.application_id,
            run=run,
            at=recovery.clock(),
            offsets=offsets_of(recovery, input_partitions(recovery)),
            again=dict(again or {}),
            tail=dict(tail or {}),
        )
    )


def _require_down(recovery: RecoveryContext) -> None:
    """Raise ``ApplicationRunning`` unless every instance is gone and the group is empty."""
    group = recovery.groups.describe(recovery.application_id)
    if running(recovery) or not group.empty:
        raise ApplicationRunning(
            f"{recovery.application_id} runs, or its group has members, where it must be down",
            next_step="find out what started it; then run this again",
        )


def start_live(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> LiveStarted:
    """Start the application that writes the outputs by now, unless it is to be restored first. Raises ``Refused`` when the other one may write them too, or
    runs.
    """
    hold_both(old, clone, ticket)
    recovery, other = (clone, old) if ticket.step is CutoverStep.CUT_OVER else (old, clone)
    if role(recovery) is not Role.LIVE or role(other) is Role.LIVE:
        raise Refused(
            f"{recovery.application_id} is {role(recovery)} and {other.application_id} is {role(other)}: the outputs did not change hands",
            next_step=f"run {ticket.step} again",
        )
    _require_down(other)
    inputs = input_partitions(recovery)
    ends = recovery.cluster.last_stable_offsets(inputs)
    if not ticket.restore_first:
        # Again: to look took a while, and whoever has ended this run meanwhile has brought back what is to run.
        hold_both(old, clone, ticket)
        recovery.application.start()
        quiesce_record.end(recovery)
    return LiveStarted(
        application_id=recovery.application_id,
        instances=() if ticket.restore_first else tuple(status.name for status in recovery.application.status()),
        ends=ends,
    )


def await_live(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket, started: LiveStarted) -> None:
    """Wait until it is RUNNING and has read its inputs to the ends they had. Raises ``ApplicationNotReady``."""
    hold_both(old, clone, ticket)
    if ticket.restore_first:
        return
    recovery = clone if ticket.step is CutoverStep.CUT_OVER else old
    with ExitStack() as stack:
        stack.enter_context(renewed_lock(old, ticket.old))
        stack.enter_context(renewed_lock(clone, ticket.clone))
        await_at_work(recovery, started.ends, again=again_command(clone, ticket))


def finish(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket, stopped: StoppedForCutover) -> CutoverReport:
    """Write the report and give both locks back. ``stopped`` is what ``stop`` returned. Raises ``Damaged`` when the log does not say what was done."""
    hold_both(old, clone, ticket)
    live, other = (clone, old) if ticket.step is CutoverStep.CUT_OVER else (old, clone)
    if role(live) is not Role.LIVE or role(other) is Role.LIVE:
        raise Damaged(f"{live.application_id} is {role(live)} after {ticket.step}", next_step=f"run {ticket.step} again").then(
            again_command(clone, ticket)
        )
    done = _transferred(old, clone, ticket)
    lasts = {recovery.application_id: recovery.ownership.last() for recovery in (old, clone)}
    report = CutoverReport(
        **codec.fields_of(CutoverRun, ticket),
        live=live.application_id,
        stopped=other.application_id,
        closed_cleanly=stopped.closed_cleanly,
        again=done.again,
        records_again=sum(done.again.values()),
        tail=done.tail,
        offsets={name: last.offsets for name, last in lasts.items() if last is not None},
        finished_at=clone.clock(),
    )
    clone.artifacts.write(ticket.run, REPORT, report)
    release_both(old, clone, ticket)
    return report


def plan_upgrade(old: RecoveryContext, clone: RecoveryContext) -> UpgradePlan:
    """Plan an upgrade. Changes nothing. Raises ``Refused`` naming everything that blocks it at once."""
    pair = look(old, clone)
    refuse(upgrade_problems(pair), f"upgrade from {old.application_id} to {clone.application_id}")
    return upgrade_plan(pair)


def retire(old: RecoveryContext, clone: RecoveryContext, ticket: savepoint.Ticket, cut: savepoint.CutSummary) -> None:
    """Put on record that the old application, which the savepoint has stopped, stays down. Raises ``NotExact`` when the cut is not exact, and
    ``ApplicationRunning``.
    """
    require_lock(old, ticket)
    if cut.consistency is not Consistency.EXACT:
        raise NotExact(
            f"the savepoint of {old.application_id} is {cut.consistency}, so a clone of it could count some input twice",
            next_step="the old application is started again; see why it did not close cleanly, then run the upgrade again",
        )
    if role(clone) is not Role.STANDBY:
        raise Refused(f"{clone.application_id} is {role(clone)} by now", next_step="no output was transferred; see which run did that")
    _require_down(old)
    # Not the run's name: a run that is begun once more has it again, and its first attempt was taken back.
    if not _said(old, Role.RETIRED, ticket.savepoint_id):
        append_role(old, clone, ticket.savepoint_id, Role.RETIRED)
    quiesce_record.end(old, of=ticket.savepoint_id)


def require_retired(old: RecoveryContext, clone: RecoveryContext, savepoint_id: str) -> None:
    """Raise ``Refused`` unless the old application is down for the upgrade that took this savepoint, and the clone is not live yet. Airflow takes tasks again
    that somebody clears, and nobody approves the restore of an upgrade again once its clone has a state of its own.
    """
    last = old.ownership.last()
    down = last is not None and (last.role, last.other, last.run) == (Role.RETIRED, clone.application_id, savepoint_id)
    if role(clone) is Role.LIVE or not down:
        raise Refused(
            f"the upgrade that took savepoint {savepoint_id} is over: {clone.application_id} is {role(clone)}, and {old.application_id} is {role(old)}",
            next_step="nothing was changed; to upgrade again, trigger a new run, whose plan says what it replaces",
            savepoint_id=savepoint_id,
        )


def make_live(old: RecoveryContext, clone: RecoveryContext, ticket: RestoreTicket) -> BroughtBack:
    """Put on record that the clone, restored and not started yet, writes the real outputs from now on. Raises ``Refused`` unless the old application is
    replaced and down, and the clone begins exactly where it stopped.
    """
    require_lock(clone, ticket)
    phase = phase_of(clone, ticket)
    if role(clone) is Role.LIVE or phase.rank >= Phase.STARTED.rank:
        return BroughtBack(live=clone.application_id, started=())
    last = old.ownership.last()
    if phase is not Phase.WIPED or last is None or last.role is not Role.RETIRED or last.other != clone.application_id:
        raise Refused(
            f"restore {ticket.restore_id} of {clone.application_id} is in phase {phase}, and {old.application_id} is {role(old)}",
            next_step="run the upgrade from its beginning",
        )
    _require_down(old)
    begins = offsets_of(clone, input_partitions(clone))
    if begins != last.offsets:
        wrong = sorted(str(tp) for tp in {*begins, *last.offsets} if begins.get(tp) != last.offsets.get(tp))
        raise Damaged(
            f"{clone.application_id} would not begin where {old.application_id} stopped: {', '.join(wrong[:10])}",
            next_step="run the upgrade from its beginning",
        )
    append_role(clone, old, last.run, Role.LIVE)
    return BroughtBack(live=clone.application_id, started=())


def bring_back(old: RecoveryContext, clone: RecoveryContext, ticket: savepoint.Ticket) -> BroughtBack:
    """The end of an upgrade, however it went. Unless the clone is live, the old application writes the outputs again, and what ran of it runs again.
    Repeating it is harmless: what was brought back and is down since, somebody has stopped. What does not come back is on record: the next savepoint of the
    old application tries again. Raises ``Refused`` for an old application that a restore has left half way.
    """
    logs = entries_of(clone.ownership), entries_of(old.ownership)
    if agreed(*logs, application_id=clone.application_id, of=old.application_id).role is Role.LIVE:
        return BroughtBack(live=clone.application_id, started=())
    with held_lock(old, owner(ticket.request), purpose=f"end of an upgrade of {old.application_id}"):
        last = old.ownership.last()
        if last is not None and last.role is Role.RETIRED:
            if last.run != ticket.savepoint_id:
                return BroughtBack(live=last.other, started=())
            _close(old, clone)
            # First: were only the other entry written before a kill, the application would stay down.
            quiesce_record.begin_stop(old, ticket.savepoint_id, ticket.running)
            append_role(old, clone, ticket.savepoint_id, Role.LIVE)
        elif quiesce_record.is_let_go(old, ticket.savepoint_id):
            return BroughtBack(live=old.application_id, started=quiesce_record.working(old, ticket.running) or ())
        # This may be repeated days later.
        refuse_if_unfinished(old)
        back = quiesce_record.resume(old, QuiesceMode.STOP, ticket.running)
        quiesce_record.end(old, of=ticket.savepoint_id)
        return BroughtBack(live=old.application_id, started=back)
