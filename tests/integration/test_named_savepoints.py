"""Savepoints by the names of transactions, of a real application at load on a broker: each has the state of one moment, and nothing was held for it."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import capture, finish, quiesce
from tests.support.applications.named_counts import NamedCounts, Truth, named_counts, newest, saved_logs
from tests.support.applications.named_recovery import ONE_INSTANCE, PATIENT, named_recovery, saved, why_not
from tests.support.applications.pair import Here
from tests.support.applications.savepoint_steps import begun
from tests.support.applications.small import asked

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
AHEAD = {"mode": "live", "timeout_seconds": 60, "attempts": 2, "require": "ahead_allowed"}


def some_savepoints(counts: NamedCounts, number: int, rate: int, meanwhile: Callable[[int], object]) -> tuple[list[Manifest], list[str]]:
    """So many savepoints at load, and what is wrong with them."""
    dice, found = random.Random(5), list[Manifest]()
    with (
        counts.reader() as reader,
        named_recovery({"bootstrap.servers": counts.bootstrap}, counts.id, counts.directory, backup=PATIENT) as recovery,
    ):
        with counts.feeding(rate):
            counts.start()
            counts.start()
            counts.await_work(reader)
            for at in range(number):
                time.sleep(dice.random() * 0.5)
                found.append(saved(recovery))
                assert proven_again(recovery, found[-1]), "the logs are there"
                meanwhile(at)
        truth = Truth.of(counts, reader)
        wrong = [wrong for one in found for wrong in truth.wrong_state(one.committed(), saved_logs(recovery, one))]
        return found, [*wrong, *(one.savepoint_id for one in found if not outputs_end_where_the_state_ends(counts, truth, recovery, one))]


def proven_again(recovery: RecoveryContext, found: Manifest) -> bool:
    """Whether all logs have what its cut says of them. Between two transactions there may be nothing that a look could name."""
    assert found.proof.names is not None
    between = {tp for tp, log in found.proof.names.logs.items() if log.start < log.end}
    if not between:
        with pytest.raises(Refused, match="nothing was written then"):
            maintenance.prove_cut(recovery, found.savepoint_id)
        return True
    again = maintenance.prove_cut(recovery, found.savepoint_id)
    return ({*again.proven}, again.gone) == (between, ())


def outputs_end_where_the_state_ends(counts: NamedCounts, truth: Truth, recovery: RecoveryContext, found: Manifest) -> bool:
    """Whether the last result of each word, of the records that are of the state, is its count there."""
    assert found.proof.names is not None
    shown = {}
    for tp in counts.outputs:
        log = found.proof.names.logs[tp]
        out = {offset for one in log.excluded for offset in range(one.first, one.last + 1)}
        shown[tp] = [record for record in truth.logs[tp] if record[0] < log.end and record[0] not in out]
    return newest(shown, counts.outputs) == newest(saved_logs(recovery, found), counts.counted)


@pytest.mark.parametrize(
    ("protocol", "number", "rate"),
    [("classic", 2, 300), *(pytest.param(protocol, 40, 1_000, marks=pytest.mark.deep) for protocol in ("classic", "streams"))],
)
def test_a_savepoint_of_an_application_at_work_is_its_state_at_one_moment(
    bootstrap: str, tmp_path: Path, protocol: str, number: int, rate: int
) -> None:
    with named_counts(bootstrap, tmp_path, protocol) as counts:

        def kill_sometimes(at: int) -> None:
            if at % 10 == 0:
                counts.kill()
                counts.start()

        found, wrong = some_savepoints(counts, number, rate, kill_sometimes)
    left_out = sum(one.proof.names.left_out for one in found if one.proof.names is not None)
    sys.stdout.write(
        f"{protocol}, {counts.fed:,} lines fed: {len(found)} savepoints, {left_out:,} records left out by name, wrong: {wrong}\n"
    )
    assert wrong == []
    first, last = found[0], found[-1]
    read = [sum(one.committed()[tp].offset for tp in counts.inputs) for one in (first, last)]
    assert 0 < read[0] < read[1]
    assert last.parent_id == found[-2].savepoint_id
    shared = [topic.partitions[0].ranges[0].file for one in (first, last) for topic in one.topics if topic.role is TopicRole.CHANGELOG]
    assert shared[: len(shared) // 2] == shared[len(shared) // 2 :], "later ones share the files of the first"


def test_what_has_no_names_or_could_not_be_proven_is_saved_as_before(bootstrap: str, tmp_path: Path) -> None:
    extra = {"bootstrap.servers": bootstrap}
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader, counts.feeding(100):
        counts.start()
        counts.await_work(reader)
        loop = {"inputs": [f"{counts.id}.in"], "outputs": [f"{counts.id}.in"]}
        with named_recovery(extra, counts.id, tmp_path, topics=loop) as recovery:
            assert why_not(recovery) == f"it reads {counts.id}.in, which it writes too"
        guarantee = {"id": counts.id, "guarantee": "at_least_once"}
        with named_recovery(extra, counts.id, tmp_path, application=guarantee) as recovery:
            assert why_not(recovery) == "at_least_once has no transactions"
        with named_recovery(extra, counts.id, tmp_path, backup=PATIENT) as recovery:
            own = saved(recovery).proof.names
            other = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"billing-{counts.id}"})
            other.init_transactions(30)
            other.begin_transaction()
            other.produce(counts.outputs[0].topic, b"value", b"key", 0)
            other.commit_transaction(30)
            counts.await_more(reader)
            shared = saved(recovery).proof.names
            assert own is not None
            assert shared is not None
            assert {*counts.outputs} <= own.logs.keys()
            assert shared.logs.keys() == own.logs.keys() - {*counts.outputs}, "they have another writer, which is idle"
        # One that is gone by now: the look sees none of its records.
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        producer.produce(counts.changelogs[0].topic, b"value", b"key", 0)
        assert producer.flush(30) == 0
        counts.await_more(reader)
        with named_recovery(extra, counts.id, tmp_path, backup={**PATIENT, "consistency": AHEAD}) as recovery:
            assert why_not(recovery) == "the changelog writers are not proven transactional"
            ticket = begun(recovery, QuiesceMode.LIVE)
            try:
                found = capture(recovery, ticket, quiesce(recovery, ticket))
            finally:
                finish(recovery, ticket)
    assert (found.consistency, found.left_out) == (Consistency.AHEAD, None)


@pytest.mark.deep
def test_an_application_that_is_lost_at_load_goes_on_from_such_a_savepoint_and_counts_everything_once(
    bootstrap: str, tmp_path: Path
) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader:
        place, state = tmp_path / "instance", tmp_path / "state"
        verbs = {verb: [sys.executable, ONE_INSTANCE, str(place), verb, str(state)] for verb in ("status", "stop", "wipe")}
        verbs["start"] = [sys.executable, ONE_INSTANCE, str(place), "start", str(state), *counts.command(state)]
        runs_here = {"kind": "command", "command": verbs}
        with named_recovery({"bootstrap.servers": bootstrap}, counts.id, tmp_path, backup=PATIENT, runs=runs_here) as recovery:
            with counts.feeding(500):
                recovery.application.start()
                counts.await_work(reader)
                first = saved(recovery)
                time.sleep(2)
                second = saved(recovery)
                time.sleep(1)
                os.kill(int((place / "pid").read_text()), signal.SIGKILL)
            recovery.groups.wait_empty(counts.id, 60)
            recovery.cluster.delete_topics(sorted({tp.topic for tp in (*counts.changelogs, *counts.between)}))
            runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
            requester = runs.Requester(run_id="lost", requested_by="test")
            runs.restore_in_place(runner, asked(recovery, savepoint=second.savepoint_id, replace=True), requester, approve=lambda _: True)
            assert counts.await_end(reader), "it has not read all of its input again"
            recovery.application.stop(timeout=60)
        truth = Truth.of(counts, reader)
        assert second.parent_id == first.savepoint_id
        assert {tp: offset.offset for tp, offset in reader.committed().items() if tp in counts.inputs} == {
            tp: len(truth.logs[tp]) for tp in counts.inputs
        }
        assert truth.wrong_state(reader.committed(), truth.logs) == []
