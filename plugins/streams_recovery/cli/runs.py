"""Whole runs from a terminal: the workflows that the DAGs draw, each from its plan to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from streams_recovery.cli.context import Requester
from streams_recovery.cli.runner import Runner, RunOutcome
from streams_recovery.core.approval import approval
from streams_recovery.core.errors import HALF_WAY, Damaged, RecoveryError, Refused, VersionFailed
from streams_recovery.core.outputs.comparison import OutputsReport, OutputsRequest
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.restore.plan import RestorePlan, require_agreement
from streams_recovery.core.state.inspection import StateResult
from streams_recovery.core.words import command
from streams_recovery.operations import archive as archives
from streams_recovery.operations import compaction, interval, maintenance, outputs, restore, rollout, sandbox, savepoint, state
from streams_recovery.operations.compaction import How
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.interval import Claimed, Planned
from streams_recovery.operations.restore import RestoreReport, RestoreTicket
from streams_recovery.operations.restore.strategies import FromSavepoint, Rescale, RestoreRequest, Undo
from streams_recovery.operations.savepoint import PublishedSavepoint, SavepointRequest
from streams_recovery.workflows import maintenance as maintenance_workflows
from streams_recovery.workflows import restore as restore_workflows
from streams_recovery.workflows import rollout as rollout_workflows
from streams_recovery.workflows import sandbox as sandbox_workflows
from streams_recovery.workflows import savepoint as savepoint_workflow

E = TypeVar("E")
Approve = Callable[[RestorePlan], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRun(Generic[E]):
    """The entry of a drill or of an interval, and the error that ended it, None when it succeeded."""

    entry: E
    error: BaseException | None


def backup(runner: Runner, request: SavepointRequest) -> PublishedSavepoint:
    """Take a savepoint. The application comes back whatever fails, and so do topic settings and lock."""
    ticket = savepoint.begin(runner.recovery, request)
    runner.say(savepoint_workflow.BEGIN.message(ticket) or "")
    summary = runner.run(savepoint_workflow.SAVEPOINT, ticket)
    for warning in summary.warnings:
        runner.say(f"warning: {warning}")
    return summary


def archive(runner: Runner, run_id: str, seconds: float) -> None:
    """Archive for so long. An archiver that fails is followed by another one."""
    runner.run(savepoint_workflow.ARCHIVE, archives.begin(runner.recovery, run_id, seconds=seconds))


def check(runner: Runner, *, savepoint_id: str, level: str, run_id: str) -> CheckReport:
    """Check the repository. The report is returned whatever it says."""
    ticket = maintenance.plan_check(runner.recovery, savepoint=savepoint_id, level=level, run_id=run_id)
    return runner.run(maintenance_workflows.CHECK, ticket)


def compact(runner: Runner, request: compaction.CompactRequest) -> compaction.CompactSummary | None:
    """Compact a savepoint. None when there is nothing to do."""
    ticket = compaction.begin(runner.recovery, request, compaction.plan(runner.recovery, request.savepoint, request.how))
    if ticket.spec is None:
        return None
    what = f"{ticket.ranges} partitions" if request.how is How.LATEST_PER_KEY else f"{ticket.files} files"
    into = "" if request.how is How.LATEST_PER_KEY else f" into {ticket.ranges}"
    runner.say(f"{request.work} of {what} of {ticket.source_id}{into}")
    return runner.run(maintenance_workflows.COMPACTION, ticket)


def export(runner: Runner, request: state.ExportRequest) -> tuple[str, StateResult]:
    """Write a store's table by Spark. Returns the savepoint's id and what was written."""
    ticket = state.begin_export(runner.recovery, request)
    written = runner.run(maintenance_workflows.EXPORT, ticket).result
    if written is None:
        raise Damaged("no table was written", next_step="write the table again")
    return ticket.savepoint_id, state.conclude_export(runner.recovery, written)


def compare_outputs(runner: Runner, original: RecoveryContext | None, request: OutputsRequest) -> OutputsReport:
    """Compare the real outputs with those of a clone of ``original``, or with those of an interval. The report is returned whatever it says."""
    ticket = outputs.begin(runner.recovery, original, request)
    runner.say(maintenance_workflows.BEGIN.message(ticket) or "")
    return runner.run(maintenance_workflows.OUTPUTS, ticket)


def restore_in_place(runner: Runner, request: RestoreRequest, requester: Requester, *, approve: Approve) -> RestoreReport:
    """Restore in place after ``approve`` has seen the plan. Raises ``Refused`` when it says no; nothing was changed then."""
    recovery = runner.recovery
    planned = restore.plan(recovery, request)
    require_agreement(planned, request.safeguards)
    if not approve(planned):
        raise Refused("the plan was not approved", next_step="nothing was changed; the application goes on as it was")
    ticket = restore.open_restore(
        recovery, request, run_id=requester.run_id, requested_by=requester.requested_by, approved_hash=approval(planned)
    )
    runner.say(f"restore {ticket.restore_id} begun")
    return carry_out(runner, ticket)


def resume(runner: Runner, restore_id: str, requester: Requester, *, take_over: bool, approve: Approve) -> RestoreReport:
    """Go on with a restore that failed half way, the newest one for ``latest``, after ``approve`` has seen its plan. Raises ``Refused`` when it says no;
    nothing was changed then.
    """
    recovery = runner.recovery
    restore_id = restore.unfinished_one(recovery, restore_id)
    restore.check_free(recovery, restore_id, take_over=take_over)
    planned = restore.plan_left(recovery, restore_id)
    if not approve(planned):
        raise Refused("the plan was not approved", next_step="nothing was changed; the restore stays as it was left")
    ticket = restore.resume(recovery, restore_id, run_id=requester.run_id, approved_hash=planned.hash, take_over=take_over)
    runner.say(f"restore {restore_id} goes on from phase {restore.phase_of(recovery, ticket)}")
    return carry_out(runner, ticket)


def carry_out(runner: Runner, ticket: RestoreTicket) -> RestoreReport:
    """Every step of an open restore that its journal does not show as done. On an error it is left in a state that can be resumed, or, while nothing
    was destroyed, as if it had not begun. An upgrade that fails is taken back, as its plan said: ``VersionFailed`` then. One that a person stops is not.
    """
    try:
        return runner.run(restore_workflows.workflow_of(type(ticket.request)), ticket, reached=restore.phase_of(runner.recovery, ticket))
    except Exception as error:
        # Ctrl-C is none of these: who stops a run says what is to become of it.
        request = restore.way_back(runner.recovery, ticket)
        if request is None:
            if isinstance(error, RecoveryError) and restore.is_half_way(runner.recovery, ticket):
                error.exit_code = HALF_WAY
            raise
        raise _take_back(runner, ticket, request, error) from error


def _take_back(runner: Runner, ticket: RestoreTicket, request: Undo, error: Exception) -> VersionFailed:
    """Take back an upgrade that failed by ``error``, and return what is to be told. Raises ``VersionFailed`` where it is not taken back."""
    recovery, why = runner.recovery, _reason(error)
    runner.say(f"the upgrade failed and is taken back: {why}")
    try:
        restore.stop_failed(recovery, ticket)
        planned = restore.plan(recovery, request)
        back = restore.open_restore(
            recovery,
            request,
            run_id=f"{ticket.restore_id}-back",
            requested_by=ticket.requested_by,
            approved_hash=planned.hash,
            patience=restore.LOCK_WAIT_SECONDS,
        )
        runner.say(f"restore {back.restore_id} begun")
        carry_out(runner, back)
    except Exception as other:
        commands = other.commands if isinstance(other, RecoveryError) else ()
        raise VersionFailed(
            f"the new version of {recovery.application_id} failed ({why}) and IS NOT TAKEN BACK: {_reason(other)}",
            next_step=f"put this right ({other.next_step if isinstance(other, RecoveryError) else 'see its log'}); then go on with the way back",
            failure=why,
        ).then(*commands, command("undo", recovery.config.name, ticket.restore_id, "--reason", "the new version failed")) from other
    return VersionFailed(
        f"the new version of {recovery.application_id} was taken back: {why}",
        next_step="the old version runs, and processes again what the new one had. See the instances' logs of that time; deploy.command is still that of the "
        "new version, and every restore deploys by it: change it",
        failure=why,
        taken_back_by=back.restore_id,
    )


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, RecoveryError) else f"{type(error).__name__}: {error}"


def append(runner: Runner, restore_id: str, requester: Requester, *, approve: Callable[[restore.AppendPlan], bool]) -> restore.AppendReport:
    """Append the input that a restore has set aside, after ``approve`` has seen the plan. Records that a failed attempt has written are not written again by
    the next one. Raises ``Refused`` when it says no; nothing was changed then.
    """
    recovery = runner.recovery
    planned = restore.plan_append(recovery, restore_id)
    if not approve(planned):
        raise Refused("the plan was not approved", next_step="nothing was changed")
    ticket = restore.open_append(
        recovery, planned.restore_id, run_id=requester.run_id, requested_by=requester.requested_by, approved_hash=planned.hash
    )
    return runner.run(maintenance_workflows.APPEND, ticket)


def cut_over(runner: Runner, request: rollout.CutoverRequest, requester: Requester, *, approved_hash: str) -> rollout.CutoverReport:
    """Transfer the outputs to a clone, or back. ``runner`` has both applications."""
    if runner.pair is None:
        raise AssertionError("a cut-over needs two applications")
    ticket = rollout.open_cutover(
        *runner.pair, request, run_id=requester.run_id, requested_by=requester.requested_by, approved_hash=approved_hash
    )
    return runner.run(rollout_workflows.CUTOVER, ticket)


def upgrade(old: Runner, clone: Runner, wanted: SavepointRequest, request: Callable[[str], RestoreRequest]) -> RestoreReport:
    """Stop the old application for a savepoint and start its clone from it. Whatever fails before the clone is live, the old application runs again.
    Both runners have the pair. ``request`` makes that of the restore from a savepoint's id.
    """
    ticket = savepoint.begin(old.recovery, wanted)
    try:
        published = old.run(rollout_workflows.RETIREMENT, ticket)
        opened = _open_upgrade(clone, request(published.savepoint_id), wanted)
        report = clone.run(rollout_workflows.UPGRADE, opened, reached=restore.phase_of(clone.recovery, opened))
    except BaseException:
        # Told, and not in the way of what happened before.
        _bring_back(clone, ticket)
        raise
    _bring_back(clone, ticket).require(rollout_workflows.BRING_BACK)
    return report


def _bring_back(clone: Runner, ticket: savepoint.Ticket) -> RunOutcome:
    return clone.take(rollout_workflows.RETIREMENT.after, {rollout_workflows.RETIREMENT.opening.name: ticket})


def _open_upgrade(clone: Runner, request: RestoreRequest, wanted: SavepointRequest) -> RestoreTicket:
    planned = restore.plan(clone.recovery, request)
    ticket = restore.open_restore(
        clone.recovery, request, run_id=wanted.run_id, requested_by=wanted.requested_by, approved_hash=planned.hash
    )
    clone.say(f"restore {ticket.restore_id} begun")
    return ticket


def drill(source: RecoveryContext, runner: Runner, requester: Requester, *, savepoint_id: str) -> SandboxRun[sandbox.DrillEntry]:
    """Try a restore of ``source``'s savepoint into the application that ``runner`` is of, and remove that. What it measured is kept, however it ended."""
    scratch, began_at = runner.recovery, source.clock()
    ticket: RestoreTicket | None = None
    outcome = RunOutcome(results={})
    try:
        sandbox.clear(scratch, run_id=requester.run_id)
        began_at = source.clock()
        numbers = "" if source.config.drill is None else source.config.drill.numbers
        request: RestoreRequest = FromSavepoint(source=source.application_id, savepoint=savepoint_id, reason="drill")
        if numbers:
            request = Rescale(partitions=numbers, savepoint=savepoint_id, reason="drill")
        planned = restore.plan(scratch, request)
        ticket = restore.open_restore(
            scratch,
            request.pinned(scratch, planned),
            run_id=requester.run_id,
            requested_by=requester.requested_by,
            approved_hash=planned.hash,
        )
    except RecoveryError as error:
        outcome.error = error
    else:
        outcome = runner.take(sandbox_workflows.DRILL.steps, {sandbox_workflows.DRILL.opening.name: ticket})
    entry = sandbox.conclude(
        source,
        run_id=requester.run_id,
        requested_by=requester.requested_by,
        began_at=began_at,
        ticket=ticket,
        report=outcome.of(restore_workflows.FINISH),
        left=tuple(outcome.teardown_errors),
    )
    return SandboxRun(entry=entry, error=outcome.error)


