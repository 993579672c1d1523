"""After a rescale: records that a producer has put where the old number of partitions has their keys. No task of the application looks for them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.jobs.spec import RangeCopied
from streams_recovery.core.kafka_types import KeyForm, TopicPartition, TopicRole
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.rescale.placement import astray
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.words import in_order
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import plan_of, readable_back, restores_of
from streams_recovery.segments.queries import keys_from

# A producer asks for the number of partitions every five minutes (metadata.max.age.ms) unless it is told otherwise.
_RECENT_MS: Final = 3_600_000
# Of all partitions of a topic together: a second or so.
_MOST_KEYS: Final = 100_000


def of_rescale(recovery: RecoveryContext, manifest: Manifest, parent: Manifest | None, copied: Sequence[RangeCopied]) -> tuple[str, ...]:
    """Warnings about the first records that came to inputs behind a rescale. Asked of each savepoint up to the first one of a later hour than its start."""
    try:
        return tuple(_of_rescale(recovery, manifest, parent, copied))
    except RecoveryError as error:
        return (f"whether new records of its inputs lie where their keys put them was not found out: {error.reason}",)


def _of_rescale(recovery: RecoveryContext, manifest: Manifest, parent: Manifest | None, copied: Sequence[RangeCopied]) -> Iterator[str]:
    newest = next(reversed(in_order(restores_of(recovery), recovery.clock())), None)
    started = newest and next((entry.at for entry in readable_back(recovery, newest) if entry.phase is Phase.STARTED), None)
    if newest is None or not started or (parent is not None and parent.captured_at > started + _RECENT_MS):
        return
    planned = plan_of(recovery, newest)
    # What others restore may be gone by now, or a safety savepoint.
    restored = planned.savepoint_id if isinstance(planned.part, RescalePart) else None
    origin = None if restored is None else recovery.savepoints.outline(restored).provenance.rescaled_from
    if restored is None or origin is None:
        return
    there = {topic.name: len(topic.partitions) for topic in manifest.topics}
    placed = {topic.name: topic for topic in recovery.savepoints.read(restored, roles=(TopicRole.INPUT,)).topics}
    for log in origin.topics:
        if log.topic not in placed or log.form is KeyForm.OWN or there.get(log.topic) != log.new:
            continue
        keys = _new_keys(recovery, placed[log.topic], copied, _MOST_KEYS // log.new)
        wrong = {tp: count for tp in sorted(keys) if (count := astray(log.form, keys[tp], tp.partition, (log.old, log.new)))}
        if wrong:
            yield (
                f"{sum(wrong.values()):,} of the first {sum(map(len, keys.values())):,} records that came to {log.topic} behind its rescale do not lie where "
                f"their keys put them, in partitions {', '.join(str(tp.partition) for tp in wrong)}: a producer went on with {log.old} partitions, or still "
                f"does, and no task has the state of these keys there. Start the producers of {log.topic} anew, and have what they sent behind the rescale "
                "sent again, or rebuild the state from the input"
            )


def _new_keys(recovery: RecoveryContext, placed: TopicImage, copied: Sequence[RangeCopied], most: int) -> dict[TopicPartition, list[bytes]]:
    """The first keys of each partition behind the records that were ``placed``, which begin with offset 0."""
    rows = {TopicPartition(placed.name, image.partition): sum(file.rows for file in image.files()) for image in placed.partitions}
    found: dict[TopicPartition, list[bytes]] = {}
    for piece in sorted((one for one in copied if one.tp in rows), key=lambda one: (one.tp, one.copied.start)):
        keys, file = found.setdefault(piece.tp, []), piece.copied.file
        if file is not None and file.last_offset >= rows[piece.tp] and len(keys) < most:
            keys += keys_from(recovery.repository, file, rows[piece.tp], most - len(keys))
    return found
