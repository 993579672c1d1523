"""A manifest of one archived topic, to be changed in one place and refused."""

from __future__ import annotations

from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Evidence, Guarantee, QuiesceMode, StoreKind, TopicRole
from streams_recovery.core.repository.manifest import (
    CopiedRange,
    CutProof,
    Gap,
    Manifest,
    PartitionImage,
    Provenance,
    SegmentFile,
    TopicImage,
)
from streams_recovery.core.repository.ranges import Ranges


def copied(start: int, end: int, *, rows: bool = True) -> CopiedRange:
    """The range ``[start, end)`` with one row at its start, or none."""
    file = SegmentFile(
        key=f"orders/segments/orders-store-changelog/0/{start:020}-{end:020}-a.parquet",
        bytes=100,
        sha256="0" * 64,
        rows=1,
        first_offset=start,
        last_offset=start,
        min_timestamp=0,
        max_timestamp=0,
        payload_bytes=10,
        largest_record=10,
    )
    return CopiedRange(start=start, end=end, file=file if rows else None)


def partition(ranges: list[CopiedRange], gaps: list[Gap], *, end: int, log_start: int = 0) -> PartitionImage:
    """Partition 0 with these ranges and gaps."""
    return PartitionImage(
        partition=0,
        log_start=log_start,
        last_stable=end,
        end=end,
        leader_epoch=None,
        committed=CommittedOffset(offset=3, metadata="AgAA", leader_epoch=None),
        ranges=Ranges.of(ranges),
        gaps=tuple(gaps),
    )


def manifest_with(*partitions: PartitionImage, archived: bool = True) -> Manifest:
    """A manifest of one changelog with these partitions."""
    topic = TopicImage(
        name="orders-store-changelog",
        role=TopicRole.CHANGELOG,
        topic_id="id",
        replication_factor=1,
        config={"cleanup.policy": "compact"},
        in_force={},
        store=StoreKind.KEY_VALUE,
        archived=archived,
        full_since=0,
        evidence=Evidence.STORE,
        partitions=partitions,
    )
    proof = CutProof(
        mode=QuiesceMode.PAUSE,
        committed_unchanged=True,
        stable_reached=True,
        still_between_reads=True,
        held_seconds=0.5,
        attempts=1,
        reasons=(),
    )
    return Manifest(
        format_version=8,
        savepoint_id="20261121T012345Z-0123456789",
        application_id="orders",
        cluster_id="cluster",
        captured_at=1_800_000_000_000,
        consistency=Consistency.EXACT,
        proof=proof,
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        group_type="classic",
        parent_id=None,
        topics=(topic,),
        claimed=(),
        provenance=Provenance(run_id="run", requested_by="test", reason="test", software={}),
    )
