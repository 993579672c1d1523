"""One savepoint as people look at it: topics, partitions, proof and origin, without its ranges. It is written after the manifest, for readers that may not open
that.

It decides nothing: a restore, a check and expiry read the manifest. A savepoint without a detail is as good as any other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import Guarantee, TopicRole
from streams_recovery.core.repository.manifest import CutProof, Manifest, PartitionImage, TopicImage, TopicOfCut
from streams_recovery.core.repository.publication import SavepointFacts, savepoint_facts
from streams_recovery.core.repository.segment_file import Gap
from streams_recovery.core.repository.survival import lost_with_cluster

# Of each list of reasons, and of the gaps of a partition: the rest is in the manifest.
MOST_NAMED: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetail:
    """One partition at the cut. ``end`` is exclusive. ``records``, ``bytes`` and ``files`` are those in the repository, ``gaps`` the first of those that are
    missing there, ``gap_count`` of all.
    """

    partition: int
    log_start: int
    end: int
    committed: int | None
    records: int
    bytes: int
    files: int
    gaps: tuple[Gap, ...]
    gap_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetail(TopicOfCut):
    """One topic at the cut, see ``TopicImage``."""

    full_since: int
    partitions: tuple[PartitionDetail, ...]

    @property
    def records(self) -> int:
        """Records in the repository."""
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes in the repository."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def gap_count(self) -> int:
        """Gaps of all partitions."""
        return sum(partition.gap_count for partition in self.partitions)

    @property
    def committed(self) -> int | None:
        """The sum of the committed offsets, None when nothing was committed."""
        known = [partition.committed for partition in self.partitions if partition.committed is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointDetail(SavepointFacts):
    """One savepoint. The reasons of its ``proof``, ``intended`` and ``lost_with_cluster``, why it alone is not enough once the cluster is lost, are the
    first of each.
    """

    cluster_id: str
    guarantee: Guarantee
    group_type: str
    proof: CutProof
    reason: str
    software: dict[str, str]
    intended: tuple[str, ...]
    lost_with_cluster: tuple[str, ...]
    topics: tuple[TopicDetail, ...]

    def input_positions(self) -> dict[str, int]:
        """Up to where each input was processed: the sum of its partitions' committed offsets."""
        found = defaultdict[str, int](int)
        for topic in self.topics:
            if topic.role is TopicRole.INPUT and topic.committed is not None:
                found[topic.name] += topic.committed
        return dict(found)


def savepoint_detail(manifest: Manifest) -> SavepointDetail:
    """The detail of a manifest, with or without its ranges."""
    proof, origin = manifest.proof, manifest.provenance
    return SavepointDetail(
        **codec.fields_of(SavepointFacts, savepoint_facts(manifest)),
        cluster_id=manifest.cluster_id,
        guarantee=manifest.guarantee,
        group_type=manifest.group_type,
        proof=replace(proof, reasons=proof.reasons[:MOST_NAMED]),
        reason=origin.reason,
        software=origin.software,
        intended=origin.intended[:MOST_NAMED],
        lost_with_cluster=lost_with_cluster(manifest)[:MOST_NAMED],
        topics=tuple(_topic(topic) for topic in manifest.topics),
    )


def require_about(detail: SavepointDetail, application_id: str, savepoint_id: str, *, where: str) -> None:
    """Raise ``Damaged`` for a detail that is about something else."""
    if (detail.application_id, detail.savepoint_id) != (application_id, savepoint_id):
        raise Damaged(
            f"{where} is about savepoint {detail.savepoint_id} of {detail.application_id}", next_step="find out who wrote it", where=where
        )


def _topic(topic: TopicImage) -> TopicDetail:
    return TopicDetail(
        **codec.fields_of(TopicOfCut, topic),
        full_since=topic.full_since,
        partitions=tuple(_partition(image) for image in topic.partitions),
    )


def _partition(image: PartitionImage) -> PartitionDetail:
    facts = image.ranges.facts
    return PartitionDetail(
        partition=image.partition,
        log_start=image.log_start,
        end=image.end,
        committed=image.committed.offset if image.committed else None,
        records=facts.rows,
        bytes=facts.bytes,
        files=facts.files,
        gaps=image.gaps[:MOST_NAMED],
        gap_count=len(image.gaps),
    )
