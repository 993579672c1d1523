"""Savepoints from a real broker whose small files are merged by a Spark job: checked, continued, restored from, compacted, expired, and tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.application import Store
from streams_recovery.core.errors import Damaged, SparkJobFailed
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import maintenance
from streams_recovery.operations.compaction import CompactRequest, CompactSummary, How
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, rows_of
from tests.support.repository.golden import checked

pytestmark = pytest.mark.spark

DAY = 86_400_000


@pytest.fixture
def merging(small: Small) -> Small:
    """The application, for which three small files are enough, with a store whose kind is known."""
    config = small.recovery.config
    retention = config.retention.model_copy(update={"merge_files": 3, "keep_last": 1, "minimum": 1, "keep_hourly": 0, "keep_daily": 0})
    retention = retention.model_copy(update={"keep_weekly": 0, "keep_monthly": 0})
    stores = {"totals": Store(kind=StoreKind.KEY_VALUE)}
    config = config.model_copy(update={"retention": retention, "stores": stores})
    return replace(small, recovery=replace(small.recovery, config=config))


def savepoints(small: Small, counts: Sequence[int], *, first: int = 0) -> list[Manifest]:
    """A savepoint behind each of so many updates of ten keys, of which some delete and some leave empty."""
    taken = []
    for count in counts:
        producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
        for number in range(first, first + count):
            value = {0: None, 7: b""}.get(number % 14, b"v%d" % number)
            headers = [("h", None), ("h", b"%d" % number)] if number % 3 else None
            producer.produce(small.changelog.topic, value, b"k%d" % (number % 10), small.changelog.partition, headers=headers)
        assert producer.flush(30) == 0
        first += count
        taken.append(published(small))
    return taken


def merge(small: Small, submitter: Submitter, run_id: str = "r") -> CompactSummary | None:
    runner = Runner(recovery=small.recovery, submitter=submitter, say=lambda line: None, sleep=lambda seconds: None)  # noqa: ARG005
    request = CompactRequest(savepoint="latest", how=How.SMALL_FILES, run_id=run_id, requested_by="test", reason="fewer files")
    return runs.compact(runner, request)


def files_of(manifest: Manifest, tp: TopicPartition) -> list[int]:
    """The rows of each file of a partition."""
    return [file.rows for one, file in manifest.files() if one == tp]


def on_the_broker(recovery: RecoveryContext, tp: TopicPartition) -> list[tuple[object, ...]]:
    """All records of a topic."""
    start, end = recovery.cluster.log_starts([tp])[tp], recovery.cluster.high_watermarks([tp])[tp]
    with RangeReader(recovery.connection, tp, start, end) as reader:
        return [(row["key"], row["value"], row["timestamp"], str(row["headers"])) for batch in reader for row in batch.to_pylist()]


@pytest.mark.way("compaction")
def test_small_files_are_merged_continued_and_restored_from(merging: Small, in_session: Submitter) -> None:
    recovery, log = merging.recovery, merging.changelog
    source = savepoints(merging, [300, 60, 70, 80])[-1]
    before = rows_of(recovery, source, log)
    first = files_of(source, log)
    done = merge(merging, in_session)
    assert done is not None
    made = recovery.savepoints.read(done.savepoint_id)
    assert recovery.savepoints.latest() == made
    assert (done.source_id, done.rows_before, done.rows_after) == (source.savepoint_id, sum(first), sum(first))
    assert done.files_before == done.files_after + len(first) - 1
    assert files_of(made, log) == [sum(first)]
    assert rows_of(recovery, made, log) == before
    assert checked(recovery, "full").good
    assert merge(merging, in_session, "again") is None, "nothing is worth it any more"

    continued = savepoints(merging, [25], first=510)[-1]
    assert continued.parent_id == made.savepoint_id
    assert files_of(continued, log) == [sum(first), 25]
    kept = [
        (topic.full_since, topic.partitions[0].ranges.facts.savepoints)
        for topic in (source.topic(log.topic), continued.topic(log.topic))
        if topic
    ]
    assert kept == [(source.topics[1].full_since, 4), (source.topics[1].full_since, 5)], "the next full copy comes when it would have come"
    truth = on_the_broker(recovery, log)
    assert checked(recovery, "full").good
    assert restored(recovery, continued) == sum(first) + 25 + 3
    assert on_the_broker(recovery, log) == truth


@pytest.mark.deep
@pytest.mark.fault("F20")
def test_a_merge_that_was_killed_before_it_published_leaves_nothing_that_counts(merging: Small, in_session: Submitter) -> None:
    recovery, log = merging.recovery, merging.changelog
    source = savepoints(merging, [40, 40, 40])[-1]
    stored = set(recovery.repository.keys(recovery.layout.segments))
    with pytest.raises(SparkJobFailed):
        merge(merging, KilledMerge(in_session))
    left = set(recovery.repository.keys(recovery.layout.segments)) - stored
    assert len(left) == 3, "each attempt has left a file of its own, and nobody names them"
    assert recovery.savepoints.latest() == source
    assert checked(recovery, "full").good
    done = merge(merging, in_session, "again")
    assert done is not None
    made = recovery.savepoints.read(done.savepoint_id)
    assert rows_of(recovery, made, log) == rows_of(recovery, source, log)
    assert checked(recovery, "full").good


class KilledMerge:
    """See Submitter. The job does all of its work, and nobody learns of it."""

    def __init__(self, submitter: Submitter) -> None:
        self.submitter = submitter

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Submit it, and raise."""
        self.submitter.submit(job)
        raise SparkJobFailed("killed", next_step="none")


