"""The report of a restore that was proven whole."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.estimate import Sizes
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.planned import PartitionLoad, TopicToCreate
from streams_recovery.core.restore.proofs import PartitionProof, Proof
from streams_recovery.core.restore.report import RestoreReport, topic_evidence
from tests.support.examples.restore_plan import FILE, PLAN


def proven(
    topic: str, partition: int, rows: int = 3, archived: str = "aa", restored: str = "aa", keys: int | None = None
) -> PartitionProof:
    """A partition that was compared, row by row or key by key."""
    return PartitionProof(
        topic=topic,
        partition=partition,
        proof=Proof.ROWS if keys is None else Proof.KEYS,
        rows=rows,
        archived_digest=archived,
        restored_digest=restored,
        keys_compared=keys,
    )


def create(name: str, role: TopicRole, *rows: int) -> TopicToCreate:
    """A topic to create, with so many rows to load into each partition."""
    loads = tuple(
        PartitionLoad(partition=at, files=SegmentFiles.of((replace(FILE, rows=count),) if count else ())) for at, count in enumerate(rows)
    )
    return TopicToCreate(name=name, role=role, replication_factor=1, held_config={}, final_config={}, replaces=None, partitions=loads)


WANTED = replace(PLAN, create=(create("a-s-changelog", TopicRole.CHANGELOG, 3, 3), create("a-k-repartition", TopicRole.REPARTITION, 3)))


WHOLE = [proven("a-s-changelog", 1, archived="bb", restored="bb", keys=2), proven("a-k-repartition", 0), proven("a-s-changelog", 0)]


TOPICS, MISSING = topic_evidence(WANTED, WHOLE)


REPORT = RestoreReport(
    part=SavepointPart(),
    format_version=7,
    restore_id="20261121T020000Z-0123456789",
    application_id="orders",
    source_application_id="orders",
    savepoint_id="20261121T010000Z-0123456789",
    captured_at=1_700_000_000_000,
    consistency=Consistency.EXACT,
    manifests={"20261121T010000Z-0123456789": "c" * 64},
    plan_hash="d" * 64,
    requested_by="admin",
    reason="",
    started_at=1_700_000_100_000,
    finished_at=1_700_000_200_000,
    strategy="exact",
    offsets=3,
    rows=9,
    keys_compared=2,
    topics=TOPICS,
    missing=MISSING,
    safety_savepoint=None,
    still_held=(),
    expiring=(),
    sizes=Sizes(records=9, payload_bytes=90, partitions=3, replaced=0, to_catch_up=0),
    seconds={"load": 61.0},
    query_checks=(),
    watched=None,
)
