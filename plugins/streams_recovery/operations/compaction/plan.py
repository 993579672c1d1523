"""Compaction of a savepoint: its plan, the Spark job for it, and the compacted savepoint, which exists only once it is proven that it holds the same state.

The merge of small files shares the choice of the source, the lock, and the publication.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from streams_recovery.core.compaction.compacted import assembled, judge
from streams_recovery.core.compaction.plan import CompactionPlan, CompactResult, CompactSpec, TopicCompaction, plan_compaction
from streams_recovery.core.errors import Damaged, LockHeld, NotFound, Refused
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import Manifest, Provenance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.core.words import LATEST, same_moment, time_of
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets.snapshots import keep_with_another
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, HeldLock, require_lock
from streams_recovery.operations.savepoint.publish import check_sound, software


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A request to compact a savepoint: by whom and why. ``savepoint`` is an id, or ``latest`` for the newest one with state, whatever its label."""

    savepoint: str
    run_id: str
    requested_by: str
    reason: str

    @property
    def run(self) -> str:
        """The name that ids are made of. Runs that take savepoints on the same schedule have the same run id."""
        return f"compaction {self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTicket:
    """A compaction under way: ``savepoint_id`` is the id that the result will have, ``source_id`` the savepoint it is made of. ``spec`` is the note in the
    repository about the work, None when there is nothing to compact. It holds no lock: the savepoint it reads never changes, and its result does not count
    until it is published.
    """

    request: CompactRequest
    savepoint_id: str
    source_id: str
    spec: ArtifactRef | None
    partitions: int
    offsets: int
    stays: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSummary:
    """A published compaction in numbers. ``stays`` has the changelogs that are as they were, each with its reason."""

    application_id: str
    savepoint_id: str
    source_id: str
    manifest_key: str
    partitions: int
    rows_before: int
    rows_after: int
    records_before: int
    records: int
    keys_compared: int
    stays: dict[str, str]


SPEC, RESULT = "compact-spec", "compact-result"


def plan(recovery: RecoveryContext, savepoint: str) -> CompactionPlan:
    """The changelogs of a savepoint that would be compacted. Changes nothing, and asks neither cluster nor application.

    Raises ``NotFound`` without a savepoint, ``Damaged`` for one that is not whole or was altered, ``Refused`` for one that was compacted already.
    """
    source = newest_one(recovery, Profile.FULL) if savepoint == LATEST else _standing(recovery, savepoint)
    check_sound(recovery, source)
    return plan_compaction(source, {name: recovery.config.store_kind(name) for name in recovery.config.stores})


def begin(recovery: RecoveryContext, request: CompactRequest, planned: CompactionPlan) -> CompactTicket:
    """Leave a Spark job its specification if there is something to compact."""
    savepoint_id = same_moment(planned.savepoint_id, request.run)
    backup = recovery.config.backup
    spec = CompactSpec(
        application_id=recovery.application_id,
        partitions=planned.partitions,
        max_records=backup.segment_max_records,
        compression_level=backup.compression_level,
    )
    return CompactTicket(
        request=request,
        savepoint_id=savepoint_id,
        source_id=planned.savepoint_id,
        spec=recovery.artifacts.write(savepoint_id, SPEC, spec) if spec.partitions else None,
        partitions=len(spec.partitions),
        offsets=sum(partition.end - partition.start for partition in spec.partitions),
        stays={topic.topic: "; ".join(topic.stays) for topic in planned.topics if topic.stays},
    )


def plan_job(recovery: RecoveryContext, ticket: CompactTicket) -> JobPlan:
    """The job of a compaction. Each attempt has a place of its own for its result: an earlier one may still run somewhere."""
    result_key = None if ticket.spec is None else recovery.artifacts.reserve(ticket.savepoint_id, f"{RESULT}-{uuid.uuid4().hex}")
    return JobPlan(spec=ticket.spec, result_key=result_key, ranges=ticket.partitions, offsets=ticket.offsets)


def newest_one(recovery: RecoveryContext, profile: Profile | None = None) -> Manifest:
    """The newest savepoint of a profile, or of any. Raises ``NotFound`` and ``Damaged``."""
    newest = recovery.savepoints.latest(profile=profile)
    if newest is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint{' with state' if profile else ''} in {recovery.repository.location}",
            next_step="take one first, or check the storage section of the configuration",
        )
    return newest


def replacement(recovery: RecoveryContext, source_id: str) -> Manifest | None:
    """The whole savepoint that was made from another one and stands for it, None when there is none. One that is damaged stands for nothing."""
    for savepoint_id in recovery.savepoints.ids():
        if time_of(savepoint_id) == time_of(source_id) and savepoint_id != source_id:
            try:
                other = recovery.savepoints.read(savepoint_id)
            except (Damaged, NotFound):
                # One that has just expired stands for nothing either.
                continue
            if other.replaces == source_id and other.whole(_sizes(recovery)):
                return other
    return None


