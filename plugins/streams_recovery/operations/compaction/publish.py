"""Making the compacted savepoint exist, once it is proven that it holds the same state."""

from __future__ import annotations

from streams_recovery.core.compaction.compacted import assembled, judge
from streams_recovery.core.compaction.plan import CompactResult, CompactSpec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.manifest import Manifest, Provenance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.compaction.plan import locked, publish_made, standing
from streams_recovery.operations.compaction.values import CompactSummary, CompactTicket
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.publish import software


def publish(
    recovery: RecoveryContext, ticket: CompactTicket, result: ArtifactRef | None, *, patience_seconds: float = 1_200.0
) -> CompactSummary:
    """Judge the job's result and create the manifest, under the application's lock, so that no expiry decides meanwhile. Repeating it after it
    succeeded changes nothing. Waits ``patience_seconds`` for a savepoint that is being taken. Of a source that was merged meanwhile the merged one is
    compacted: it has the same records. Raises ``Damaged`` unless the state is the same,
    ``Refused`` when nothing could be compacted and for a result of another attempt, ``LockHeld``.
    """
    request = ticket.request
    with locked(recovery, request.run, f"compaction of {ticket.source_id}", patience_seconds) as lock:
        earlier = recovery.savepoints.published_by_run(request.run)
        if earlier is not None:
            return _summary(recovery, recovery.savepoints.read(earlier), stays=ticket.stays)
        if ticket.spec is None or result is None:
            raise Damaged("no compaction ran", next_step="clear the Spark task of this run and run it again")
        source = standing(recovery, ticket.source_id)
        done = recovery.artifacts.read_own(CompactResult, ticket.savepoint_id, result)
        verdict = judge(recovery.artifacts.read(CompactSpec, ticket.spec).partitions, done.partitions)
        provenance = Provenance(run_id=request.run_id, requested_by=request.requested_by, reason=request.reason, software=software())
        manifest = assembled(source, verdict.accepted, savepoint_id=ticket.savepoint_id, provenance=provenance)
        publish_made(recovery, manifest, source.savepoint_id, lock, "compaction")
        return _summary(recovery, manifest, stays=ticket.stays | verdict.stays)


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
