"""Warnings about a valid savepoint as sentences, made from the manifest alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.facts import TopicFacts, TopicSet
from streams_recovery.core.checks.runs import PARTITIONS, PartitionFacts
from streams_recovery.core.checks.savepoints import UNATTRIBUTED, AttributionGaps
from streams_recovery.core.checks.topics import REPLACED_TIMES
from streams_recovery.core.kafka_types import WINDOWED, Consistency, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Gap, Manifest, TopicAtCut, partition_images
from streams_recovery.core.repository.survival import lost_with_cluster
from streams_recovery.core.words import first_names

_SCHEMAS_TOPIC = "_schemas"
_MANY_SCHEMAS = 1_000_000
_FRAME, _LONG = 5, 8
# ProcessorRecordContext of Kafka Streams, as the changelog of ``suppress`` has it. A record of a punctuation has no topic.
_OFFSET, _TOPIC_LENGTH = slice(8, 16), slice(16, 20)
_MANY_OFFSETS, _NO_TOPIC = 1 << 48, -1
_TOPIC = re.compile(rb"[A-Za-z0-9._-]{1,249}")
# A window of ``SlidingWindows`` may begin one millisecond after the record that opens it.
_OPENED = 1
# windowstore.changelog.additional.retention.ms: so much longer than its store Kafka Streams lets a changelog keep records.
_ADDITIONAL = 86_400_000
_MILLISECONDS = re.compile(r"[0-9]{1,19}")
_NOT_TRANSLATED = "schema ids in records are not translated, so restored records are readable only with the registry that gave those ids"


def of_savepoint(manifest: Manifest, parent: Manifest | None) -> tuple[str, ...]:
    """Warnings at its publication: gaps that ``parent`` did not have, and cases that a restore refuses or cannot handle."""
    return (
        *_damage(manifest),
        *_claimed(manifest),
        *_new_gaps(manifest, parent),
        *_unread(manifest),
        *of_restore(manifest),
        *_as_saved(manifest),
        *registry(manifest, ()),
    )


def inputs_changed(topics: Iterable[TopicAtCut], last: Manifest | None, partitions: Mapping[str, int]) -> Iterable[str]:
    """Inputs that the savepoint before did not have, and topics that are inputs no more: with patterns this happens without a change of the configuration. For
    inputs with another number of ``partitions`` now, the meaning of that for older savepoints.
    """
    if last is None:
        return
    before = {topic.name for topic in last.topics if topic.role is TopicRole.INPUT}
    now = {topic.name for topic in topics if topic.role is TopicRole.INPUT}
    if joined := sorted(now - before):
        yield f"new among the inputs since {last.savepoint_id}: {first_names(joined)}"
    if left := sorted(before - now):
        yield f"no longer among the inputs, and gone unless the configuration was changed: {first_names(left)}; {last.savepoint_id} was the last with them"
    facts = PartitionFacts(savepoint_id=last.savepoint_id, there=partitions, saved=input_partitions(last))
    yield from (found.text for _, found in PARTITIONS.ask(Occasion.SAVEPOINT, facts))


def input_partitions(manifest: Manifest) -> dict[str, int]:
    """How many partitions each input had."""
    return {topic.name: len(topic.partitions) for topic in manifest.topics if topic.role is TopicRole.INPUT}


def of_restore(manifest: Manifest) -> tuple[str, ...]:
    """Warnings before it is restored."""
    return tuple(_edits(manifest))


def of_promise(manifest: Manifest) -> tuple[str, ...]:
    """Warnings at its publication, if it should survive the loss of the cluster and would not."""
    return tuple(
        f"it would not survive the loss of the cluster, as backup.survive_cluster_loss requires: {why}"
        for why in lost_with_cluster(manifest)
    )


def has_schema_ids(values: Iterable[bytes]) -> bool:
    """True if these values look like those of a serialiser with a schema registry: a zero byte, then four bytes with the schema's id.

    This is a guess, good enough only for a warning. Eight-byte numbers also begin with zeros, so values of eight bytes alone are no sign of it, and
    neither are those of ``suppress``, which begin with a record's time.
    """
    found = list(values)
    return bool(found) and all(map(_framed, found)) and any(len(value) != _LONG for value in found)


def _framed(value: bytes) -> bool:
    known = len(value) > _FRAME and value[0] == 0 and 0 < int.from_bytes(value[1:_FRAME], "big") < _MANY_SCHEMAS
    return known and not _buffered(value)


def _buffered(value: bytes) -> bool:
    """True for a value of a changelog of ``suppress``: timestamp and offset of a record, the length of its topic's name, and that name."""
    length = int.from_bytes(value[_TOPIC_LENGTH], "big", signed=True)
    name = value[_TOPIC_LENGTH.stop : _TOPIC_LENGTH.stop + max(0, length)]
    known = len(value) >= _TOPIC_LENGTH.stop and 0 <= int.from_bytes(value[_OFFSET], "big", signed=True) < _MANY_OFFSETS
    return known and (length == _NO_TOPIC or (len(name) == length and _TOPIC.fullmatch(name) is not None))


