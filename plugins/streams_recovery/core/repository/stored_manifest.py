"""A manifest as it is stored, and its ranges out of their tables: read as strictly as they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.archive_facts import NOTHING
from streams_recovery.core.repository.checked_manifest import (
    check_merged_ranges,
    check_moments,
    check_pieces,
    check_proof,
    check_tiling,
    check_topic,
    unproven,
)
from streams_recovery.core.repository.checked_names import check_ids, check_names, check_numbered
from streams_recovery.core.repository.checked_tables import check_tables
from streams_recovery.core.repository.manifest import FORMAT_VERSION, Manifest, TopicImage, partition_images
from streams_recovery.core.repository.range_columns import RangeColumns

_SHOWN: Final = 80


def read(data: bytes, *, where: str) -> Manifest:
    """The manifest in ``data`` (JSON, already decompressed), without its ranges. Raises ``Damaged``; another format is refused by its number, not guessed
    at.
    """
    plain = codec.loads(dict[str, object], data, where=where)
    version = plain.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        shown = f"{version!r:.{_SHOWN}}"
        raise Damaged(
            f"{where} has format version {shown}, this software reads {FORMAT_VERSION}",
            next_step="use the release of this software that wrote the savepoint",
            where=where,
            version=version if isinstance(version, int) else shown,
        )
    manifest: Manifest = codec.decode(Manifest, plain, where=where)
    check_names("application id", [manifest.application_id], where=where)
    sources = (manifest.provenance.compacted_from, manifest.provenance.merged_from)
    check_ids([manifest.savepoint_id, manifest.parent_id, *(one.savepoint_id for one in sources if one is not None)], where=where)
    check_names("topic", [topic.name for topic in manifest.topics], where=where)
    check_moments(manifest, where)
    for topic in manifest.topics:
        check_topic(topic, where)
        check_numbered(topic.name, [partition.partition for partition in topic.partitions], where=where)
    check_tables([(topic.name, topic.tables, [image.ranges.facts for image in topic.partitions]) for topic in manifest.topics], where=where)
    for topic in manifest.topics:
        for partition in topic.partitions:
            check_tiling(topic, partition, partition.ranges.facts, (), where)
    check_proof(manifest, where)
    return replace(manifest, topics=tuple(_within_tables(topic) for topic in manifest.topics))


def _within_tables(topic: TopicImage) -> TopicImage:
    return replace(topic, partitions=tuple(replace(image, ranges=image.ranges.within(topic.tables)) for image in topic.partitions))


def with_ranges(manifest: Manifest, tables: Mapping[str, Mapping[int, RangeColumns]], *, where: str) -> Manifest:
    """``manifest`` as it was read, with its ranges out of these ``tables``, by hash. Raises ``Damaged`` when they are not what it says of them."""
    filled = replace(manifest, topics=tuple(_filled(topic, manifest.application_id, tables, where) for topic in manifest.topics))
    source = manifest.provenance.compacted_from
    proven = {proof.tp for proof in source.proofs} if source is not None else set()
    for topic in filled.topics:
        for image in topic.partitions:
            if TopicPartition(topic.name, image.partition) in proven and not all(copied.compacted for copied in image.ranges):
                raise unproven(manifest.provenance.compacted_from, f": see {topic.name}-{image.partition}", where)
    if manifest.provenance.merged_from is not None:
        check_merged_ranges(manifest.provenance.merged_from, partition_images(filled.topics), where)
    return filled


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
