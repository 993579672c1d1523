"""A restore's plan, and its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams_recovery.core.jobs.spec import CutBy, RowCut
from streams_recovery.core.kafka_types import Claim, ClaimedTopic, CommittedOffset, Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.parts.moment import MomentPart, PointInTime
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import Observed, OffsetToSet, PartitionLoad, TopicToCreate
from streams_recovery.core.restore.point_in_time import AsOf, InPlace, LaterPartition, LaterTopic, MovedOffset
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


OFFSET = OffsetToSet(tp=TopicPartition("orders", 0), wanted=CommittedOffset(offset=1_234, metadata="AgAA"))


PLAN = RestorePlan(
    part=SavepointPart(),
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
    observed=Observed(
        instances=("a (pid 1)",), offsets_replaced={}, offsets_before={TopicPartition("orders", 0): 99}, records_to_catch_up=7_000
    ),
)


def with_part(plan: RestorePlan, **changes: Any) -> RestorePlan:
    """The plan with another part of its kind."""
    return replace(plan, part=replace(plan.part, **changes))


CUT = RowCut(by=CutBy.TIMESTAMP, moment=1_795_224_000_000, first_later=3, rows=1, late=0)
COPY = replace(
    TOPIC, name="past.orders", role=TopicRole.INPUT, partitions=(PartitionLoad(partition=0, files=SegmentFiles.of((FILE,)), cut=CUT),)
)
POINT = PointInTime(as_of=AsOf(moment=1_795_224_000_000, by=CutBy.TIMESTAMP), with_state=True, archive="20261121T022345Z-0123456789")
LATER = LaterPartition(partition=0, files=SegmentFiles.of((FILE,)), cut=replace(CUT, rows=1, rest=True))
MOVED = MovedOffset(group="billing", tp=TopicPartition("orders", 0), before=9, wanted=CommittedOffset(offset=4, metadata="m"), again=3)
IN_PLACE = InPlace(
    still_seconds=30, ends={TopicPartition("orders", 0): 9}, later=(LaterTopic(name="orders", partitions=(LATER,)),), groups=(MOVED,)
)
PAST = replace(PLAN, part=MomentPart(point=POINT), create=(TOPIC, COPY), application_id="past")
CLAIMED = (
    ClaimedTopic(topic="orders-eu-totals-changelog", group="orders-eu", because=Claim.CONFIGURED),
    ClaimedTopic(topic="orders-us-totals-changelog", group=None, because=Claim.FOREIGN),
)
