"""Short ways to write the core's values in tests."""

from __future__ import annotations

from collections.abc import Sequence

from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Evidence, Guarantee, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import (
    CopiedRange,
    CutProof,
    Manifest,
    PartitionCut,
    PartitionImage,
    Provenance,
    SegmentFile,
    TopicImage,
)

DAY = 86_400_000


def committed(offset: int, metadata: str = "AgAA") -> CommittedOffset:
    """A committed offset."""
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=3)


def segment(start: int, end: int, offsets: list[int], *, key: str | None = None) -> CopiedRange:
    """The range ``[start, end)`` with rows at these offsets."""
    if not offsets:
        return CopiedRange(start=start, end=end, file=None)
    file = SegmentFile(
        key=key or f"orders/segments/t/0/{start:020}-{end:020}-a.parquet",
        bytes=100,
        sha256="0" * 64,
        rows=len(offsets),
        first_offset=offsets[0],
        last_offset=offsets[-1],
        min_timestamp=1,
        max_timestamp=9,
        payload_bytes=10 * len(offsets),
        largest_record=10,
    )
    return CopiedRange(start=start, end=end, file=file)


def cut(*, start: int = 0, end: int = 10, commit: int | None = None, epoch: int | None = 0, topic: str = "t") -> PartitionCut:
    """What was read of partition 0 of a topic."""
    return PartitionCut(
        tp=TopicPartition(topic, 0),
        log_start=start,
        last_stable=end,
        end=end,
        leader_epoch=epoch,
        committed=None if commit is None else committed(commit),
    )


def image(ranges: Sequence[CopiedRange], *, start: int = 0, end: int = 10, epoch: int | None = 0) -> PartitionImage:
    """Partition 0 as a manifest has it."""
    return PartitionImage(
        partition=0, log_start=start, last_stable=end, end=end, leader_epoch=epoch, committed=committed(5), ranges=ranges, gaps=()
    )


def topic(
    partitions: tuple[PartitionImage, ...],
    *,
    name: str = "t",
    role: TopicRole = TopicRole.CHANGELOG,
    topic_id: str = "id-1",
    since: int = 0,
) -> TopicImage:
    """An archived topic as a manifest has it."""
    return TopicImage(
        name=name,
        role=role,
        topic_id=topic_id,
        replication_factor=1,
        config={"cleanup.policy": "compact"},
        in_force={},
        store=None,
        archived=True,
        full_since=since,
        evidence=Evidence.STORE if role.internal else None,
        partitions=partitions,
    )


def manifest_of(*topics: TopicImage, captured_at: int = 0, consistency: Consistency = Consistency.EXACT) -> Manifest:
    """A manifest of these topics."""
    return Manifest(
        format_version=8,
        savepoint_id="20261121T012345Z-0123456789",
        application_id="orders",
        cluster_id="c",
        captured_at=captured_at,
        consistency=consistency,
        proof=CutProof(
            mode=QuiesceMode.PAUSE,
            committed_unchanged=True,
            stable_reached=True,
            still_between_reads=True,
            held_seconds=0.4,
            attempts=1,
            reasons=(),
        ),
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        group_type="classic",
        parent_id=None,
        topics=topics,
        claimed=(),
        provenance=Provenance(run_id="r", requested_by="me", reason="", software={}),
    )
