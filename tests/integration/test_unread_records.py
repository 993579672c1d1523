"""What an application has left to read counts by records, on a real broker: offsets that hold none keep nobody waiting, and nothing unread is left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.kafka_types import TopicPartition, spaced
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.operations import conditions, scheduled_run
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.lag import RecordLag
from streams_recovery.operations.lifecycle.ready import await_at_work
from streams_recovery.operations.rollout.discover import between
from tests.integration.small import RUNNING, Small, aborted, commit, delete_below, produce, says, small_application, transaction
from tests.integration.test_targets import configured

ENDS = parse_limit("ends")


def look(bench: Workbench, facts: dict[str, Any]) -> conditions.Look:
    """The next look of a sensor: what it found out is added to its facts."""
    found = conditions.ends_reached(bench, facts)
    facts.update(found.facts)
    return found


@pytest.fixture
def read(small: Small) -> Small:
    """An application that has read everything."""
    commit(small.bench, {small.input: 5, small.tail: 4})
    return small


def at_work(bench: Workbench) -> Workbench:
    """The bench of an application that runs and is given a second."""
    impatient = bench.config.restore.model_copy(update={"catch_up_timeout_seconds": 1})
    return replace(bench, config=bench.config.model_copy(update={"restore": impatient}))


def test_aborted_records_at_the_end_of_an_input_start_no_run(bootstrap: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"start": ["touch", str(started)]}) as small:
        commit(small.bench, {small.input: 5, small.tail: 4})
        aborted(small.bench, small.input)
        assert scheduled_run.begin(small.bench, ENDS, run_id="run").ends == {spaced(small.input): 9}
        assert not started.exists()


def test_nor_do_they_keep_one_waiting(read: Small) -> None:
    bench = read.bench
    produce(bench, read.input, 2)
    aborted(bench, read.input)
    begun = scheduled_run.begin(bench, ENDS, run_id="run")
    facts: dict[str, Any] = {"ends": begun.ends, "until": None}
    assert not look(bench, facts).done
    commit(bench, {read.input: 6})
    assert not look(bench, facts).done
    assert not look(bench, facts).done, "a record is left"
    commit(bench, {read.input: 7})
    assert not look(bench, facts).done, "it has just moved"
    assert look(bench, facts).done
    report = scheduled_run.end(bench, begun)
    assert (report.processed, report.behind, report.unread) == ({spaced(read.input): 2}, {}, {})


def test_an_application_is_at_work_although_its_input_ends_in_aborted_records(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(RUNNING)}) as small:
        bench = at_work(small.bench)
        commit(bench, {small.input: 4})
        aborted(bench, small.input)
        with pytest.raises(ApplicationNotReady, match="its inputs are 5 offsets behind the ends they had"):
            await_at_work(bench, {small.input: 9}, again="wait")
        commit(bench, {small.input: 5})
        await_at_work(bench, {small.input: 9}, again="wait")


def test_an_input_whose_records_were_all_deleted_before_anybody_read_them_keeps_nobody_waiting(read: Small) -> None:
    bench = read.bench
    bench.groups.delete(bench.application_id)
    commit(bench, {read.tail: 4})
    delete_below(bench, read.input, 5)
    begun = scheduled_run.begin(bench, ENDS, run_id="run")
    assert (begun.ends, begun.instances) == ({spaced(read.input): 5}, ())
    facts: dict[str, Any] = {"ends": begun.ends, "until": None}
    assert [look(bench, facts).done for _ in range(2)] == [False, True]


def test_a_transaction_that_is_not_decided_may_hold_records(read: Small) -> None:
    bench, lag = read.bench, RecordLag(read.bench)
    with transaction(bench) as producer:
        producer.produce(read.tail.topic, b"v", b"k", read.tail.partition)
        producer.flush(30)

        def left() -> dict[TopicPartition, int]:
            ends = bench.cluster.high_watermarks([read.tail])
            return lag.look(ends, bench.groups.committed(bench.application_id, [read.tail]), down=True)

        assert left() == {read.tail: 1}
        assert left() == {read.tail: 1}
        producer.abort_transaction(30)
        assert left() == {}


def test_a_run_that_was_stopped_too_early_is_gone_on_with(small: Small) -> None:
    bench, tail = small.bench, spaced(small.tail)
    commit(bench, {small.input: 5})
    begun = scheduled_run.begin(bench, ENDS, run_id="run")
    report = scheduled_run.end(bench, replace(begun, instances=("one",)))
    assert (report.behind, report.unread) == ({}, {tail: 3})
    again = scheduled_run.begin(bench, parse_limit("ends"), run_id="next")
    assert again.ends == begun.ends
    facts: dict[str, Any] = {"ends": again.ends, "until": None}
    assert look(bench, facts) == conditions.Look(done=False, told=f"1 of 1 partitions are behind: {small.tail} by 3")
    commit(bench, {small.tail: 4})
    assert look(bench, facts) == conditions.Look(done=True, told="2 partitions are read")
    assert scheduled_run.end(bench, again).unread == {}


@pytest.mark.parametrize("unread", [0, 1])
def test_it_is_started_for_what_is_left_in_its_own_topics(bootstrap: str, tmp_path: Path, unread: int) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"start": ["touch", str(started)]}) as small:
        commit(small.bench, {small.input: 5, small.tail: 4 - unread})
        scheduled_run.begin(small.bench, ENDS, run_id="run")
        assert started.exists() == bool(unread)


def test_a_run_ends_while_new_input_keeps_its_own_topics_moving(read: Small) -> None:
    bench = read.bench
    produce(bench, read.input, 1)
    begun = scheduled_run.begin(bench, ENDS, run_id="run")
    facts: dict[str, Any] = {"ends": begun.ends, "until": None}
    assert not look(bench, facts).done
    commit(bench, {read.input: 6})
    produce(bench, read.tail, 2)
    assert not look(bench, facts).done
    produce(bench, read.input, 5)
    produce(bench, read.tail, 5)
    commit(bench, {read.input: 8, read.tail: 5})
    assert not look(bench, facts).done
    commit(bench, {read.tail: 6})
    assert look(bench, facts) == conditions.Look(done=True, told="1 partitions are read, with all that they caused; 1 have newer records")
    assert scheduled_run.end(bench, begun).unread == {spaced(read.tail): 5}


def test_an_output_that_is_an_input_too_is_read_to_its_end(small: Small) -> None:
    topics = {"inputs": [small.input.topic, small.output.topic], "outputs": [small.output.topic]}
    bench = replace(small.bench, config=configured(small.bench, topics=topics))
    commit(bench, {small.input: 5, small.output: 4, small.tail: 4})
    facts: dict[str, Any] = {"ends": {spaced(small.input): 5, spaced(small.output): 4}, "until": None}
    produce(bench, small.output, 1)
    assert look(bench, facts).told == f"1 of 2 partitions are behind: {small.output} by 1"
    commit(bench, {small.output: 5})
    assert look(bench, facts).done


def test_many_aborted_records_are_none_for_a_clone_either(small: Small) -> None:
    bench = small.bench
    with transaction(bench) as producer:
        for number in range(10_050):
            producer.produce(small.input.topic, b"", b"%d" % number, 0)
            if number % 1_000 == 0:
                producer.flush(30)
        producer.flush(30)
        producer.abort_transaction(30)
    assert between(bench, {small.input: (5, 10_056)}) == {}
    assert between(bench, {small.input: (4, 10_056)}) == {spaced(small.input): 10_052}, "of long ranges it is the number of offsets"
