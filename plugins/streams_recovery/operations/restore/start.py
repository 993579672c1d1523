"""Offsets, local state, start: from verified topics to an application at work."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from streams_recovery.application.command import run_program
from streams_recovery.application.port import InstanceState, StaleState, StateSince, WipeReport
from streams_recovery.core.errors import ApplicationRunning, Damaged, PlanChanged, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.journal import Phase, RestoreScope, reached, result_of
from streams_recovery.core.restore.estimate import recovery_seconds
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.proofs import QueryCheck
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.restore.request import REPLACE
from streams_recovery.operations import quiesce_record, topic_holds
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import internal_topics
from streams_recovery.operations.ready import await_at_work
from streams_recovery.operations.renewed_lock import renewed_lock, require_held, require_lock
from streams_recovery.operations.restore.drain import awaited_inputs, whole_input
from streams_recovery.operations.restore.evidence import keep_evidence
from streams_recovery.operations.restore.loaded import record_loaded
from streams_recovery.operations.restore.open import entries, give_up, guarded, note, phase_of, resume_command, stored_plan
from streams_recovery.operations.restore.outputs_behind import list_outputs_behind
from streams_recovery.operations.restore.query_check import QUERIED, Queried, queried_before, query_stores
from streams_recovery.operations.restore.rebuild_plan import offsets_to_remove
from streams_recovery.operations.restore.report import Checked, report_of
from streams_recovery.operations.restore.values import (
    ArrivedSummary,
    OffsetsSummary,
    RecoveredSummary,
    RestoreTicket,
    StartSummary,
    VerifySummary,
    WipeSummary,
)
from streams_recovery.operations.restore.verify import require_verified

LOGGER = logger("streams_recovery.operations.restore.start")
WIPED: Final = "wiped"


def set_offsets(recovery: RecoveryContext, ticket: RestoreTicket) -> OffsetsSummary:
    """Set every committed offset with its metadata and read them back. Last of the changes on the cluster: until now a start would not have
    continued from the savepoint. All or nothing. Raises ``ApplicationRunning`` when the group has members.
    """
    written = guarded(recovery, ticket, at_least=Phase.VERIFIED, before=Phase.STARTED)
    planned = stored_plan(recovery, ticket)
    removed = offsets_to_remove(recovery, planned) if planned.from_input else []
    # Of offsets that were to stay only those that are lost are set: the application may have had others before an earlier attempt.
    wanted = {item.tp: item.wanted for item in planned.offsets} | _lost_kept(recovery, planned)
    moved = _move_others(recovery, planned)
    # Single topics may be copies, or topics on which nothing is committed.
    if wanted or planned.part.scope is RestoreScope.STATE:
        recovery.groups.set_offsets(recovery.application_id, dict.fromkeys(removed) | wanted)
    list_outputs_behind(recovery, ticket, planned)
    record_loaded(recovery, ticket, planned, written)
    note(recovery, ticket, Phase.OFFSETS_SET)
    with_metadata = sum(1 for value in wanted.values() if value.metadata)
    return OffsetsSummary(partitions=len(wanted), with_metadata=with_metadata, removed=len(removed), groups=moved)


def _move_others(recovery: RecoveryContext, planned: RestorePlan) -> tuple[str, ...]:
    """Other groups on inputs that were cut: all of a group's offsets there, or none, and none while it has members."""
    offsets: dict[str, dict[TopicPartition, CommittedOffset | None]] = {}
    for one in planned.part.moved:
        offsets.setdefault(one.group, {})[one.tp] = one.wanted
    for group_id, wanted in offsets.items():
        recovery.groups.set_offsets(group_id, wanted)
    return tuple(offsets)


def wipe(recovery: RecoveryContext, ticket: RestoreTicket) -> WipeSummary:
    """Remove local state on every instance: Kafka Streams accepts stale state against a new changelog without an error, so none may remain."""
    guarded(recovery, ticket, at_least=Phase.OFFSETS_SET, before=Phase.STARTED)
    report = removed_state(recovery, ticket)
    note(recovery, ticket, Phase.WIPED, result=recovery.artifacts.write(ticket.restore_id, WIPED, report))
    return WipeSummary(removed=report.removed)


def removed_state(recovery: RecoveryContext, ticket: RestoreTicket) -> WipeReport:
    """Remove local state on every instance. Raises ``Damaged`` where some remains."""
    report = recovery.application.wipe_state()
    if report.remaining:
        raise Damaged(
            f"local state remains in {', '.join(report.remaining)}",
            next_step="remove these directories by hand, then resume the restore",
            remaining=report.remaining,
        ).then(resume_command(recovery, ticket))
    return report


