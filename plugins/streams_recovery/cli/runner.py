"""Whole runs from the command line: the same steps as the DAGs, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from streams_recovery.cli.restore_steps import Say, carry_out
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.restore.plan import RestorePlan, RestoreRequest, require_agreement
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.export_job import StateResult
from streams_recovery.engine.spark_submit import JobName
from streams_recovery.engine.submitter import SparkJob, Submitter, needs_cluster
from streams_recovery.operations import compaction, maintenance, state
from streams_recovery.operations import restore as restores
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import Locked, renewed_lock
from streams_recovery.operations.savepoint import JobPlan, SavepointRequest, SavepointSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """An open workbench, who runs Spark jobs, and somebody to tell."""

    recovery: RecoveryContext
    submitter: Submitter
    say: Say

    def backup(self, request: SavepointRequest) -> SavepointSummary:
        """Take a savepoint. The application comes back whatever fails, and so do topic settings and lock."""
        recovery = self.recovery
        ticket = savepoints.begin(recovery, request)
        self.say(f"savepoint {ticket.savepoint_id} begun, mode {ticket.mode}")
        try:
            try:
                cut = savepoints.capture(recovery, ticket, savepoints.quiesce(recovery, ticket))
            finally:
                savepoints.resume(recovery, ticket)
            self.say(f"cut: {cut.consistency} over {cut.partitions} partitions, application held {cut.held_seconds:.1f} s")
            plan = savepoints.plan_copy(recovery, ticket, cut.draft)
            self.say(f"copying {plan.offsets} offsets in {plan.ranges} ranges")
            gathered = savepoints.gather(recovery, ticket, plan.plan, self.job("backup", plan, ticket))
            summary = savepoints.publish(recovery, ticket, gathered.copied)
            for warning in summary.warnings:
                self.say(f"warning: {warning}")
            return summary
        finally:
            savepoints.finish(recovery, ticket)

    def audit(self, *, savepoint: str, level: str, run_id: str) -> CheckReport:
        """Audit the repository. The report is returned whatever it says."""
        recovery = self.recovery
        ticket = maintenance.plan_check(recovery, savepoint=savepoint, level=level, run_id=run_id)
        return maintenance.conclude_check(recovery, ticket, self.job("audit", maintenance.plan_reading(recovery, ticket), None))

    def compact(self, request: compaction.CompactRequest) -> compaction.CompactSummary | None:
        """Reduce a savepoint. None when there is nothing to reduce."""
        recovery = self.recovery
        ticket = compaction.begin(recovery, request, compaction.plan(recovery, request.savepoint))
        plan = compaction.plan_job(recovery, ticket)
        if plan.spec is None:
            return None
        self.say(f"reducing {ticket.partitions} partitions of {ticket.source_id}")
        return compaction.publish(recovery, ticket, self.job("compact", plan, None))

    def export(self, request: state.ExportRequest) -> tuple[str, StateResult]:
        """Write a store's table by Spark. Returns the savepoint's id and what was written."""
        ticket = state.begin_export(self.recovery, request)
        written = self.job("state", ticket.job, None)
        if written is None:
            raise Damaged("no table was written", next_step="write the table again")
        return ticket.savepoint_id, state.conclude_export(self.recovery, written)

    def restore(
        self, request: RestoreRequest, *, run_id: str, requested_by: str, approve: Callable[[RestorePlan], bool]
    ) -> restores.RestoreReport:
        """Restore in place after ``approve`` has seen the plan. Raises ``Refused`` when it says no; nothing was changed then."""
        recovery = self.recovery
        planned = restores.plan(recovery, request)
        require_agreement(planned, request)
        if not approve(planned):
            raise Refused("the plan was not approved", next_step="nothing was changed; the application goes on as it was")
        ticket = restores.open_restore(recovery, request, run_id=run_id, requested_by=requested_by, approved_hash=planned.hash)
        self.say(f"restore {ticket.restore_id} begun")
        return carry_out(recovery, ticket, self.job, self.say)

    def resume(self, restore_id: str, *, run_id: str, take_over: bool, approve: Callable[[RestorePlan], bool]) -> restores.RestoreReport:
        """Go on with a restore that broke off, after ``approve`` has seen its plan. Raises ``Refused`` when it says no; nothing was changed then."""
        planned = restores.plan_left(self.recovery, restore_id)
        if not approve(planned):
            raise Refused("the plan was not approved", next_step="nothing was changed; the restore stays as it was left")
        ticket = restores.resume(self.recovery, restore_id, run_id=run_id, approved_hash=planned.hash, take_over=take_over)
        self.say(f"restore {restore_id} goes on from phase {restores.phase_of(self.recovery, ticket)}")
        return carry_out(self.recovery, ticket, self.job, self.say)

    def append(
        self, restore_id: str, *, run_id: str, requested_by: str, approve: Callable[[restores.AppendPlan], bool]
    ) -> restores.AppendReport:
        """Append what a restore has set aside, after ``approve`` has seen the plan. What an attempt that breaks off has written is not written again by
        the next one. Raises ``Refused`` when it says no; nothing was changed then.
        """
        recovery = self.recovery
        planned = restores.plan_append(recovery, restore_id)
        if not approve(planned):
            raise Refused("the plan was not approved", next_step="nothing was changed")
        ticket = restores.open_append(recovery, planned.restore_id, run_id=run_id, requested_by=requested_by, approved_hash=planned.hash)
        try:
            return restores.finish_append(recovery, ticket, self.job("restore", restores.plan_append_job(recovery, ticket), ticket))
        finally:
            restores.leave_append(recovery, ticket)

    def job(self, name: JobName, plan: JobPlan, ticket: Locked | None) -> ArtifactRef | None:
        """Run one Spark job to its end, with the lock kept when it has one, and return its result. None when there is nothing to do."""
        if plan.spec is None or plan.result_key is None:
            self.say("nothing to do for Spark")
            return None
        recovery = self.recovery
        job = SparkJob(
            name=name,
            spec=plan.spec,
            result_key=plan.result_key,
            repository=recovery.repository,
            connection=recovery.connection if needs_cluster(name) else None,
            credentials=recovery.credentials,
        )
        with renewed_lock(recovery, ticket) if ticket is not None else nullcontext():
            return self.submitter.submit(job)
