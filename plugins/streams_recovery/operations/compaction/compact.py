"""Compaction of a savepoint: its plan, the Spark job for it, and the new savepoint, which exists only once it is proven to hold the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from streams_recovery.core.compaction.latest_per_key import plan_keys
from streams_recovery.core.compaction.rewritten import CompactionVerdict, compacted, judge
from streams_recovery.core.compaction.small_files import MergeLimits, plan_files
from streams_recovery.core.compaction.values import CompactionPlan, CompactResult, CompactSpec, How, RangeToCompact, TopicCompaction
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan
from streams_recovery.core.kafka_types import Profile, TopicPartition
from streams_recovery.core.repository.compaction_proof import CompactionProof, MergeProof
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import LATEST, same_moment, time_of
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.rewrite import check_sound, rewrite

SPEC, RESULT = "compact-spec", "compact-result"
_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A request to compact a savepoint: in which way, by whom and why. ``savepoint`` is an id, or ``latest``: the newest one whatever its label, and with state
    where the newest record of each key is kept.
    """

    savepoint: str
    how: How
    run_id: str
    requested_by: str
    reason: str

    @property
    def run(self) -> str:
        """The name that ids are made of. Runs that do something else on the same schedule have the same run id."""
        return f"{self.work} {self.run_id}"

    @property
    def work(self) -> str:
        """The work as a noun."""
        return self.how.work

    @property
    def again(self) -> str:
        """What to do when it has failed."""
        return f"run the {self.work} again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """``ranges`` of the savepoint ``source_id`` that are written again, which makes ``savepoint_id`` of it. ``stays`` has the changelogs that are as they
    were, each with its reason.
    """

    savepoint_id: str
    source_id: str
    ranges: int
    stays: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTicket(Compacted):
    """A compaction under way. The run's artifacts are those of ``savepoint_id``. It is the result's id, unless small files are merged and a savepoint is taken
    meanwhile. ``source_id`` is the planned savepoint, and ``files`` are those of the ranges. ``spec`` is the note in the repository about the work, None when
    there is nothing to do. A ticket holds no lock: the savepoint it reads never changes, and its result does not count until it is published.
    """

    request: CompactRequest
    spec: ArtifactRef | None
    files: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSummary(Compacted):
    """A published compaction in numbers: rows of the ranges, records and files of the whole savepoint. ``files_before`` is None where records were left
    out: only of merged files it is known.
    """

    application_id: str
    manifest_key: str
    how: How
    rows_before: int
    rows_after: int
    records_before: int
    records: int
    files_before: int | None
    files_after: int
    keys_compared: int


def plan(recovery: RecoveryContext, savepoint: str, how: How) -> CompactionPlan:
    """The ranges of a savepoint that would be written again. Changes nothing, and asks neither cluster nor application.

    Raises ``NotFound`` without a savepoint, ``Damaged`` for one that is not whole or was altered, ``Refused`` for one that is replaced already.
    """
    source = _source(recovery, savepoint, how)
    planned = _PLANS[how](recovery, source)
    if planned.ranges:
        check_sound(recovery, source)
    return planned


def _plan_keys(recovery: RecoveryContext, source: Manifest) -> CompactionPlan:
    return plan_keys(source, {name: recovery.config.store_kind(name) for name in recovery.config.stores})


def _plan_files(recovery: RecoveryContext, source: Manifest) -> CompactionPlan:
    retention = recovery.config.retention
    # For a person who asks for a merge although scheduled merges are off.
    least = retention.merge_files or type(retention).model_fields["merge_files"].default
    return plan_files(source, MergeLimits(max_records=recovery.config.backup.segment_max_records, least_files=least))


_PLANS = {How.LATEST_PER_KEY: _plan_keys, How.SMALL_FILES: _plan_files}


def begin(recovery: RecoveryContext, request: CompactRequest, planned: CompactionPlan) -> CompactTicket:
    """Leave a Spark job its specification if there is something to do."""
    savepoint_id = same_moment(planned.savepoint_id, request.run)
    backup = recovery.config.backup
    spec = CompactSpec(
        application_id=recovery.application_id,
        how=planned.how,
        ranges=planned.ranges,
        max_records=backup.segment_max_records,
        compression_level=backup.compression_level,
    )
    return CompactTicket(
        request=request,
        savepoint_id=savepoint_id,
        source_id=planned.savepoint_id,
        spec=recovery.artifacts.write(savepoint_id, SPEC, spec) if spec.ranges else None,
        ranges=len(spec.ranges),
        files=sum(len(one.files) for one in spec.ranges),
        rows=planned.rows,
        stays={topic.topic: "; ".join(topic.stays) for topic in planned.topics if topic.stays},
    )


def plan_job(recovery: RecoveryContext, ticket: CompactTicket) -> JobPlan:
    """The job of a compaction. Each attempt has a place of its own for its result: an earlier one may still run somewhere."""
    if ticket.spec is None:
        return NO_JOB
    result_key = recovery.artifacts.reserve(ticket.savepoint_id, f"{RESULT}-{uuid.uuid4().hex}")
    return JobPlan(spec=ticket.spec, result_key=result_key, ranges=ticket.ranges, offsets=ticket.rows)


def _source(recovery: RecoveryContext, savepoint: str, how: How) -> Manifest:
    """The savepoint to compact: the requested one, or the newest one. For the newest record of each key it is the newest that was merged from the requested
    one: that has the same records, and the one before it may have expired. Raises ``Refused`` for one that is replaced, or that a rescale has made,
    ``NotFound`` and ``Damaged``.
    """
    if savepoint == LATEST:
        return _newest(recovery, Profile.FULL if how is How.LATEST_PER_KEY else None)
    while (other := _replacement(recovery, savepoint)) is not None:
        if how is How.SMALL_FILES or other.provenance.merged_from is None:
            raise _replaced_already(savepoint, other)
        savepoint = other.savepoint_id
    found = recovery.savepoints.read(savepoint)
    if found.provenance.rescaled_from is not None:
        # One that is made of it would stand for the savepoint of the same moment with the old numbers, and be the newest one.
        raise Refused(
            f"savepoint {savepoint} was made by a rescale, for its restore alone",
            next_step="nothing was changed; take a savepoint of the application since, and use that",
            savepoint=savepoint,
        )
    return found


def _newest(recovery: RecoveryContext, profile: Profile | None) -> Manifest:
    newest = recovery.savepoints.latest(profile=profile)
    if newest is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint{' with state' if profile else ''} in {recovery.repository.location}",
            next_step="take one first, or check the storage section of the configuration",
        )
    return newest


def _replacement(recovery: RecoveryContext, source_id: str) -> Manifest | None:
    """The whole savepoint that was made from another one and stands for it, None when there is none. One that is damaged stands for nothing."""
    for savepoint_id in recovery.savepoints.ids():
        if time_of(savepoint_id) == time_of(source_id) and savepoint_id != source_id:
            try:
                other = recovery.savepoints.read(savepoint_id)
            except (Damaged, NotFound):
                # One that has just expired stands for nothing either.
                continue
            if other.replaces == source_id and other.whole(recovery.repository.sizes(recovery.layout.segments)):
                return other
    return None


def _replaced_already(savepoint_id: str, other: Manifest) -> Refused:
    made = How.SMALL_FILES if other.provenance.merged_from is not None else How.LATEST_PER_KEY
    return Refused(
        f"savepoint {savepoint_id} was {made.done} already: {other.savepoint_id}",
        next_step="use that one",
        savepoint=other.savepoint_id,
    )


def publish(
    recovery: RecoveryContext, ticket: CompactTicket, result: ArtifactRef | None, *, patience_seconds: float = 1_200.0
) -> CompactSummary:
    """Judge the job's result and create the manifest, under the application's lock. Repeating it after it succeeded changes nothing. Waits
    ``patience_seconds`` for a savepoint that is being taken. If the source was merged meanwhile, the merged savepoint is compacted: it has the same records.
    Merged files are put into the savepoint that is the newest by now, where the newest was asked for: later savepoints go on from it, and it still names the
    old files.

    Raises ``Damaged`` unless what is held is the same, ``Refused`` when the savepoint has none of the old files any more and for a result of another
    attempt, ``LockHeld``.
    """
    request, verdicts = ticket.request, list[CompactionVerdict]()

    def source() -> Manifest:
        verdicts.append(_verdict(recovery, ticket, result))
        newest = request.how is How.SMALL_FILES and request.savepoint == LATEST
        return _source(recovery, LATEST if newest else ticket.source_id, request.how)

    manifest = rewrite(
        recovery,
        request,
        source,
        lambda found, savepoint_id, provenance: compacted(
            found, request.how, verdicts[0].accepted, savepoint_id=savepoint_id, provenance=provenance
        ),
        about=ticket.source_id,
        patience_seconds=patience_seconds,
    )
    return _summary(recovery, request.how, manifest, ticket.stays | (verdicts[0].stays if verdicts else {}))


def _verdict(recovery: RecoveryContext, ticket: CompactTicket, result: ArtifactRef | None) -> CompactionVerdict:
    if ticket.spec is None or result is None:
        raise Damaged(f"no {ticket.request.work} ran", next_step="clear the Spark task of this run and run it again")
    done = recovery.artifacts.read_own(CompactResult, ticket.savepoint_id, result)
    return judge(ticket.request.how, recovery.artifacts.read(CompactSpec, ticket.spec).ranges, done.ranges)


def _summary(recovery: RecoveryContext, how: How, manifest: Manifest, stays: dict[str, str]) -> CompactSummary:
    origin = manifest.provenance
    made = origin.compacted_from if how is How.LATEST_PER_KEY else origin.merged_from
    proofs: tuple[CompactionProof | MergeProof, ...] = made.proofs if made is not None else ()
    before, after = sum(proof.rows_before for proof in proofs), sum(proof.rows_after for proof in proofs)
    merged = [proof.files - 1 for proof in proofs if isinstance(proof, MergeProof)]
    return CompactSummary(
        application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        source_id=made.savepoint_id if made is not None else "",
        manifest_key=recovery.layout.manifest(manifest.savepoint_id),
        how=how,
        ranges=len(proofs),
        rows_before=before,
        rows_after=after,
        records_before=manifest.records - after + before,
        records=manifest.records,
        files_before=manifest.file_count + sum(merged) if merged else None,
        files_after=manifest.file_count,
        keys_compared=sum(proof.keys for proof in proofs if isinstance(proof, CompactionProof)),
        stays=stays,
    )


def compaction_text(plan: CompactionPlan) -> Markdown:
    """The plan for a person: every changelog, or every partition with small files, with what becomes of it."""
    named = code(plan.savepoint_id), code(plan.application_id)
    if plan.how is How.SMALL_FILES:
        return joined([md("### Merge of small files of savepoint {} of {}", *named), md(""), *_merges(plan)])
    return joined([md("### Compaction of savepoint {} of {}", *named), md(""), *_changelogs(plan)])


def _changelogs(plan: CompactionPlan) -> Iterator[Markdown]:
    what = md(
        "{:,} records with {:,} bytes in {} partitions would be read, and the newest of each key kept.",
        plan.rows,
        sum(topic.payload_bytes for topic in plan.topics),
        len(plan.ranges),
    )
    yield what if plan.ranges else md("There is nothing to compact.")
    yield md("")
    yield md("| changelog | store | records | about, after | stays as it is |")
    yield md("|---|---|---:|---:|---|")
    yield from map(_changelog, plan.topics)
    yield md("")
    yield md(
        "The savepoint itself stays. The new one has its cut and its time, and exists only when its state was compared and is the same."
    )


def _changelog(topic: TopicCompaction) -> Markdown:
    expected = "not known" if topic.expected_rows is None else f"{topic.expected_rows:,}"
    after, stays = expected if topic.ranges else "-", "; ".join(topic.stays) or "-"
    return md("| {} | {} | {:,} | {} | {} |", topic.topic, topic.kind, topic.rows, after, stays)


def _merges(plan: CompactionPlan) -> Iterator[Markdown]:
    joins: dict[TopicPartition, list[RangeToCompact]] = {}
    for one in plan.ranges:
        joins.setdefault(one.tp, []).append(one)
    if joins:
        yield md(
            "{:,} records of {} partitions would be written again. The savepoint has {:,} files, and would have {:,}.",
            plan.rows,
            len(joins),
            plan.files,
            plan.files_after,
        )
        yield from (md(""), md("| partition | files | become | records |"), md("|---|---:|---:|---:|"))
        yield from [_merge(tp, several) for tp, several in joins.items()][:_SHOWN]
    else:
        yield md("No files of it are worth merging.")
    if len(joins) > _SHOWN:
        yield from (md(""), md("And {:,} partitions more.", len(joins) - _SHOWN))
    if plan.waiting:
        yield from (md(""), md("{:,} more groups wait for the next run.", plan.waiting))
    yield md("")
    yield md(
        "No record is lost or changed. The new savepoint has the same cut and time, and exists only when every record was compared and is the same."
    )


def _merge(tp: TopicPartition, several: list[RangeToCompact]) -> Markdown:
    return md(
        "| {} | {:,} | {:,} | {:,} |", str(tp), sum(len(one.files) for one in several), len(several), sum(one.rows for one in several)
    )