def _standing(recovery: RecoveryContext, savepoint_id: str) -> Manifest:
    """The savepoint to compact: the requested one, or the newest that was merged from it. A merged savepoint has the same records, and the one before it may
    have expired. Raises ``Refused`` when one was compacted from it, ``NotFound`` and ``Damaged``.
    """
    while (other := replacement(recovery, savepoint_id)) is not None:
        if other.provenance.merged_from is None:
            raise replaced_already(savepoint_id, other)
        savepoint_id = other.savepoint_id
    return recovery.savepoints.read(savepoint_id)


def replaced_already(savepoint_id: str, other: Manifest) -> Refused:
    """The error for a savepoint that ``other`` stands for."""
    made = "compacted" if other.provenance.merged_from is None else "merged"
    return Refused(
        f"savepoint {savepoint_id} was {made} already: {other.savepoint_id}",
        next_step="use that one",
        savepoint=other.savepoint_id,
    )


@contextlib.contextmanager
def locked(recovery: RecoveryContext, run: str, purpose: str, patience_seconds: float) -> Iterator[HeldLock]:
    """Hold the application's lock, so that no expiry and no savepoint decides meanwhile. Waits ``patience_seconds`` for it: what a job did is too much to be
    thrown away because a savepoint is being taken right now. Raises ``LockHeld``.
    """
    held: list[LockHeld] = []

    def attempt() -> LockTicket | None:
        try:
            return recovery.lock.acquire(run, lease_seconds=LEASE_SECONDS, purpose=purpose)
        except LockHeld as error:
            held.append(error)
            return None

    what = f"the lock of {recovery.application_id}"
    lock = poll(attempt, seconds=patience_seconds, interval=5.0, what=what, message=lambda: held[-1].reason)
    if lock is None:
        raise held[-1]
    try:
        yield HeldLock(lock=lock)
    finally:
        recovery.lock.release(lock)


def publish_made(recovery: RecoveryContext, manifest: Manifest, source_id: str, lock: HeldLock, what: str) -> None:
    """Create the manifest of a savepoint that was made from another one, if all of its files are there. Offsets of other groups that were kept with the source
    are kept with it too: the source may be gone soon. Raises ``Damaged`` and ``LockLost``.
    """
    if not manifest.whole(_sizes(recovery)):
        raise Damaged(
            f"files of savepoint {manifest.savepoint_id} are missing or have another size than was written",
            next_step=f"nothing was published; run the {what} again",
            savepoint=manifest.savepoint_id,
        )
    # Before the manifest: a reader that finds the savepoint finds them too.
    keep_with_another(recovery, source_id, manifest.savepoint_id)
    recovery.savepoints.publish(manifest, confirm=lambda: require_lock(recovery, lock))


def _sizes(recovery: RecoveryContext) -> dict[str, int]:
    """Bytes of every segment there is, by key."""
    return recovery.repository.sizes(recovery.layout.segments)


def publish(
    recovery: RecoveryContext, ticket: CompactTicket, result: ArtifactRef | None, *, patience_seconds: float = 1_200.0
) -> CompactSummary:
    """Judge the job's result and create the manifest, under the application's lock, so that no expiry decides meanwhile. Repeating it after it
    succeeded changes nothing. Waits ``patience_seconds`` for a savepoint that is being taken. If the source was merged meanwhile, the merged savepoint is
    compacted: it has the same records. Raises ``Damaged`` unless the state is the same, ``Refused`` when nothing could be compacted and for a result of another
    attempt, ``LockHeld``.
    """
    request = ticket.request
    with locked(recovery, request.run, f"compaction of {ticket.source_id}", patience_seconds) as lock:
        earlier = recovery.savepoints.published_by_run(request.run)
        if earlier is not None:
            return _summary(recovery, recovery.savepoints.read(earlier), stays=ticket.stays)
        if ticket.spec is None or result is None:
            raise Damaged("no compaction ran", next_step="clear the Spark task of this run and run it again")
        source = _standing(recovery, ticket.source_id)
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


def compaction_text(plan: CompactionPlan) -> Markdown:
    """The plan, every changelog with what becomes of it."""
    what = md(
        "{:,} records with {:,} bytes in {} partitions would be read, and the newest of each key kept.",
        sum(topic.rows for topic in plan.topics),
        sum(topic.payload_bytes for topic in plan.topics),
        len(plan.partitions),
    )
    return joined(
        [
            md("### Compaction of savepoint {} of {}", code(plan.savepoint_id), code(plan.application_id)),
            md(""),
            what if plan.partitions else md("There is nothing to compact."),
            md(""),
            md("| changelog | store | records | about, after | stays as it is |"),
            md("|---|---|---:|---:|---|"),
            *map(_row, plan.topics),
            md(""),
            md(
                "The savepoint itself stays. The new one has its cut and its time, and exists only when its state was compared and is the same."
            ),
        ]
    )


def _row(topic: TopicCompaction) -> Markdown:
    expected = "not known" if topic.expected_rows is None else f"{topic.expected_rows:,}"
    after, stays = expected if topic.partitions else "-", "; ".join(topic.stays) or "-"
    return md("| {} | {} | {:,} | {} | {} |", topic.topic, topic.kind, topic.rows, after, stays)
