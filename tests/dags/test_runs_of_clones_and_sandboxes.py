"""DAGs that start an application beside the one there is, each once, from its file to what it leaves on a real broker: drill, interval, clone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import interval, sandbox
from tests.support.airflow.dag_runs import run
from tests.support.applications.counting import Counting

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.way("drill")
def test_a_drill_proves_a_restore_and_leaves_nothing(counting: Counting, in_session: Submitter) -> None:
    scratch, output = f"drill-{counting.id}", f"drill.{counting.output.topic}"
    counting.configure(
        drill={
            "schedule": "none",
            "application_id": scratch,
            "topic_map": {counting.output.topic: output},
            "command": counting.programs("drill", group=scratch, output=output),
        }
    )
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    counting.feed("ab")
    before = counting.topics()
    done = run(counting, "drill", in_session, per_application=True)
    assert (done.state, done.by("success")) == ("success", set(done.tasks)), done
    with counting.recovery() as recovery:
        [entry] = sandbox.drills(recovery)
        assert scratch not in recovery.cluster.groups()
    assert (entry.succeeded, entry.savepoint_id, entry.rows, entry.rto_seconds is not None) == (True, savepoint, 5, True)
    assert (counting.topics(), counting.committed(), counting.running) == (before, 5, False), "the application was not touched"
    assert (counting.directory / "drill.was").read_text() == output


def test_a_drill_of_other_numbers_restores_what_it_has_placed_and_leaves_nothing(counting: Counting, in_session: Submitter) -> None:
    scratch, source, output = (
        f"drill{mark}{name}" for mark, name in (("-", counting.id), (".", counting.input.topic), (".", counting.output.topic))
    )
    counting.configure(
        topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic], "include": [counting.input.topic]},
        drill={
            "schedule": "none",
            "application_id": scratch,
            "topic_map": {counting.input.topic: source, counting.output.topic: output},
            "partitions": {counting.input.topic: 3},
            "command": counting.programs("drill", group=scratch, source=source, output=output),
        },
    )
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    before = counting.topics()
    done = run(counting, "drill", in_session, per_application=True)
    assert (done.state, done.by("success")) == ("success", set(done.tasks)), done
    with counting.recovery() as recovery:
        [entry] = sandbox.drills(recovery)
        assert (recovery.savepoints.ids(), any(recovery.repository.keys(f"{scratch}/segments/"))) == ([savepoint], True)
    assert (entry.succeeded, entry.savepoint_id, entry.rows) == (True, savepoint, 5)
    assert (counting.topics(), counting.committed(), counting.running) == (before, 5, False), "the application was not touched"


@pytest.mark.way("interval")
def test_an_interval_is_counted_by_itself_and_its_results_stay(counting: Counting, in_session: Submitter) -> None:
    again, source, output = (
        f"again{mark}{name}" for mark, name in (("-", counting.id), (".", counting.input.topic), (".", counting.output.topic))
    )
    counting.configure(
        topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic], "include": [counting.input.topic]},
        reprocess={
            "application_id": again,
            "topic_map": {counting.input.topic: source, counting.output.topic: output},
            "command": counting.programs(
                "again", group=f"{again}-{{interval}}", source=f"{source}-{{interval}}", output=f"{output}-{{interval}}"
            ),
        },
    )
    counting.worked("abcabcaa")
    counting.savepoint(in_session)
    before = counting.topics()
    moments = {"from": "2026-09-21T14:13:22Z", "to": "2026-09-21T14:13:27Z", "lateness": "PT0S", "overlap": "PT2S"}
    done = run(counting, "reprocess", in_session, per_application=True, **moments)
    assert (done.state, done.by("success")) == ("success", set(done.tasks)), done
    with counting.recovery() as recovery:
        [entry] = interval.history(recovery)
        assert interval.busy(recovery) == ()
    assert (entry.succeeded, entry.records, entry.reason) == (True, 5, "test")
    [left] = counting.topics() - before
    assert left.startswith(output)
    expected = [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("b", "2"), ("c", "2"), ("a", "3")]
    assert counting.rows(TopicPartition(left, 0)) == expected, (
        "the two before the interval came first, and the interval when they were counted"
    )
    assert done.results["load_deferred_input"]["result"], "by a job of its own"
    assert (counting.committed(), counting.running) == (8, False), "the application was not touched"

    done = run(counting, "compare_outputs", in_session, application=counting.name)
    found = done.results["conclude"]
    assert (done.jobs, found["outcome"], found["against"]) == (["compare_outputs"], "equal", "interval")
    counts = found["outputs"][counting.output.topic]
    assert (counts["equal"], counts["records_here"], counts["records_there"]) == (3, 5, 5), "the two before the interval are not compared"


@pytest.fixture
def clone(counting: Counting) -> Counting:
    """The configuration of a clone of it, which has results of its own until it is live."""
    found = Counting(bootstrap=counting.bootstrap, directory=counting.directory, id=f"next{counting.id}", name="next")
    topics, real = {"inputs": [counting.input.topic], "outputs": [found.output.topic]}, counting.output.topic
    programs = found.programs("next", source=counting.input.topic)
    found.configure(
        topics=topics,
        restore={"topic_map": {real: found.output.topic}},
        clone={"of": counting.name, "cut_over": {"environment": {"OUT": real}}},
        runs={"kind": "command", "command": programs},
    )
    return found


def started(app: Counting) -> str | None:
    """The output that the clone was started with, None while it is down."""
    mark = app.directory / "next"
    return mark.read_text() if mark.exists() else None


def put(counting: Counting, key: bytes, value: bytes) -> None:
    """A result that the clone does not have."""
    producer = Producer({"bootstrap.servers": counting.bootstrap, "log_level": 0})
    producer.produce(counting.output.topic, value, key, 0)
    assert producer.flush(30) == 0


def stepped(clone: Counting, submitter: Submitter, step: str, **params: Any) -> tuple[str, set[str]]:
    """What the DAG did: its state, and the groups of tasks that were not skipped."""
    done = run(clone, "clone", submitter, application="next", step=step, **params)
    assert done.state == "success", json.dumps(done.tasks)
    return done.state, {name.partition(".")[0] for name in done.by("success")} - {"choose"}


@pytest.mark.way("clone", "cut-over")
def test_a_clone_takes_over_and_gives_back(counting: Counting, clone: Counting, in_session: Submitter) -> None:
    counting.feed("abcab")
    counting.start()
    counting.savepoint(in_session)
    counting.feed("c")
    counting.start()
    assert stepped(clone, in_session, "clone")[1] == {"clone"}
    assert (counting.running, started(clone)) == (True, clone.output.topic)
    assert counting.state(clone.changelog) == counting.state() == {"a": 2, "b": 2, "c": 2}
    assert counting.rows(clone.output) == [("c", "2")], "it went on where the savepoint was taken"

    done = run(clone, "compare_outputs", in_session, application="next")
    found = done.results["conclude"]
    assert (done.state, found["outcome"], found["outputs"][counting.output.topic]["equal"]) == ("success", "equal", 1)
    put(counting, b"c", b"3")
    done = run(clone, "compare_outputs", in_session, application="next", tolerance="0.5")
    found = done.results["conclude"]
    assert (done.state, found["outcome"], found["outputs"][counting.output.topic]["behind"]) == ("success", "different", 1)

    done = run(clone, "clone", in_session, application="next", step="cut_over")
    assert (done.state, "different, 1 keys compared" in done.results["cut_over.plan"]["text"]) == ("success", True)
    assert (counting.running, started(clone)) == (False, counting.output.topic)

    assert stepped(clone, in_session, "roll_back")[1] == {"cut_over"}
    assert (counting.running, started(clone)) == (True, None)
    assert (counting.free(), clone.free()) == (True, True)


@pytest.mark.way("upgrade", "retirement")
def test_an_upgrade_in_one_go_goes_on_exactly_where_the_old_application_stopped(
    counting: Counting, clone: Counting, in_session: Submitter
) -> None:
    counting.feed("abcab")
    counting.start()
    counting.feed("c")
    assert stepped(clone, in_session, "offline_upgrade")[1] == {"retire", "upgrade"}
    assert (counting.running, started(clone)) == (False, counting.output.topic)
    assert [count for _, count in counting.rows(counting.output)] == ["1", "1", "1", "2", "2", "2"], "nothing came twice"
    assert (counting.committed(clone.id, counting.input), len(counting.savepoints())) == (6, 1)