def _damage(manifest: Manifest) -> Iterable[str]:
    if manifest.consistency is Consistency.DAMAGED:
        yield (
            f"its state is damaged ({'; '.join(manifest.proof.reasons)}): it is never the default of a restore, and retention does not count "
            "it; restore the state from an earlier savepoint, or rebuild it from the input"
        )
    for change in manifest.provenance.intended:
        yield f"{change}: declared as intended by {manifest.provenance.requested_by}"


def _claimed(manifest: Manifest) -> Iterable[str]:
    for claim in manifest.claimed:
        yield (
            f"{claim.topic} is not in this savepoint: {claim.why}; if it belongs to this application, name its store under `stores`, or the topic under "
            "topics.owned, in the configuration"
        )


def _new_gaps(manifest: Manifest, parent: Manifest | None) -> Iterable[str]:
    known = _gaps(parent) if parent else {}
    for tp, gaps in _gaps(manifest).items():
        for gap in gaps:
            if gap not in known.get(tp, ()):
                yield (
                    f"offsets {gap.start}..{gap.end - 1} of {tp} are missing ({gap.reason}): a restore that needs them is refused; set the "
                    "topic's retention longer than the time between two savepoints"
                )


def _gaps(manifest: Manifest) -> dict[TopicPartition, tuple[Gap, ...]]:
    return {tp: image.gaps for tp, image in partition_images(manifest.topics).items() if image.gaps}


def _unread(manifest: Manifest) -> Iterable[str]:
    for topic in manifest.topics:
        for image in topic.partitions:
            if topic.role is TopicRole.INPUT and image.committed is not None and image.committed.offset < image.log_start:
                yield (
                    f"offsets {image.committed.offset}..{image.log_start - 1} of {topic.name}-{image.partition} were deleted before the application "
                    "read them; it will continue after them, and a restore in place will be refused"
                )


def _edits(manifest: Manifest) -> Iterable[str]:
    if manifest.consistency is Consistency.EDITED:
        made = manifest.provenance
        yield f"this savepoint was edited by {made.requested_by} ({made.reason}): {'; '.join(manifest.proof.reasons)}"


def _as_saved(manifest: Manifest) -> Iterable[str]:
    """What checks of the catalogue say of its topics, as they were."""
    gaps = AttributionGaps(name=manifest.application_id, application_id=manifest.application_id, topics=manifest.unattributed)
    topics = tuple(
        TopicFacts.of(topic.name, topic, {name: one.value for name, one in topic.in_force.items()} | topic.config)
        for topic in manifest.topics
    )
    answers = (*UNATTRIBUTED.ask(Occasion.SAVEPOINT, gaps), *REPLACED_TIMES.ask(Occasion.SAVEPOINT, TopicSet(topics=topics)))
    return (f"{found.topic} {found.text}".strip() + f"; {found.remedy}" for _, found in answers)


def restored_by_time(topic: TopicAtCut, oldest: int, last: int) -> bool:
    """True if Kafka Streams 4.4 leaves out records of this partition of a changelog when it restores a store without local state. Its records are of
    ``oldest`` and later, and the ``last`` one has that timestamp.

    It reads from the first record on that is no older than the last one less the store's retention (KAFKA-13499). Window and session stores share their
    policy, and their retention can only be told from that of the topic.
    """
    windowed = topic.store in WINDOWED or (
        topic.store in (None, StoreKind.UNKNOWN) and {"compact", "delete"} <= set(topic.config.get("cleanup.policy", "").split(","))
    )
    kept = topic.config.get("retention.ms", "")
    # Without a number of milliseconds it may be any.
    retention = max(0, int(kept) - _ADDITIONAL) if _MILLISECONDS.fullmatch(kept) else 0
    return topic.role is TopicRole.CHANGELOG and windowed and oldest < last - retention


def windows_ahead(rows: Mapping[str, Iterable[tuple[int, int]]]) -> Iterable[str]:
    """Warnings about changelogs of windowed stores: ``rows`` of each have the beginning of a window, and the timestamp of the record that wrote it."""
    ahead = {name: most for name, several in rows.items() if (most := max((begin - at for begin, at in several), default=0)) > _OPENED}
    if ahead:
        yield (
            f"windows of {first_names(ahead)} begin up to {max(ahead.values()) // 1000} seconds after the records that wrote them. Kafka Streams 4.4 restores "
            "a windowed store from the time of its last record, less its retention, on: windows that were written before that are missing then, even if "
            "they are still to come. Give the store a retention that reaches from the writing of a window to its end, or run an older version"
        )


def registry(manifest: Manifest, framed: Iterable[str]) -> tuple[str, ...]:
    """Warnings about schema registries. ``framed`` are topics whose values look like those of a registry's serialiser."""
    topics = sorted(framed)
    known = [f"{_SCHEMAS_TOPIC} is among the topics: {_NOT_TRANSLATED}"] if any(t.name == _SCHEMAS_TOPIC for t in manifest.topics) else []
    seen = [f"values of {', '.join(topics)} look like a schema registry's: {_NOT_TRANSLATED}"] if topics else []
    return (*known, *seen)
