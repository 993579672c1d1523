"""Merging small files of a partition that lie side by side: the groups of files, what a job has to show for them, and the savepoint with the merged ones.

A merge keeps every record. It is worth it when a file becomes full, or when many files of similar size become one: so a record is written again only a few
times, however many savepoints add files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Self

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import Compaction, MergedFrom, MergeProof, Rewritten
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, Provenance, SegmentFile, TopicImage

# What a task needs on its disk is a file of this size and the largest of those that it is made of.
MOST_BYTES: Final = 512 << 20
# Of one run: a specification has a limit, and so has the driver's memory.
MOST_FILES: Final = 500_000
# By how much a file grows at least, unless it becomes full: how often a record is written again depends on it.
_GROWTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """A merged file has at most ``max_records`` rows and ``max_bytes`` bytes. One that has half of either is full. At least ``least_files`` become one, unless
    that one is full.
    """

    max_records: int
    least_files: int
    max_bytes: int = MOST_BYTES

    def allow(self, rows: int, size: int) -> bool:
        """True if one file may have so many rows and bytes."""
        return rows <= self.max_records and size <= self.max_bytes

    def full(self, rows: int, size: int) -> bool:
        """True if a file with so many rows and bytes stays as it is for good."""
        return 2 * rows >= self.max_records or 2 * size >= self.max_bytes

    @property
    def growth(self) -> int:
        """The least ratio of a group's rows to those of its largest file, unless they make a full one. Files that are to be few need not be as alike."""
        return max(2, min(_GROWTH, self.least_files // 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupToMerge:
    """The files of ``[start, end)`` of a partition, in offset order and without a hole, that become one. They are all ``compacted`` alike."""

    tp: TopicPartition
    start: int
    end: int
    compacted: Compaction | None
    files: tuple[SegmentFile, ...]

    @classmethod
    def of(cls, tp: TopicPartition, pieces: Sequence[CopiedRange]) -> Self:
        """The group of these ranges, one of the ``groups`` of a partition."""
        files = tuple(piece.file for piece in pieces if piece.file is not None)
        return cls(tp=tp, start=pieces[0].start, end=pieces[-1].end, compacted=pieces[0].compacted, files=files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """Work for a job. ``compression_level`` is that of zstd."""

    application_id: str
    groups: tuple[GroupToMerge, ...]
    compression_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMerged(Rewritten):
    """The result for one group: its new range, what was read of the old files and of the new one (see ``MergeProof``), and the new one's ``problems``."""

    merged: CopiedRange
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """The result of a job."""

    groups: tuple[GroupMerged, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """The groups of a savepoint with so many ``files`` that would be merged. ``waiting`` ones are left to the next run, because one may read ``MOST_FILES``."""

    application_id: str
    savepoint_id: str
    files: int
    groups: tuple[GroupToMerge, ...]
    waiting: int

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def files_after(self) -> int:
        return self.files - sum(len(group.files) - 1 for group in self.groups)


def plan_merge(source: Manifest, limits: MergeLimits, *, most_files: int = MOST_FILES) -> MergePlan:
    """The groups of a savepoint that are worth it. Where one run may not read them all, those that save the most files come first."""
    found = [group for topic in source.topics for image in topic.partitions for group in _of_partition(topic, image, limits)]
    found.sort(key=lambda group: -len(group.files))
    upto = list(accumulate(len(group.files) for group in found))
    kept = sum(1 for number in upto if number <= most_files) or len(found[:1])
    chosen = sorted(found[:kept], key=lambda group: (group.tp, group.start))
    return MergePlan(
        application_id=source.application_id,
        savepoint_id=source.savepoint_id,
        files=source.file_count,
        groups=tuple(chosen),
        waiting=len(found) - kept,
    )


def _of_partition(topic: TopicImage, image: PartitionImage, limits: MergeLimits) -> Iterator[GroupToMerge]:
    # No savepoint shares the tail of a repartition topic, so nothing piles up there.
    if topic.role is not TopicRole.REPARTITION and image.ranges.facts.files > 1:
        for pieces in groups(image.ranges, limits):
            yield GroupToMerge.of(TopicPartition(topic.name, image.partition), pieces)


def groups(ranges: Sequence[CopiedRange], limits: MergeLimits) -> Iterator[Sequence[CopiedRange]]:
    """Groups of a partition's ranges that become one, in offset order. Each begins and ends with a file, and ranges between that have none are taken in."""
    for run in _runs(ranges, limits):
        yield from _groups_of_run(run, limits)


def _runs(ranges: Sequence[CopiedRange], limits: MergeLimits) -> Iterator[list[CopiedRange]]:
    """Ranges without a hole and without a full file between them, and compacted alike."""
    run: list[CopiedRange] = []
    for piece in ranges:
        full = piece.file is not None and limits.full(piece.file.rows, piece.file.bytes)
        if run and (full or run[-1].end != piece.start or run[-1].compacted != piece.compacted):
            yield run
            run = []
        if not full:
            run.append(piece)
    if run:
        yield run


def _groups_of_run(run: list[CopiedRange], limits: MergeLimits) -> Iterator[Sequence[CopiedRange]]:
    files = [(at, piece.file) for at, piece in enumerate(run) if piece.file is not None]
    first = upto = rows = size = 0
    while upto < len(files):
        one = files[upto][1]
        if limits.allow(rows + one.rows, size + one.bytes):
            rows, size, upto = rows + one.rows, size + one.bytes, upto + 1
            continue
        # Each of them is less than half of a full one, so that what is stopped by the limit is full.
        yield run[files[first][0] : files[upto - 1][0] + 1]
        first, rows, size = upto, 0, 0
    if limits.full(rows, size):
        yield run[files[first][0] : files[-1][0] + 1]
    else:
        yield from (run[files[first + a][0] : files[first + b - 1][0] + 1] for a, b in _alike([f.rows for _, f in files[first:]], limits))


def _alike(rows: Sequence[int], limits: MergeLimits) -> Iterator[tuple[int, int]]:
    """Slices ``[a, b)`` of enough files none of which is large beside the others. One that is stays, and those before and behind it are looked at apart."""
    sums = [0, *accumulate(rows)]
    left = [(0, len(rows))]
    while left:
        a, b = left.pop()
        if b - a < max(2, limits.least_files):
            continue
        largest = max(range(a, b), key=rows.__getitem__)
        if rows[largest] * limits.growth <= sums[b] - sums[a]:
            yield a, b
        else:
            left += [(largest + 1, b), (a, largest)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A group that was merged, as the job was told to, and its new range with the proof."""

    group: GroupToMerge
    merged: CopiedRange
    proof: MergeProof


def judge(planned: Sequence[GroupToMerge], done: Sequence[GroupMerged]) -> tuple[Accepted, ...]:
    """Compare the plan with the job's result. Raises ``Damaged`` for anything that is missing, unreadable or not equal."""
    found = {(one.tp, one.merged.start): one for one in done}
    if not planned or len(found) != len(done) or set(found) != {(group.tp, group.start) for group in planned}:
        raise Damaged(
            "the job did not merge what was planned",
            next_step="nothing was published; run the merge again",
            planned=len(planned),
            done=len(done),
        )
    accepted = []
    for group in planned:
        one = found[group.tp, group.start]
        if problem := _problem(group, one):
            raise Damaged(
                f"[{group.start}, {group.end}) of {group.tp} is not the same after its merge: {problem}",
                next_step="nothing was published, and the savepoint is as it was; verify the repository, then run the merge again",
                topic=group.tp.topic,
                partition=group.tp.partition,
            )
        accepted.append(Accepted(group=group, merged=one.merged, proof=_proof(group, one)))
    return tuple(accepted)


def _proof(group: GroupToMerge, one: GroupMerged) -> MergeProof:
    return MergeProof(**codec.fields_of(Rewritten, one), start=group.start, end=group.end, files=len(group.files))


def _problem(group: GroupToMerge, one: GroupMerged) -> str | None:
    new, old = one.merged.file, group.files
    if new is None:
        return "it has no file"
    edges = (group.start, group.end, group.compacted)
    facts = {
        "rows": sum(file.rows for file in old),
        "payload_bytes": sum(file.payload_bytes for file in old),
        "largest_record": max(file.largest_record for file in old),
        "first_offset": old[0].first_offset,
        "last_offset": old[-1].last_offset,
        "min_timestamp": min(file.min_timestamp for file in old),
        "max_timestamp": max(file.max_timestamp for file in old),
    }
    checks = {
        f"its range is [{one.merged.start}, {one.merged.end})": (one.merged.start, one.merged.end, one.merged.compacted) == edges,
        "; ".join(one.problems): not one.problems,
        f"{one.rows_before} rows were read, not {group.rows}": one.rows_before == group.rows,
        f"{one.rows_after} rows were read back, not {one.rows_before}": one.rows_after == one.rows_before,
        "the rows are as many and not the same": one.digest_before == one.digest_after != "",
        **{f"its file has {name} {getattr(new, name)}, not {value}": getattr(new, name) == value for name, value in facts.items()},
        "nothing was compared": _proof(group, one).holds,
    }
    return next((what for what, holds in checks.items() if not holds), None)


def assembled(source: Manifest, accepted: Sequence[Accepted], *, savepoint_id: str, provenance: Provenance) -> Manifest:
    """The savepoint with the same cut and the same records as ``source``, in which each group of files is replaced by its merged file. A log whose files differ
    from the plan stays as ``source`` has it: a newer savepoint may have copied that log in full. ``provenance`` says who requested it; the proofs, and the
    source's own origin, are added to it.

    Raises ``Refused`` when no log is as it was planned.
    """
    of_log: dict[TopicPartition, list[Accepted]] = {}
    for one in accepted:
        of_log.setdefault(one.group.tp, []).append(one)
    used: list[Accepted] = []
    topics = tuple(_topic(topic, of_log, used) for topic in source.topics)
    if not used:
        raise Refused(
            f"savepoint {source.savepoint_id} has none of the files that were merged: it has copied their logs in full, or another run has merged them",
            next_step="nothing was published, and nothing is lost: the next merge reads that savepoint",
            savepoint=source.savepoint_id,
        )
    made = MergedFrom(
        savepoint_id=source.savepoint_id,
        requested_by=provenance.requested_by,
        reason=provenance.reason,
        proofs=tuple(one.proof for one in used),
    )
    before = source.provenance
    # People choose a savepoint by who wanted it and why, and the source goes.
    provenance = replace(
        provenance,
        requested_by=before.requested_by,
        reason=before.reason,
        merged_from=made,
        compacted_from=before.compacted_from,
        intended=before.intended,
        deletions_kept_since=before.deletions_kept_since,
    )
    shares = source.file_count > sum(one.proof.files for one in used)
    parent_id = source.savepoint_id if shares else None
    return replace(source, savepoint_id=savepoint_id, parent_id=parent_id, topics=topics, provenance=provenance)


def _topic(topic: TopicImage, of_log: Mapping[TopicPartition, Sequence[Accepted]], used: list[Accepted]) -> TopicImage:
    images, before = [], len(used)
    for image in topic.partitions:
        mine = of_log.get(TopicPartition(topic.name, image.partition), ())
        replaced = _replaced(image.ranges, mine, used) if mine else None
        images.append(image if replaced is None else replace(image, ranges=image.ranges.merged(replaced)))
    return replace(topic, partitions=tuple(images)) if len(used) > before else topic


def _replaced(ranges: Sequence[CopiedRange], mine: Sequence[Accepted], used: list[Accepted]) -> tuple[CopiedRange, ...] | None:
    """``ranges`` with the new ones in place of those that they were made of, None when there are none of these."""
    place = {piece.start: at for at, piece in enumerate(ranges)}
    pieces: list[CopiedRange] = []
    upto, before = 0, len(used)
    for one in sorted(mine, key=lambda accepted: accepted.group.start):
        begin = place.get(one.group.start, len(ranges))
        end = begin
        while end < len(ranges) and ranges[end].end <= one.group.end:
            end += 1
        if _as_planned(ranges[begin:end], one.group):
            pieces += [*ranges[upto:begin], one.merged]
            upto = end
            used.append(one)
    return (*pieces, *ranges[upto:]) if len(used) > before else None


def _as_planned(pieces: Sequence[CopiedRange], group: GroupToMerge) -> bool:
    alike = {piece.compacted for piece in pieces} == {group.compacted}
    return alike and pieces[-1].end == group.end and tuple(piece.file for piece in pieces if piece.file is not None) == group.files