def require_fresh_state(recovery: RecoveryContext, ticket: RestoreTicket, *, started: bool) -> StateSince | None:
    """Local state as the port sees it since this restore has removed it; None if it has removed none. Raises ``StaleState`` for state that is older:
    Kafka Streams would go on with it beside the new changelogs.
    """
    wiped = result_of(entries(recovery, ticket), Phase.WIPED)
    if wiped is None:
        return None
    found = recovery.application.state_since(recovery.artifacts.read(WipeReport, wiped).marks)
    if found.stale:
        again = f"stop it, remove that by hand, then restore again with {REPLACE.shown}"
        error = StaleState(
            f"local state of {recovery.application_id} is older than its wipe: {'; '.join(found.stale[:5])}",
            next_step=f"{again if started else 'remove that by hand, then resume the restore'}. See that state_directory is the program's state.dir, and that "
            "nothing brings state back; where a clock was set back meanwhile, wipe and start it again, then dismiss this restore",
            stale=list(found.stale),
        )
        raise give_up(recovery, ticket, error) if started else error
    return found


def wipe_noted(recovery: RecoveryContext, ticket: RestoreTicket) -> WipeSummary:
    """Remove local state where it notes offsets of a topic that was brought back by itself: they count records of the log that is gone. Else nothing is
    removed.
    """
    planned = stored_plan(recovery, ticket)
    if planned.part.wipes_noted:
        return wipe(recovery, ticket)
    guarded(recovery, ticket, at_least=Phase.OFFSETS_SET, before=Phase.STARTED)
    return WipeSummary(removed=())


def start(recovery: RecoveryContext, ticket: RestoreTicket) -> StartSummary:
    """Start every instance. The ends of the inputs are read first: they are what the application has to catch up to. Raises ``Damaged`` when an offset differs
    from what was set, or, after an earlier start, is gone.
    """
    before = reached(guarded(recovery, ticket, at_least=Phase.WIPED, before=Phase.RECOVERED))
    planned = stored_plan(recovery, ticket)
    alive = [i.name for i in not_gone(recovery)]
    # One that runs has committed since an earlier attempt of this step: its offsets need not be those that were set.
    if not alive:
        if before in (Phase.WIPED, Phase.DEPLOYED):
            _check_committed(recovery, ticket, planned)
        else:
            _check_still_committed(recovery, ticket, planned)
        _deploy(recovery, ticket, planned)
        require_fresh_state(recovery, ticket, started=before is Phase.STARTED)
    elif planned.deploy and before is Phase.WIPED:
        raise ApplicationRunning(
            f"instances of {recovery.application_id} run, and the deployment did not end well: {', '.join(alive)}",
            next_step="the deploy command must start nothing, so nobody knows which version this is: stop them, and resume the restore",
            instances=alive,
        ).then(resume_command(recovery, ticket))
    if ticket.before is not None:
        recovery.sites.lift_fences(starting=True)
    return launched(recovery, ticket, planned)


