"""Checks the result of a compaction job, and makes the manifest of the compacted savepoint if the state is proven to be the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.compaction.plan import PartitionCompacted, PartitionToCompact
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.compaction_proof import CompactedFrom
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, Provenance, SegmentFile, TopicImage
from streams_recovery.core.repository.ranges import Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionVerdict:
    """The checked result: ``accepted`` partitions, and the topics that stay unchanged, each with its reason."""

    accepted: tuple[PartitionCompacted, ...]
    stays: dict[str, str]


def judge(planned: Sequence[PartitionToCompact], done: Sequence[PartitionCompacted]) -> CompactionVerdict:
    """Compare the plan with the job's result. A topic with rows that its store's kind does not write stays unchanged.

    Raises ``Damaged`` for anything that is missing, unreadable or not equal, and ``Refused`` if nothing can be compacted.
    """
    found = {one.tp: one for one in done}
    if len(found) != len(done) or set(found) != {wanted.tp for wanted in planned}:
        raise Damaged(
            "the job did not compact what was planned", next_step="run the compaction again", planned=len(planned), done=len(done)
        )
    stays = {one.tp.topic: f"{one.foreign} rows of {one.tp} are not what such a store writes" for one in done if one.foreign}
    accepted = []
    for wanted in planned:
        if wanted.tp.topic in stays:
            continue
        one = found[wanted.tp]
        if problem := _problem(wanted, one):
            raise Damaged(
                f"{wanted.tp} is not the same after its compaction: {problem}",
                next_step="nothing was published, and the savepoint is as it was; verify the repository, then run the compaction again",
                topic=wanted.tp.topic,
                partition=wanted.tp.partition,
            )
        accepted.append(one)
    if not any(one.proof.keys for one in accepted):
        raise Refused(
            "nothing can be compacted: " + ("; ".join(f"{topic}: {why}" for topic, why in stays.items()) or "no key was compared"),
            next_step="the savepoint is as it was; correct `stores` in the configuration if a kind is wrong there",
        )
    return CompactionVerdict(accepted=tuple(accepted), stays=stays)


def _problem(wanted: PartitionToCompact, one: PartitionCompacted) -> str | None:
    proof, files = one.proof, [copied.file for copied in one.ranges if copied.file is not None]
    checks = {
        f"the proof is about {proof.tp}": proof.tp == wanted.tp,
        "; ".join(one.problems): not one.problems,
        f"{proof.rows_before} rows were read, not {wanted.rows}": proof.rows_before == wanted.rows,
        f"{proof.rows_after} rows were read back, not {_rows(files)}": proof.rows_after == _rows(files),
        f"{proof.state_before} keys became {proof.state_after}": proof.state_before == proof.state_after,
        "the keys are as many and not the same": proof.holds,
        "its ranges do not follow each other": _tile(wanted, one.ranges),
        "the newest timestamp is gone": not wanted.keeps_deleted or _newest(files) == _newest(wanted.files),
    }
    return next((what for what, holds in checks.items() if not holds), None)


def _rows(files: Sequence[SegmentFile]) -> int:
    return sum(file.rows for file in files)


def _newest(files: Sequence[SegmentFile]) -> int | None:
    return max((file.max_timestamp for file in files), default=None)


def _tile(wanted: PartitionToCompact, ranges: Sequence[CopiedRange]) -> bool:
    edges = [wanted.start, *(copied.end for copied in ranges)]
    return edges[-1] == wanted.end and [copied.start for copied in ranges] == edges[:-1] and all(copied.compacted for copied in ranges)


def assembled(source: Manifest, accepted: Sequence[PartitionCompacted], *, savepoint_id: str, provenance: Provenance) -> Manifest:
    """The savepoint with the same cut as ``source``, and with these partitions compacted. ``provenance`` says who requested it; the proof is added to
    it.
    """
    pieces = {one.tp: one.ranges for one in accepted}
    topics = tuple(_topic(topic, source.captured_at, pieces) for topic in source.topics)
    shares = any(
        image.rows and TopicPartition(topic.name, image.partition) not in pieces for topic in source.topics for image in topic.partitions
    )
    made = CompactedFrom(savepoint_id=source.savepoint_id, proofs=tuple(one.proof for one in accepted))
    before = source.provenance
    provenance = replace(provenance, compacted_from=made, intended=before.intended, deletions_kept_since=before.deletions_kept_since)
    manifest = replace(source, savepoint_id=savepoint_id, parent_id=None, topics=topics, provenance=provenance)
    return replace(manifest, parent_id=source.savepoint_id) if shares else manifest


def _topic(topic: TopicImage, captured_at: int, pieces: Mapping[TopicPartition, tuple[CopiedRange, ...]]) -> TopicImage:
    changed = [TopicPartition(topic.name, image.partition) in pieces for image in topic.partitions]
    if not any(changed):
        return topic
    images = tuple(
        replace(image, ranges=Ranges.of(pieces.get(TopicPartition(topic.name, image.partition), image.ranges)))
        for image in topic.partitions
    )
    # If some partitions of a topic were not compacted, the topic must be copied again at the same time as before.
    whole = all(copied.compacted for image in images for copied in image.ranges if copied.file)
    return replace(topic, partitions=images, full_since=captured_at if whole else topic.full_since)
