"""Cuts by the names of transactions that an archiver takes of a real application at load: each is its state at one moment, and a restore begins from it."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.transforms.archived_state import StateLook
from streams_recovery.core.archive.log import Archive
from streams_recovery.core.archive.state import NoCut, StateTopics, at_cut, at_kept_cut, seen_before
from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.kafka_types import QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import NamedProof
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.kafka.named_transactions import impatient_named_logs
from streams_recovery.operations import archive, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.outputs_behind import listed_behind
from tests.support.applications.archiver import archiving
from tests.support.applications.named_counts import Log, NamedCounts, Truth, named_counts, saved_logs
from tests.support.applications.named_outputs import brought_back, by_command, not_once, results, skipped
from tests.support.applications.named_recovery import named_recovery
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import asked
from tests.support.spark.session import InSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]
PATIENT = {"survive_cluster_loss": True, "consistency": {"mode": "live", "timeout_seconds": 60}}
BY_THE_SECOND = {"enabled": True, "interval": "PT1S", "state": True}


@contextmanager
def recovery_of(counts: NamedCounts, *, running: bool = True) -> Iterator[RecoveryContext]:
    extra = {"bootstrap.servers": counts.bootstrap}
    with named_recovery(extra, counts.id, counts.directory, running=running, backup=PATIENT, archive=BY_THE_SECOND) as recovery:
        yield recovery


def savepoint(recovery: RecoveryContext) -> Manifest:
    """A savepoint of the application as it works."""
    taken = take(None, mode=QuiesceMode.LIVE, recovery=recovery)  # type: ignore[arg-type]
    return recovery.savepoints.read(taken.savepoint_id)


def some_cuts(
    recovery: RecoveryContext, session: InSession, base: Manifest, number: int
) -> list[tuple[Manifest, Mapping[TopicPartition, Log]]]:
    """The savepoint at so many cuts, each newer than the one before, with its records."""
    found: list[tuple[Manifest, Mapping[TopicPartition, Log]]] = []
    with archiving(recovery, session) as beside:
        at = base.captured_at
        while len(found) < number:
            there = at_cut(base, beside.once(lambda now, at=at: now.cut is not None and now.cut.captured_at > at, 60))
            assert isinstance(there, Manifest), there
            assert there.proof.names is not None, "it was not taken by names"
            found.append((there, saved_logs(recovery, there)))
            at = there.captured_at
    return found


@pytest.mark.parametrize(("number", "rate"), [(3, 300), pytest.param(40, 1_300, marks=pytest.mark.deep)])
def test_cuts_at_load_are_by_names_and_what_a_restore_makes_of_the_newest_is_what_was_true(
    bootstrap: str, tmp_path: Path, in_session: InSession, number: int, rate: int
) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader:
        with recovery_of(counts) as recovery:
            with counts.feeding(rate):
                counts.start()
                counts.start()
                counts.await_work(reader)
                base = savepoint(recovery)
                found = some_cuts(recovery, in_session, base, number)
                while counts.instances:
                    counts.kill()
            truth = Truth.of(counts, reader)
            wrong = [what for there, logs in found for what in truth.wrong_state(there.committed(), logs)]
            left_out = sum(there.proof.names.left_out for there, _ in found if there.proof.names is not None)
            sys.stdout.write(f"{counts.fed:,} lines fed: {len(found)} cuts, {left_out:,} records left out by name, wrong: {wrong}\n")
            assert wrong == []
            joined = archive.read_archive(recovery)
            kept = [at_kept_cut(base, joined, one.cut) for one in archive.kept_cuts(recovery)]
            assert len(kept) >= number
            for there in kept:
                assert isinstance(there, Manifest), there
                assert truth.wrong_state(there.committed(), saved_logs(recovery, there)) == []
            newest = at_cut(base, archive.read_archive(recovery))
            assert isinstance(newest, Manifest)
            assert newest.captured_at > base.captured_at
            recovery.groups.wait_empty(counts.id, 60)
            recovery.cluster.delete_topics(sorted({tp.topic for tp in (*counts.changelogs, *counts.between)}))
        with recovery_of(counts, running=False) as recovery:
            ticket = opened(recovery, asked(recovery, replace=True))
            planned = restore.stored_plan(recovery, ticket).part.state
            assert planned is not None
            assert planned.at == newest.captured_at
            saved(recovery, ticket)
            loaded(recovery, ticket)
            assert verified(recovery, ticket).rows_compared > 0
            restore.set_offsets(recovery, ticket)
            restored = Truth.of(counts, reader)
            assert restored.wrong_state(reader.committed(), restored.logs) == []
            restore.abandon(recovery, ticket)


@pytest.mark.parametrize("lost", [True, pytest.param(False, marks=pytest.mark.deep)], ids=["all is lost", "inputs and outputs stay"])
def test_each_result_is_there_once_after_a_restore_that_begins_from_a_cut(
    bootstrap: str, tmp_path: Path, in_session: InSession, lost: bool
) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader:
        counts.spread = True
        place, (output,) = tmp_path / "instance", {tp.topic for tp in counts.outputs}
        with named_recovery(
            {"bootstrap.servers": bootstrap},
            counts.id,
            tmp_path,
            backup=PATIENT,
            archive=BY_THE_SECOND,
            runs=by_command(counts, place, tmp_path / "state"),
            topics={"include": [output]},
        ) as recovery:
            with counts.feeding(200):
                recovery.application.start()
                counts.await_work(reader)
                base = savepoint(recovery)
                with archiving(recovery, in_session) as beside:
                    found = beside.once(lambda now: now.cut is not None and between_results(now.cut.proof.names, counts.outputs) > 0, 120)
                    beside.upto(counts.inputs[0])
                    os.kill(int((place / "pid").read_text()), signal.SIGKILL)
            recovery.groups.wait_empty(counts.id, 60)
            gone = {tp.topic for tp in (*counts.changelogs, *counts.between, *((*counts.inputs, *counts.outputs) if lost else ()))}
            recovery.cluster.delete_topics(sorted(gone))
            newest = archive.read_archive(recovery).cut
            assert found.cut is not None
            assert newest is not None
            assert base.captured_at < found.cut.captured_at <= newest.captured_at
            report = brought_back(recovery)
            assert report.captured_at == newest.captured_at
            assert counts.await_end(reader), "it has not read all of its input again"
            recovery.application.stop(timeout=60)
        truth = Truth.of(counts, reader)
        listed = listed_behind(recovery, report.restore_id)
        skip = skipped(listed)
        sys.stdout.write(
            f"lost: {lost}, {between_results(newest.proof.names, counts.outputs)} records between, {len(skip)} offsets listed\n"
        )
        assert truth.wrong_state(reader.committed(), truth.logs) == []
        assert not_once(counts, truth, results(truth, counts.outputs, skip)) == []
        assert (listed is None) == lost
        if listed is not None:
            assert all(one.exact for one in listed.outputs)
            assert not_once(counts, truth, results(truth, counts.outputs, ())) != [], "without skipping there are results twice"


def between_results(names: NamedProof | None, outputs: list[TopicPartition]) -> int:
    """How many records lie between those of the state in outputs. All outputs have names."""
    if names is None:
        return 0
    assert {*outputs} <= names.logs.keys(), "outputs are not told apart"
    return sum(names.logs[tp].left_out for tp in outputs)


@pytest.mark.deep
@pytest.mark.parametrize("rate", [330, 1_330])
def test_looks_of_an_archiver_find_a_cut_by_names_where_readings_of_what_stands_still_find_few(
    bootstrap: str, tmp_path: Path, rate: int
) -> None:
    """Three words come of a line: these are 1,000 and 4,000 records a second."""
    number, dice, tried = 100, random.Random(3), {"by names": 0, "still": 0}
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader, recovery_of(counts) as recovery:
        with counts.feeding(rate):
            counts.start()
            counts.start()
            counts.await_work(reader)
            base = savepoint(recovery)
            with impatient_named_logs(counts.id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as names:
                topics, why = StateTopics.of(base, ()), set[str]()
                read = topics.partitions(TopicRole.INPUT, TopicRole.REPARTITION)
                look = StateLook(
                    logs=replace(names.logs, read=read),
                    topics=topics,
                    described=recovery.cluster.describe_topics(list(topics.ids)),
                    before=seen_before(base, Archive()),
                )
                for _ in range(number):
                    for way, once in (("by names", lambda: look.by_names(names, 1)), ("still", lambda: look.still(1))):
                        time.sleep(dice.random() * 0.3)
                        try:
                            once()
                            tried[way] += 1
                        except (NoCut, OffsetsUnstable) as error:
                            why |= {str(error)[:100]} if way == "by names" else set()
        assert counts.await_end(reader)
    sys.stdout.write(f"{rate} lines a second, {counts.fed:,} fed; of {number} looks found a cut: {tried}; none by names: {sorted(why)}\n")
    assert tried["by names"] >= number * 97 // 100
    assert tried["by names"] > tried["still"]
