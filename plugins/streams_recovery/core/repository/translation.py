"""Translates a committed offset to a restored log: f(c) = t0 + number of restored rows with source offset below c.

Compaction, transaction markers and aborted records leave holes in the offsets. So the number of rows is counted, not computed as a difference of
offsets. An offset in a hole is translated to the next restored record.
"""

from __future__ import annotations

from collections.abc import Callable

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile

RowsBelow = Callable[[SegmentFile, int], int]
"""Counts the rows of a file with an offset below the given one. Called only for files with rows on both sides."""


def translate(tp: TopicPartition, committed: int, image: PartitionImage, t0: int, rows_below: RowsBelow) -> int:
    """The offset in the restored log that corresponds to ``committed`` in the archived log.

    ``t0`` is the offset of the first restored row. Raises like ``require_archived``.
    """
    require_archived(tp, committed, image)
    return t0 + sum(_rank(file, committed, rows_below) for file in image.files())


def require_archived(tp: TopicPartition, committed: int, image: PartitionImage) -> None:
    """Raise ``Refused`` for a committed offset below the first archived offset (records would be skipped silently), above the end of the archive
    (these records were never copied), or below records that were deleted before they could be copied. Does not load the ranges.
    """
    first = image.archived_from
    if not first <= committed <= image.end:
        raise Refused(
            f"committed offset {committed} of {tp} lies outside the archived range [{first}, {image.end}]",
            next_step="choose a savepoint whose archive covers it, or reset this partition by an explicit policy",
            topic=tp.topic,
            partition=tp.partition,
            committed=committed,
            archived_from=first,
            archived_to=image.end,
        )
    lost = [gap for gap in image.gaps if gap.end > committed]
    if lost:
        raise Refused(
            f"records of {tp} behind its committed offset {committed} are missing from the archive: "
            + ", ".join(f"[{gap.start}, {gap.end}) {gap.reason}" for gap in lost[:5]),
            next_step="choose a savepoint that has them, or reset this partition by an explicit policy",
            topic=tp.topic,
            partition=tp.partition,
            committed=committed,
            gaps=[(gap.start, gap.end, gap.reason) for gap in lost],
        )


def _rank(file: SegmentFile, committed: int, rows_below: RowsBelow) -> int:
    if file.last_offset < committed:
        return file.rows
    if file.first_offset >= committed:
        return 0
    return rows_below(file, committed)
