"""Where a committed offset points after the log has been restored: f(c) = t0 + number of restored rows with source offset below c.

Compaction, transaction markers and aborted records leave holes in offsets, so a difference of offsets says nothing; a rank does. Holes of
every cause collapse onto the next surviving record.
"""

from __future__ import annotations

from collections.abc import Callable

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile

RowsBelow = Callable[[SegmentFile, int], int]
"""How many rows of a file have an offset below the given one. Only asked of files that hold rows on both sides."""


def translate(tp: TopicPartition, committed: int, image: PartitionImage, t0: int, rows_below: RowsBelow) -> int:
    """The offset in the restored log that means what ``committed`` meant in the archived one.

    ``t0`` is the offset of the first restored row. Raises what ``require_archived`` does.
    """
    require_archived(tp, committed, image)
    return t0 + sum(_rank(file, committed, rows_below) for file in image.files())


def require_archived(tp: TopicPartition, committed: int, image: PartitionImage) -> None:
    """Needs no ranges. Raises ``Refused`` for a commit below the first archived offset (records would be
    skipped silently), above the end of the archive (it points at records that were never copied), or below records that were gone before they
    could be copied.
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
