"""A restore's plan, and its parts."""

from __future__ import annotations

from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.repository.segment_files import SegmentFiles
from streams_recovery.core.restore.plan import Observed, OffsetToSet, PartitionLoad, RestorePlan, TopicToCreate
from streams_recovery.core.restore.point_in_time import CutBy, RowCut
from streams_recovery.core.restore.request import SafetyPolicy
from tests.support.examples.savepoints import segment

FILE = segment(0, 5, [0, 4]).file
assert FILE is not None


TOPIC = TopicToCreate(
    name="orders-totals-changelog",
    role=TopicRole.CHANGELOG,
    replication_factor=3,
    held_config={"cleanup.policy": "compact", "retention.ms": "-1"},
    final_config={"cleanup.policy": "compact"},
    replaces=None,
    partitions=(PartitionLoad(partition=0, files=SegmentFiles.of((FILE,))), PartitionLoad(partition=1, files=SegmentFiles.of(()))),
)


OFFSET = OffsetToSet(topic="orders", partition=0, offset=1_234, metadata="AgAA")


PLAN = RestorePlan(
    application_id="orders",
    source_application_id="orders",
    savepoint_id="20261121T012345Z-0123456789",
    captured_at=1_795_224_225_000,
    consistency=Consistency.EXACT,
    safety=SafetyPolicy.REQUIRED,
    delete=(),
    create=(TOPIC,),
    offsets=(OFFSET,),
    strategy="exact",
    offsets_agree=True,
    warnings=(),
    observed=Observed(instances=("a (pid 1)",), offsets_replaced={}, offsets_before={"orders-0": 99}, records_to_catch_up=7_000),
)


CUT = RowCut(by=CutBy.TIMESTAMP, moment=1_795_224_000_000, first_later=3, rows=1, late=0)
