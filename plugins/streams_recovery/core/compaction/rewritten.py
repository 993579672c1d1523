"""Checks the result of a job that has written files of a savepoint again, and makes the savepoint with the new files if what they hold is proven to be
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.compaction.latest_per_key import differing_state, proof_of_state
from streams_recovery.core.compaction.small_files import differing_records, proof_of_records
from streams_recovery.core.compaction.values import Accepted, How, RangeCompacted, RangeToCompact
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.compaction_proof import CompactedFrom, CompactionProof, MergedFrom, MergeProof
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, Provenance, TopicImage
from streams_recovery.core.repository.ranges import Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionVerdict:
    """The checked result: ``accepted`` ranges, and the topics that stay unchanged, each with its reason."""

    accepted: tuple[Accepted, ...]
    stays: dict[str, str]


def judge(how: How, planned: Sequence[RangeToCompact], done: Sequence[RangeCompacted]) -> CompactionVerdict:
    """Compare the plan with the job's result. A topic with rows that its store's kind does not write stays unchanged.

    Raises ``Damaged`` for anything that is missing, unreadable or not equal, and ``Refused`` if no key was compared.
    """
    found = {(one.tp, one.ranges[0].start): one for one in done if one.ranges}
    if not planned or len(found) != len(done) or set(found) != {(wanted.tp, wanted.start) for wanted in planned}:
        raise Damaged(
            f"the job did not {how.verb} what was planned",
            next_step=f"nothing was published; run the {how.work} again",
            planned=len(planned),
            done=len(done),
        )
    stays = {one.tp.topic: f"{one.foreign} rows of {one.tp} are not what such a store writes" for one in done if one.foreign}
    accepted = tuple(_accepted(how, wanted, found[wanted.tp, wanted.start]) for wanted in planned if wanted.tp.topic not in stays)
    if how is How.LATEST_PER_KEY and not any(one.proof.keys for one in accepted if isinstance(one.proof, CompactionProof)):
        raise Refused(
            "nothing can be compacted: " + ("; ".join(f"{topic}: {why}" for topic, why in stays.items()) or "no key was compared"),
            next_step="the savepoint is as it was; correct `stores` in the configuration if a kind is wrong there",
        )
    return CompactionVerdict(accepted=accepted, stays=stays)


def _accepted(how: How, wanted: RangeToCompact, one: RangeCompacted) -> Accepted:
    keyed = how is How.LATEST_PER_KEY
    if problem := differing_state(wanted, one) if keyed else differing_records(wanted, one):
        raise Damaged(
            f"{wanted.tp if keyed else f'[{wanted.start}, {wanted.end}) of {wanted.tp}'} is not the same after its {how.work}: {problem}",
            next_step=f"nothing was published, and the savepoint is as it was; verify the repository, then run the {how.work} again",
            topic=wanted.tp.topic,
            partition=wanted.tp.partition,
        )
    return Accepted(wanted=wanted, ranges=one.ranges, proof=proof_of_state(one) if keyed else proof_of_records(wanted, one))


def compacted(source: Manifest, how: How, accepted: Sequence[Accepted], *, savepoint_id: str, provenance: Provenance) -> Manifest:
    """The savepoint with the same cut as ``source``, in which each accepted range is replaced by what was written for it. A log whose files differ from the
    plan stays as ``source`` has it: a newer savepoint may have copied that log in full. ``provenance`` says who requested it; the proofs, and the source's own
    origin, are added to it.

    Raises ``Refused`` when no log is as it was planned.
    """
    of_log, used = by_log(accepted), list[Accepted]()
    topics = tuple(_topic(topic, how, of_log, used, source.captured_at) for topic in source.topics)
    if not used:
        raise Refused(
            f"savepoint {source.savepoint_id} has none of the files that were {how.done}: it has copied their logs in full, or another run has {how.done} them",
            next_step=f"nothing was published, and nothing is lost: the next {how.work} reads that savepoint",
            savepoint=source.savepoint_id,
        )
    return rewritten(
        source,
        topics,
        savepoint_id=savepoint_id,
        provenance=_provenance(source, [one.proof for one in used], provenance),
        new_files=sum(piece.file is not None for one in used for piece in one.ranges),
    )


def rewritten(source: Manifest, topics: tuple[TopicImage, ...], *, savepoint_id: str, provenance: Provenance, new_files: int) -> Manifest:
    """The savepoint with the same cut as ``source`` and these topics, of whose files so many are new: it shares all others with the source."""
    provenance = replace(provenance, deletions_kept_since=source.provenance.deletions_kept_since)
    made = replace(source, savepoint_id=savepoint_id, parent_id=None, topics=topics, provenance=provenance)
    return replace(made, parent_id=source.savepoint_id) if made.file_count > new_files else made


def _provenance(source: Manifest, proofs: Sequence[CompactionProof | MergeProof], asked: Provenance) -> Provenance:
    before = source.provenance
    merges = tuple(proof for proof in proofs if isinstance(proof, MergeProof))
    if not merges:
        states = tuple(proof for proof in proofs if isinstance(proof, CompactionProof))
        return replace(asked, compacted_from=CompactedFrom(savepoint_id=source.savepoint_id, proofs=states), intended=before.intended)
    made = MergedFrom(savepoint_id=source.savepoint_id, requested_by=asked.requested_by, reason=asked.reason, proofs=merges)
    # People choose a savepoint by who wanted it and why, and the source goes.
    return replace(
        asked,
        requested_by=before.requested_by,
        reason=before.reason,
        merged_from=made,
        compacted_from=before.compacted_from,
        intended=before.intended,
    )


def _topic(
    topic: TopicImage, how: How, of_log: Mapping[TopicPartition, Sequence[Accepted]], used: list[Accepted], captured_at: int
) -> TopicImage:
    images, before = [], len(used)
    for image in topic.partitions:
        mine = of_log.get(TopicPartition(topic.name, image.partition), ())
        pieces, found = with_new(image.ranges, mine) if mine else ((), [])
        used += found
        images.append(_image(image, how, pieces) if found else image)
    if len(used) == before:
        return topic
    # If some partitions of a topic were not compacted, the topic must be copied again at the same time as before.
    whole = how is How.LATEST_PER_KEY and all(copied.compacted for image in images for copied in image.ranges if copied.file)
    return replace(topic, partitions=tuple(images), full_since=captured_at if whole else topic.full_since)


def _image(image: PartitionImage, how: How, pieces: Sequence[CopiedRange]) -> PartitionImage:
    # Records that later ones replaced are still there in merged files: how many savepoints have added to them still counts.
    return replace(image, ranges=Ranges.of(pieces) if how is How.LATEST_PER_KEY else image.ranges.merged(pieces))


def by_log(accepted: Sequence[Accepted]) -> dict[TopicPartition, list[Accepted]]:
    """What was accepted of each partition."""
    found: dict[TopicPartition, list[Accepted]] = {}
    for one in accepted:
        found.setdefault(one.wanted.tp, []).append(one)
    return found


def with_new(ranges: Sequence[CopiedRange], accepted: Sequence[Accepted]) -> tuple[tuple[CopiedRange, ...], list[Accepted]]:
    """The ranges of a log with the new ones in place of those that they were made of, and the accepted ones that have a place in it."""
    place = {piece.start: at for at, piece in enumerate(ranges)}
    pieces: list[CopiedRange] = []
    used, upto = [], 0
    for one in sorted(accepted, key=lambda found: found.wanted.start):
        begin = end = place.get(one.wanted.start, len(ranges))
        while end < len(ranges) and ranges[end].end <= one.wanted.end:
            end += 1
        if _as_planned(ranges[begin:end], one):
            pieces += [*ranges[upto:begin], *one.ranges]
            upto = end
            used.append(one)
    return (*pieces, *ranges[upto:]), used


def _as_planned(pieces: Sequence[CopiedRange], one: Accepted) -> bool:
    if not pieces or pieces[-1].end != one.wanted.end:
        return False
    if isinstance(one.proof, CompactionProof):
        # Files that were merged meanwhile have the same records.
        return True
    alike = {piece.compacted for piece in pieces} == {one.wanted.compacted}
    return alike and tuple(piece.file for piece in pieces if piece.file is not None) == one.wanted.files