@pytest.mark.way("compaction")
@pytest.mark.fault("F10")
def test_a_small_file_that_was_altered_ends_it_by_name(merging: Small, in_session: Submitter) -> None:
    recovery = merging.recovery
    source = savepoints(merging, [40, 40, 40])[-1]
    file = [file for tp, file in source.files() if tp == merging.changelog][1]
    data = bytearray(recovery.repository.get(file.key))
    data[len(data) // 2] ^= 1
    recovery.repository.delete([file.key])
    recovery.repository.create(file.key, bytes(data))
    with pytest.raises(Damaged, match=file.key):
        merge(merging, in_session)
    assert recovery.savepoints.latest() == source


@pytest.mark.way("expiry")
def test_expiry_removes_the_source_and_then_the_small_files(merging: Small, in_session: Submitter) -> None:
    recovery, log = merging.recovery, merging.changelog
    source = savepoints(merging, [40, 40, 40])[-1]
    before = rows_of(recovery, source, log)
    small = [file.key for tp, file in source.files() if tp == log]
    done = merge(merging, in_session)
    assert done is not None
    maintenance.expire(recovery, "first")
    assert set(recovery.savepoints.ids()) == {source.savepoint_id, done.savepoint_id}, "a run may have begun with it"
    maintenance.expire(replace(recovery, clock=lambda: recovery.clock() + 2 * DAY), "second")
    assert recovery.savepoints.ids() == [done.savepoint_id]
    assert set(small) <= set(recovery.repository.keys(recovery.layout.segments)), "grace is not over"
    maintenance.expire(replace(recovery, clock=lambda: recovery.clock() + 30 * DAY), "third")
    assert not set(small) & set(recovery.repository.keys(recovery.layout.segments))
    made = recovery.savepoints.read(done.savepoint_id)
    assert rows_of(recovery, made, log) == before
    assert checked(recovery, "full").good


@pytest.mark.deep
def test_what_was_merged_is_compacted_and_what_was_compacted_is_merged(merging: Small, in_session: Submitter) -> None:
    recovery, log = merging.recovery, merging.changelog
    savepoints(merging, [40, 40, 40])
    merged = merge(merging, in_session)
    assert merged is not None
    runner = Runner(recovery=recovery, submitter=in_session, say=lambda line: None)  # noqa: ARG005
    smaller = runs.compact(
        runner, CompactRequest(savepoint="latest", how=How.LATEST_PER_KEY, run_id="c", requested_by="test", reason="smaller")
    )
    assert smaller is not None
    assert smaller.source_id == merged.savepoint_id
    compacted = recovery.savepoints.latest()
    assert compacted is not None
    assert (compacted.savepoint_id, compacted.provenance.merged_from) == (smaller.savepoint_id, None)

    newest = savepoints(merging, [30, 30, 30], first=120)[-1]
    again = merge(merging, in_session, "again")
    assert again is not None
    made = recovery.savepoints.latest()
    assert made is not None
    assert (made.savepoint_id, again.source_id) == (again.savepoint_id, newest.savepoint_id)
    assert files_of(made, log) == [smaller.rows_after, 90], "what is compacted is not joined with what is not"
    assert rows_of(recovery, made, log) == rows_of(recovery, newest, log)
    assert checked(recovery, "full").good
