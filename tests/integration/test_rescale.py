"""Other numbers of partitions for real applications, by the whole way: every key goes on as if there had always been so many."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ConfigInvalid, NotFound, PlanChanged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.rescale.placement import RescaledTopic
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.state.edit import default_partition
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.rescale.derive import plan_derivation
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.strategies import Rescale, Undo
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.workflows.restore import KEEP_PLACED, PREPARE_TOPICS, RESCALE
from tests.support.applications import shape_inputs, shape_oracles
from tests.support.applications.counting import Counting
from tests.support.applications.shapes import RESCALED, Fleet, Open
from tests.support.applications.small import asked
from tests.support.applications.topic_records import aborted

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]


def grown(recovery: RecoveryContext, topics: Sequence[str], number: int) -> None:
    """As ``kafka-topics --alter`` does."""
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    for done in admin.create_partitions([NewPartitions(topic, number) for topic in topics]).values():
        done.result(30)


@pytest.mark.deep
@pytest.mark.parametrize("fleet", RESCALED.values(), ids=RESCALED)
def test_every_key_goes_on_when_partitions_are_more_and_then_fewer(opened: Open, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(fleet)
    app.start()
    app.feed_part(1)
    for number, partitions in ((2, 5), (3, 3)):
        app.backup()
        # What is processed since the savepoint is in the state that the run takes itself.
        app.feed_part(number)
        report = app.rescale(partitions)
        assert report.verdict is Verdict.EQUAL
        topics = app.recovery.cluster.describe_topics(app.internal())
        assert {topic.partitions for topic in topics.values()} == {partitions}
    # What waits for the time of a partition is told when the last records have moved it in each.
    for module in (shape_oracles, shape_inputs):
        monkeypatch.setattr(module, "PARTITIONS", partitions)
    app.feed_part(4, last=True)
    app.check()


@pytest.mark.deep
def test_an_input_that_was_grown_already_only_gets_its_offsets(opened: Open) -> None:
    app = opened(Fleet(shapes=("tables",), mode="stop"))
    app.start()
    app.feed_part(1)
    app.backup()
    app.feed_part(2)
    app.recovery.application.stop(timeout=60)
    inputs = app.recovery.config.topics.inputs
    before = app.recovery.cluster.describe_topics(inputs)
    # Markers behind what was read are no records.
    for topic in inputs:
        aborted(app.recovery, TopicPartition(topic, 0))
    grown(app.recovery, inputs, 6)
    assert app.rescale(6).verdict is Verdict.EQUAL
    after = app.recovery.cluster.describe_topics(inputs)
    assert {name: found.topic_id for name, found in after.items()} == {name: found.topic_id for name, found in before.items()}
    app.feed_part(3, last=True)
    app.check()
    with pytest.raises(Refused, match="was grown before the rescale"):
        restore.plan(app.recovery, asked(app.recovery, Undo, replace=True, delete=tuple(app.internal())))


@pytest.fixture
def counting(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    """An application that counts, whose input is archived, at work."""
    app = Counting(bootstrap=bootstrap, directory=tmp_path)
    app.configure(
        topics={"inputs": [app.input.topic], "outputs": [app.output.topic], "include": [app.input.topic]},
        restore={"producers_still_seconds": 1, "catch_up_timeout_seconds": 30},
    )
    app.build()
    app.worked("abcab")
    yield app
    app.tidy()


def asking(app: Counting, recovery: RecoveryContext, number: int = 3, **wanted: object) -> Rescale:
    found = asked(recovery, Rescale, **{"replace": True, "partitions": f"{app.input.topic}={number}", **wanted})
    assert isinstance(found, Rescale)
    return found


def begun(runner: Runner, request: Rescale) -> RestoreTicket:
    planned = restore.plan(runner.recovery, request)
    return restore.open_restore(runner.recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)


def found_in(app: Counting, topic: str, number: int) -> dict[str, str]:
    return {key: value for at in range(number) for key, value in app.rows(TopicPartition(topic, at))}


STEPS = [step.name for step in RESCALE.steps]


@pytest.mark.deep
@pytest.mark.fault("F50")
@pytest.mark.parametrize("last", STEPS[STEPS.index("keep_placed") : STEPS.index("start_application") + 1])
def test_a_run_that_is_killed_behind_a_step_is_gone_on_with(counting: Counting, in_session: Submitter, last: str) -> None:
    counting.savepoint(in_session)
    counting.worked("cabdef")
    keys = counting.truth()
    with counting.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        ticket = begun(runner, asking(counting, recovery, history=True))
        steps = RESCALE.steps[: STEPS.index(last) + 1]
        runner.take(steps, {RESCALE.opening.name: ticket}).require(steps[-1])
        again = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        if last == "keep_placed":
            # Nothing is replaced yet: the application goes on as it was, and a new run places records again.
            restore.abandon(recovery, ticket)
            assert counting.state() == keys
            report = runs.restore_in_place(runner, asking(counting, recovery, history=True), again, approve=lambda _: True)
        else:
            report = runs.resume(runner, ticket.restore_id, again, take_over=True, approve=lambda _: True)
    assert report.verdict is Verdict.EQUAL
    assert {key: int(value) for key, value in found_in(counting, counting.changelog.topic, 3).items()} == keys
    assert sorted(found_in(counting, counting.input.topic, 3)) == sorted(keys)


def test_what_is_in_the_way_is_refused_before_anything_is_stopped(counting: Counting, in_session: Submitter) -> None:
    with counting.recovery() as recovery:
        with pytest.raises(NotFound, match="no exact savepoint"):
            restore.plan(recovery, asking(counting, recovery))
        counting.savepoint(in_session)
        for own, small in ((None, True), ("mine", False)):
            topic = RescaledTopic(name=counting.changelog.topic, old=1, new=3, own=own)
            volume = plan_derivation(recovery, counting.newest(), (topic,), work="proof", prove_only=True).volume
            assert (volume is not None and volume.small) is small
        counting.start()
        assert "| 1 | 3 |" in restore.plan(recovery, asking(counting, recovery)).text
        with pytest.raises(ConfigInvalid, match="is no number"):
            restore.plan(recovery, asking(counting, recovery, 0))
        with pytest.raises(Refused, match="would not create"):
            restore.plan(recovery, asking(counting, recovery, 20_000))
        recovery.groups.set_offsets("another", {counting.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
        with pytest.raises(Refused, match="group another reads"):
            restore.plan(recovery, asking(counting, recovery))
        recovery.groups.delete("another")
        assert counting.running
    counting.configure(topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic]})
    with counting.recovery() as recovery, pytest.raises(Refused, match="are not archived"):
        restore.plan(recovery, asking(counting, recovery))


@pytest.mark.deep
def test_a_record_that_comes_behind_the_savepoint_of_the_stop_is_not_deleted(counting: Counting, in_session: Submitter) -> None:
    counting.savepoint(in_session)
    with counting.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        ticket = begun(runner, asking(counting, recovery))
        steps = RESCALE.steps[: STEPS.index("keep_placed") + 1]
        results = runner.take(steps, {RESCALE.opening.name: ticket}).results
        counting.feed("z")
        with pytest.raises(PlanChanged, match="records came to"):
            runner.take((PREPARE_TOPICS,), results).require(PREPARE_TOPICS)
        restore.abandon(recovery, ticket)
    assert [key for key, _ in counting.rows(counting.input)] == list("abcabz")


def test_a_producer_that_wrote_while_records_were_placed_does_not_stand_still(counting: Counting, in_session: Submitter) -> None:
    counting.savepoint(in_session)
    with counting.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        steps = RESCALE.steps[: STEPS.index("place_records") + 1]
        ticket = begun(runner, asking(counting, recovery))
        results = runner.take(steps, {RESCALE.opening.name: ticket}).results
        counting.feed("z")
        with pytest.raises(Refused, match="a producer writes to"):
            runner.take((KEEP_PLACED,), results).require(KEEP_PLACED)
        restore.abandon(recovery, ticket)
    assert [key for key, _ in counting.rows(counting.input)] == list("abcabz")


def test_records_of_a_producer_that_knew_the_old_number_are_told(counting: Counting, in_session: Submitter) -> None:
    counting.savepoint(in_session)
    with counting.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        again = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        runs.restore_in_place(runner, asking(counting, recovery), again, approve=lambda _: True)

        def warned() -> list[str]:
            wanted = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)
            return [one for one in runs.backup(runner, wanted).warnings if "behind its rescale" in one]

        right = [key for key in "abcdefghijkl" if default_partition(key.encode(), 3) == 0]
        wrong = [key for key in "abcdefghijkl" if default_partition(key.encode(), 3) != 0]
        # The test's producer puts all into the partition of old.
        counting.feed("".join(right))
        assert warned() == []
        counting.feed("".join(wrong[:3]))
        (told,) = warned()
        assert told.startswith(f"3 of the first 3 records that came to {counting.input.topic}")
        assert "in partitions 0: a producer went on with 1 partitions" in told
        # An hour later producers know.
        runner = replace(runner, recovery=replace(recovery, clock=lambda: time.time_ns() // 1_000_000 + 2 * 3_600_000))
        warned()
        counting.feed("".join(wrong[3:]))
        assert warned() == []


def test_behind_an_undo_nobody_looks_for_records_of_a_rescale(counting: Counting, in_session: Submitter) -> None:
    counting.savepoint(in_session)
    with counting.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        for request in (asking(counting, recovery), asked(recovery, Undo, replace=True)):
            again = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
            runs.restore_in_place(runner, request, again, approve=lambda _: True)
        wanted = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)
        assert not [one for one in runs.backup(runner, wanted).warnings if "was not found out" in one]


@pytest.mark.way("rescale")
def test_what_has_come_since_is_taken_back_by_a_rescale_and_by_no_undo(counting: Counting, in_session: Submitter) -> None:
    counting.savepoint(in_session)
    with counting.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        again = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        runs.restore_in_place(runner, asking(counting, recovery), again, approve=lambda _: True)
        counting.feed("z")
        with pytest.raises(Refused, match="has new records since") as refused:
            restore.plan(recovery, asked(recovery, Undo, replace=True))
        assert f"--partitions {counting.input.topic}=1" in refused.value.next_step
        # Of the savepoint from before it is not known what has these numbers.
        with pytest.raises(Refused, match="has 3 and had 1") as older:
            restore.plan(recovery, asking(counting, recovery, 1))
        assert "take a savepoint first" in older.value.next_step
