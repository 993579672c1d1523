"""For how long what was read of a compacted topic may be gone on from: before its deletions are removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.archive.log import Archive, ArchiveEntry, ArchiveEvent, extended
from streams_recovery.core.archive.tick import ArchivedTo, LogNow, TickLimits, archived_logs, plan_tick
from streams_recovery.core.jobs.spec import BackupResult, RangeCopied
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.cleaning import compacted, looked_too_late
from streams_recovery.core.repository.manifest import CopiedRange, Manifest
from tests.support.examples.savepoints import image, manifest_of, segment, topic

DAY = 86_400_000
TP = TopicPartition("t", 0)
LIMITS = TickLimits(records=100, file_records=100)
COMPACT = {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("settings", "now", "late"),
    [
        ((COMPACT, {}), DAY - 1, False),
        ((COMPACT, {}), DAY, True),
        ((COMPACT | {"delete.retention.ms": "1000"}, {}), 1_000, True),
        ((COMPACT | {"delete.retention.ms": str(9 * DAY)}, COMPACT | {"delete.retention.ms": "1000"}), 1_000, True),
        ((COMPACT, {}), -59_000, False),
        ((COMPACT, {}), -61_000, True),
    ],
    ids=[
        "in time",
        "after Kafka's default",
        "after its own",
        "by what was in force then",
        "another machine's clock",
        "a clock that stepped",
    ],
)
def test_whoever_reads_on_after_the_time_of_deletions_may_miss_some(settings: tuple[dict[str, str], ...], now: int, late: bool) -> None:
    assert list(looked_too_late({"t": settings}, last=0, now=now)) == (["t"] if late else [])


def test_only_where_the_cleaner_comes_there_are_deletions_to_miss() -> None:
    assert not compacted(TopicRole.INPUT, {"cleanup.policy": "delete"}, {})
    assert compacted(TopicRole.GLOBAL, {"cleanup.policy": "delete"}, COMPACT), "it may have been there before the policy changed"


def saved(captured_at: int, end: int) -> Manifest:
    return manifest_of(topic((image((segment(0, end, [0]),), end=end),), role=TopicRole.GLOBAL), captured_at=captured_at)


def looked(archive: Archive, start: int, end: int, *, at: int, late: bool) -> Archive:
    """A look that copies these offsets."""
    log = LogNow(tp=TP, topic_id="id-1", leader_epoch=0, log_start=0, last_stable=end, high=end)
    to = ArchivedTo(topic_id="id-1", end=start, leader_epoch=0)
    tick = plan_tick([log], {TP: to}, LIMITS, late={"t": at} if late else {})
    copied = RangeCopied(
        tp=TP,
        copied=CopiedRange(start=start, end=end, file=segment(start, end, [start]).file),
        fetched=end - start,
        log_start_after=0,
        worker="w",
    )
    logs = archived_logs(tick, BackupResult(ranges=(copied,), seconds=0))
    entry = ArchiveEntry(event=ArchiveEvent.COPIED, run="r", at=at, cluster_id="c", safe_at=at, logs=logs)
    return archive.with_entry(archive.number + 1, entry)


@pytest.mark.fault("F96")
def test_a_savepoint_from_before_a_look_that_came_too_late_does_not_go_on_with_the_archive() -> None:
    base = saved(0, 10)
    archive = looked(replace(Archive(), cluster_id="c"), 10, 20, at=1_000, late=False)
    fresh = extended(base, archive)
    assert fresh is not None
    assert fresh.left == ()
    archive = looked(archive, 20, 30, at=2 * DAY, late=True)
    archive = looked(archive, 30, 40, at=2 * DAY + 1_000, late=False)
    for manifest in (base, saved(2 * DAY - 1, 25)):
        found = extended(manifest, archive)
        assert found is not None
        assert "keys that were deleted would come back" in found.left[0]
        assert found.manifest.topics == manifest.topics
    after = extended(saved(2 * DAY + 500, 30), archive)
    assert after is not None
    assert after.left == (), "one that is newer has read what there was then"
