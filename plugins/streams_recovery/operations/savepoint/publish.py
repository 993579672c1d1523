"""Writing the manifest: the last thing that happens to a savepoint, and the first moment it exists."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version

from streams_recovery.core import codec
from streams_recovery.core.errors import NotExact, RecoveryError, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.repository.cleaning import compacted
from streams_recovery.core.repository.manifest import (
    CopiedRange,
    CutFacts,
    CutProof,
    Gap,
    LogAtCut,
    Manifest,
    PartitionCut,
    PartitionImage,
    Provenance,
    TopicAtCut,
    TopicImage,
)
from streams_recovery.core.repository.publication import SavepointFacts, savepoint_facts
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.segment_file import GONE_MEANWHILE, joined
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.savepoint import warnings as savepoint_warnings
from streams_recovery.core.savepoint.chain import from_new_start
from streams_recovery.core.savepoint.cut import deletions_kept
from streams_recovery.core.version import VERSION
from streams_recovery.core.words import first_names
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.offsets.snapshots import keep_with_savepoint
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.savepoint import strays
from streams_recovery.operations.savepoint.copy import gather, planned_copy
from streams_recovery.operations.savepoint.damage import note_lost_files
from streams_recovery.operations.savepoint.values import (
    Copied,
    CopyPlan,
    CutDraft,
    DraftTopic,
    PlannedPartition,
    PublishedSavepoint,
    Ticket,
)

LOGGER = logger("streams_recovery.operations.savepoint.publish")
_LIBRARIES = ("confluent-kafka", "pyarrow", "pyspark")


def publish_copy(recovery: RecoveryContext, ticket: Ticket, planned: ArtifactRef | None, result: ArtifactRef | None) -> PublishedSavepoint:
    """Check what the job has left by ``gather``, and ``publish`` it. An attempt after another one checks again."""
    gathered = gather(recovery, ticket, planned, result)
    LOGGER.info("%s files checked, %s records in those of this copy", gathered.files_checked, gathered.rows)
    return publish(recovery, ticket, gathered.copied)


def publish(recovery: RecoveryContext, ticket: Ticket, gathered: ArtifactRef) -> PublishedSavepoint:
    """Make the savepoint exist, of what ``gather`` has left. Repeating it is harmless; a run that was cleared after it had published is refused: a
    savepoint's time is its capture time, and one run takes one savepoint.
    """
    require_lock(recovery, ticket)
    store = recovery.safety if ticket.safety else recovery.savepoints
    earlier = store.published_by_run(ticket.request.run_id)
    if earlier is not None and earlier != ticket.savepoint_id:
        raise Refused(
            f"run {ticket.request.run_id} has already published {earlier}",
            next_step="trigger a new run to take another savepoint",
            savepoint=earlier,
        )
    copied = recovery.artifacts.read_own(Copied, ticket.savepoint_id, gathered)
    copy, draft = planned_copy(recovery, ticket, copied.planned)
    plan = copy.plan
    parent = recovery.savepoints.outline(plan.parent_id) if plan.parent_id else None
    draft = _down_until_now(recovery, ticket, draft)
    whole = _whole_logs(recovery, plan, copied) if parent is not None else frozenset[TopicPartition]()
    manifest = assemble(ticket, draft, plan, copied, parent, recovery.config.application.guarantee, whole=whole)
    # Before the manifest: a reader that finds the savepoint finds the offsets of the other groups too.
    keep_with_savepoint(recovery, copy.groups)
    # Again: a run that was suspended during the copy must not publish over what another run has done since.
    key = store.publish(manifest, confirm=lambda: require_lock(recovery, ticket))
    # What an exact label takes for granted. Any other promises nothing.
    assumed = draft.assumed if manifest.consistency is Consistency.EXACT else ()
    unkept = savepoint_warnings.of_promise(manifest) if recovery.config.backup.survive_cluster_loss else ()
    lost = () if plan.not_whole is None else (_with_lost_files(recovery, ticket, plan.not_whole),)
    warnings = (
        *savepoint_warnings.of_savepoint(manifest, parent),
        *lost,
        *plan.begun_anew,
        *unkept,
        *assumed,
        *_begun_late(draft, copied),
        *copied.noticed,
        *strays.of_rescale(recovery, manifest, parent, copied.ranges),
    )
    return _summary(manifest, key, copied, plan, warnings)


def _begun_late(draft: CutDraft, copied: Copied) -> tuple[str, ...]:
    changelogs = {topic.name for topic in draft.topics if topic.role is TopicRole.CHANGELOG}
    starts = {lost.tp: lost.end for lost in copied.lost if lost.tp.topic in changelogs}
    return tuple(
        f"{tp} begins at {start}: its retention deleted what was before, while it was copied" for tp, start in sorted(starts.items())
    )


def _down_until_now(recovery: RecoveryContext, ticket: Ticket, draft: CutDraft) -> CutDraft:
    """The cut with its label after the copy. If the application was down before and still is, its offsets and internal topics must not have moved: a process
    that moved them was at work while the cut was read. Raises ``NotExact`` if the policy wants an exact cut.
    """
    held = not ticket.running and draft.proof.mode is QuiesceMode.STOP and draft.consistency is Consistency.EXACT
    if not held or not_gone(recovery):
        return draft
    parts = {part.tp: part for topic in draft.topics for part in topic.partitions}
    internal = {part.tp: part.end for topic in draft.topics if topic.role.internal for part in topic.partitions}
    read = {tp: part.committed for tp, part in parts.items() if part.committed is not None}
    committed = recovery.groups.committed(recovery.application_id, tuple(read)) if read else {}
    ends = recovery.cluster.high_watermarks(tuple(internal))
    moved = first_names(
        [tp for tp, end in internal.items() if ends[tp] != end] or [tp for tp, found in read.items() if committed[tp] != found]
    )
    if not moved:
        return draft
    why = f"{moved} went on until all was copied, and no instance is known to run"
    if recovery.config.backup.consistency.require == "exact" and not ticket.safety:
        raise NotExact(
            f"no exact cut of {recovery.application_id}: {why}", next_step="find out which process works on it, and stop it", reasons=(why,)
        )
    return replace(draft, consistency=Consistency.AHEAD, proof=replace(draft.proof, reasons=(why,), assumptions=()))


def _whole_logs(recovery: RecoveryContext, plan: CopyPlan, copied: Copied) -> frozenset[TopicPartition]:
    """The partitions of which every offset that was read is in the log as it was written. A consumer's count cannot tell: it includes markers of transactions,
    and records fetched beyond the end. The cluster is asked only for partitions that go on from files of an earlier savepoint and whose count leaves it open;
    without an answer the set is empty.
    """
    shares = {partition.tp for partition in plan.partitions if partition.shares}
    doubtful: dict[TopicPartition, tuple[int, int]] = {}
    for piece in copied.ranges:
        rows, span = _rows(piece.copied), piece.copied.end - piece.copied.start
        if piece.tp in shares and rows < span <= piece.fetched:
            start, end = doubtful.get(piece.tp, (piece.copied.start, piece.copied.end))
            doubtful[piece.tp] = (min(start, piece.copied.start), max(end, piece.copied.end))
    try:
        return recovery.cluster.whole_logs(doubtful) if doubtful else frozenset()
    except RecoveryError as error:
        LOGGER.warning("whether the cleaner has been to %s cannot be told: %s", first_names(doubtful), error.reason)
        return frozenset()


def _rows(piece: CopiedRange) -> int:
    return 0 if piece.file is None else piece.file.rows


def _with_lost_files(recovery: RecoveryContext, ticket: Ticket, savepoint_id: str) -> str:
    """Say of what is missing from others. The new savepoint exists by now, whatever comes of it."""
    noticed = f"savepoint {savepoint_id} is not whole, so all was copied anew"
    try:
        report = note_lost_files(recovery, ticket.savepoint_id)
    except RecoveryError as error:
        LOGGER.warning("%s, and what else lacks files could not be noted: %s", noticed, error.reason)
        return f"{noticed}; verify the repository: savepoints that share what it lacks cannot be restored either"
    harmed = {name for found in report.findings for name in found.savepoints}
    return f"{noticed}; check {report.check_id} has what is missing; these savepoints cannot be restored: {first_names(harmed)}"


def assemble(
    ticket: Ticket,
    draft: CutDraft,
    plan: CopyPlan,
    copied: Copied,
    parent: Manifest | None,
    guarantee: Guarantee,
    *,
    whole: Collection[TopicPartition] = (),
) -> Manifest:
    """The manifest of a gathered copy. ``whole`` are the partitions in whose logs nothing that was read is missing."""
    pieces: dict[TopicPartition, list[CopiedRange]] = {}
    for piece in copied.ranges:
        pieces.setdefault(piece.tp, []).append(piece.copied)
    for partition in plan.partitions:
        pieces.setdefault(partition.tp, []).extend(_archived_of(partition))
    gaps: dict[TopicPartition, list[Gap]] = {}
    for lost in copied.lost:
        gaps.setdefault(lost.tp, []).append(Gap(start=lost.start, end=lost.end, reason=GONE_MEANWHILE))
    plans: dict[str, dict[int, PlannedPartition]] = {}
    for partition in plan.partitions:
        plans.setdefault(partition.tp.topic, {})[partition.tp.partition] = partition
    cut: CutFacts = draft
    if plan.damage:
        cut = replace(draft, consistency=Consistency.DAMAGED, proof=replace(draft.proof, reasons=(*draft.proof.reasons, *plan.damage)))
    topics = tuple(_topic(topic, draft.captured_at, plans.get(topic.name, {}), pieces, gaps, parent) for topic in draft.topics)
    cut = replace(cut, proof=counted(cut.proof, topics))
    return Manifest(
        **codec.fields_of(CutFacts, cut),
        format_version=cut.proof.format_version,
        savepoint_id=ticket.savepoint_id,
        application_id=ticket.application_id,
        guarantee=guarantee,
        parent_id=plan.parent_id,
        encryption_key_id=None if parent is None else parent.encryption_key_id,
        topics=topics,
        provenance=Provenance(
            run_id=ticket.request.run_id,
            requested_by=ticket.request.requested_by,
            reason=ticket.request.reason,
            software=software(),
            intended=plan.intended,
            deletions_kept_since=_deletions_kept(draft, plans, copied, parent, whole),
        ),
    )


def counted(proof: CutProof, topics: Iterable[TopicImage]) -> CutProof:
    """The proof without archived outputs of which retention took records before they were copied: how many of them are to be left out is not known any more."""
    if proof.names is None:
        return proof
    logs = dict(proof.names.logs)
    for topic in topics:
        for image in topic.partitions if topic.archived and topic.role is TopicRole.OUTPUT else ():
            log = logs.get(tp := TopicPartition(topic.name, image.partition))
            if log is not None and (image.archived_from > log.start or any(gap.end > log.start for gap in image.gaps)):
                del logs[tp]
    return replace(proof, names=replace(proof.names, logs=logs))


def _deletions_kept(
    draft: CutDraft,
    plans: Mapping[str, Mapping[int, PlannedPartition]],
    copied: Copied,
    parent: Manifest | None,
    whole: Collection[TopicPartition],
) -> dict[str, int]:
    found: dict[str, int] = {}
    for topic in draft.topics:
        shares = {number for number, plan in plans.get(topic.name, {}).items() if plan.shares}
        before = parent.topic(topic.name) if parent is not None and shares else None
        if parent is None or before is None or not compacted(topic.role, topic.config, before.config):
            continue
        # What an archiver's consumer received is not on record: a record for each offset is what proves it.
        archived = ((piece, False) for plan in plans[topic.name].values() for piece in _archived_of(plan))
        own = (
            (piece.copied, piece.tp in whole) for piece in copied.ranges if piece.tp.topic == topic.name and piece.tp.partition in shares
        )
        since = deletions_kept((*own, *archived), parent.provenance.deletions_kept_since.get(topic.name), parent.captured_at)
        found |= {} if since is None else {topic.name: since}
    return found


def software() -> dict[str, str]:
    """Versions of what makes savepoints here, by name."""
    return {name: version(name) for name in _LIBRARIES} | {"python": platform.python_version(), "streams-recovery": VERSION}


def _topic(
    topic: DraftTopic,
    captured_at: int,
    plans: dict[int, PlannedPartition],
    pieces: dict[TopicPartition, list[CopiedRange]],
    gaps: dict[TopicPartition, list[Gap]],
    parent: Manifest | None,
) -> TopicImage:
    before = parent.topic(topic.name) if parent else None
    known = {image.partition: image.ranges for image in before.partitions} if before else {}
    shares = any(plan.shares for plan in plans.values())
    if topic.role is TopicRole.CHANGELOG:
        begun = {cut.tp: from_new_start(cut, pieces.get(cut.tp, []), gaps.get(cut.tp, [])) for cut in topic.partitions}
        topic = replace(topic, partitions=tuple(cut for cut, _ in begun.values()))
        pieces, gaps = {tp: left for tp, (_, left) in begun.items()}, {}
    return TopicImage(
        **codec.fields_of(TopicAtCut, topic),
        full_since=before.full_since if before and shares else captured_at,
        partitions=tuple(
            PartitionImage(
                **codec.fields_of(LogAtCut, _as_archived(cut, plans.get(cut.tp.partition))),
                partition=cut.tp.partition,
                ranges=_ranges(topic.role, plans.get(cut.tp.partition), known.get(cut.tp.partition), pieces.get(cut.tp, [])),
                gaps=(*(plans[cut.tp.partition].gaps if cut.tp.partition in plans else ()), *gaps.get(cut.tp, ())),
            )
            for cut in topic.partitions
        ),
    )


def _as_archived(cut: PartitionCut, plan: PlannedPartition | None) -> PartitionCut:
    """The cut of a partition; it ends where the archive does that was taken, which may be behind it."""
    if plan is None or plan.archived is None or plan.archived.end <= cut.end:
        return cut
    return replace(cut, end=plan.archived.end, last_stable=max(cut.last_stable, plan.archived.end))


def _ranges(role: TopicRole, plan: PlannedPartition | None, known: Ranges | None, pieces: list[CopiedRange]) -> Ranges:
    if role is TopicRole.REPARTITION:
        return Ranges.of(pieces)
    if plan is None:
        return Ranges.of(())
    new = joined(pieces)
    return known.with_behind(new) if plan.shares and known is not None else Ranges.of(new)


def _summary(manifest: Manifest, key: str, copied: Copied, plan: CopyPlan, warnings: tuple[str, ...]) -> PublishedSavepoint:
    """A manifest in numbers."""
    new = (*(piece.copied for piece in copied.ranges), *(one for partition in plan.partitions for one in _archived_of(partition)))
    return PublishedSavepoint(
        **codec.fields_of(SavepointFacts, savepoint_facts(manifest)),
        manifest_key=key,
        new_records=sum(one.file.rows for one in new if one.file is not None),
        fetched=sum(piece.fetched for piece in copied.ranges),
        tail_records=sum(topic.rows for topic in manifest.topics if topic.role is TopicRole.REPARTITION),
        topics=len(manifest.topics),
        warnings=warnings,
    )


def _archived_of(plan: PlannedPartition) -> tuple[CopiedRange, ...]:
    return () if plan.archived is None else plan.archived.ranges
