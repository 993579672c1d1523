"""A manifest as it is stored, and its ranges out of their tables: read as strictly as they were written.

It must describe what can be: moments, settings, whole logs, and proofs of what was compacted or merged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.checked import (
    check_epoch,
    check_ids,
    check_names,
    check_numbered,
    check_replicas,
    check_settings,
    check_tables,
)
from streams_recovery.core.repository.compaction_proof import CompactedFrom, MergedFrom, RescaledFrom
from streams_recovery.core.repository.encryption import KEY_ID
from streams_recovery.core.repository.manifest import (
    ENCRYPTED_VERSION,
    FORMAT_VERSION,
    NAMES_VERSION,
    Manifest,
    PartitionImage,
    TopicImage,
    partition_images,
)
from streams_recovery.core.repository.ranges import COMPACTED, NOTHING, ArchiveFacts, RangeColumns
from streams_recovery.core.words import LAST_MOMENT


def read(data: bytes, *, where: str) -> Manifest:
    """The manifest in ``data`` (JSON, already decompressed), without its ranges. Raises ``Damaged``; another format is refused by its number, not guessed
    at.
    """
    plain = codec.loads(dict[str, object], data, where=where)
    version = plain.get("format_version")
    if type(version) is not int or version not in (FORMAT_VERSION, NAMES_VERSION, ENCRYPTED_VERSION):
        shown = f"{version!r:.80}"
        raise Damaged(
            f"{where} has format version {shown}, this software reads {FORMAT_VERSION} to {ENCRYPTED_VERSION}",
            next_step="use the release of this software that wrote the savepoint",
            where=where,
            version=version if isinstance(version, int) else shown,
        )
    manifest: Manifest = codec.decode(Manifest, plain, where=where)
    check_names("application id", [manifest.application_id], where=where)
    origin = manifest.provenance
    sources = (origin.compacted_from, origin.merged_from, origin.rescaled_from)
    check_ids([manifest.savepoint_id, manifest.parent_id, *(one.savepoint_id for one in sources if one is not None)], where=where)
    check_names("topic", [topic.name for topic in manifest.topics], where=where)
    _check_moments(manifest, where)
    for topic in manifest.topics:
        _check_topic(topic, where)
        check_numbered(topic.name, [partition.partition for partition in topic.partitions], where=where)
    check_tables([(topic.name, topic.tables, [image.ranges.facts for image in topic.partitions]) for topic in manifest.topics], where=where)
    for topic in manifest.topics:
        for partition in topic.partitions:
            _check_tiling(topic, partition, partition.ranges.facts, (), where)
    _check_proof(manifest, where)
    _check_names(manifest, where)
    return replace(manifest, topics=tuple(_within_tables(topic) for topic in manifest.topics))


def with_ranges(manifest: Manifest, tables: Mapping[str, Mapping[int, RangeColumns]], *, where: str) -> Manifest:
    """``manifest`` as it was read, with its ranges out of these ``tables``, by hash. Raises ``Damaged`` when they are not what it says of them."""
    filled = replace(manifest, topics=tuple(_filled(topic, manifest.application_id, tables, where) for topic in manifest.topics))
    images, source = partition_images(filled.topics), manifest.provenance.compacted_from
    for proof in () if source is None else source.proofs:
        if proof.tp in images and not all(copied.compacted for copied in images[proof.tp].ranges):
            raise _unproven(source, f": see {proof.tp}", where)
    if manifest.provenance.merged_from is not None:
        _check_merged_ranges(manifest.provenance.merged_from, images, where)
    return filled


def check_pieces(topic: TopicImage, partition: PartitionImage, before: ArchiveFacts, pieces: RangeColumns, where: str) -> None:
    """Raise ``Damaged`` unless what there is up to ``before``, these pieces behind it, and the partition's gaps are the archived part of its log, and nothing
    but a changelog is compacted.
    """
    _check_tiling(topic, partition, before, pieces.runs(), where)
    # Only a changelog stands for a state; of every other topic each record counts.
    if topic.role is not TopicRole.CHANGELOG and any(flag & COMPACTED for flag in pieces.flags):
        raise Damaged(
            f"{where}: {topic.name}-{partition.partition} is compacted, and it is no changelog",
            next_step="do not use this savepoint; choose another one",
            topic=topic.name,
            partition=partition.partition,
        )


def _check_moments(manifest: Manifest, where: str) -> None:
    """Raise ``Damaged`` for a moment that no calendar has."""
    for moment in (manifest.captured_at, *(topic.full_since for topic in manifest.topics)):
        if not 0 <= moment <= LAST_MOMENT:
            raise Damaged(f"{where} has the moment {moment} ms, which is none", next_step="choose another savepoint", where=where)


def _check_topic(topic: TopicImage, where: str) -> None:
    """Raise ``Damaged`` for settings and epochs that Kafka does not have."""
    check_replicas(topic.replication_factor, topic=topic.name, where=where)
    check_settings(topic.config, topic=topic.name, where=where)
    check_settings({name: setting.value for name, setting in topic.in_force.items()}, topic=topic.name, where=where)
    for image in topic.partitions:
        for epoch in (image.leader_epoch, image.committed.leader_epoch if image.committed is not None else None):
            check_epoch(epoch, what=f"{topic.name}-{image.partition}", where=where)


def _check_tiling(topic: TopicImage, partition: PartitionImage, before: ArchiveFacts, runs: Sequence[tuple[int, int]], where: str) -> None:
    """Check the offsets alone, by the runs of the pieces. Gaps within ``before`` are known only to its ranges."""
    if not topic.archived:
        return
    begin = partition.log_start
    if topic.role is TopicRole.REPARTITION and partition.committed is not None:
        begin = partition.committed.offset
    known = [] if before.start is None or before.end is None else [(before.start, before.end)]
    gaps = [gap for gap in partition.gaps if not any(start <= gap.start and gap.end <= end for start, end in known)]
    pieces = sorted([*known, *runs, *((gap.start, gap.end) for gap in gaps)])
    if not pieces and begin >= partition.end:
        return
    joined = all(left[1] == right[0] for left, right in pairwise(pieces))
    # An archive may reach further back than the log does; a tail begins where it was not read.
    if pieces and joined and pieces[0][0] <= begin and pieces[-1][1] == partition.end:
        return
    raise Damaged(
        f"{where}: the ranges of {topic.name}-{partition.partition} do not tile its log from {begin} to {partition.end}: {pieces[:20]}",
        next_step="do not use this savepoint; verify the repository and choose another one",
        topic=topic.name,
        partition=partition.partition,
    )


def _check_proof(manifest: Manifest, where: str) -> None:
    """Raise ``Damaged`` for a compacted or merged savepoint whose proofs are not about what it holds. Needs no ranges."""
    images = partition_images(manifest.topics)
    _check_merges(manifest.provenance.merged_from, images, where)
    _check_rescaled(manifest, where)
    source = manifest.provenance.compacted_from
    if source is None:
        return
    found = {proof.tp: proof for proof in source.proofs}
    wrong = [tp for tp, proof in found.items() if tp not in images or images[tp].rows != proof.rows_after]
    if wrong or not source.proven or len(found) != len(source.proofs):
        raise _unproven(source, f": see {wrong[0]}" if wrong else "", where)


def _check_names(manifest: Manifest, where: str) -> None:
    """Raise ``Damaged`` for a cut by the names of transactions in another format than its own, or that does not fit the savepoint."""
    key = manifest.encryption_key_id
    if manifest.format_version != manifest.version_it_has or (key is not None and KEY_ID.fullmatch(key) is None):
        raise Damaged(
            f"{where} has format version {manifest.format_version}, and its proof and its key {key!r:.40} are of version {manifest.version_it_has}",
            next_step="do not use this savepoint; verify the repository and choose another one",
            where=where,
        )
    if manifest.proof.names is not None:
        manifest.proof.names.check({tp: image.end for tp, image in partition_images(manifest.topics).items()}, where)


def _check_merges(source: MergedFrom | None, images: Mapping[TopicPartition, PartitionImage], where: str) -> None:
    if source is None:
        return
    wrong = [proof.tp for proof in source.proofs if proof.tp not in images or images[proof.tp].rows < proof.rows_after]
    if wrong or not source.proven or len({(proof.tp, proof.start) for proof in source.proofs}) != len(source.proofs):
        raise _unproven(source, f": see {wrong[0]}" if wrong else "", where)


def _check_rescaled(manifest: Manifest, where: str) -> None:
    """Raise ``Damaged`` unless the proof of each topic that was placed anew holds, and is about a topic with so many partitions and records."""
    source = manifest.provenance.rescaled_from
    if source is None:
        return
    found = {one.topic: one for one in source.topics}
    topics = {topic.name: (len(topic.partitions), topic.rows) for topic in manifest.topics}
    wrong = [name for name, one in found.items() if topics.get(name) != (one.new, one.records)]
    if wrong or not source.proven or len(found) != len(source.topics):
        raise _unproven(source, f": see {wrong[0]}" if wrong else "", where)


def _check_merged_ranges(source: MergedFrom, images: Mapping[TopicPartition, PartitionImage], where: str) -> None:
    """Raise ``Damaged`` unless each proof is about one range with a file of so many records. Partitions that are not among ``images`` are passed over."""
    for proof in source.proofs:
        if proof.tp in images:
            ranges = images[proof.tp].ranges
            at = bisect_left(ranges, proof.start, key=attrgetter("start"))
            one = ranges[at] if at < len(ranges) else None
            rows = one.file.rows if one is not None and one.file is not None else 0
            if one is None or (one.start, one.end, rows) != (proof.start, proof.end, proof.rows_after):
                raise _unproven(source, f": see [{proof.start}, {proof.end}) of {proof.tp}", where)


def _within_tables(topic: TopicImage) -> TopicImage:
    return replace(topic, partitions=tuple(replace(image, ranges=image.ranges.within(topic.tables)) for image in topic.partitions))


def _filled(topic: TopicImage, application_id: str, tables: Mapping[str, Mapping[int, RangeColumns]], where: str) -> TopicImage:
    images = []
    for image in topic.partitions:
        held = [tables[ref.sha256][image.partition] for ref in topic.tables if image.partition in tables[ref.sha256]]
        pieces = held[0] if len(held) == 1 else RangeColumns(application_id, TopicPartition(topic.name, image.partition))
        for one in held if len(held) > 1 else ():
            pieces.extend(one)
        stated = image.ranges.facts
        if replace(pieces.facts(stated.savepoints), ranges=sum(map(len, held))) != stated:
            raise Damaged(
                f"{where}: its tables do not hold what it says of {topic.name}-{image.partition}",
                next_step="do not use this savepoint; verify the repository and choose another one",
                topic=topic.name,
                partition=image.partition,
            )
        check_pieces(topic, image, NOTHING, pieces, where)
        images.append(replace(image, ranges=image.ranges.within(topic.tables, pieces)))
    return replace(topic, partitions=tuple(images))


def _unproven(source: CompactedFrom | MergedFrom | RescaledFrom | None, what: str, where: str) -> Damaged:
    """The error for a compacted, merged or rescaled savepoint that may hold another state."""
    named = source.savepoint_id if source is not None else None
    made = "merged" if isinstance(source, MergedFrom) else "rescaled" if isinstance(source, RescaledFrom) else "compacted"
    return Damaged(
        f"{where} is {made} from {named}, and it is not proven that it holds the same state{what}",
        next_step="do not use this savepoint; use the one it was made from",
        savepoint=named,
    )
