"""Checks from the manifest alone whether a savepoint is enough after its cluster has lost every topic.

Every full savepoint contains state, offsets and settings. An empty cluster also lacks the inputs: records that the state has not processed yet, and
the topics that the offsets refer to. Outputs are created again. They
are empty unless their records are archived.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, Profile, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.translation import require_archived

READ = (TopicRole.INPUT, TopicRole.GLOBAL)


def lost_with_cluster(manifest: Manifest) -> tuple[str, ...]:
    """Why this savepoint alone is not enough to restore the application with its state (or, if it is minimal, to rebuild it from the archived input).
    Empty if it is.
    """
    found = [f"the records of {', '.join(absent)} are not archived"] if (absent := _absent(manifest)) else []
    if manifest.consistency is Consistency.DAMAGED:
        found.append("parts of the application were gone when it was taken")
    if manifest.profile is Profile.MINIMAL:
        return (*found, *_not_from_the_beginning(manifest))
    return (*found, *_holes_in_state(manifest), *_offsets_without_records(manifest))


def archive_begins(image: PartitionImage) -> int:
    """The offset of an archived partition from which the archive is complete up to its end."""
    return max((image.archived_from, *(gap.end for gap in image.gaps)))


def _absent(manifest: Manifest) -> list[str]:
    return [topic.name for topic in manifest.topics if topic.role in READ and not topic.archived]


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
