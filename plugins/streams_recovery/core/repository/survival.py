"""Uses of a savepoint after its cluster has lost every topic: what it lacks, as its manifest shows, and its committed offsets in a restored log.

Every full savepoint contains state, offsets and settings. An empty cluster also lacks the inputs: records that the state has not processed yet, and
the topics that the offsets refer to. Outputs are created again. They are empty unless their records are archived.

The translation of a committed offset is f(c) = t0 + number of restored rows with source offset below c. Compaction, transaction markers and aborted
records leave holes in the offsets. So the number of rows is counted, not computed as a difference of offsets. An offset in a hole is translated to the next
restored record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, Profile, TopicPartition, TopicRole
from streams_recovery.core.remedies.savepoints import keep_output
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, SegmentFile, TopicImage
from streams_recovery.core.topic_settings import compacts
from streams_recovery.core.words import first_names

ARCHIVE_OUTPUTS = keep_output().sentence
READ = (TopicRole.INPUT, TopicRole.GLOBAL)
RowsBelow = Callable[[SegmentFile, int], int]
"""Counts the rows of a file with an offset below the given one. Called only for files with rows on both sides."""


def lost_with_cluster(manifest: Manifest) -> tuple[str, ...]:
    """Reasons why this savepoint alone is not enough to restore the application with its state (or, if it is minimal, to rebuild it from the archived
    input). Empty if it is.
    """
    absent = [topic.name for topic in manifest.topics if topic.role in READ and not topic.archived]
    found = [f"the records of {', '.join(absent)} are not archived"] if absent else []
    if manifest.consistency is Consistency.DAMAGED:
        found.append("parts of the application were gone when it was taken")
    if manifest.profile is Profile.MINIMAL:
        return (*found, *_not_from_the_beginning(manifest))
    return (*found, *_holes_in_state(manifest), *_offsets_without_records(manifest))


def empty_outputs(images: Mapping[str, TopicImage]) -> tuple[str, ...]:
    """A sentence for each output, by its name where it is made, that had records and comes back without them."""
    return tuple(
        f"output {name} is made again and is empty: its records are not in the savepoint"
        + (
            ". It is compacted: who reads it as a table misses each key until the application writes it again"
            if compacts(image.config)
            else ""
        )
        for name, image in sorted(images.items())
        if image.role is TopicRole.OUTPUT and not image.archived and any(part.end > part.log_start for part in image.partitions)
    )


def survives_text(survives: bool, unsaved: Sequence[str]) -> str:  # a fact of a savepoint, not a switch
    """What is left of a savepoint's application without its cluster. ``unsaved`` are outputs whose records savepoints do not have."""
    state = f"inputs and state: {'yes' if survives else 'no'}"
    return f"{state}; outputs {first_names(unsaved)}: no" if unsaved else state


def archive_begins(image: PartitionImage) -> int:
    """The offset of an archived partition from which the archive is complete up to its end."""
    return max((image.archived_from, *(gap.end for gap in image.gaps)))


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


def _archived(manifest: Manifest, *roles: TopicRole) -> Iterator[tuple[TopicImage, TopicPartition, PartitionImage]]:
    for topic in manifest.topics:
        if topic.role in roles and topic.archived:
            for image in topic.partitions:
                yield topic, TopicPartition(topic.name, image.partition), image


def _not_from_the_beginning(manifest: Manifest) -> Iterator[str]:
    for _, tp, image in _archived(manifest, TopicRole.INPUT):
        if image.end and (begins := archive_begins(image)):
            yield f"{tp} is archived from offset {begins} on, and without state all of it is needed"


def _holes_in_state(manifest: Manifest) -> Iterator[str]:
    for _, tp, image in _archived(manifest, TopicRole.CHANGELOG, TopicRole.REPARTITION):
        for gap in image.gaps:
            yield f"offsets {gap.start}..{gap.end - 1} of {tp} are missing: {gap.reason}"


def _offsets_without_records(manifest: Manifest) -> Iterator[str]:
    for _, tp, image in _archived(manifest, TopicRole.INPUT):
        if image.committed is not None:
            try:
                require_archived(tp, image.committed.offset, image)
            except Refused as error:
                yield error.reason
