"""What is in the topics that a restore would make: whether it is whole, and what a person should know of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.savepoint import warnings as savepoint_warnings
from streams_recovery.core.savepoint.assumptions import of_deletions
from streams_recovery.core.state.windowed_keys import window_begin
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.segments.queries import first_values, keyed_stamps

# Values that are looked at to tell whose serialiser wrote a topic.
_SAMPLE = 20
# Rows at the beginning and at the end of so many partitions of a windowed store, to tell how it is written.
_WINDOWS, _PARTITIONS = 1_000, 3


def check_whole(topics: Sequence[TopicImage]) -> None:
    """Raise ``Refused`` when records of an internal topic are missing: there is no such thing as state with a hole in it."""
    found = [
        (f"{topic.name}-{image.partition}", gap)
        for topic in topics
        if topic.role.internal
        for image in topic.partitions
        for gap in image.gaps
    ]
    holes = [f"offsets {gap.start}..{gap.end - 1} of {tp} ({gap.reason})" for tp, gap in found]
    if holes:
        raise Refused(
            f"the savepoint has no whole state: {'; '.join(holes[:20])} are missing",
            next_step="choose another savepoint, or rebuild the state from the input",
            gaps=holes,
            holes=[(tp, gap.start, gap.end) for tp, gap in found],
        )


def warnings(recovery: RecoveryContext, manifest: Manifest, topics: Sequence[TopicImage]) -> tuple[str, ...]:
    """What to say before these topics are made. Reads the beginning of one file a topic, and of windowed stores the ends of a few partitions."""
    assumed = of_deletions({topic.name: since for topic in topics if (since := manifest.provenance.deletions_kept_since.get(topic.name))})
    return (
        *savepoint_warnings.of_restore(manifest),
        *assumed,
        *savepoint_warnings.windows_ahead({topic.name: _windows(recovery, topic) for topic in topics}),
        *savepoint_warnings.registry(manifest, _framed(recovery, topics)),
    )


def _windows(recovery: RecoveryContext, topic: TopicImage) -> Iterator[tuple[int, int]]:
    """The beginnings of windows, and the timestamps of their records, in those partitions of which Kafka Streams may leave out records."""
    looked_at = 0
    for image in topic.partitions:
        oldest, files = image.ranges.facts.min_timestamp, list(image.files())
        if oldest is None or looked_at == _PARTITIONS or not savepoint_warnings.restored_by_time(topic, oldest, files[-1].max_timestamp):
            continue
        looked_at += 1
        for file, last in ((files[0], False), (files[-1], True)):
            for key, at in keyed_stamps(recovery.repository, file, _WINDOWS, last=last):
                begin = window_begin(topic.store, key)
                if begin is not None:
                    yield begin, at


def _framed(recovery: RecoveryContext, topics: Sequence[TopicImage]) -> list[str]:
    found = []
    for topic in topics:
        # One file tells, and the smallest is read soonest.
        files = (file for image in topic.partitions for file in image.files())
        smallest = min(files, key=lambda file: (file.bytes, file.key), default=None)
        if smallest is not None and savepoint_warnings.has_schema_ids(first_values(recovery.repository, smallest, _SAMPLE)):
            found.append(topic.name)
    return found
