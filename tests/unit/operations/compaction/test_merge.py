"""The steps of a merge on a golden repository with more small files, with the work of the Spark job done here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from spark_jobs.transforms.merge import merge_group
from streams_recovery.core import codec
from streams_recovery.core.compaction.values import CompactionPlan, CompactResult, CompactSpec, RangeCompacted
from streams_recovery.core.errors import Damaged, LockHeld, LockLost, NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.snapshot import OffsetSnapshot
from streams_recovery.core.repository.compaction_proof import RescaledFrom, RescaledLog
from streams_recovery.core.repository.manifest import CopiedRange, Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import same_moment, time_of
from streams_recovery.operations import compaction, maintenance
from streams_recovery.operations.compaction import CompactRequest, CompactSummary, CompactTicket, How
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets import snapshots
from streams_recovery.operations.savepoint import rewrite
from streams_recovery.segments.files import read_segment, write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from tests.support.repository.golden import FIRST, NAMED, SECOND, T0, OpenGolden, checked, root
from tests.support.repository.stored import left

LOG = TopicPartition("golden-totals-changelog", 0)
THIRD, FOURTH = "20261121T020000Z-0000000005", "20261121T030000Z-0000000006"


@pytest.fixture
def opened(golden: OpenGolden, tmp_path: Path) -> RecoveryContext:
    """A repository with a third savepoint that has three more files of the changelog."""
    recovery = merging(golden("good"), 3)
    grow(recovery, SECOND, THIRD, tmp_path, files=3)
    return recovery


def merging(recovery: RecoveryContext, files: int) -> RecoveryContext:
    """The same with another ``retention.merge_files``."""
    retention = recovery.config.retention.model_copy(update={"merge_files": files})
    return replace(recovery, config=recovery.config.model_copy(update={"retention": retention}))


def grow(recovery: RecoveryContext, before: str, savepoint_id: str, directory: Path, *, files: int = 1) -> Manifest:
    """A later savepoint with so many more files of ten rows."""
    known = recovery.savepoints.read(before)
    changelog = known.topics[0]
    image = changelog.partitions[0]
    pieces = [written(recovery, image.end + 10 * number, directory) for number in range(files)]
    grown = replace(image, end=image.end + 10 * files, last_stable=image.end + 10 * files, ranges=image.ranges.with_behind(pieces))
    topics = (replace(changelog, partitions=(grown, *changelog.partitions[1:])), *known.topics[1:])
    later = replace(
        known, savepoint_id=savepoint_id, parent_id=before, captured_at=known.captured_at + 3_600_000, topics=topics,
        provenance=replace(known.provenance, run_id=savepoint_id, merged_from=None, compacted_from=None),
    )  # fmt: skip
    recovery.savepoints.publish(later)
    return recovery.savepoints.read(savepoint_id)


def written(recovery: RecoveryContext, start: int, directory: Path) -> CopiedRange:
    offsets = list(range(start, start + 10))
    columns = [pa.array(offsets, pa.int64()), pa.array([T0 + at % 3 for at in offsets], pa.int64()), pa.array([0] * 10, pa.int8())]
    values = [None if at % 5 == 0 else b"" if at % 7 == 0 else b"%d" % at for at in offsets]
    columns += [pa.array([b"c-%d" % (at % 4) for at in offsets], pa.binary()), pa.array(values, pa.binary())]
    batch = pa.record_batch([*columns, header_array([None if at % 2 else [("h", None)] for at in offsets])], schema=SEGMENT_SCHEMA)
    path = directory / "segment.parquet"
    file = write_segment([batch], path, compression_level=3)
    assert file is not None
    key = recovery.layout.segment(LOG, start, start + 10, "a")
    recovery.repository.put_file(key, path)
    return CopiedRange(start=start, end=start + 10, file=file.stored_as(key))


def request(run_id: str = "run", savepoint: str = "latest") -> CompactRequest:
    return CompactRequest(savepoint=savepoint, how=How.SMALL_FILES, run_id=run_id, requested_by="me", reason="a test")


def planned(recovery: RecoveryContext, savepoint: str) -> CompactionPlan:
    return compaction.plan(recovery, savepoint, How.SMALL_FILES)


def saved(done: CompactSummary) -> int:
    """How many files fewer there are."""
    assert done.files_before is not None
    return done.files_before - done.files_after


def begun(recovery: RecoveryContext, wanted: CompactRequest) -> CompactTicket:
    return compaction.begin(recovery, wanted, planned(recovery, wanted.savepoint))


def job_done(recovery: RecoveryContext, ticket: CompactTicket, changed: Sequence[RangeCompacted] | None = None) -> ArtifactRef:
    job = compaction.plan_job(recovery, ticket)
    assert job.spec is not None
    assert job.result_key is not None
    return left(recovery, job.result_key, CompactResult(ranges=tuple(merged(recovery, ticket) if changed is None else changed), seconds=1))


def merged(recovery: RecoveryContext, ticket: CompactTicket) -> list[RangeCompacted]:
    assert ticket.spec is not None
    spec = recovery.artifacts.read(CompactSpec, ticket.spec)
    return [merge_group(recovery.repository, recovery.layout, group, spec.compression_level) for group in spec.ranges]


def rows_of(recovery: RecoveryContext, manifest: Manifest) -> list[dict[str, object]]:
    files = [file for tp, file in manifest.files() if tp == LOG]
    return [row for file in files for batch in read_segment(root(recovery).parent / file.key, file) for row in batch.to_pylist()]


def everything(recovery: RecoveryContext) -> list[str]:
    return list(recovery.repository.keys("golden/"))


def test_a_plan_changes_nothing_and_says_which_files_become_one(opened: RecoveryContext) -> None:
    before = everything(opened)
    plan = planned(opened, "latest")
    assert (plan.savepoint_id, [(group.tp, len(group.files), group.rows) for group in plan.ranges]) == (THIRD, [(LOG, 5, 73)])
    text = compaction.compaction_text(plan)
    assert f"| {LOG} | 5 | 1 | 73 |" in text.replace("\\", "")
    assert f"The savepoint has {plan.files} files, and would have {plan.files - 4}" in text
    assert everything(opened) == before


def test_a_merged_savepoint_is_published_once_with_every_record_of_its_source(opened: RecoveryContext) -> None:
    source = opened.savepoints.read(THIRD)
    ticket = begun(opened, request())
    result = job_done(opened, ticket)
    done = compaction.publish(opened, ticket, result)
    made = opened.savepoints.read(done.savepoint_id)
    assert opened.savepoints.latest() == made
    assert (done.source_id, done.ranges, done.rows_before, saved(done)) == (THIRD, 1, 73, 4)
    assert (done.savepoint_id, time_of(done.savepoint_id)) == (ticket.savepoint_id, time_of(THIRD))
    assert rows_of(opened, made) == rows_of(opened, source)
    assert len(rows_of(opened, made)) == 73
    assert (made.captured_at, made.proof, made.committed(), made.records) == (
        source.captured_at, source.proof, source.committed(), source.records,
    )  # fmt: skip
    assert (made.replaces, made.parent_id) == (THIRD, THIRD)
    said, of_the_merge = made.provenance, made.provenance.merged_from
    assert (said.requested_by, said.reason) == (source.provenance.requested_by, source.provenance.reason), "people choose by it"
    assert of_the_merge is not None
    assert (of_the_merge.requested_by, of_the_merge.reason) == ("me", "a test")
    assert made.topics[0].partitions[0].ranges.facts.savepoints == source.topics[0].partitions[0].ranges.facts.savepoints == 3
    assert checked(opened, "full").good
    assert compaction.publish(opened, ticket, result) == done, "once is enough"
    assert len(opened.savepoints.ids()) == 4


def test_one_by_the_names_of_transactions_keeps_its_proof_and_its_format(golden: OpenGolden, tmp_path: Path) -> None:
    recovery = merging(golden("named"), 3)
    source = grow(recovery, NAMED, FOURTH, tmp_path, files=3)
    ticket = begun(recovery, request())
    made = recovery.savepoints.read(compaction.publish(recovery, ticket, job_done(recovery, ticket)).savepoint_id)
    assert (made.format_version, made.proof) == (9, source.proof)
    assert rows_of(recovery, made) == rows_of(recovery, source)


def test_the_offsets_that_were_kept_with_the_source_are_kept_with_the_merged_one(opened: RecoveryContext) -> None:
    kept = OffsetSnapshot(
        format_version=2, snapshot_id=THIRD, application_id=opened.application_id, cluster_id="c", taken_at=1, savepoint_id=THIRD, requested_by="savepoint",
        reason="with it", groups=(), unread={},
    )  # fmt: skip
    snapshots.keep(opened, kept)
    ticket = begun(opened, request())
    result = job_done(opened, ticket)
    for _ in range(2):
        made = compaction.publish(opened, ticket, result).savepoint_id
    assert snapshots.find(opened, made) == replace(kept, snapshot_id=made, savepoint_id=made)
    assert snapshots.ids(opened) == sorted([THIRD, made])


def test_when_nothing_is_worth_it_no_job_runs(golden: OpenGolden, opened: RecoveryContext, tmp_path: Path) -> None:
    ticket = begun(opened, request())
    compaction.publish(opened, ticket, job_done(opened, ticket))
    nothing = begun(opened, request("another"))
    assert (nothing.spec, compaction.plan_job(opened, nothing).spec) == (None, None)
    assert "No files of it are worth merging" in compaction.compaction_text(planned(opened, "latest"))
    with pytest.raises(Damaged, match="no merge ran"):
        compaction.publish(opened, nothing, None)
    never = merging(golden("good", place="never"), 0)
    grow(never, SECOND, THIRD, tmp_path, files=21)
    assert planned(never, "latest").ranges == (), "a person who asks gets the usual number"
    grow(never, THIRD, FOURTH, tmp_path)
    assert [len(group.files) for group in planned(never, "latest").ranges] == [24]
    with pytest.raises(NotFound, match="has no savepoint in"):
        planned(golden("no-manifest", place="empty"), "latest")


@pytest.mark.parametrize("change", ["rows_before", "rows_after", "digest_after", "problems"])
def test_a_result_that_differs_is_never_published_and_lets_nothing_expire(opened: RecoveryContext, change: str) -> None:
    ticket = begun(opened, request())
    (good,) = merged(opened, ticket)
    other = {"rows_before": 72, "rows_after": 72, "digest_after": "0" * 64, "problems": ("has offsets that do not ascend",)}[change]
    with pytest.raises(Damaged, match="is not the same after its merge"):
        compaction.publish(opened, ticket, job_done(opened, ticket, [replace(good, **{change: other})]))
    with pytest.raises(Damaged, match="did not merge what was planned"):
        compaction.publish(opened, ticket, job_done(opened, ticket, []))
    assert opened.savepoints.ids() == [FIRST, SECOND, THIRD]
    assert THIRD in {decision.savepoint_id for decision in maintenance.plan_expiry(opened).keep}


@pytest.mark.fault("F10")
def test_a_small_file_that_was_altered_is_damage_and_nothing_is_published(opened: RecoveryContext) -> None:
    ticket = begun(opened, request())
    key = opened.layout.segment(LOG, 55, 65, "a")
    path = root(opened).parent / key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match=key):
        merged(opened, ticket)
    path.write_bytes(bytes(data)[:-1])
    with pytest.raises(Damaged, match="is not whole"):
        planned(opened, "latest")
    assert opened.savepoints.ids() == [FIRST, SECOND, THIRD]


def test_of_a_savepoint_that_is_taken_while_the_job_runs_the_files_are_merged_too(opened: RecoveryContext, tmp_path: Path) -> None:
    ticket = begun(opened, request())
    result = job_done(opened, ticket)
    newer = grow(opened, THIRD, FOURTH, tmp_path)
    done = compaction.publish(opened, ticket, result)
    assert (done.source_id, time_of(done.savepoint_id)) == (FOURTH, time_of(FOURTH))
    made = opened.savepoints.latest()
    assert made is not None
    assert (made.savepoint_id, made.captured_at) == (done.savepoint_id, newer.captured_at)
    assert rows_of(opened, made) == rows_of(opened, newer)
    assert [one.file.rows for one in made.topics[0].partitions[0].ranges if one.file] == [73, 10]
    assert compaction.publish(opened, ticket, result) == done
    assert checked(opened, "full").good


def test_one_that_was_named_is_merged_and_no_other(opened: RecoveryContext, tmp_path: Path) -> None:
    ticket = begun(opened, request(savepoint=THIRD))
    result = job_done(opened, ticket)
    grow(opened, THIRD, FOURTH, tmp_path)
    assert compaction.publish(opened, ticket, result).source_id == THIRD
    with pytest.raises(Refused, match=f"{THIRD} was merged already: {ticket.savepoint_id}"):
        planned(opened, THIRD)


def test_later_savepoints_and_merges_go_on_from_it(opened: RecoveryContext, tmp_path: Path) -> None:
    ticket = begun(opened, request())
    first = compaction.publish(opened, ticket, job_done(opened, ticket)).savepoint_id
    source = grow(opened, first, FOURTH, tmp_path, files=3)
    again = begun(opened, request("again"))
    assert (again.source_id, again.files, again.rows) == (FOURTH, 3, 30), "the large one is not written again for so little"
    last = compaction.publish(opened, again, job_done(opened, again)).savepoint_id
    newest = opened.savepoints.latest()
    assert newest is not None
    assert (newest.savepoint_id, newest.replaces) == (last, FOURTH)
    assert rows_of(opened, newest) == rows_of(opened, source)
    assert checked(opened, "full").good


def test_of_one_moment_the_one_that_was_made_last_is_the_newest(opened: RecoveryContext) -> None:
    ticket = begun(opened, request())
    first = compaction.publish(opened, ticket, job_done(opened, ticket)).savepoint_id
    made = opened.savepoints.read(first)
    assert made.provenance.merged_from is not None
    for run in ("x", "y", "z"):
        later = same_moment(first, run)
        origin = replace(made.provenance.merged_from, savepoint_id=first)
        opened.savepoints.publish(replace(made, savepoint_id=later, provenance=replace(made.provenance, run_id=run, merged_from=origin)))
        newest = opened.savepoints.latest()
        assert newest is not None
        assert newest.savepoint_id == later
        opened.repository.delete([opened.layout.manifest(later)])


@pytest.mark.fault("F20")
def test_a_run_that_was_killed_before_it_published_leaves_nothing_that_counts(opened: RecoveryContext) -> None:
    ticket = begun(opened, request())
    merged(opened, ticket)
    merged(opened, ticket)
    assert opened.savepoints.ids() == [FIRST, SECOND, THIRD]
    assert checked(opened, "full").good
    again = begun(opened, request("again"))
    done = compaction.publish(opened, again, job_done(opened, again))
    assert saved(done) == 4
    assert checked(opened, "full").good


@pytest.mark.fault("F20")
def test_a_result_of_another_run_is_no_result(opened: RecoveryContext) -> None:
    first, second = begun(opened, request()), begun(opened, request("another"))
    with pytest.raises(Refused, match="another attempt"):
        compaction.publish(opened, second, job_done(opened, first))


def test_publishing_waits_for_the_lock_and_gives_up(opened: RecoveryContext) -> None:
    ticket = begun(opened, request())
    result = job_done(opened, ticket)
    lock = opened.lock.acquire("a savepoint", lease_seconds=60, purpose="test")
    with pytest.raises(LockHeld):
        compaction.publish(opened, ticket, result, patience_seconds=0)
    opened.lock.release(lock)
    compaction.publish(opened, ticket, result)
    opened.lock.release(opened.lock.acquire("the next", lease_seconds=60, purpose="test"))


@pytest.mark.fault("F16")
def test_who_lost_the_lock_meanwhile_publishes_nothing(opened: RecoveryContext, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = begun(opened, request())
    result = job_done(opened, ticket)
    software = rewrite.software
    # As if it had been asleep for longer than its lease, and somebody had found it dead.
    monkeypatch.setattr(rewrite, "software", lambda: opened.lock.take_from(ticket.request.run) and software())
    with pytest.raises(LockLost):
        compaction.publish(opened, ticket, result)
    assert opened.savepoints.ids() == [FIRST, SECOND, THIRD]


def test_expiry_removes_the_source_at_once_and_its_small_files_when_nobody_names_them(golden: OpenGolden, opened: RecoveryContext) -> None:
    ticket = begun(opened, request())
    done = compaction.publish(opened, ticket, job_done(opened, ticket))
    kept = {decision.savepoint_id for decision in maintenance.plan_expiry(opened).keep}
    assert done.savepoint_id in kept
    assert THIRD not in kept
    maintenance.expire(opened, "first")
    small = [opened.layout.segment(LOG, start, start + 10, "a") for start in (55, 65, 75)]
    assert set(small) <= set(everything(opened)), "the grace period is not over"
    later = replace(opened, clock=lambda: T0 + 400 * 86_400_000)
    maintenance.expire(later, "second")
    assert not set(small) & set(everything(opened))
    made = opened.savepoints.latest()
    assert made is not None
    assert made.savepoint_id == done.savepoint_id
    assert made.whole(opened.repository.sizes(opened.layout.segments))
    assert checked(opened, "full").good


def test_a_savepoint_that_somebody_altered_is_not_built_on(opened: RecoveryContext) -> None:
    ticket = begun(opened, request())
    result = job_done(opened, ticket)
    key = opened.layout.manifest(THIRD)
    forged = codec.dumps(replace(opened.savepoints.outline(THIRD), cluster_id="another"))
    opened.repository.delete([key])
    opened.repository.create(key, zstandard.compress(forged))
    for what in (lambda: planned(opened, "latest"), lambda: compaction.publish(opened, ticket, result)):
        with pytest.raises(Damaged, match="that was published"):
            what()
    assert opened.savepoints.ids() == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize("how", list(How))
def test_what_a_rescale_has_made_stands_for_no_savepoint(opened: RecoveryContext, how: How) -> None:
    """It has other partitions: what is made of it would be the newest one, and retention would let the savepoint of the same moment go for it."""
    known = opened.savepoints.read(THIRD)
    log = RescaledLog(
        topic=LOG.topic, old=2, new=len(known.topics[0].partitions), form=None, records=known.topics[0].rows,
        keys_before=1, keys_after=1, digest_before="d", digest_after="d",
    )  # fmt: skip
    source = RescaledFrom(savepoint_id=THIRD, topics=(log,))
    made = replace(known, savepoint_id=same_moment(THIRD, "rescale"), provenance=replace(known.provenance, rescaled_from=source))
    opened.savepoints.publish(made)
    with pytest.raises(Refused, match="made by a rescale"):
        compaction.plan(opened, made.savepoint_id, how)
    assert compaction.plan(opened, "latest", How.SMALL_FILES).savepoint_id == THIRD
