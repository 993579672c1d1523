"""An upgrade in one go from the command line: a savepoint for which the old application is stopped and stays down, and the clone restored from it."""

from __future__ import annotations

from collections.abc import Callable

from streams_recovery import clones, restores, savepoints
from streams_recovery.cli.running import Runner
from streams_recovery.cli.steps import carry_out, leave
from streams_recovery.core.plan import RestoreRequest
from streams_recovery.workbench import Workbench


def upgrade_steps(
    old: Runner, clone: Runner, wanted: savepoints.SavepointRequest, request: Callable[[str], RestoreRequest]
) -> restores.RestoreReport:
    """All steps. Whatever fails before the clone is live, the old application runs again. ``request`` makes that of the restore from a savepoint's id."""
    ticket = savepoints.begin(old.bench, wanted)
    try:
        published = _stopped_and_saved(old, clone.bench, ticket)
        asked = request(published.savepoint_id)
        planned = restores.plan(clone.bench, asked)
        opened = restores.open_restore(
            clone.bench, asked, run_id=wanted.run_id, requested_by=wanted.requested_by, approved_hash=planned.hash
        )
        clone.say(f"restore {opened.restore_id} begun")
        return carry_out(
            clone.bench,
            opened,
            clone.job,
            clone.say,
            before_start=lambda: clones.make_live(old.bench, clone.bench, opened),
        )
    finally:
        leave(lambda: f"{clones.bring_back(old.bench, clone.bench, ticket).live} writes the outputs", clone.say)


def _stopped_and_saved(old: Runner, clone: Workbench, ticket: savepoints.Ticket) -> savepoints.SavepointSummary:
    bench = old.bench
    try:
        cut = savepoints.capture(bench, ticket, savepoints.quiesce(bench, ticket))
        clones.retire(bench, clone, ticket, cut)
        old.say(f"{bench.application_id} stopped, its cut is {cut.consistency}")
        job = savepoints.plan_copy(bench, ticket, cut.draft)
        gathered = savepoints.gather(bench, ticket, job.plan, old.job("backup", job, ticket))
        return savepoints.publish(bench, ticket, gathered.copied)
    finally:
        savepoints.finish(bench, ticket)