def _deploy(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> None:
    """Put the version there that is started, while the application is down. The command is the configuration's: what a stored plan says is only compared
    with it. Raises ``PlanChanged`` when they differ, and as running a program does.
    """
    deploy, command = recovery.config.deploy, ticket.request.deployment(recovery, planned)
    if command != planned.deploy:
        raise PlanChanged(
            f"the command that deploys is {shlex.join(command) or 'not set'}, and {shlex.join(planned.deploy) or 'none'} was approved",
            next_step="set it to what was approved and resume the restore, or restore again",
            deploy=list(command),
            approved=list(planned.deploy),
        ).then(resume_command(recovery, ticket))
    if deploy is not None and command:
        environment = {"APPLICATION_ID": recovery.application_id, "SITE": recovery.site}
        with renewed_lock(recovery, ticket):
            run_program(
                list(command),
                environment,
                verb="deploy",
                seconds=deploy.timeout_seconds,
                confirm=lambda: require_held(recovery, ticket),
            )
        # Whoever has ended this run meanwhile has put the old version back.
        require_lock(recovery, ticket)
        note(recovery, ticket, Phase.DEPLOYED)


def launched(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> StartSummary:
    """Every instance that was down started, and where the inputs ended before. Raises ``LockLost`` in a run that has ended meanwhile."""
    ends = recovery.cluster.last_stable_offsets(awaited_inputs(recovery, planned))
    # Whoever has ended this run has left the application down, and the next one may be replacing its topics.
    require_lock(recovery, ticket)
    if phase_of(recovery, ticket).rank < Phase.STARTED.rank:
        # Written before the first instance works on the topics: whatever becomes of this run, they are not compared with the savepoint any more, and the
        # offsets are not set again. Once more behind it, as before the first deletion.
        note(recovery, ticket, Phase.STARTED)
        require_lock(recovery, ticket)
    recovery.application.start()
    instances = tuple(i.name for i in recovery.application.status() if i.state is InstanceState.RUNNING)
    return StartSummary(instances=instances, ends=ends)


def _check_committed(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> None:
    """Every offset must still be as it was set. Kafka deletes the offsets of a topic some time after the topic, and a table that is restored from its source
    topic stays empty without an offset: no error would tell.
    """
    found = recovery.groups.committed(recovery.application_id, [item.tp for item in planned.offsets]) if planned.offsets else {}
    wrong = [
        f"{item.tp}: {'nothing' if known is None else known.offset} in place of {item.wanted.offset}"
        for item in planned.offsets
        if (known := found[item.tp]) is None or (known.offset, known.metadata) != (item.wanted.offset, item.wanted.metadata)
    ]
    # Other groups may have moved on since.
    lost = [one for one in planned.part.moved if recovery.groups.committed(one.group, [one.tp])[one.tp] is None]
    wrong += [f"{one.tp} of group {one.group}: nothing in place of {one.wanted.offset}" for one in lost]
    wrong += _named(_lost_kept(recovery, planned))
    if wrong:
        raise Damaged(
            f"{len(wrong)} committed offsets of {recovery.application_id} are not those that were set: {'; '.join(wrong[:20])}",
            next_step="find out what else commits for this group or deletes its offsets, and stop it, then resume the restore: it sets them again",
            wrong=wrong,
            lost=[(one.group, str(one.tp), one.wanted.offset) for one in lost],
        ).then(resume_command(recovery, ticket))


def _lost_kept(recovery: RecoveryContext, planned: RestorePlan) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of inputs that were to go on there and have none any more: they would begin elsewhere by auto.offset.reset."""
    had = {tp: planned.observed.offsets_before[tp] for tp in planned.offsets_kept if tp in planned.observed.offsets_before}
    found = recovery.groups.committed(recovery.application_id, list(had)) if had else {}
    return {tp: CommittedOffset(offset=offset, metadata="") for tp, offset in had.items() if found[tp] is None}


def _named(lost: Mapping[TopicPartition, CommittedOffset]) -> list[str]:
    return [f"{tp}: nothing in place of {had.offset}" for tp, had in lost.items()]


def _check_still_committed(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> None:
    """An application that was started before has committed since, so only missing offsets are wrong: without an offset it would begin elsewhere on this
    state.
    """
    found = recovery.groups.committed(recovery.application_id, [item.tp for item in planned.offsets]) if planned.offsets else {}
    gone = [*(str(item.tp) for item in planned.offsets if found[item.tp] is None), *_named(_lost_kept(recovery, planned))]
    if gone:
        error = Damaged(
            f"{recovery.application_id} was started and has failed since, and {len(gone)} of its committed offsets are gone: {', '.join(gone[:20])}",
            next_step=f"it was not started again; find out what deletes them, then restore again with {REPLACE.shown}",
            gone=gone,
        )
        raise give_up(recovery, ticket, error)


def await_recovered(recovery: RecoveryContext, ticket: RestoreTicket, started: StartSummary) -> RecoveredSummary:
    """Wait until every instance is RUNNING and every input is committed up to the end it had at the start.

    RUNNING alone proves nothing: an application with empty stores gets there too. As long as the instances report fewer and fewer records that are
    left to restore, and then as long as the inputs are worked off, there is no limit. Raises ``ApplicationNotReady`` when nothing has moved for the
    configured time, and ``Damaged`` when an internal topic appeared that the savepoint does not know: then it is another topology than the one
    that was saved.
    """
    guarded(recovery, ticket, at_least=Phase.STARTED, before=Phase.INPUT_COMPLETE)
    require_fresh_state(recovery, ticket, started=True)
    with renewed_lock(recovery, ticket):
        await_at_work(recovery, started.ends, again=resume_command(recovery, ticket))
    since = require_fresh_state(recovery, ticket, started=True)
    if since is not None and (since.unseen or not since.fresh):
        LOGGER.warning("whether local state is younger than the wipe was not seen of: %s", "; ".join(since.unseen) or "any instance")
    planned = stored_plan(recovery, ticket)
    if planned.part.with_state:
        _check_no_new_topics(recovery, planned)
    query_checks = query_stores(recovery, planned)
    note(recovery, ticket, Phase.RECOVERED, result=recovery.artifacts.write(ticket.restore_id, QUERIED, Queried(stores=query_checks)))
    names = tuple(i.name for i in recovery.application.status() if i.state is InstanceState.RUNNING)
    took = recovery_seconds(entries(recovery, ticket), began_at=ticket.started_at)
    return RecoveredSummary(
        instances=names, partitions_caught_up=len(started.ends), seconds=took or 0.0, query_checks=query_checks, local_state=since
    )


def _check_no_new_topics(recovery: RecoveryContext, planned: RestorePlan) -> None:
    known = {step.name for step in planned.create}
    new = [name for name in internal_topics(recovery) if name not in known]
    if new:
        raise Damaged(
            f"the application created internal topics that the savepoint does not have: {', '.join(new)}",
            next_step="deploy the version that the savepoint was taken of, or rebuild the state from the input; before anything is stopped the command "
            "compatible says what a version has of a savepoint",
            topics=new,
        )


def arrive(recovery: RecoveryContext, ticket: RestoreTicket) -> ArrivedSummary:
    """Record that the application has arrived: it was started at its new site and is at work there. Repeating it changes nothing."""
    guarded(recovery, ticket, at_least=Phase.RECOVERED, before=Phase.CLOSED)
    entry = recovery.sites.entry()
    if entry is None or (entry.site, entry.run) != (recovery.site, ticket.restore_id):
        raise Refused(
            f"the log of sites says that {recovery.application_id} belongs to {entry.site if entry else 'the primary site'}, and this restore has moved it to "
            f"{recovery.site}",
            next_step="find out who writes to the log, then correct it with the command `sites`",
        )
    if not entry.arrived:
        recovery.sites.write(entry.at_work(at=recovery.clock()))
    return ArrivedSummary(site=entry.site, before=entry.before, fenced=tuple(fence.site for fence in entry.fences))


def finish(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    verified: VerifySummary | None = None,
    query_checks: tuple[QueryCheck, ...] | None = None,
) -> RestoreReport:
    """Put topic settings back where nothing restored would expire by it, write the evidence, and give the lock back. ``verified`` and
    ``query_checks`` are what the steps before found; None if a resumed restore did not repeat these steps: then its journal has their results.
    """
    planned = stored_plan(recovery, ticket)
    guarded(recovery, ticket, at_least=whole_input(planned), before=Phase.CLOSED)
    verified = require_verified(recovery, ticket) if verified is None else verified
    query_checks = queried_before(recovery, ticket) if query_checks is None else query_checks
    checked = Checked(verified=verified, query_checks=query_checks)
    still_held = topic_holds.release_restore_holds(recovery)
    expiring = topic_holds.about_to_expire(recovery, [step.name for step in planned.create])
    report = report_of(recovery, ticket, planned, checked, entries(recovery, ticket), still_held, expiring)
    # Before the last phase: a closed restore cannot be resumed, so the evidence could not be written any more.
    report = keep_evidence(recovery.repository, recovery.layout, report)
    quiesce_record.end(recovery)
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)
    return report


def finish_topics(recovery: RecoveryContext, ticket: RestoreTicket, verified: VerifySummary) -> RestoreReport:
    """The end of a restore of single topics: settings put back, evidence written, the lock given back. The application is left as it is, and down if its own
    topics came back. Raises ``Damaged`` when an offset differs from what was set: Kafka deletes the offsets of a deleted topic some time after the topic.
    """
    guarded(recovery, ticket, at_least=Phase.OFFSETS_SET, before=Phase.CLOSED)
    planned = stored_plan(recovery, ticket)
    if planned.offsets:
        _check_committed(recovery, ticket, planned)
    checked = Checked(verified=verified, query_checks=())
    still_held = topic_holds.release_restore_holds(recovery)
    expiring = topic_holds.about_to_expire(recovery, [step.name for step in planned.create])
    report = report_of(recovery, ticket, planned, checked, entries(recovery, ticket), still_held, expiring)
    report = keep_evidence(recovery.repository, recovery.layout, report)
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)
    return report
