"""Whole runs from the command line: the same steps as the DAGs, in the same order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from streams_recovery import restores, savepoints, upkeep
from streams_recovery.core.audit import AuditReport, AuditResult
from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs import BackupResult, RestoreResult, VerifyResult
from streams_recovery.core.plan import RestorePlan, RestoreRequest
from streams_recovery.jobs.package import build_package
from streams_recovery.jobs.run import run_submit
from streams_recovery.jobs.secrets import secrets_file
from streams_recovery.jobs.submit import JobName, spark_call, submit_argv
from streams_recovery.leases import Locked, kept
from streams_recovery.savepoints import JobPlan, SavepointRequest, SavepointSummary
from streams_recovery.workbench import Workbench

Say = Callable[[str], None]
_RESULTS: dict[JobName, type] = {"backup": BackupResult, "restore": RestoreResult, "verify": VerifyResult, "audit": AuditResult}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """An open workbench, a Spark master, a place for job logs, and somebody to tell."""

    bench: Workbench
    master: str
    logs: Path
    say: Say

    def backup(self, request: SavepointRequest) -> SavepointSummary:
        """Take a savepoint. The application comes back whatever fails, and so do topic settings and lock."""
        bench = self.bench
        ticket = savepoints.begin(bench, request)
        self.say(f"savepoint {ticket.savepoint_id} begun, mode {ticket.mode}")
        try:
            try:
                cut = savepoints.capture(bench, ticket, savepoints.quiesce(bench, ticket))
            finally:
                savepoints.resume(bench, ticket)
            self.say(f"cut: {cut.consistency} over {cut.partitions} partitions, application held {cut.held_seconds:.1f} s")
            plan = savepoints.plan_copy(bench, ticket)
            self.say(f"copying {plan.offsets} offsets in {plan.ranges} ranges")
            self._job("backup", plan, ticket)
            savepoints.gather(bench, ticket, plan.result_key)
            return savepoints.publish(bench, ticket)
        finally:
            savepoints.finish(bench, ticket)

    def audit(self, *, savepoint: str, level: str, run_id: str) -> AuditReport:
        """Audit the repository. The report is returned whatever it says."""
        bench = self.bench
        ticket = upkeep.plan_audit(bench, savepoint=savepoint, level=level, run_id=run_id)
        self._job("audit", ticket.job, None)
        return upkeep.conclude_audit(bench, ticket, ticket.job.result_key)

    def restore(
        self, request: RestoreRequest, *, run_id: str, requested_by: str, approve: Callable[[RestorePlan], bool]
    ) -> restores.RestoreReport:
        """Restore in place after ``approve`` has seen the plan. Raises ``Refused`` when it says no; nothing was changed then."""
        bench = self.bench
        planned = restores.plan(bench, request)
        if not approve(planned):
            raise Refused("the plan was not approved", next_step="nothing was changed; the application goes on as it was")
        ticket = restores.open_restore(bench, request, run_id=run_id, requested_by=requested_by, approved_hash=planned.hash)
        try:
            restores.stop(bench, ticket)
            self.say("application stopped")
            prepared = restores.prepare(bench, ticket)
            self.say(f"{len(prepared.created)} internal topics created")
            load = restores.plan_load(bench, ticket)
            self._job("restore", load, ticket)
            loaded = restores.check_load(bench, ticket, load.result_key)
            self.say(f"{loaded.rows} records loaded")
            check = restores.plan_verify(bench, ticket)
            self._job("verify", check, ticket)
            verified = restores.check_verify(bench, ticket, check.result_key)
            self.say(f"{verified.rows_compared} records and {verified.keys_compared} keys compared, all equal")
            offsets = restores.set_offsets(bench, ticket)
            self.say(f"{offsets.partitions} offsets set, {offsets.with_metadata} with metadata")
            restores.wipe(bench, ticket)
            started = restores.start(bench, ticket)
            self.say(f"started {', '.join(started.instances)}")
            recovered = restores.await_recovered(bench, ticket, started)
            self.say(f"recovered in {recovered.seconds} s")
            return restores.finish(bench, ticket, verified)
        except BaseException:
            left = restores.abandon(bench, ticket)
            self.say(f"stopped in phase {left.phase}: {left.next_step}")
            raise

    def _job(self, name: JobName, plan: JobPlan, ticket: Locked | None) -> None:
        if plan.spec_key is None or plan.result_key is None:
            self.say("nothing to do for Spark")
            return
        bench = self.bench
        with tempfile.TemporaryDirectory(prefix="streams-recovery-") as work, secrets_file(bench.connection, bench.credentials) as secrets:
            call = spark_call(
                name,
                spec_key=plan.spec_key,
                result_key=plan.result_key,
                location=bench.repository.location,
                package=build_package(Path(work)),
                secrets_file=secrets,
                master=self.master,
            )
            with kept(bench, ticket) if ticket is not None else nullcontext():
                run_submit(
                    submit_argv(call, self.master),
                    call.environment,
                    log=self.logs / f"{name}.log",
                    repository=bench.repository,
                    result_key=plan.result_key,
                    kind=_RESULTS[name],
                )