def reprocess(source: RecoveryContext, runner: Runner, claimed: Claimed, requester: Requester) -> SandboxRun[interval.ReprocessEntry]:
    """Process a claimed interval in the application that ``runner`` is of, and remove that. What came of it is kept, however it ended."""
    scratch, request = runner.recovery, claimed.request
    planned: Planned | None = None
    ticket: RestoreTicket | None = None
    outcome = RunOutcome(results={})
    try:
        interval.clear(scratch, source.application_id, request, run_id=requester.run_id)
        planned = interval.plan(scratch, source.application_id, request)
        for text in planned.text.splitlines():
            runner.say(text)
        if planned.records:
            ticket = interval.open_interval(
                scratch, source.application_id, request, planned, run_id=requester.run_id, requested_by=requester.requested_by
            )
    except RecoveryError as error:
        outcome.error = error
    if ticket is not None:
        given = {restore_workflows.OPEN_RESTORE.name: ticket, sandbox_workflows.CLAIM.name: claimed}
        outcome = runner.take(sandbox_workflows.INTERVAL.steps, given)
    done = interval.Done(
        planned=planned,
        ticket=ticket,
        published=outcome.of(sandbox_workflows.PUBLISH_RESULTS),
        finished=outcome.of(sandbox_workflows.FINISH_INTERVAL) is not None,
        left=tuple(outcome.teardown_errors),
    )
    entry = interval.conclude(source, request, done, run_id=requester.run_id, requested_by=requester.requested_by)
    return SandboxRun(entry=entry, error=outcome.error)
