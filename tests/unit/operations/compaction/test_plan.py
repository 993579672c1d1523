"""The steps of a compaction on a golden repository, with the Spark job's result written by the test."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import zstandard

from streams_recovery.core import codec
from streams_recovery.core.compaction.values import CompactionPlan, CompactResult, CompactSpec, RangeCompacted
from streams_recovery.core.errors import Damaged, LockHeld, NotFound, Refused
from streams_recovery.core.repository.compaction_proof import CompactionProof
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import is_id, time_of
from streams_recovery.operations import compaction, maintenance
from streams_recovery.operations.compaction import CompactRequest, CompactTicket, How
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.project import GOLDEN
from tests.support.repository.golden import COMPACTED, FIRST, MERGED, SECOND, OpenGolden

CHANGELOG = "golden-totals-changelog"
SMALL = f"golden/segments/{CHANGELOG}/0/00000000000000000000-00000000000000000054-golden.parquet"


@pytest.fixture
def opened(golden: OpenGolden) -> tuple[RecoveryContext, RangeCompacted]:
    """A repository whose newest savepoint is not compacted yet, and what a job would have made of it: its file is there."""
    recovery = golden("compacted", stores="{totals: {kind: key-value}}")
    made = recovery.savepoints.read(COMPACTED)
    done = of_a_job(made)
    recovery.repository.delete([recovery.layout.manifest(COMPACTED)])
    return recovery, done


def of_a_job(made: Manifest) -> RangeCompacted:
    """What a job has left that this savepoint was made of."""
    topic = made.topic(CHANGELOG)
    assert topic is not None
    assert made.provenance.compacted_from is not None
    proof = made.provenance.compacted_from.proofs[0]
    return RangeCompacted(ranges=tuple(topic.partitions[0].ranges), problems=(), **codec.fields_of(CompactionProof, proof))


def request(run_id: str = "run", savepoint: str = "latest") -> CompactRequest:
    return CompactRequest(savepoint=savepoint, how=How.LATEST_PER_KEY, run_id=run_id, requested_by="me", reason="a test")


def planned(recovery: RecoveryContext, savepoint: str) -> CompactionPlan:
    return compaction.plan(recovery, savepoint, How.LATEST_PER_KEY)


def begun(recovery: RecoveryContext, wanted: CompactRequest) -> CompactTicket:
    return compaction.begin(recovery, wanted, planned(recovery, wanted.savepoint))


def job_done(recovery: RecoveryContext, ticket: CompactTicket, *partitions: RangeCompacted) -> ArtifactRef:
    key, result = compaction.plan_job(recovery, ticket).result_key, codec.dumps(CompactResult(ranges=partitions, seconds=1))
    assert key is not None
    recovery.repository.create(key, result)
    return ArtifactRef.of(key, result)


def everything(recovery: RecoveryContext) -> list[str]:
    return list(recovery.repository.keys("golden/"))


def test_a_plan_changes_nothing_and_says_why_what_stays_does(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, _ = opened
    before = everything(recovery)
    plan = planned(recovery, "latest")
    assert (plan.savepoint_id, [(one.tp.topic, one.tp.partition, one.rows) for one in plan.ranges]) == (SECOND, [(CHANGELOG, 0, 43)])
    assert plan.topics[0].stays == ("partitions 1: it has a gap",)
    assert "it has a gap" in compaction.compaction_text(plan)
    assert everything(recovery) == before


def test_a_compacted_savepoint_is_published_once_with_the_cut_of_its_source(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, done = opened
    ticket = begun(recovery, request())
    spec = compaction.plan_job(recovery, ticket).spec
    assert spec is not None
    assert recovery.artifacts.read(CompactSpec, spec).ranges == planned(recovery, "latest").ranges
    result = job_done(recovery, ticket, done)
    first = compaction.publish(recovery, ticket, result)
    assert (first.rows_before, first.rows_after, first.keys_compared, first.records_before - first.records) == (43, 3, 4, 40)
    assert first.stays == {CHANGELOG: "partitions 1: it has a gap"}
    assert is_id(first.savepoint_id)
    assert time_of(first.savepoint_id) == time_of(SECOND)
    made, source = recovery.savepoints.read(first.savepoint_id), recovery.savepoints.read(SECOND)
    assert (made.captured_at, made.proof, made.committed()) == (source.captured_at, source.proof, source.committed())
    assert (made.provenance.run_id, made.provenance.reason, made.replaces) == ("run", "a test", SECOND)
    assert recovery.savepoints.latest() == made
    again = compaction.publish(recovery, ticket, None)
    assert (again.savepoint_id, again.rows_after) == (first.savepoint_id, 3)
    assert len(recovery.savepoints.ids()) == 3


def test_what_is_compacted_is_not_compacted_again(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, done = opened
    ticket = begun(recovery, request())
    late = begun(recovery, request("another"))
    compaction.publish(recovery, ticket, job_done(recovery, ticket, done))
    nothing = begun(recovery, request("third"))
    assert (nothing.spec, nothing.source_id) == (None, ticket.savepoint_id)
    with pytest.raises(Refused, match=f"was compacted already: {ticket.savepoint_id}"):
        planned(recovery, SECOND)
    with pytest.raises(Refused, match="was compacted already"):
        compaction.publish(recovery, late, job_done(recovery, late, done))
    recovery.repository.delete([SMALL])
    assert planned(recovery, SECOND).ranges, "a damaged one stands for nothing"


@pytest.mark.parametrize("change", ["digest_after", "rows_before", "keys"])
def test_a_state_that_is_not_proven_is_never_published_and_lets_nothing_expire(
    opened: tuple[RecoveryContext, RangeCompacted], change: str
) -> None:
    recovery, done = opened
    ticket = begun(recovery, request())
    wrong = replace(done, **{change: "0" if change == "digest_after" else 0})
    with pytest.raises(Damaged, match="after its compaction") as caught:
        compaction.publish(recovery, ticket, job_done(recovery, ticket, wrong))
    assert (caught.value.facts["topic"], caught.value.facts["partition"]) == (done.tp.topic, done.tp.partition)
    assert recovery.savepoints.ids() == [FIRST, SECOND]
    assert [decision.savepoint_id for decision in maintenance.plan_expiry(recovery).keep] == [SECOND]
    with pytest.raises(Damaged, match="no compaction ran"):
        compaction.publish(recovery, ticket, None)


@pytest.mark.fault("F20")
def test_an_attempt_that_still_runs_does_not_take_the_place_of_the_next_one_s_result(
    opened: tuple[RecoveryContext, RangeCompacted],
) -> None:
    recovery, done = opened
    ticket = begun(recovery, request())
    earlier, again = compaction.plan_job(recovery, ticket), compaction.plan_job(recovery, ticket)
    assert earlier.spec == again.spec
    assert earlier.result_key != again.result_key
    result = job_done(recovery, ticket, done)
    recovery.repository.create(str(earlier.result_key), b"late")
    recovery.repository.create(str(again.result_key), b"late too")
    assert compaction.publish(recovery, ticket, result).savepoint_id == ticket.savepoint_id


@pytest.mark.fault("F20")
def test_a_result_of_another_run_is_not_published(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, done = opened
    first, second = begun(recovery, request()), begun(recovery, request("another"))
    result = job_done(recovery, first, done)
    with pytest.raises(Refused, match="another attempt") as caught:
        compaction.publish(recovery, second, result)
    assert caught.value.facts == {"what": result.key, "attempt": second.savepoint_id}
    assert recovery.savepoints.ids() == [FIRST, SECOND]


def test_publishing_takes_the_lock_and_gives_it_back(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, done = opened
    ticket = begun(recovery, request())
    result = job_done(recovery, ticket, done)
    lock = recovery.lock.acquire("an expiry", lease_seconds=60, purpose="test")
    with pytest.raises(LockHeld):
        compaction.publish(recovery, ticket, result, patience_seconds=0)
    assert ticket.savepoint_id not in recovery.savepoints.ids()
    done = threading.Timer(0.5, recovery.lock.release, [lock])
    done.start()
    compaction.publish(recovery, ticket, result)
    done.join()
    recovery.lock.release(recovery.lock.acquire("the next", lease_seconds=60, purpose="test"))


def test_a_source_that_is_gone_or_not_whole_is_not_built_on(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, done = opened
    ticket = begun(recovery, request())
    result = job_done(recovery, ticket, done)
    tail = next(key for key in recovery.repository.keys("golden/segments/golden-by-region-repartition/"))
    kept = recovery.repository.get(tail)
    recovery.repository.delete([tail])
    with pytest.raises(Damaged, match="is not whole") as caught:
        planned(recovery, "latest")
    assert caught.value.commands == (f"streams-recovery verify golden {SECOND}",)
    with pytest.raises(Damaged, match="is not whole"):
        compaction.publish(recovery, ticket, result)
    assert ticket.savepoint_id not in recovery.savepoints.ids()
    recovery.repository.create(tail, kept)
    recovery.repository.delete([recovery.layout.manifest(SECOND)])
    with pytest.raises(NotFound, match=SECOND):
        compaction.publish(recovery, ticket, result)


def test_a_savepoint_that_somebody_altered_is_not_built_on(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, _ = opened
    later = "20261121T020000Z-0000000004"
    recovery.savepoints.publish(replace(recovery.savepoints.read(SECOND), savepoint_id=later))
    assert planned(recovery, "latest").savepoint_id == later
    key = recovery.layout.manifest(later)
    recovery.repository.delete([key])
    forged = codec.dumps(replace(recovery.savepoints.read(SECOND), savepoint_id=later, cluster_id="another"))
    recovery.repository.create(key, zstandard.compress(forged))
    with pytest.raises(Damaged, match="that was published") as caught:
        planned(recovery, "latest")
    assert caught.value.facts == {"savepoint": later}


def test_a_run_that_takes_savepoints_under_the_same_name_is_another_run(opened: tuple[RecoveryContext, RangeCompacted]) -> None:
    recovery, done = opened
    run_id = recovery.savepoints.read(SECOND).provenance.run_id
    ticket = begun(recovery, request("scheduled__2026-11-21"))
    compaction.publish(recovery, ticket, job_done(recovery, ticket, done))
    assert recovery.savepoints.published_by_run("scheduled__2026-11-21") is None
    assert recovery.savepoints.published_by_run(run_id) is None


def test_without_a_declared_kind_everything_stays(golden: OpenGolden) -> None:
    recovery = golden("good")
    ticket = begun(recovery, request())
    assert ticket.spec is None
    assert "declare it under `stores`" in ticket.stays[CHANGELOG]
    assert compaction.plan_job(recovery, ticket).spec is None
    with pytest.raises(NotFound):
        planned(golden("no-manifest", place="empty"), "latest")


@pytest.mark.parametrize("source_expires", [False, True])
def test_what_was_merged_while_the_job_ran_is_compacted_from_the_merged_one(golden: OpenGolden, source_expires: bool) -> None:
    recovery = golden("merged", stores="{totals: {kind: key-value}}")
    key = recovery.layout.manifest(MERGED)
    merged = recovery.repository.get(key)
    recovery.repository.delete([key])
    ticket = begun(recovery, request(savepoint=SECOND))
    recovery.repository.create(key, merged)
    if source_expires:
        recovery.repository.delete([recovery.layout.manifest(SECOND)])
    recovery.repository.create(SMALL, (GOLDEN / "compacted" / SMALL).read_bytes())
    made = SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(GOLDEN / "compacted"))), recovery.layout).read(
        COMPACTED
    )
    done = of_a_job(made)
    published = compaction.publish(recovery, ticket, job_done(recovery, ticket, done))
    assert published.source_id == MERGED
    newest = recovery.savepoints.latest()
    assert newest is not None
    assert (newest.savepoint_id, newest.replaces, newest.provenance.merged_from) == (published.savepoint_id, MERGED, None)
    with pytest.raises(Refused, match=f"{MERGED} was compacted already: {published.savepoint_id}"):
        planned(recovery, SECOND)


def test_one_that_was_merged_is_compacted_in_place_of_the_one_that_was_asked_for(golden: OpenGolden) -> None:
    recovery = golden("merged", stores="{totals: {kind: key-value}}")
    assert planned(recovery, SECOND).savepoint_id == planned(recovery, "latest").savepoint_id == MERGED
