"""Steps of a restore that its tests take before the one they are about."""

from __future__ import annotations

import uuid

from spark_jobs.access import JobAccess
from spark_jobs.transforms.compare import compare_rows
from spark_jobs.transforms.load import Share, load_share
from spark_jobs.transforms.read_back import ReadShare, read_share, whole
from streams_recovery.core.jobs.spec import JobPlan, KeysVerified, RestoreResult, RestoreSpec, VerifyResult, VerifySpec
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import LoadSummary, RestoreRequest, RestoreTicket, SafetySummary
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications.savepoint_steps import copied
from tests.support.applications.small import Small, asked
from tests.support.repository.stored import left


def opened(recovery: RecoveryContext, request: RestoreRequest) -> RestoreTicket:
    """A restore whose plan was approved, with the application down."""
    planned = restore.plan(recovery, request)
    ticket = restore.open_restore(recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(recovery, ticket)
    return ticket


def saved(recovery: RecoveryContext, ticket: RestoreTicket) -> SafetySummary:
    """With a safety savepoint taken."""
    begun = restore.save_state(recovery, ticket)
    return restore.keep_state(recovery, ticket, begun, copied(recovery, begun.job))


def loaded(recovery: RecoveryContext, ticket: RestoreTicket) -> int:
    """With its topics made and loaded, here as the tasks of the job would. Returns the rows."""
    restore.prepare(recovery, ticket)
    return written(recovery, ticket)


def written(recovery: RecoveryContext, ticket: RestoreTicket) -> int:
    """One attempt to load topics that are made. Returns the rows."""
    return checked(recovery, ticket, load(recovery, restore.plan_load(recovery, ticket))).rows


# What a run hands on from its load to its verification, by restore.
_LOADS: dict[str, ArtifactRef | None] = {}


def checked(recovery: RecoveryContext, ticket: RestoreTicket, result: ArtifactRef) -> LoadSummary:
    """A load that was checked."""
    summary = restore.check_load(recovery, ticket, result)
    _LOADS[ticket.restore_id] = summary.result
    return summary


def load_of(ticket: RestoreTicket) -> ArtifactRef | None:
    """The result of the last load of a restore, None when it was not checked here."""
    return _LOADS.get(ticket.restore_id)


def access_of(recovery: RecoveryContext) -> JobAccess:
    """What the driver of a job is given."""
    return JobAccess(
        connection=recovery.connection,
        location=recovery.repository.location,
        credentials=recovery.credentials,
        encryption=recovery.repository.encryption,
    )


def load(recovery: RecoveryContext, job: JobPlan) -> ArtifactRef:
    """What the job of a load does, here."""
    assert job.spec is not None
    assert job.result_key is not None
    spec = recovery.artifacts.read(RestoreSpec, job.spec)
    access = access_of(recovery).for_tasks(spec)
    done = load_share(Share(partitions=spec.partitions, throttle=None, stall_seconds=spec.stall_seconds), access)
    logs = tuple(wanted.tp for wanted in whole(spec.partitions)) if spec.read_back else ()
    read = read_share(ReadShare(partitions=logs), access).partitions
    return left(recovery, job.result_key, RestoreResult(partitions=done.partitions, seconds=0, read=read))


def verified(recovery: RecoveryContext, ticket: RestoreTicket) -> restore.VerifySummary:
    """With a proof for all of it; nothing is compared that the load has proven."""
    compared = compare(recovery, restore.plan_verify(recovery, ticket, load_of(ticket)))
    return restore.check_verify(recovery, ticket, load_of(ticket), compared)


def compare(recovery: RecoveryContext, job: JobPlan) -> ArtifactRef | None:
    """What the job of a comparison does, here, if there is one. It needs Spark for keys: so many are said."""
    if job.spec is None or job.result_key is None:
        return None
    spec = recovery.artifacts.read(VerifySpec, job.spec)
    access = access_of(recovery).for_tasks(spec)
    partitions = tuple(compare_rows(wanted, access, access.connection) for wanted in spec.partitions if not wanted.rows_proven)
    keys = tuple(
        KeysVerified(tp=wanted.tp, keys_compared=4, keys_different=0, examples=())
        for wanted in spec.partitions
        if wanted.tp.topic in spec.keyed
    )
    return left(recovery, job.result_key, VerifyResult(partitions=partitions, keys=keys, seconds=0))


def end(small: Small) -> int:
    """Where the changelog ends."""
    return small.recovery.cluster.high_watermarks([small.changelog])[small.changelog]


def reach(recovery: RecoveryContext, ticket: RestoreTicket, phase: Phase) -> None:
    """Write into the journal that a restore has come as far as this phase."""
    log = AppendLog(recovery.repository, recovery.layout.journal(ticket.restore_id), JournalEntry)
    log.append(JournalEntry(phase=phase, at=recovery.clock(), created=()))


def restored(recovery: RecoveryContext, savepoint: Manifest) -> int:
    """Topics replaced by what is in the savepoint, up to the check of what was loaded; the rows in it. Loaded here instead of in tasks."""
    request = asked(recovery, savepoint=savepoint.savepoint_id, replace=True, safety=restore.SafetyPolicy.SKIP)
    ticket = restore.open_restore(recovery, request, run_id="r", requested_by="test", approved_hash=restore.plan(recovery, request).hash)
    try:
        restore.stop(recovery, ticket)
        restore.keep_state(recovery, ticket, restore.save_state(recovery, ticket))
        return loaded(recovery, ticket)
    finally:
        restore.abandon(recovery, ticket)
