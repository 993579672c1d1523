"""Making the compacted savepoint exist, once it is proven that it holds the same state."""

from __future__ import annotations

from streams_recovery.core.compaction.compacted import assembled, judge
from streams_recovery.core.compaction.plan import CompactResult, CompactSpec
from streams_recovery.core.errors import Damaged, LockHeld
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import Manifest, Provenance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.operations.compaction.plan import refuse_if_compacted, sizes
from streams_recovery.operations.compaction.values import CompactSummary, CompactTicket
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.savepoint.publish import software


def publish(
    recovery: RecoveryContext, ticket: CompactTicket, result: ArtifactRef | None, *, patience_seconds: float = 1_200.0
) -> CompactSummary:
    """Judge the job's result and create the manifest, under the application's lock, so that no expiry decides meanwhile. Repeating it after it
    succeeded changes nothing. Waits ``patience_seconds`` for a savepoint that is being taken. Raises ``Damaged`` unless the state is the same,
    ``Refused`` when nothing could be compacted and for a result of another attempt, ``LockHeld``.
    """
    request = ticket.request
    lock = _locked(recovery, ticket, patience_seconds)
    try:
        earlier = recovery.savepoints.published_by_run(request.run)
        if earlier is not None:
            return _summary(recovery, recovery.savepoints.read(earlier), stays=ticket.stays)
        if ticket.spec is None or result is None:
            raise Damaged("no compaction ran", next_step="clear the Spark task of this run and run it again")
        source = recovery.savepoints.read(ticket.source_id)
        refuse_if_compacted(recovery, source)
        done = recovery.artifacts.read_own(CompactResult, ticket.savepoint_id, result)
        verdict = judge(recovery.artifacts.read(CompactSpec, ticket.spec).partitions, done.partitions)
        provenance = Provenance(run_id=request.run_id, requested_by=request.requested_by, reason=request.reason, software=software())
        manifest = assembled(source, verdict.accepted, savepoint_id=ticket.savepoint_id, provenance=provenance)
        if not manifest.whole(sizes(recovery)):
            raise Damaged(
                f"files of savepoint {ticket.savepoint_id} are missing or have another size than was written",
                next_step="nothing was published; run the compaction again",
                savepoint=ticket.savepoint_id,
            )
        recovery.savepoints.publish(manifest)
        return _summary(recovery, manifest, stays=ticket.stays | verdict.stays)
    finally:
        recovery.lock.release(lock)


def _locked(recovery: RecoveryContext, ticket: CompactTicket, seconds: float) -> LockTicket:
    held: list[LockHeld] = []

    def attempt() -> LockTicket | None:
        try:
            return recovery.lock.acquire(ticket.request.run, lease_seconds=LEASE_SECONDS, purpose=f"compaction of {ticket.source_id}")
        except LockHeld as error:
            held.append(error)
            return None

    # What the job did is too much to be thrown away because a savepoint is being taken right now.
    what = f"the lock of {recovery.application_id}"
    lock = poll(attempt, seconds=seconds, interval=5.0, what=what, message=lambda: held[-1].reason)
    if lock is None:
        raise held[-1]
    return lock


def _summary(recovery: RecoveryContext, manifest: Manifest, *, stays: dict[str, str]) -> CompactSummary:
    made = manifest.provenance.compacted_from
    proofs = made.proofs if made is not None else ()
    before, after = (sum(getattr(proof, name) for proof in proofs) for name in ("rows_before", "rows_after"))
    return CompactSummary(
        application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        source_id=made.savepoint_id if made is not None else "",
        manifest_key=recovery.layout.manifest(manifest.savepoint_id),
        partitions=len(proofs),
        rows_before=before,
        rows_after=after,
        records_before=manifest.records - after + before,
        records=manifest.records,
        keys_compared=sum(proof.keys for proof in proofs),
        stays=stays,
    )
