"""Restores that failed: what the next attempt goes on with, what it begins again, and what it refuses. In one Spark session."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from streams_recovery.cli import runs
from streams_recovery.core.errors import (
    ApplicationRunning,
    Damaged,
    LockHeld,
    LockLost,
    NotFound,
    OffsetsUnstable,
    PrefixDiffers,
    Refused,
    TargetNotEmpty,
)
from streams_recovery.core.jobs.spec import PartitionLoaded, RestoreResult, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK, marked
from streams_recovery.kafka.clients import Clients
from streams_recovery.operations import restore, topic_holds
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.restore.load import load_progress, rows_at_first
from streams_recovery.operations.restore.open import stored_plan
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.kafka.records import end_of, write
from tests.support.kafka.topic_settings import alter
from tests.support.spark.interrupted_restore import PARTITIONS, ROWS

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SAVED = (10, "AgAAAYvP4/gA")


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_a_load_goes_on_behind_what_is_there(case):
    ticket = case.created()
    first, second = case.app.logs
    write(case.recovery.connection, first, case.saved_rows(0)[:137])
    write(case.recovery.connection, second, case.saved_rows(1))
    before = case.topic_id()
    loaded = case.load(ticket)
    assert (loaded.rows, loaded.present) == (PARTITIONS * ROWS, 137 + ROWS)
    assert case.topic_id() == before
    assert case.app.contents() == case.truth
    assert restore.phase_of(case.recovery, ticket) is Phase.LOADED


def changed(rows):
    stamp, key, value, headers = rows[-1]
    return {
        "another value": [*rows[:-1], (stamp, key, value + b"x", headers)],
        "another time": [*rows[:-1], (stamp + 1, key, value, headers)],
        "headers gone": [*rows[:-1], (stamp, key, value, None)],
        "a row left out": [*rows[:3], *rows[4:]],
        "a row twice": [*rows[:3], rows[3], *rows[3:]],
        "other order": [rows[1], rows[0], *rows[2:]],
    }


@pytest.mark.deep
@pytest.mark.parametrize(
    "how",
    [
        "another value",
        *(
            pytest.param(how, marks=pytest.mark.deep)
            for how in ("a row twice", "another time", "headers gone", "a row left out", "other order")
        ),
    ],
)
def test_a_beginning_that_differs_is_never_continued_but_begun_again(case, how):
    ticket = case.created()
    tp = case.app.logs[0]
    write(case.recovery.connection, tp, changed(case.saved_rows(0)[:50])[how])
    before, end = case.topic_id(), end_of(case.recovery.connection, tp)
    with pytest.raises(PrefixDiffers) as caught:
        case.load(ticket)
    assert (caught.value.facts["topic"], caught.value.facts["partition"], caught.value.facts["first"], caught.value.facts["last"]) == (
        tp.topic,
        str(tp.partition),
        "0",
        str(end - 1),
    )
    assert end_of(case.recovery.connection, tp) == end, "nothing was written behind it"
    assert case.load(ticket).rows == PARTITIONS * ROWS
    assert case.topic_id() != before
    assert case.app.contents() == case.truth


@pytest.mark.deep
def test_more_than_belongs_there_or_a_log_that_does_not_begin_at_0_is_begun_again_at_once(case):
    ticket = case.created()
    first, _ = case.app.logs
    write(case.recovery.connection, first, [*case.saved_rows(0), case.saved_rows(0)[-1]])
    before = case.topic_id()
    assert case.load(ticket).present == 0
    assert case.topic_id() != before
    assert case.app.contents() == case.truth


@pytest.mark.deep
def test_a_log_whose_beginning_is_gone_is_begun_again(case):
    ticket = case.created()
    tp = case.app.logs[1]
    write(case.recovery.connection, tp, case.saved_rows(1)[:50])
    alter(case.recovery.cluster, {tp.topic: {"cleanup.policy": "delete"}})  # else nobody may delete records
    with Clients(case.recovery.connection, timeout=30) as clients:
        for future in clients.librdkafka.delete_records([ClientPartition(tp.topic, tp.partition, 10)]).values():
            future.result()
    assert case.load(ticket).present == 0
    assert case.app.contents() == case.truth


@pytest.mark.deep
def test_a_topic_that_vanished_or_was_not_noted_is_created_and_a_stranger_s_records_are_refused(case):
    ticket = case.created()
    cluster, name = case.recovery.cluster, case.app.changelog
    cluster.delete_topics([name])
    restore.plan_load(case.recovery, ticket)
    cluster.delete_topics([name])
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=1, config={})  # killed before it was noted
    restore.plan_load(case.recovery, ticket)
    config = cluster.describe_topics([name])[name].config
    assert marked(config, RESTORE_MARK), "created again under hold"
    cluster.delete_topics([name])
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})
    write(case.recovery.connection, case.app.logs[0], case.saved_rows(0)[:1])
    with pytest.raises(TargetNotEmpty, match="of this restore") as caught:
        restore.plan_load(case.recovery, ticket)
    assert caught.value.facts == {"topics": [name]}
    assert end_of(case.recovery.connection, case.app.logs[0]) == 1


@pytest.mark.deep
def test_nothing_is_planned_while_somebody_still_writes(case):
    ticket = case.created()
    tp, stop = case.app.logs[0], threading.Event()
    write(case.recovery.connection, tp, case.saved_rows(0)[:1])

    def go_on():
        while not stop.wait(0.05):
            write(case.recovery.connection, tp, case.saved_rows(0)[:1])

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        rows = rows_at_first(stored_plan(case.recovery, ticket))
        with pytest.raises(OffsetsUnstable, match=f"a producer still writes to {tp}"):
            load_progress(case.recovery, rows, still_seconds=2, patience=4)
    finally:
        stop.set()
        writer.join()
    assert load_progress(case.recovery, rows, still_seconds=0.5, patience=30)[tp].start == 0


@pytest.mark.deep
@pytest.mark.fault("F4")
def test_two_jobs_at_once_are_noticed_by_the_count_whatever_they_claim(case):
    ticket = case.created()
    plan = restore.plan_load(case.recovery, ticket)
    # The second attempt planned before the first one wrote.
    result = case.job("restore", plan, ticket)
    for tp in case.app.logs:
        write(case.recovery.connection, tp, case.saved_rows(tp.partition))
    with pytest.raises(Damaged) as caught:
        restore.check_load(case.recovery, ticket, result)
    assert (caught.value.facts["expected"], caught.value.facts["written"]) == (ROWS, ROWS)
    assert (caught.value.facts["log_start"], caught.value.facts["log_end"]) == (0, 2 * ROWS)
    assert restore.phase_of(case.recovery, ticket) is Phase.CREATED
    assert case.load(ticket).present == 0
    assert case.app.contents() == case.truth


@pytest.mark.deep
@pytest.mark.parametrize("claimed", [None, pytest.param(ROWS - 1, marks=pytest.mark.deep)])
def test_a_result_that_does_not_name_every_partition_with_all_its_rows_is_refused(case, claimed):
    ticket = case.created()
    plan = restore.plan_load(case.recovery, ticket)
    case.job("restore", plan, ticket)
    rows = [(0, ROWS), (1, claimed)] if claimed else [(0, ROWS)]
    loaded = [
        PartitionLoaded(
            tp=TopicPartition(case.app.changelog, part),
            rows=count,
            acknowledged_first=0,
            acknowledged_last=count - 1,
            worker="w",
            archived_rows=count,
            digest="",
        )
        for part, count in rows
    ]
    key = case.recovery.artifacts.write(ticket.restore_id, "forged", RestoreResult(partitions=tuple(loaded), seconds=1.0))
    with pytest.raises(Damaged) as caught:
        restore.check_load(case.recovery, ticket, key)
    assert (caught.value.facts["partition"], caught.value.facts["expected"], caught.value.facts["written"]) == (1, ROWS, claimed or 0)


@pytest.mark.deep
@pytest.mark.fault("F42")
def test_a_member_of_the_group_stops_the_load_and_the_offsets_by_name(case):
    ticket = case.created()
    case.load(ticket)
    case.verify(ticket)
    settings = {"bootstrap.servers": case.app.bootstrap, "group.id": case.app.id, "client.id": "a-stranger", "log_level": 0}
    stranger = Consumer(settings)
    stranger.subscribe([f"{case.app.id}.in"])
    give_up = time.monotonic() + 60
    while not stranger.assignment() and time.monotonic() < give_up:
        stranger.poll(0.2)
    try:
        with pytest.raises(ApplicationRunning, match=r"a-stranger (on|at) /127\.0\.0\.1"):
            restore.set_offsets(case.recovery, ticket)
        assert case.app.committed() is None
        restored = restore.phase_of(case.recovery, ticket)
        assert restored is Phase.VERIFIED
        with pytest.raises(ApplicationRunning, match=r"a-stranger (on|at) /127\.0\.0\.1"):
            restore.prepare(case.recovery, ticket)
        assert case.app.contents() == case.truth, "nothing was deleted"
    finally:
        stranger.close()
    restore.set_offsets(case.recovery, ticket)
    assert case.app.committed() == SAVED


def take_steps(case, upto):
    """A restore that died right after this phase was written down. The lock stays with it."""
    recovery, ticket = case.recovery, case.created()
    if upto is Phase.CREATED:
        return ticket
    if upto is Phase.DESTROYING:
        recovery.cluster.delete_topics([case.app.changelog])
        restore.open.note(recovery, ticket, Phase.DESTROYING)
        # Created, and killed before it could be written down.
        recovery.cluster.create_topic(case.app.changelog, partitions=PARTITIONS, replication_factor=1, config={})
        return ticket
    case.load(ticket)
    if upto is Phase.LOADED:
        return ticket
    case.verify(ticket)
    steps = {Phase.OFFSETS_SET: restore.set_offsets, Phase.WIPED: restore.wipe, Phase.STARTED: restore.start}
    for phase, step in steps.items():
        if upto.rank >= phase.rank:
            started = step(recovery, ticket)
    if upto is Phase.RECOVERED:
        restore.await_recovered(recovery, ticket, started)
    return ticket


# Only what processes an interval again is fed, and nothing is deployed here.
AFTER = [phase for phase in Phase if Phase.DESTROYING.rank <= phase.rank <= Phase.RECOVERED.rank and phase is not Phase.DEPLOYED]

# Of these every run of the tests has one: with nothing there, with records, with offsets, and with the application at work. The deep tests have all.
EACH_TIME = (Phase.DESTROYING, Phase.LOADED, Phase.OFFSETS_SET, Phase.STARTED)


@pytest.mark.way("resume")
@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    "phase",
    [pytest.param(phase, marks=[] if phase in EACH_TIME else [pytest.mark.deep], id=phase.value) for phase in AFTER],
)
def test_a_restore_goes_on_from_every_phase_it_can_have_died_in(case, phase):
    dead = take_steps(case, phase)
    assert restore.phase_of(case.recovery, dead) is phase
    with pytest.raises(LockHeld, match="restore"):
        restore.resume(case.recovery, dead.restore_id, run_id="again", approved_hash=dead.plan_hash, take_over=False)
    ticket = restore.resume(case.recovery, dead.restore_id, run_id="again", approved_hash=dead.plan_hash, take_over=True)
    with pytest.raises(LockLost):
        restore.plan_load(case.recovery, dead)
    report = runs.carry_out(case.runner(), ticket)
    assert (report.restore_id, report.rows, report.offsets) == (dead.restore_id, PARTITIONS * ROWS, 1)
    assert case.app.contents() == case.truth
    assert case.app.committed() == SAVED
    assert restore.phase_of(case.recovery, ticket) is Phase.CLOSED
    assert [status.streams_state for status in case.recovery.application.status()] == ["RUNNING"]
    assert case.recovery.lock.holder() is None
    assert topic_holds.outstanding(case.recovery) == ()
    with pytest.raises(Refused, match="is over"):
        restore.resume(case.recovery, dead.restore_id, run_id="once more", approved_hash=dead.plan_hash, take_over=True)
    assert case.recovery.lock.holder() is None


@pytest.mark.deep
def test_only_the_newest_restore_that_destroyed_something_can_be_resumed(case):
    with pytest.raises(NotFound, match="there is no restore"):
        restore.resume(case.recovery, "20260101T000000Z-0123456789", run_id="r", approved_hash="", take_over=True)
    harmless = case.opened()
    with pytest.raises(Refused, match="before it had replaced anything"):
        restore.resume(case.recovery, harmless.restore_id, run_id="r", approved_hash="", take_over=True)
    assert case.recovery.lock.holder().owner == harmless.lock.owner, "nobody lost the lock for nothing"
    restore.abandon(case.recovery, harmless)
    first = case.created()
    restore.abandon(case.recovery, first)
    case.recovery.cluster.delete_topics([case.app.changelog])
    time.sleep(1.1)  # ids sort by the second
    second = case.created()
    left = restore.abandon(case.recovery, second)
    assert left.commands == (f"streams-recovery resume small {second.restore_id} --approve {second.plan_hash}",)
    with pytest.raises(Refused, match="followed by a later one") as caught:
        restore.resume(case.recovery, first.restore_id, run_id="r", approved_hash="", take_over=True)
    assert caught.value.facts == {"newest": second.restore_id}
    assert caught.value.commands == (f"streams-recovery resume small {second.restore_id}",)
    assert case.recovery.lock.holder() is None


@pytest.mark.fault("F15")
def test_a_savepoint_is_refused_during_a_restore_and_after_one_that_broke_off(case):
    ticket = case.created()
    request = SavepointRequest(run_id="s2", requested_by="test", reason="", mode=None)
    with pytest.raises(LockHeld, match="restore"):
        savepoints.begin(case.recovery, request)
    restore.abandon(case.recovery, ticket)
    with pytest.raises(Refused, match=f"streams-recovery resume small {ticket.restore_id}"):
        savepoints.begin(case.recovery, request)
    assert case.recovery.lock.holder() is None


# Four seconds each time, half a minute in the long run.
@pytest.mark.deep
@pytest.mark.parametrize("rate", [250, pytest.param(33, marks=pytest.mark.deep)])
def test_a_load_keeps_to_its_throttle(case, rate):
    config = case.recovery.config
    limits = replace(config.restore.throttle, records_per_second=rate)
    recovery = replace(case.recovery, config=config.model_copy(update={"restore": config.restore.model_copy(update={"throttle": limits})}))
    case.recovery = recovery
    ticket = case.created()
    moments = []
    done = threading.Event()

    def watch():
        while not done.wait(0.02):
            moments.append((time.monotonic(), sum(end_of(recovery.connection, tp) for tp in case.app.logs)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        case.load(ticket)
    finally:
        done.set()
        watcher.join()
    assert case.app.contents() == case.truth
    begun = [at for at, count in moments if count > 0]
    ended = [at for at, count in moments if count == PARTITIONS * ROWS]
    found = PARTITIONS * ROWS / (ended[0] - begun[0])
    assert found == pytest.approx(rate, rel=0.1), f"{found:.0f} records/s"


def test_partitions_of_the_load_are_those_of_the_plan(case):
    ticket = case.created()
    plan = restore.plan_load(case.recovery, ticket)
    spec = case.recovery.artifacts.read(RestoreSpec, plan.spec)
    assert [part.tp for part in spec.partitions] == case.app.logs
    assert [(part.first_offset, part.present, part.topic_id) for part in spec.partitions] == [(0, 0, case.topic_id())] * PARTITIONS
    assert spec.lock == ticket.lock
    assert spec.throttle is None
