"""Joining the small files of a savepoint: plan, begin, plan_job, (Spark), publish, in this order."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from streams_recovery.core.compaction.merge import MergeLimits, MergePlan, MergeResult, MergeSpec, assembled, judge, plan_merge
from streams_recovery.core.errors import Damaged
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Manifest, Provenance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import LATEST, same_moment
from streams_recovery.operations.compaction.plan import locked, newest_one, publish_made, replaced_already, replacement
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.publish import check_sound, software

SPEC, RESULT = "merge-spec", "merge-result"
_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A request to join the small files of a savepoint: by whom and why. ``savepoint`` is an id, or ``latest`` for the newest one, whatever its label."""

    savepoint: str
    run_id: str
    requested_by: str
    reason: str

    @property
    def run(self) -> str:
        """The name that ids are made of. Runs that do something else on the same schedule have the same run id."""
        return f"merge {self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMerged:
    """``groups`` of files with ``rows`` records that become a file each. The savepoint ``source_id`` becomes ``savepoint_id`` by that."""

    savepoint_id: str
    source_id: str
    groups: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTicket(GroupsMerged):
    """A merge under way. The run's artifacts are those of ``savepoint_id``, which is the result's id unless a savepoint is taken meanwhile. ``source_id`` is
    the planned savepoint. ``spec`` is the note in the repository about the work, None when no merge is worth it. A ticket holds no lock.
    """

    request: MergeRequest
    spec: ArtifactRef | None
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSummary(GroupsMerged):
    """A published merge: the savepoint's ``files_before`` became ``files``."""

    application_id: str
    manifest_key: str
    files_before: int
    files: int


def plan(recovery: RecoveryContext, savepoint: str) -> MergePlan:
    """The files of a savepoint that would be joined. Changes nothing, and asks neither cluster nor application.

    Raises ``NotFound`` without a savepoint, ``Damaged`` for a savepoint that is not whole or was altered, ``Refused`` for one that is replaced already.
    """
    source = _free(recovery, savepoint)
    least = recovery.config.retention.merge_files
    # For a person who asks for a merge although scheduled merges are off.
    limits = MergeLimits(max_records=recovery.config.backup.segment_max_records, least_files=least or _default(recovery))
    planned = plan_merge(source, limits)
    if planned.groups:
        check_sound(recovery, source)
    return planned


def _default(recovery: RecoveryContext) -> int:
    default: int = type(recovery.config.retention).model_fields["merge_files"].default
    return default


def _free(recovery: RecoveryContext, savepoint: str) -> Manifest:
    if savepoint == LATEST:
        return newest_one(recovery)
    if (other := replacement(recovery, savepoint)) is not None:
        raise replaced_already(savepoint, other)
    return recovery.savepoints.read(savepoint)


def begin(recovery: RecoveryContext, request: MergeRequest, planned: MergePlan) -> MergeTicket:
    """Leave a Spark job its specification if anything is worth it."""
    savepoint_id = same_moment(planned.savepoint_id, request.run)
    level = recovery.config.backup.compression_level
    spec = MergeSpec(application_id=recovery.application_id, groups=planned.groups, compression_level=level)
    return MergeTicket(
        request=request,
        savepoint_id=savepoint_id,
        source_id=planned.savepoint_id,
        spec=recovery.artifacts.write(savepoint_id, SPEC, spec) if planned.groups else None,
        groups=len(planned.groups),
        files=sum(len(group.files) for group in planned.groups),
        rows=planned.rows,
    )


def plan_job(recovery: RecoveryContext, ticket: MergeTicket) -> JobPlan:
    """The job of a merge. Each attempt has a place of its own for its result: an earlier one may still run somewhere."""
    if ticket.spec is None:
        return NO_JOB
    result_key = recovery.artifacts.reserve(ticket.savepoint_id, f"{RESULT}-{uuid.uuid4().hex}")
    return JobPlan(spec=ticket.spec, result_key=result_key, ranges=ticket.groups, offsets=ticket.rows)


def publish(
    recovery: RecoveryContext, ticket: MergeTicket, result: ArtifactRef | None, *, patience_seconds: float = 1_200.0
) -> MergeSummary:
    """Judge the job's result and create the manifest, under the application's lock. Repeating it after it succeeded changes nothing. Waits
    ``patience_seconds`` for a savepoint that is being taken. For ``latest`` the savepoint that is the newest by now gets the joined files: later savepoints go
    on from it, and it still names the old files.

    Raises ``Damaged`` unless every record is the same, ``Refused`` when the savepoint has none of the old files any more and for a result of another
    attempt, ``LockHeld``.
    """
    request = ticket.request
    with locked(recovery, request.run, f"merge of {ticket.source_id}", patience_seconds) as lock:
        earlier = recovery.savepoints.published_by_run(request.run)
        if earlier is not None:
            return _summary(recovery, recovery.savepoints.read(earlier))
        if ticket.spec is None or result is None:
            raise Damaged("no merge ran", next_step="clear the Spark task of this run and run it again")
        done = recovery.artifacts.read_own(MergeResult, ticket.savepoint_id, result)
        accepted = judge(recovery.artifacts.read(MergeSpec, ticket.spec).groups, done.groups)
        source = _free(recovery, LATEST if request.savepoint == LATEST else ticket.source_id)
        check_sound(recovery, source)
        provenance = Provenance(run_id=request.run_id, requested_by=request.requested_by, reason=request.reason, software=software())
        made_id = same_moment(source.savepoint_id, request.run)
        manifest = assembled(source, accepted, savepoint_id=made_id, provenance=provenance)
        publish_made(recovery, manifest, source.savepoint_id, lock, "merge")
        return _summary(recovery, manifest)


def _summary(recovery: RecoveryContext, manifest: Manifest) -> MergeSummary:
    made = manifest.provenance.merged_from
    proofs = made.proofs if made is not None else ()
    return MergeSummary(
        application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        source_id=made.savepoint_id if made is not None else "",
        manifest_key=recovery.layout.manifest(manifest.savepoint_id),
        groups=len(proofs),
        rows=sum(proof.rows_after for proof in proofs),
        files_before=manifest.file_count + sum(proof.files - 1 for proof in proofs),
        files=manifest.file_count,
    )


def merge_text(plan: MergePlan) -> Markdown:
    """A merge for people: each partition with what becomes of its files."""
    joins: dict[TopicPartition, list[tuple[int, int]]] = {}
    for group in plan.groups:
        joins.setdefault(group.tp, []).append((len(group.files), group.rows))
    what = md(
        "{:,} records of {} partitions would be written again. The savepoint has {:,} files, and would have {:,}.",
        plan.rows,
        len(joins),
        plan.files,
        plan.files_after,
    )
    rows = [
        md("| {} | {:,} | {:,} | {:,} |", str(tp), sum(n for n, _ in found), len(found), sum(n for _, n in found))
        for tp, found in joins.items()
    ]
    table = [md(""), md("| partition | files | become | records |"), md("|---|---:|---:|---:|"), *rows[:_SHOWN]]
    return joined(
        [
            md("### Merge of small files of savepoint {} of {}", code(plan.savepoint_id), code(plan.application_id)),
            md(""),
            what if plan.groups else md("No files of it are worth merging."),
            *(table if plan.groups else ()),
            *([md(""), md("And {:,} partitions more.", len(rows) - _SHOWN)] if len(rows) > _SHOWN else ()),
            *([md(""), md("{:,} more groups wait for the next run.", plan.waiting)] if plan.waiting else ()),
            md(""),
            md(
                "No record is lost or changed. The new savepoint has the same cut and time, and exists only when every record was compared and is the same."
            ),
        ]
    )
