"""What an application has left to read counts by records, on a real broker: offsets that hold none keep nobody waiting, and nothing unread is left behind."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import Lag
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.operations import conditions, scheduled_run
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lag import RecordLag
from streams_recovery.operations.ready import await_at_work
from streams_recovery.operations.rollout.discover import between
from streams_recovery.operations.status.cluster import cluster_facts, look_at_group
from streams_recovery.operations.status.stored import ArchiveSeen
from tests.support.applications.small import RUNNING, STOPPED, Small, configured, says, small_application
from tests.support.applications.topic_records import abort, aborted, commit, delete_below, produce, transaction

ENDS = parse_limit("ends")


def look(recovery: RecoveryContext, facts: dict[str, Any]) -> conditions.ConditionState:
    """The next look of a sensor: what it found out is added to its facts."""
    found = conditions.ends_reached(recovery, facts)
    facts.update(found.facts)
    return found


@pytest.fixture
def read(small: Small) -> Small:
    """An application that has read everything."""
    commit(small.recovery, {small.input: 5, small.tail: 4})
    return small


def at_work(recovery: RecoveryContext) -> RecoveryContext:
    """The context of an application that runs and is given a second."""
    impatient = recovery.config.restore.model_copy(update={"catch_up_timeout_seconds": 1})
    return replace(recovery, config=recovery.config.model_copy(update={"restore": impatient}))


def test_aborted_records_at_the_end_of_an_input_start_no_run(bootstrap: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"start": ["touch", str(started)]}) as small:
        commit(small.recovery, {small.input: 5, small.tail: 4})
        aborted(small.recovery, small.input)
        assert scheduled_run.begin(small.recovery, ENDS, run_id="run").ends == {small.input: 9}
        assert not started.exists()


def test_nor_do_they_keep_one_waiting(read: Small) -> None:
    recovery = read.recovery
    produce(recovery, read.input, 2)
    aborted(recovery, read.input)
    begun = scheduled_run.begin(recovery, ENDS, run_id="run")
    facts: dict[str, Any] = {"ends": codec.encode(begun.ends), "until": None}
    assert not look(recovery, facts).done
    commit(recovery, {read.input: 6})
    assert not look(recovery, facts).done
    assert not look(recovery, facts).done, "a record is left"
    commit(recovery, {read.input: 7})
    assert not look(recovery, facts).done, "it has just moved"
    assert look(recovery, facts).done
    report = scheduled_run.end(recovery, begun)
    assert (report.processed, report.behind, report.unread) == ({read.input: 2}, {}, {})


@pytest.mark.deep
def test_an_application_is_at_work_although_its_input_ends_in_aborted_records(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(RUNNING)}) as small:
        recovery = at_work(small.recovery)
        commit(recovery, {small.input: 4})
        aborted(recovery, small.input)
        with pytest.raises(ApplicationNotReady) as caught:
            await_at_work(recovery, {small.input: 9}, again="wait")
        assert caught.value.facts["behind"] == 5
        commit(recovery, {small.input: 5})
        await_at_work(recovery, {small.input: 9}, again="wait")


def test_an_input_whose_records_were_all_deleted_before_anybody_read_them_keeps_nobody_waiting(read: Small) -> None:
    recovery = read.recovery
    recovery.groups.delete(recovery.application_id)
    commit(recovery, {read.tail: 4})
    delete_below(recovery, read.input, 5)
    begun = scheduled_run.begin(recovery, ENDS, run_id="run")
    assert (begun.ends, begun.instances) == ({read.input: 5}, ())
    facts: dict[str, Any] = {"ends": codec.encode(begun.ends), "until": None}
    assert look(recovery, facts).done, "what is gone is nothing to read"


def test_a_transaction_that_is_not_decided_may_hold_records(read: Small) -> None:
    recovery, lag = read.recovery, RecordLag(read.recovery)
    with transaction(recovery) as producer:
        producer.produce(read.tail.topic, b"v", b"k", read.tail.partition)
        producer.flush(30)

        def left() -> dict[TopicPartition, Lag]:
            ends = recovery.cluster.high_watermarks([read.tail])
            return lag.look(ends, recovery.groups.committed(recovery.application_id, [read.tail]), down=True)

        assert [(tp, one.behind, one.undecided) for tp, one in left().items()] == [(read.tail, 0, 1)]
        assert left()
        abort(recovery, producer, read.tail)
        assert left() == {}


@pytest.mark.deep
@pytest.mark.parametrize(("committed", "gone"), [(None, 0), (4, 16)])
def test_everything_tells_the_same_lag_of_one_partition(bootstrap: str, tmp_path: Path, committed: int | None, gone: int) -> None:
    """A log that begins at 20, has 10 decided records, and 4 in an open transaction."""
    states = tmp_path / "states.json"
    states.write_text(json.dumps(STOPPED))
    with (
        small_application(bootstrap, tmp_path, programs={"status": ["cat", str(states)]}) as small,
        transaction(small.recovery) as producer,
    ):
        recovery, partition = at_work(small.recovery), small.input
        produce(recovery, partition, 25)
        delete_below(recovery, partition, 20)
        recovery.groups.delete(recovery.application_id)
        commit(recovery, {small.tail: 4} | ({} if committed is None else {partition: committed}))
        for _ in range(4):
            producer.produce(partition.topic, b"v", b"k", partition.partition)
        producer.flush(30)
        [told] = [one for one in look_at_group(recovery).partitions if one.topic == partition.topic]
        seen = cluster_facts(recovery, None, ArchiveSeen())
        begun = scheduled_run.begin(recovery, ENDS, run_id="run")
        report = scheduled_run.end(recovery, begun)
        waited = look(recovery, {"ends": codec.encode(begun.ends), "until": None}).message
        high, offsets = recovery.cluster.high_watermarks([partition]), recovery.groups.committed(recovery.application_id, [partition])
        drained = RecordLag(recovery).look(high, offsets, down=True)[partition]
        states.write_text(json.dumps(RUNNING))
        with pytest.raises(ApplicationNotReady) as caught:
            await_at_work(recovery, {partition: 30}, again="wait")
        abort(recovery, producer, partition)
    behind = {
        "groups": told.behind,
        "monitor": seen.lag,
        "streams_run": report.behind[partition],
        "drain": drained.behind,
        "waiting": caught.value.facts["behind"],
    }
    assert behind == dict.fromkeys(behind, 10)
    assert (told.undecided, drained.undecided) == (4, 4)
    assert (told.gone, seen.inputs[0].unread, sum(report.gone.values()), drained.gone) == (gone,) * 4
    assert waited == f"1 of 1 partitions are behind: {partition} by 10{f' ({gone} deleted unread)' if gone else ''}"


def test_a_run_that_was_stopped_too_early_is_gone_on_with(small: Small) -> None:
    recovery, tail = small.recovery, small.tail
    commit(recovery, {small.input: 5})
    begun = scheduled_run.begin(recovery, ENDS, run_id="run")
    report = scheduled_run.end(recovery, replace(begun, instances=("one",)))
    assert (report.behind, report.unread) == ({}, {tail: 3})
    again = scheduled_run.begin(recovery, parse_limit("ends"), run_id="next")
    assert again.ends == begun.ends
    facts: dict[str, Any] = {"ends": codec.encode(again.ends), "until": None}
    assert look(recovery, facts) == conditions.ConditionState(done=False, message=f"1 of 1 partitions are behind: {small.tail} by 3")
    commit(recovery, {small.tail: 4})
    assert look(recovery, facts) == conditions.ConditionState(done=True, message="2 partitions are read")
    assert scheduled_run.end(recovery, again).unread == {}


@pytest.mark.parametrize("unread", [0, 1])
def test_it_is_started_for_what_is_left_in_its_own_topics(bootstrap: str, tmp_path: Path, unread: int) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"start": ["touch", str(started)]}) as small:
        commit(small.recovery, {small.input: 5, small.tail: 4 - unread})
        scheduled_run.begin(small.recovery, ENDS, run_id="run")
        assert started.exists() == bool(unread)


def test_a_run_ends_while_new_input_keeps_its_own_topics_moving(read: Small) -> None:
    recovery = read.recovery
    produce(recovery, read.input, 1)
    begun = scheduled_run.begin(recovery, ENDS, run_id="run")
    facts: dict[str, Any] = {"ends": codec.encode(begun.ends), "until": None}
    assert not look(recovery, facts).done
    commit(recovery, {read.input: 6})
    produce(recovery, read.tail, 2)
    assert not look(recovery, facts).done
    produce(recovery, read.input, 5)
    produce(recovery, read.tail, 5)
    commit(recovery, {read.input: 8, read.tail: 5})
    assert not look(recovery, facts).done
    commit(recovery, {read.tail: 6})
    assert look(recovery, facts) == conditions.ConditionState(
        done=True, message="1 partitions are read, with all that they caused; 1 have newer records"
    )
    assert scheduled_run.end(recovery, begun).unread == {read.tail: 5}


def test_an_output_that_is_an_input_too_is_read_to_its_end(small: Small) -> None:
    topics = {"inputs": [small.input.topic, small.output.topic], "outputs": [small.output.topic]}
    recovery = replace(small.recovery, config=configured(small.recovery, topics=topics))
    commit(recovery, {small.input: 5, small.output: 4, small.tail: 4})
    facts: dict[str, Any] = {"ends": {str(small.input): 5, str(small.output): 4}, "until": None}
    produce(recovery, small.output, 1)
    assert look(recovery, facts).message == f"1 of 2 partitions are behind: {small.output} by 1"
    commit(recovery, {small.output: 5})
    assert look(recovery, facts).done


def test_many_aborted_records_are_none_for_a_clone_either(small: Small) -> None:
    recovery = small.recovery
    with transaction(recovery) as producer:
        for number in range(10_050):
            producer.produce(small.input.topic, b"", b"%d" % number, 0)
            if number % 1_000 == 0:
                producer.flush(30)
        producer.flush(30)
        abort(recovery, producer, small.input)
    assert between(recovery, {small.input: (5, 10_056)}) == {}
    assert between(recovery, {small.input: (4, 10_056)}) == {small.input: 10_052}, "of long ranges it is the number of offsets"


class ReadMeanwhile(KafkaCluster):
    """Whoever asks where logs start has an old answer: the application deletes what it has read right after."""

    def __init__(self, recovery: RecoveryContext, below: int) -> None:
        super().__init__(recovery.connection)
        self._bench, self._below = recovery, below

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = super().log_starts(partitions)
        for tp in partitions:
            delete_below(self._bench, tp, self._below)
        return found


def test_records_that_are_deleted_while_they_are_counted_count_by_their_offsets(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path) as small, ReadMeanwhile(small.recovery, below=3) as cluster:
        produce(small.recovery, small.tail, 4)
        found = between(replace(small.recovery, cluster=cluster), {small.tail: (1, 4)})
    assert found == {small.tail: 3}
