"""The work of placing a savepoint's records anew, what a job has to show for it, and the savepoint that is made of it: the same moment, other partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.compaction.rewritten import rewritten
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import RescaledFrom, RescaledLog
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, Provenance, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.rescale.placement import FormProof, RescaledTopic
from streams_recovery.core.rescale.values import PrimarySide, merged_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToPlace:
    """The records of an old partition, in these files in offset order. Those below the offset ``unread_from`` were read already."""

    partition: int
    files: SegmentFiles
    unread_from: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToPlace:
    """A topic to place anew. ``kind`` is that of a changelog's store, None for other topics. With ``primary`` its values are subscriptions of such a join."""

    topic: RescaledTopic
    kind: StoreKind | None
    partitions: tuple[PartitionToPlace, ...]
    primary: PrimarySide | None

    @property
    def rows(self) -> int:
        return sum(one.files.rows for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleSpec:
    """Work for a job: the proof, and unless ``prove_only`` the records in new files of at most ``max_records`` rows."""

    application_id: str
    topics: tuple[TopicToPlace, ...]
    max_records: int
    prove_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlaced:
    """A new partition as a job wrote it: its ranges, from 0 to ``end``, and the offset from which on its records are unread."""

    tp: TopicPartition
    ranges: tuple[CopiedRange, ...]
    end: int
    unread_from: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleResult:
    """The proof of each topic, and where records were placed the new partitions and what both sides hold."""

    proofs: tuple[FormProof, ...]
    partitions: tuple[PartitionPlaced, ...]
    logs: tuple[RescaledLog, ...]
    seconds: float


def check_base(source: Manifest, topics: Sequence[RescaledTopic], *, at_end: bool = False) -> None:
    """Raise ``Refused`` unless these topics of a savepoint can be placed anew. ``at_end``: see ``unread_from``."""
    if source.consistency is not Consistency.EXACT or source.provenance.rescaled_from is not None:
        label = "rescaled already" if source.provenance.rescaled_from is not None else f"`{source.consistency}`"
        raise Refused(
            f"savepoint {source.savepoint_id} is {label}, and only one that is exact is placed anew",
            next_step="take an exact savepoint, and rescale from that",
            savepoint=source.savepoint_id,
        )
    if not topics:
        raise Refused("no topic would change its number of partitions", next_step="name a topic and its new number of partitions")
    for one in topics:
        image = source.topic(one.name)
        why = "it is not in the savepoint" if image is None else _why_not(image, one, at_end=at_end)
        if why is not None:
            raise Refused(
                f"{one.name} of savepoint {source.savepoint_id} cannot be placed anew: {why}",
                next_step="correct the topic or its number, or choose another savepoint",
                savepoint=source.savepoint_id,
                topic=one.name,
            )


def _why_not(image: TopicImage, wanted: RescaledTopic, *, at_end: bool) -> str | None:
    if image.role not in (TopicRole.INPUT, TopicRole.CHANGELOG, TopicRole.REPARTITION):
        return f"it is {'an' if image.role is TopicRole.OUTPUT else 'a'} {image.role} topic, whose records the application does not read by partition"
    if wanted.new < 1 or wanted.old != len(image.partitions):
        return f"it has {len(image.partitions)} partitions there, and would get {wanted.new} in place of {wanted.old}"
    for part in image.partitions:
        begin = part.log_start if image.role is TopicRole.CHANGELOG else unread_from(part, at_end=at_end and image.role is TopicRole.INPUT)
        if not image.archived and begin < part.end:
            return f"records of its partition {part.partition} from offset {begin} on are unread and not in the savepoint"
        if any(gap.end > (0 if wanted.history else begin) for gap in part.gaps):
            return f"records of its partition {part.partition} are missing there"
    return None


def unread_from(image: PartitionImage, *, at_end: bool = False) -> int:
    """The offset from which on a partition's records are unread. ``at_end``: where nothing is committed its group begins at the end
    (``auto.offset.reset: latest``), and so had nothing to read there.
    """
    if image.committed is None:
        return image.end if at_end else image.log_start
    return image.committed.offset


def with_grown(source: Manifest, grown: Sequence[RescaledTopic]) -> Manifest:
    """The savepoint with an offset in each partition of inputs that were grown, in which nothing is unread. Each has the latest stream time of the old
    partitions whose keys it gets: a new one has none of its own, and would open windows again that were closed.
    """
    wanted = {one.name: one for one in grown}
    return replace(source, topics=tuple(_grown(topic, wanted[topic.name]) if topic.name in wanted else topic for topic in source.topics))


def _grown(topic: TopicImage, numbers: RescaledTopic) -> TopicImage:
    before = {image.partition: image.committed for image in topic.partitions}

    def image_of(image: PartitionImage) -> PartitionImage:
        sources = (before[number] for number in sorted({*numbers.sources(image.partition), image.partition}))
        metadata = merged_metadata([committed.metadata for committed in sources if committed is not None])
        own = image.committed or CommittedOffset(offset=image.end, metadata="")
        return replace(image, committed=replace(own, metadata=metadata))

    return replace(topic, partitions=tuple(map(image_of, topic.partitions)))


def check_proofs(planned: Sequence[TopicToPlace], result: RescaleResult) -> None:
    """Raise ``Damaged`` unless a job has a proof of each topic."""
    if sorted(proof.topic for proof in result.proofs) != sorted(one.topic.name for one in planned):
        raise Damaged(
            "the job did not prove what was planned", next_step="nothing was changed; run the rescale again", planned=len(planned)
        )


def check_result(planned: Sequence[TopicToPlace], result: RescaleResult) -> None:
    """Raise ``Damaged`` unless a job placed all that was planned, and both sides hold the same."""
    check_proofs(planned, result)
    wanted = {TopicPartition(one.topic.name, number) for one in planned for number in range(one.topic.new)}
    found, logs = {one.tp: one for one in result.partitions}, {one.topic: one for one in result.logs}
    once = len(found) == len(result.partitions) and len(logs) == len(result.logs)
    if set(found) != wanted or logs.keys() != {one.topic.name for one in planned} or not (once and all(map(_tiled, found.values()))):
        raise Damaged(
            "the job did not place what was planned", next_step="nothing was published; run the rescale again", planned=len(wanted)
        )
    for topic, log in logs.items():
        written = sum(piece.file.rows for one in result.partitions if one.tp.topic == topic for piece in one.ranges if piece.file)
        if not log.holds or written != log.records:
            raise Damaged(
                f"{topic} does not hold the same in {log.new} partitions as in {log.old}: {log.records} records and {log.keys_before} keys became {written} "
                f"and {log.keys_after}, the digest {log.digest_before[:16]} became {log.digest_after[:16]}",
                next_step="nothing was published, and the savepoint is as it was; verify the repository, then run the rescale again",
                topic=topic,
            )


def _tiled(one: PartitionPlaced) -> bool:
    edges = [0, *(piece.end for piece in one.ranges)]
    return edges[-1] == one.end and [piece.start for piece in one.ranges] == edges[:-1] and 0 <= one.unread_from <= one.end


def moved(
    source: Manifest, topics: Sequence[RescaledTopic], result: RescaleResult, *, savepoint_id: str, provenance: Provenance
) -> Manifest:
    """The savepoint with the moment of ``source`` whose ``topics`` have their new partitions; all others are as they were. Metadata of offsets is joined."""
    placed: dict[str, list[PartitionPlaced]] = {}
    for one in sorted(result.partitions, key=lambda part: part.tp):
        placed.setdefault(one.tp.topic, []).append(one)
    wanted = {one.name: one for one in topics}
    images = tuple(
        _image(topic, wanted[topic.name], placed, source.captured_at) if topic.name in wanted else topic for topic in source.topics
    )
    made = rewritten(
        source,
        images,
        savepoint_id=savepoint_id,
        provenance=replace(
            provenance,
            intended=source.provenance.intended,
            rescaled_from=RescaledFrom(savepoint_id=source.savepoint_id, topics=tuple(sorted(result.logs, key=lambda log: log.topic))),
        ),
        new_files=sum(piece.file is not None for one in result.partitions for piece in one.ranges),
    )
    # What was proven of transactions was proven of the logs as they were. What is left out of those that stay, as of outputs, is needed on.
    names = source.proof.names
    logs = {} if names is None else {tp: log for tp, log in names.logs.items() if tp.topic not in wanted}
    proof = replace(
        source.proof,
        names=names and replace(names, logs=logs),
        past_end=tuple(tp for tp in source.proof.past_end if tp.topic not in wanted),
    )
    return replace(made, proof=proof, format_version=proof.format_version)


def _image(topic: TopicImage, wanted: RescaledTopic, placed: Mapping[str, Sequence[PartitionPlaced]], captured_at: int) -> TopicImage:
    before = {image.partition: image.committed for image in topic.partitions}
    images = []
    for one in placed[topic.name]:
        sources = [before[number] for number in wanted.sources(one.tp.partition)]
        metadata = merged_metadata([committed.metadata for committed in sources if committed is not None])
        committed = None if topic.role is TopicRole.CHANGELOG else CommittedOffset(offset=one.unread_from, metadata=metadata)
        images.append(
            PartitionImage(
                partition=one.tp.partition,
                log_start=0,
                last_stable=one.end,
                end=one.end,
                leader_epoch=None,
                committed=committed,
                ranges=Ranges.of(one.ranges),
                gaps=(),
            )
        )
    return replace(topic, partitions=tuple(images), tables=(), archived=True, full_since=captured_at, topic_id="")
