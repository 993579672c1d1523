"""Merging small files of a partition that lie side by side: the groups of files, and what a job has to show for them.

A merge keeps every record. It is worth it when a file becomes full, or when many files of similar size become one: so a record is written again only a few
times, however many savepoints add files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.compaction.values import CompactionPlan, How, RangeCompacted, RangeToCompact, TopicCompaction
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import MergeProof, Rewritten
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, TopicImage

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


def plan_files(source: Manifest, limits: MergeLimits, *, most_files: int = MOST_FILES) -> CompactionPlan:
    """The groups of a savepoint that are worth it. Where one run may not read them all, those that save the most files come first."""
    found = [group for topic in source.topics for image in topic.partitions for group in _of_partition(topic, image, limits)]
    found.sort(key=lambda group: -len(group.files))
    upto = list(accumulate(len(group.files) for group in found))
    kept = sum(1 for number in upto if number <= most_files) or len(found[:1])
    chosen = sorted(found[:kept], key=lambda group: (group.tp, group.start))
    return CompactionPlan(
        application_id=source.application_id,
        savepoint_id=source.savepoint_id,
        how=How.SMALL_FILES,
        files=source.file_count,
        topics=tuple(TopicCompaction(topic=name, ranges=tuple(several)) for name, several in groupby(chosen, lambda group: group.tp.topic)),
        waiting=len(found) - kept,
    )


def _of_partition(topic: TopicImage, image: PartitionImage, limits: MergeLimits) -> Iterator[RangeToCompact]:
    # No savepoint shares the tail of a repartition topic, so nothing piles up there.
    if topic.role is not TopicRole.REPARTITION and image.ranges.facts.files > 1:
        for pieces in groups(image.ranges, limits):
            yield group_of(TopicPartition(topic.name, image.partition), pieces)


def group_of(tp: TopicPartition, pieces: Sequence[CopiedRange]) -> RangeToCompact:
    """The group of these ranges, one of the ``groups`` of a partition. Without a hole between them."""
    files = tuple(piece.file for piece in pieces if piece.file is not None)
    return RangeToCompact(tp=tp, start=pieces[0].start, end=pieces[-1].end, compacted=pieces[0].compacted, files=files)


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


def proof_of_records(wanted: RangeToCompact, one: RangeCompacted) -> MergeProof:
    """The proof for a group of files, as the job has it."""
    return MergeProof(**codec.fields_of(Rewritten, one), start=wanted.start, end=wanted.end, files=len(wanted.files))


def differing_records(wanted: RangeToCompact, one: RangeCompacted) -> str | None:
    """What shows that the records of a group of files are not the same after its merge, None if they are."""
    made, old = one.ranges[0], wanted.files
    new = made.file
    if new is None or len(one.ranges) > 1:
        return "it has no file" if new is None else f"it has {len(one.ranges)} files"
    edges = (wanted.start, wanted.end, wanted.compacted)
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
        f"its range is [{made.start}, {made.end})": (made.start, made.end, made.compacted) == edges,
        "; ".join(one.problems): not one.problems,
        f"{one.rows_before} rows were read, not {wanted.rows}": one.rows_before == wanted.rows,
        f"{one.rows_after} rows were read back, not {one.rows_before}": one.rows_after == one.rows_before,
        "the rows are as many and not the same": one.digest_before == one.digest_after != "",
        **{f"its file has {name} {getattr(new, name)}, not {value}": getattr(new, name) == value for name, value in facts.items()},
        "nothing was compared": proof_of_records(wanted, one).holds,
    }
    return next((what for what, holds in checks.items() if not holds), None)
