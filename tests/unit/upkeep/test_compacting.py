"""The steps of a reduction on a golden repository, with the Spark job's result written by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
import zstandard

from streams_recovery.core import codec
from streams_recovery.core.compaction.plan import PartitionReduced, ReduceResult, ReduceSpec
from streams_recovery.core.errors import Damaged, LockHeld, NotFound, Refused
from streams_recovery.core.ids import is_id, time_of
from streams_recovery.core.run_artifact import NoteRef
from streams_recovery.operations import compaction, maintenance
from streams_recovery.operations.compaction import CompactRequest, CompactTicket
from streams_recovery.operations.context import Workbench
from tests.data.make_golden import FIRST, REDUCED, SECOND

OpenGolden = Callable[..., Workbench]
CHANGELOG = "golden-totals-changelog"
SMALL = f"golden/segments/{CHANGELOG}/0/00000000000000000000-00000000000000000054-golden.parquet"


@pytest.fixture
def opened(golden: OpenGolden) -> tuple[Workbench, PartitionReduced]:
    """A repository whose newest savepoint is not reduced yet, and what a job would have made of it: its file is there."""
    bench = golden("reduced", stores="{totals: {kind: key-value}}")
    made = bench.savepoints.read(REDUCED)
    topic = made.topic(CHANGELOG)
    assert topic is not None
    assert made.provenance.reduced_from is not None
    done = PartitionReduced(
        topic=CHANGELOG,
        partition=0,
        ranges=topic.partitions[0].ranges,
        proof=made.provenance.reduced_from.proofs[0],
        foreign=0,
        problems=(),
    )
    bench.repository.delete([bench.layout.manifest(REDUCED)])
    return bench, done


def request(run_id: str = "run", savepoint: str = "latest") -> CompactRequest:
    return CompactRequest(savepoint=savepoint, run_id=run_id, requested_by="me", reason="a test")


def begun(bench: Workbench, wanted: CompactRequest) -> CompactTicket:
    return compaction.begin(bench, wanted, compaction.plan(bench, wanted.savepoint))


def job_done(bench: Workbench, ticket: CompactTicket, *partitions: PartitionReduced) -> NoteRef:
    key, result = compaction.plan_job(bench, ticket).result_key, codec.dumps(ReduceResult(partitions=partitions, seconds=1))
    assert key is not None
    bench.repository.create(key, result)
    return NoteRef.of(key, result)


def everything(bench: Workbench) -> list[str]:
    return list(bench.repository.keys("golden/"))


def test_a_plan_changes_nothing_and_says_why_what_stays_does(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, _ = opened
    before = everything(bench)
    plan = compaction.plan(bench, "latest")
    assert (plan.savepoint_id, [(one.topic, one.partition, one.rows) for one in plan.partitions]) == (SECOND, [(CHANGELOG, 0, 43)])
    assert plan.topics[0].stays == ("partitions 1: it has a gap",)
    assert "it has a gap" in compaction.reduction_text(plan)
    assert everything(bench) == before


def test_a_reduced_savepoint_is_published_once_with_the_cut_of_its_source(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    ticket = begun(bench, request())
    spec = compaction.plan_job(bench, ticket).spec
    assert spec is not None
    assert bench.notes.read(ReduceSpec, spec).partitions == compaction.plan(bench, "latest").partitions
    result = job_done(bench, ticket, done)
    first = compaction.publish(bench, ticket, result)
    assert (first.rows_before, first.rows_after, first.keys_compared, first.records_before - first.records) == (43, 3, 4, 40)
    assert first.stays == {CHANGELOG: "partitions 1: it has a gap"}
    assert is_id(first.savepoint_id)
    assert time_of(first.savepoint_id) == time_of(SECOND)
    made, source = bench.savepoints.read(first.savepoint_id), bench.savepoints.read(SECOND)
    assert (made.captured_at, made.proof, made.committed()) == (source.captured_at, source.proof, source.committed())
    assert (made.provenance.run_id, made.provenance.reason, made.replaces) == ("run", "a test", SECOND)
    assert bench.savepoints.latest() == made
    again = compaction.publish(bench, ticket, None)
    assert (again.savepoint_id, again.rows_after) == (first.savepoint_id, 3)
    assert len(bench.savepoints.ids()) == 3


def test_what_is_reduced_is_not_reduced_again(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    ticket = begun(bench, request())
    late = begun(bench, request("another"))
    compaction.publish(bench, ticket, job_done(bench, ticket, done))
    nothing = begun(bench, request("third"))
    assert (nothing.spec, nothing.source_id) == (None, ticket.savepoint_id)
    with pytest.raises(Refused, match=f"was reduced already: {ticket.savepoint_id}"):
        compaction.plan(bench, SECOND)
    with pytest.raises(Refused, match="was reduced already"):
        compaction.publish(bench, late, job_done(bench, late, done))
    bench.repository.delete([SMALL])
    assert compaction.plan(bench, SECOND).partitions, "a damaged one stands for nothing"


@pytest.mark.parametrize("change", ["digest_after", "rows_before", "keys"])
def test_a_state_that_is_not_proven_is_never_published_and_lets_nothing_expire(
    opened: tuple[Workbench, PartitionReduced], change: str
) -> None:
    bench, done = opened
    ticket = begun(bench, request())
    wrong = replace(done, proof=replace(done.proof, **{change: "0" if change == "digest_after" else 0}))
    with pytest.raises(Damaged, match="is not the same after its reduction"):
        compaction.publish(bench, ticket, job_done(bench, ticket, wrong))
    assert bench.savepoints.ids() == [FIRST, SECOND]
    assert [decision.savepoint_id for decision in maintenance.plan_expiry(bench).keep] == [SECOND]
    with pytest.raises(Damaged, match="no reduction ran"):
        compaction.publish(bench, ticket, None)


@pytest.mark.fault("F20")
def test_an_attempt_that_still_runs_does_not_take_the_place_of_the_next_one_s_result(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    ticket = begun(bench, request())
    earlier, again = compaction.plan_job(bench, ticket), compaction.plan_job(bench, ticket)
    assert earlier.spec == again.spec
    assert earlier.result_key != again.result_key
    result = job_done(bench, ticket, done)
    bench.repository.create(str(earlier.result_key), b"late")
    bench.repository.create(str(again.result_key), b"late too")
    assert compaction.publish(bench, ticket, result).savepoint_id == ticket.savepoint_id


@pytest.mark.fault("F20")
def test_a_result_of_another_run_is_not_published(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    first, second = begun(bench, request()), begun(bench, request("another"))
    result = job_done(bench, first, done)
    with pytest.raises(Refused, match=f"{first.savepoint_id}.* is of another attempt, and this one is {second.savepoint_id}"):
        compaction.publish(bench, second, result)
    assert bench.savepoints.ids() == [FIRST, SECOND]


def test_publishing_takes_the_lock_and_gives_it_back(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    ticket = begun(bench, request())
    result = job_done(bench, ticket, done)
    lock = bench.lock.acquire("an expiry", lease_seconds=60, purpose="test")
    with pytest.raises(LockHeld):
        compaction.publish(bench, ticket, result, patience_seconds=0)
    assert ticket.savepoint_id not in bench.savepoints.ids()
    done = threading.Timer(0.5, bench.lock.release, [lock])
    done.start()
    compaction.publish(bench, ticket, result)
    done.join()
    bench.lock.release(bench.lock.acquire("the next", lease_seconds=60, purpose="test"))


def test_a_source_that_is_gone_or_not_whole_is_not_built_on(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    ticket = begun(bench, request())
    result = job_done(bench, ticket, done)
    tail = next(key for key in bench.repository.keys("golden/segments/golden-by-region-repartition/"))
    kept = bench.repository.get(tail)
    bench.repository.delete([tail])
    with pytest.raises(Damaged, match="is not whole"):
        compaction.plan(bench, "latest")
    with pytest.raises(Damaged, match="nothing was published") as caught:
        compaction.publish(bench, ticket, result)
    assert ticket.savepoint_id in str(caught.value)
    bench.repository.create(tail, kept)
    bench.repository.delete([bench.layout.manifest(SECOND)])
    with pytest.raises(NotFound, match=SECOND):
        compaction.publish(bench, ticket, result)


def test_a_savepoint_that_somebody_altered_is_not_built_on(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, _ = opened
    later = "20261121T020000Z-0000000004"
    bench.savepoints.publish(replace(bench.savepoints.read(SECOND), savepoint_id=later))
    assert compaction.plan(bench, "latest").savepoint_id == later
    key = bench.layout.manifest(later)
    bench.repository.delete([key])
    forged = codec.dumps(replace(bench.savepoints.read(SECOND), savepoint_id=later, cluster_id="another"))
    bench.repository.create(key, zstandard.compress(forged))
    with pytest.raises(Damaged, match="is not the one that was published"):
        compaction.plan(bench, "latest")


def test_a_run_that_takes_savepoints_under_the_same_name_is_another_run(opened: tuple[Workbench, PartitionReduced]) -> None:
    bench, done = opened
    run_id = bench.savepoints.read(SECOND).provenance.run_id
    ticket = begun(bench, request("scheduled__2026-11-21"))
    compaction.publish(bench, ticket, job_done(bench, ticket, done))
    assert bench.savepoints.published_by_run("scheduled__2026-11-21") is None
    assert bench.savepoints.published_by_run(run_id) is None


def test_without_a_declared_kind_everything_stays(golden: OpenGolden) -> None:
    bench = golden("good")
    ticket = begun(bench, request())
    assert ticket.spec is None
    assert "declare it under `stores`" in ticket.stays[CHANGELOG]
    assert compaction.plan_job(bench, ticket).spec is None
    with pytest.raises(NotFound):
        compaction.plan(golden("no-manifest", place="empty"), "latest")
