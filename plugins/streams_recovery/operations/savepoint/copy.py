"""Planning the Spark copy of a cut, and checking what it brought back."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from streams_recovery.core import codec
from streams_recovery.core.archive.join import is_same_log, taken
from streams_recovery.core.archive.log import ArchivedLog
from streams_recovery.core.errors import Damaged, KeyServiceUnavailable, NotFound, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import NO_JOB, BackupResult, BackupSpec, JobPlan, RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.jobs.volume import UNKNOWN_BYTES, JobVolume
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.encryption import named_key
from streams_recovery.core.repository.manifest import Manifest, PartitionCut, PartitionImage, SegmentFile, partition_images
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.savepoint.chain import (
    ChainPolicy,
    PartitionCopy,
    archives,
    lacking,
    may_expire,
    plan_partition,
    split,
    topic_full_reason,
)
from streams_recovery.core.savepoint.warnings import inputs_changed
from streams_recovery.core.topic_settings import expires
from streams_recovery.core.words import command
from streams_recovery.operations import archive as archives_of
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import discover
from streams_recovery.operations.offsets.snapshots import note_with_savepoint
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.savepoint.begin import check_same_logs
from streams_recovery.operations.savepoint.damage import damage_of_cut, epoch_ends, last_savepoint, with_damage
from streams_recovery.operations.savepoint.values import (
    COPIED,
    PLAN,
    RESULT,
    SPEC,
    Copied,
    CopyPlan,
    CutDraft,
    DraftTopic,
    GatherSummary,
    PlannedCopy,
    PlannedPartition,
    Ticket,
)

LOGGER = logger("streams_recovery.operations.savepoint")
# Savepoints before the newest one that are opened for an archive that it has not.
_OLDER = 50


def plan_copy(recovery: RecoveryContext, ticket: Ticket, cut: ArtifactRef) -> JobPlan:
    """Decide what to share and what to copy of the cut that ``capture`` has left, and leave the Spark job its specification. No new records: no job."""
    require_lock(recovery, ticket)
    draft = recovery.artifacts.read_own(CutDraft, ticket.savepoint_id, cut)
    newest = _newest(recovery)
    last = newest if newest and newest.cluster_id == draft.cluster_id else last_savepoint(recovery)
    ends = epoch_ends(recovery, last, [log.tp for topic in draft.topics for log in topic.partitions])
    settings = recovery.cluster.settings([topic.name for topic in draft.topics])
    flaw = None if newest is None else _flaw(recovery, newest)
    parent = newest if flaw is None else None
    if parent is not None:
        parent = _with_archives(recovery, parent, draft) or parent
    plan = copy_plan(
        draft, parent, _policy(recovery), ends, settings, last=newest or last, archived=_archived(recovery, ticket, parent, draft)
    )
    if newest is not None and flaw is not None:
        closed = (f"savepoint {newest.savepoint_id} cannot be decrypted, so all was copied anew: {flaw}",) if flaw else ()
        plan = replace(plan, not_whole=None if flaw else newest.savepoint_id, begun_anew=(*closed, *plan.begun_anew))
    plan = with_damage(plan, ticket, damage_of_cut(recovery, ticket, draft, last, ends, settings))
    # Here and not with the cut: the application need not be held for it, and it is still close to the cut.
    groups = note_with_savepoint(recovery, ticket.savepoint_id, [topic.name for topic in draft.topics])
    missing = _missing(plan, recovery)
    level = recovery.config.backup.compression_level
    wanted = BackupSpec(application_id=recovery.application_id, ranges=missing, compression_level=level, run=ticket.savepoint_id)
    spec = recovery.artifacts.write(ticket.savepoint_id, SPEC, wanted) if missing else None
    planned = recovery.artifacts.write(ticket.savepoint_id, PLAN, PlannedCopy(draft=cut, plan=plan, spec=spec, groups=groups))
    if spec is None:
        return replace(NO_JOB, plan=planned)
    return JobPlan(
        spec=spec,
        result_key=recovery.artifacts.answer(spec.key, RESULT),
        ranges=len(missing),
        offsets=sum(piece.end - piece.start for piece in missing),
        plan=planned,
        volume=JobVolume.of((piece.size_hint, piece.size_hint * _record_bytes(newest or last, piece.tp)) for piece in missing),
    )


def _newest(recovery: RecoveryContext) -> Manifest | None:
    """The newest savepoint, None if it cannot be read: then nothing is shared, as the way out of damage is a full savepoint."""
    try:
        return recovery.savepoints.latest(read=recovery.savepoints.outline)
    except Damaged:
        return None


def expected_copy(recovery: RecoveryContext, _ticket: Ticket | None = None) -> JobVolume | None:
    """The volume that logs have behind the newest savepoint, as far as that can be said now; before the first one, of all that there is. None without any."""
    try:
        newest = _newest(recovery)
        if newest is None or newest.cluster_id != recovery.cluster.cluster_id():
            found = discover(recovery)
            archived = [topic.name for topic in found.inventory.topics if topic.archived and topic.role is not TopicRole.REPARTITION]
            tps = [TopicPartition(name, number) for name in archived for number in range(found.topics[name].partitions)]
            saved = {tp: (start, UNKNOWN_BYTES) for tp, start in recovery.cluster.log_starts(tps).items()}
        else:
            images = partition_images(topic for topic in newest.topics if topic.archived and topic.role is not TopicRole.REPARTITION)
            saved = {tp: (image.end, _record_bytes(newest, tp)) for tp, image in images.items()}
        news = {tp: end - saved[tp][0] for tp, end in recovery.cluster.high_watermarks(list(saved)).items()}
    except RecoveryError:
        # The plan says why.
        return None
    return JobVolume.of((records, records * saved[tp][1]) for tp, records in news.items() if records > 0) if any(news.values()) else None


def _record_bytes(before: Manifest | None, tp: TopicPartition) -> int:
    """The bytes that a record of this log is taken to have: the largest mean of its files, else of those of its topic, of an earlier savepoint."""
    topic = None if before is None else before.topic(tp.topic)
    means = {} if topic is None else {image.partition: image.ranges.facts.payload_a_row for image in topic.partitions if image.rows}
    return means.get(tp.partition) or max(means.values(), default=UNKNOWN_BYTES)


def _archived(recovery: RecoveryContext, ticket: Ticket, parent: Manifest | None, draft: CutDraft) -> Mapping[TopicPartition, ArchivedLog]:
    """The logs that the continuous archive has, joined by its archiver where one is at work. Without it the job copies what is missing."""
    if parent is None or ticket.safety or not recovery.config.archive.enabled:
        return {}
    try:
        archive = archives_of.ask(recovery, ticket.savepoint_id)
    except Damaged as error:
        LOGGER.warning("the archive is not used, and inputs are copied: %s", error.reason)
        return {}
    if archive is None or archive.cluster_id != parent.cluster_id:
        return {}
    cuts = {cut.tp: cut for topic in draft.topics for cut in topic.partitions}
    logs = {tp: log for tp, log in archive.newest.items() if tp in cuts}
    moved = {tp: epoch for tp, log in logs.items() if (epoch := log.leader_epoch) is not None and epoch != cuts[tp].leader_epoch}
    ends = recovery.cluster.epoch_ends(moved) if moved else {}
    return {tp: log for tp, log in logs.items() if is_same_log(log, cuts[tp], ends.get(tp))}


def _with_archives(recovery: RecoveryContext, newest: Manifest, draft: CutDraft) -> Manifest | None:
    """The newest savepoint that has archived the inputs, outputs and globals that ``newest`` left out, None when it left out none or no savepoint has them.
    Without it, one savepoint that archives less would begin every archive anew, and earlier records would be in older savepoints only.
    """
    left_out = lacking(newest, {topic.name: topic.topic_id for topic in draft.topics if topic.archived and not topic.role.internal})
    if not left_out:
        return None
    for savepoint_id in list(itertools.takewhile(lambda one: one != newest.savepoint_id, recovery.savepoints.ids()))[: -_OLDER - 1 : -1]:
        with suppress(Damaged, NotFound):
            found = recovery.savepoints.outline(savepoint_id)
            if found.cluster_id == newest.cluster_id and archives(found, left_out):
                return found if _flaw(recovery, found) is None else None
    return None


def _flaw(recovery: RecoveryContext, outline: Manifest) -> str | None:
    """What keeps a savepoint from being shared with: why a key of its files cannot be had, empty where it lacks files. None without a flaw. A service
    of keys that does not answer now is none.
    """
    try:
        manifest = recovery.savepoints.read(outline.savepoint_id)
    except Damaged:
        return ""
    if not manifest.whole(recovery.repository.sizes(recovery.layout.segments)):
        return ""
    keyring = recovery.repository.keyring
    ids = {
        named[1] for topic in manifest.topics for image in topic.partitions for key, _ in image.ranges.sizes() if (named := named_key(key))
    }
    if keyring is None or not ids:
        return None
    with suppress(KeyServiceUnavailable):
        return next((one.problem for one in keyring.stored(recovery.application_id, ids, each=False) if one.problem), None)
    return None


def copy_plan(
    draft: CutDraft,
    parent: Manifest | None,
    policy: ChainPolicy,
    epoch_ends: Mapping[TopicPartition, int | None],
    settings: Mapping[str, Mapping[str, str]],
    *,
    last: Manifest | None = None,
    archived: Mapping[TopicPartition, ArchivedLog] = MappingProxyType({}),
) -> CopyPlan:
    """The copy of every archived partition except repartition tails, which were copied with the cut. ``epoch_ends`` is where the logs end now that
    the parent saw, ``settings`` what is in force on each archived topic. ``last`` is the newest savepoint that can be read, also when it cannot be the
    parent. ``archived`` is what the continuous archive has, which is taken and not copied.
    """
    if parent is not None and parent.cluster_id != draft.cluster_id:
        parent = None
    if last is not None and last.cluster_id != draft.cluster_id:
        last = None
    planned = [
        _planned(topic, draft, parent, policy, epoch_ends, settings[topic.name], archived)
        for topic in draft.topics
        if topic.archived and topic.role is not TopicRole.REPARTITION
    ]
    partitions = tuple(itertools.chain.from_iterable(planned))
    shared = parent is not None and any(partition.shares for partition in partitions)
    return CopyPlan(
        parent_id=parent.savepoint_id if parent and shared else None,
        partitions=partitions,
        begun_anew=(
            *inputs_changed(draft.topics, last, {topic.name: len(topic.partitions) for topic in draft.topics}),
            *_begun_anew(draft, parent, last, partitions),
        ),
    )


def _begun_anew(draft: CutDraft, parent: Manifest | None, last: Manifest | None, planned: Iterable[PlannedPartition]) -> Iterator[str]:
    """Sentences on archives that begin anew. Internal topics are left out: only their state counts, while the archive of an input is also its history."""
    roles = {topic.name: topic.role for topic in draft.topics}
    known = parent or last
    archived = {
        TopicPartition(topic.name, image.partition)
        for topic in (known.topics if known else ())
        for image in topic.partitions
        if image.ranges.facts.ranges
    }
    for one in planned:
        tp = one.tp
        if tp in archived and not roles[one.tp.topic].internal and one.full_because is not None:
            why = one.full_because if parent is not None else "the newest savepoint is not whole, or cannot be read or decrypted"
            yield f"the archive of {tp} begins anew ({why}): what it had before is in earlier savepoints only"


def _planned(
    topic: DraftTopic,
    draft: CutDraft,
    parent: Manifest | None,
    policy: ChainPolicy,
    epoch_ends: Mapping[TopicPartition, int | None],
    settings: Mapping[str, str],
    archived: Mapping[TopicPartition, ArchivedLog],
) -> list[PlannedPartition]:
    why_full = topic_full_reason(topic.role, topic.topic_id, settings, draft.captured_at, parent, topic.name, policy)
    before = parent.topic(topic.name) if parent else None
    images: dict[int, PartitionImage] = {image.partition: image for image in before.partitions} if before else {}
    result = []
    for cut in topic.partitions:
        known = images.get(cut.tp.partition)
        copy = plan_partition(
            cut,
            topic.role,
            known,
            why_full,
            epoch_end=epoch_ends.get(cut.tp),
            expires=may_expire(settings, before),
            deletes=expires(settings),
        )
        planned = PlannedPartition(**codec.fields_of(PartitionCopy, copy), tp=TopicPartition(topic.name, cut.tp.partition))
        log = archived.get(cut.tp)
        own = log is not None and log.topic_id == topic.topic_id and copy.shares
        behind = taken(cut, topic.role, known, log) if own and known is not None else None
        result.append(planned if behind is None or known is None else _with_archived(planned, cut, known, behind))
    return result


def _with_archived(planned: PlannedPartition, cut: PartitionCut, parent: PartitionImage, behind: ArchivedLog) -> PlannedPartition:
    """The rest is copied, if the archive does not go as far as the cut. The archive may have records that the log has lost meanwhile."""
    rest = (
        RangeToCopy(tp=cut.tp, start=behind.end, end=cut.end, size_hint=cut.end - behind.end, may_lose=True)
        if behind.end < cut.end
        else None
    )
    return replace(planned, gaps=(*parent.gaps, *behind.gaps), missing=rest, archived=behind)


def _policy(recovery: RecoveryContext) -> ChainPolicy:
    backup = recovery.config.backup
    return ChainPolicy(max_savepoints=backup.full_after_savepoints, max_age_days=backup.full_every_days)


def _missing(plan: CopyPlan, recovery: RecoveryContext) -> tuple[RangeToCopy, ...]:
    whole = (partition.missing for partition in plan.partitions if partition.missing is not None)
    return tuple(piece for missing in whole for piece in split(missing, recovery.config.backup.segment_max_records))


def gather(recovery: RecoveryContext, ticket: Ticket, planned: ArtifactRef | None, result: ArtifactRef | None) -> GatherSummary:
    """Check the job's result against the plan of ``plan_copy``, range by range, each of its files by size, and that the topics are those of the cut. ``result``
    is None when there was no job. Raises ``Damaged`` when a range is missing, doubled, cut short, or was deleted under the reader where nothing may be lost,
    and when a topic was created again or truncated after the cut; ``GuardLost`` when a log may have been compacted meanwhile.
    """
    require_lock(recovery, ticket)
    if planned is None:
        raise Damaged("no copy was planned", next_step="run the savepoint again")
    copy, draft = planned_copy(recovery, ticket, planned)
    plan = copy.plan
    job = BackupResult(ranges=(), seconds=0) if result is None else recovery.artifacts.read_own(BackupResult, ticket.savepoint_id, result)
    check_against_plan(() if copy.spec is None else recovery.artifacts.read(BackupSpec, copy.spec).ranges, job.ranges, job.lost)
    noticed = check_same_logs(recovery, draft)
    # Tails were copied with the cut.
    topic_holds.require_guard(
        recovery, ticket.mark, [topic.name for topic in draft.topics if topic.archived and topic.role is not TopicRole.REPARTITION]
    )
    ranges = (*draft.tails, *job.ranges)
    files = [piece.copied.file for piece in ranges if piece.copied.file is not None]
    taken_over = [one.file for part in plan.partitions if part.archived is not None for one in part.archived.ranges if one.file is not None]
    shared = _check_stored(recovery, plan, [*files, *taken_over])
    copied = Copied(planned=planned, ranges=ranges, lost=job.lost, noticed=noticed)
    return GatherSummary(
        files_checked=len(files) + len(taken_over) + shared,
        rows=sum(file.rows for file in files),
        fetched=sum(piece.fetched for piece in ranges),
        shared_files=shared + len(taken_over),
        lost=sum(piece.end - piece.start for piece in job.lost),
        copied=recovery.artifacts.write(ticket.savepoint_id, COPIED, copied),
    )


def _check_stored(recovery: RecoveryContext, plan: CopyPlan, files: Sequence[SegmentFile]) -> int:
    """Raise ``Damaged`` unless these files, and those that are shared with the parent, are there with their sizes. Returns how many are shared."""
    there = recovery.repository.sizes(recovery.layout.segments) if files or plan.parent_id else {}
    needed, shared = [(file.key, file.bytes) for file in files], 0
    wrong = next(((key, size) for key, size in needed if there.get(key) != size), None)
    if plan.parent_id is not None:
        kept = {(one.tp.topic, one.tp.partition) for one in plan.partitions if one.shares}
        parent = recovery.savepoints.read(plan.parent_id)
        for ranges in (one.ranges for topic in parent.topics for one in topic.partitions if (topic.name, one.partition) in kept):
            shared += ranges.facts.files
            wrong = wrong or next(((key, size) for key, size in ranges.sizes() if there.get(key) != size), None)
    if wrong is not None:
        key, size = wrong
        raise Damaged(
            f"segment {key} {f'has {there[key]} bytes' if key in there else 'is not'} in the repository, {size} were written",
            next_step="take the savepoint again: what is missing is copied in full. This one is not published",
            key=key,
        ).then(command("backup", recovery.config.name))
    return shared


def planned_copy(recovery: RecoveryContext, ticket: Ticket, planned: ArtifactRef) -> tuple[PlannedCopy, CutDraft]:
    """The plan that ``plan_copy`` has left, and the cut it is for. Raises ``Refused`` for those of another attempt: no guard has held since."""
    copy = recovery.artifacts.read_own(PlannedCopy, ticket.savepoint_id, planned)
    return copy, recovery.artifacts.read_own(CutDraft, ticket.savepoint_id, copy.draft)


def check_against_plan(planned: tuple[RangeToCopy, ...], copied: tuple[RangeCopied, ...], lost: tuple[RangeLost, ...] = ()) -> None:
    """Raise ``Damaged`` unless exactly the planned ranges were copied, each whole and none of it deleted while it was read. For ranges that may lose some,
    copied and lost pieces together must be the range.
    """
    left: dict[TopicPartition, list[tuple[int, int]]] = {}
    for piece in copied:
        left.setdefault(piece.tp, []).append((piece.copied.start, piece.copied.end))
    for gone in lost:
        left.setdefault(gone.tp, []).append((gone.start, gone.end))
    wanted_of: dict[TopicPartition, list[RangeToCopy]] = {}
    for wanted in planned:
        wanted_of.setdefault(wanted.tp, []).append(wanted)
    difference: list[object] = [(tp, *piece) for tp, pieces in left.items() if tp not in wanted_of for piece in pieces]
    for tp, ranges in wanted_of.items():
        difference += [(tp, *piece) for piece in _not_as_planned(ranges, left.get(tp, []))]
    strict = {(wanted.tp, wanted.start) for wanted in planned if not wanted.may_lose}
    difference += [(piece.tp, piece.start, piece.end) for piece in lost if (piece.tp, piece.start) in strict]
    if difference:
        raise Damaged(
            f"the job did not copy what was planned: {difference[:5]}", next_step="run the savepoint again", difference=str(difference[:5])
        )
    for done in copied:
        if (done.tp, done.copied.start) in strict and done.log_start_after > done.copied.start:
            raise Damaged(
                f"{done.tp} starts at {done.log_start_after} after the copy of [{done.copied.start}, {done.copied.end}): "
                "retention deleted records under the reader",
                next_step="run the savepoint again; if it repeats, raise the topic's retention",
                topic=done.tp.topic,
                partition=done.tp.partition,
            )


def _not_as_planned(ranges: Iterable[RangeToCopy], pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of one partition that were not done as planned, and pieces that were not planned."""
    wrong = []
    left = deque(sorted(pieces))
    for wanted in sorted(ranges, key=lambda one: one.start):
        while left and left[0][0] < wanted.start:
            wrong.append(left.popleft())
        mine = []
        while left and left[0][0] < wanted.end:
            mine.append(left.popleft())
        if not (_tiles(wanted, mine) if wanted.may_lose else mine == [(wanted.start, wanted.end)]):
            wrong.append((wanted.start, wanted.end))
    return [*wrong, *left]


def _tiles(wanted: RangeToCopy, pieces: list[tuple[int, int]]) -> bool:
    joined = all(before[1] == after[0] for before, after in itertools.pairwise(pieces))
    return bool(pieces) and joined and (pieces[0][0], pieces[-1][1]) == (wanted.start, wanted.end)
