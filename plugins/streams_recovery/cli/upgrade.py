"""An upgrade in one go from the command line: a savepoint for which the old application is stopped and stays down, and the clone restored from it."""

from __future__ import annotations

from collections.abc import Callable

from streams_recovery.cli.restore_steps import carry_out, leave
from streams_recovery.cli.runner import Runner
from streams_recovery.core.restore.plan import RestoreRequest
from streams_recovery.operations import restore, rollout, savepoint
from streams_recovery.operations.context import RecoveryContext


def upgrade_steps(
    old: Runner, clone: Runner, wanted: savepoint.SavepointRequest, request: Callable[[str], RestoreRequest]
) -> restore.RestoreReport:
    """All steps. Whatever fails before the clone is live, the old application runs again. ``request`` makes that of the restore from a savepoint's id."""
    ticket = savepoint.begin(old.recovery, wanted)
    try:
        published = _stopped_and_saved(old, clone.recovery, ticket)
        asked = request(published.savepoint_id)
        planned = restore.plan(clone.recovery, asked)
        opened = restore.open_restore(
            clone.recovery, asked, run_id=wanted.run_id, requested_by=wanted.requested_by, approved_hash=planned.hash
        )
        clone.say(f"restore {opened.restore_id} begun")
        return carry_out(
            clone.recovery,
            opened,
            clone.job,
            clone.say,
            before_start=lambda: rollout.make_live(old.recovery, clone.recovery, opened),
        )
    finally:
        leave(lambda: f"{rollout.bring_back(old.recovery, clone.recovery, ticket).live} writes the outputs", clone.say)


def _stopped_and_saved(old: Runner, clone: RecoveryContext, ticket: savepoint.Ticket) -> savepoint.SavepointSummary:
    recovery = old.recovery
    try:
        cut = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        rollout.retire(recovery, clone, ticket, cut)
        old.say(f"{recovery.application_id} stopped, its cut is {cut.consistency}")
        job = savepoint.plan_copy(recovery, ticket, cut.draft)
        gathered = savepoint.gather(recovery, ticket, job.plan, old.job("backup", job, ticket))
        return savepoint.publish(recovery, ticket, gathered.copied)
    finally:
        savepoint.finish(recovery, ticket)
