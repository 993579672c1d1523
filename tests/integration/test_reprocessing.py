"""Intervals of the past on a real broker: which records go in, where results go, what is refused, and that nothing else is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import ApplicationRunning, Damaged, LockHeld, Refused, TargetNotEmpty
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.restore.parts.interval import own_records
from streams_recovery.core.words import milliseconds
from streams_recovery.operations import interval, topic_holds
from streams_recovery.operations import restore as restores
from streams_recovery.operations.interval import ReprocessOptions
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.sandbox.teardown import Removed
from tests.support.applications.reprocessing import GONE, Again, again_at, configured, read, write
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import RUNNING, says
from tests.support.applications.timed_inputs import ZERO
from tests.support.applications.topic_records import delete_below
from tests.support.kafka.topic_settings import alter
from tests.support.project import PROJECT


@pytest.fixture
def again(bootstrap: str, tmp_path: Path) -> Iterator[Again]:
    with again_at(bootstrap, tmp_path) as found:
        yield found


# In the log: 10, 20, 20, 50, 30, 40, 40, 60. Interval, how far around it, and then what is copied and how many of it are the interval's own.
CASES = [
    ((20, 45), {}, [20, 20], 2),
    ((20, 45), {"lateness": 5}, [20, 20], 2),
    ((20, 45), {"lateness": 6}, [20, 20, 30, 40, 40], 5),
    ((20, 45), {"lateness": 6, "overlap": 10}, [10, 20, 20, 30, 40, 40], 5),
    ((20, 45), {"beyond": 6}, [20, 20, 50, 30, 40, 40], 5),
    ((50, 51), {"lateness": 10, "overlap": 50}, [10, 20, 20, 50, 30, 40, 40], 1),
    ((60, 61), {}, [60], 1),
    ((10, 61), {}, [10, 20, 20, 50, 30, 40, 40, 60], 8),
]


@pytest.mark.deep
def test_the_input_of_an_interval_with_its_late_records_and_what_stands_around_it(again: Again) -> None:
    for (start, end), around, copied, own in CASES:
        request = again.request(start, end)
        request = replace(request, slice=replace(request.slice, **around))
        recovery = again.scratch(request)
        planned = interval.plan(recovery, again.own.application_id, request)
        assert planned.records == own, (start, end, around)
        restore = restores.plan(recovery, interval.run.restore_request(again.own.application_id, request))
        [topic] = [topic for topic in restore.create if topic.role.value == "input"]
        [cut] = [part.cut for part in topic.partitions]
        assert (topic.rows, restore.offsets[0].wanted.offset) == (len(copied), 0), (start, end, around)
        assert cut is not None
        assert [part.files for part in topic.partitions] != [()]


@pytest.mark.deep
def test_records_behind_the_end_of_a_log_are_left_out_only_if_that_is_said_and_then_it_is_told(again: Again) -> None:
    source = again.own.application_id
    for base in ("none", "savepoint"):
        request = again.request(30, 45, leave_late=False, base=base)
        recovery = again.scratch(request)
        with pytest.raises(
            Refused, match=r"3 records of the interval .* come behind a record that is later than lateness allows"
        ) as caught:
            interval.plan(recovery, source, request)
        assert caught.value.facts == {"left": {str(again.small.input): 3}, "ended_by": {str(again.small.input): 3}}
        assert "a lateness of at least PT1S" in caught.value.next_step
    with pytest.raises(Refused, match="come behind a record"):
        interval.clear(recovery, source, request, run_id="run-1")
    allowed = again.request(30, 45)
    planned = interval.plan(recovery, source, allowed)
    assert (planned.records, planned.late) == (0, 3)
    assert "Nothing is started. 3 records of it come behind the end of their log and are left out." in planned.text
    ended = interval.Done(planned=planned, ticket=None, published=None, finished=False, left=())
    entry = interval.conclude(again.own, allowed, ended, run_id="run-1", requested_by="test")
    assert (entry.late, entry.outcome) == (3, "took nothing: 3 late records left out, and it has no other ones")
    assert not entry.succeeded
    some = interval.plan(recovery, source, again.request(20, 45))
    assert (some.records, some.late) == (2, 3)
    assert "3 records of the interval come behind a record that is later than lateness allows, and are left out" in some.text
    reads_on = interval.plan(recovery, source, again.request(30, 45, leave_late=False, lateness="PT1S"))
    assert (reads_on.records, reads_on.late) == (3, 0)


@pytest.mark.deep
def test_with_a_base_the_input_goes_on_where_its_state_ends(again: Again) -> None:
    request = again.request(30, 45, base="savepoint")
    request = replace(request, slice=replace(request.slice, lateness=10, overlap=1_000))
    recovery = again.scratch(request)
    asked = interval.run.restore_request(again.own.application_id, request)
    planned = restores.plan(recovery, asked)
    assert planned.savepoint_id == again.early
    assert own_records(planned) == 3
    [rows] = [topic.rows for topic in planned.create if topic.role.value == "input"]
    assert rows == 4, "20 is behind the state and before the interval, 30 and two of 40 are its own"
    [item] = [item for item in planned.offsets if item.tp.topic == recovery.config.topics.inputs[0]]
    assert (item.wanted.offset, planned.observed.records_to_catch_up) == (0, 4)
    assert f"From the state of savepoint `{again.early}`" in interval.plan(recovery, again.own.application_id, request).text
    with pytest.raises(Refused) as caught:
        interval.plan(recovery, again.own.application_id, again.request(15, 45, base="savepoint"))
    unfit = {one["savepoint"]: (one.get("read"), one.get("first_later")) for one in caught.value.facts["unfit"]}
    assert unfit[again.early] == (2, 1)


@pytest.mark.deep
def test_an_interval_without_input_says_so_and_starts_nothing(again: Again) -> None:
    request = again.request(51, 60)
    claimed = again.claim(request)
    recovery = again.scratch(claimed)
    interval.clear(recovery, again.own.application_id, request, run_id="run-1")
    planned = interval.plan(recovery, again.own.application_id, request)
    assert (planned.records, "0 records. Nothing is started" in planned.text) == (0, True)
    ended = interval.Done(planned=planned, ticket=None, published=None, finished=False, left=())
    entry = interval.conclude(again.own, request, ended, run_id="run-1", requested_by="test")
    assert (entry.succeeded, entry.records, entry.outcome) == (True, 0, "no input: 0 records, nothing was started")
    assert interval.busy(again.own) == ()
    assert again.here() == set()
    interval.raise_unless_succeeded(entry)

    # The same from a terminal.
    variables = {
        **os.environ,
        **again.kafka,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "PYTHONPATH": f"{PROJECT / 'plugins'}",
        "STREAMS_RECOVERY_CONFIG_DIR": str(again.directory),
    }
    ends = ["--from", "2026-09-21T14:13:20.051Z", "--to", "2026-09-21T14:13:20.060Z", "--lateness", "PT0S", "--json"]
    command = [sys.executable, "-m", "streams_recovery", "reprocess", "small", *ends]
    done = subprocess.run(command, env=variables, cwd=again.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["start"], found["records"], found["succeeded"]) == (ZERO + 51, 0, True)
    assert len(interval.history(again.own)) == 2


@pytest.mark.deep
def test_a_run_that_comes_too_late_leaves_the_slot_to_the_one_that_works(again: Again) -> None:
    request = again.request(20, 45)
    claimed = again.claim(request)
    # As long as the first one only plans, nobody knows that it lives.
    late = again.claim(request, run="run-2")
    recovery, ticket = again.given(claimed)
    with pytest.raises(LockHeld):
        interval.clear(again.scratch(late), again.own.application_id, request, run_id="run-2")
    again.ended(recovery, late, None, run="run-2")
    assert interval.busy(again.own) == (request.slice.interval.name,)
    again.ended(recovery, claimed, ticket)
    assert interval.busy(again.own) == ()


@pytest.mark.deep
def test_what_is_not_archived_or_not_over_is_refused(again: Again) -> None:
    recovery = again.scratch(again.request(20, 45))
    source = again.own.application_id
    now = again.own.clock() - ZERO
    with pytest.raises(Refused, match="is not over before"):
        interval.plan(recovery, source, again.request(20, now + 60_000))
    with pytest.raises(Refused, match="is not over before"):
        interval.plan(recovery, source, again.request(20, 45, lateness="P9999D"))
    time.sleep(0.05)
    with pytest.raises(Refused, match="archived up to") as caught:
        interval.plan(recovery, source, again.request(20, again.own.clock() - ZERO))
    assert caught.value.facts["application_id"] == source
    assert caught.value.next_step == "take a savepoint first"
    delete_below(again.own, again.small.input, 3)
    for savepoint in again.own.savepoints.ids():
        again.own.repository.delete([again.own.savepoints.key(savepoint)])
    publish(again.small)
    with pytest.raises(Refused, match="not all input") as caught:
        interval.plan(recovery, source, again.request(30, 45))
    assert caught.value.facts["archived_from"] == {str(again.small.input): 3}
    late = again.request(55, 61)
    assert interval.plan(recovery, source, late).records == 1, "the archive begins with a record of 50: nothing of 55 was before it"
    with pytest.raises(Refused, match="not all input"):
        interval.plan(recovery, source, again.request(21, 29))
    with pytest.raises(Refused, match="not all input"):
        interval.plan(recovery, source, replace(late, slice=replace(late.slice, lateness=5)))


@pytest.mark.way("interval")
def test_results_side_by_side_stay_and_all_else_goes_and_again_makes_the_same(again: Again) -> None:
    own, ends = again.own, again.own.cluster.high_watermarks([again.small.input, again.small.output])
    request = again.request(20, 45)
    output = f"again.{own.application_id}.out-{request.slice.interval.name}"
    results = [(b"a", b"1", 15), (b"a", b"2", 20), (b"b", b"3", 44), (b"b", b"4", 45)]
    for _ in range(2):
        claimed = again.claim(request)
        recovery, ticket = again.processed(claimed, results)
        assert topic_holds.outstanding(recovery)
        report = interval.publish_results(recovery, ticket, request)
        assert [(one.output, one.topic, one.results, one.outside) for one in report.outputs] == [(again.small.output.topic, output, 2, 2)]
        entry = again.ended(recovery, claimed, ticket, report)
        assert (entry.succeeded, entry.outcome, entry.savepoint_id) == (True, "published", None)
        assert again.here() == {output}
        assert read(own, output) == results
        kept = own.cluster.describe_topics([output])[output].config
        assert (kept["retention.ms"], kept["cleanup.policy"]) == ("-1", "compact")
        assert (topic_holds.outstanding(recovery), recovery.lock.holder(), interval.busy(own)) == ((), None, ())
    assert [one.restore_id == entry.restore_id for one in interval.history(own)] == [False, True]
    assert own.cluster.high_watermarks(list(ends)) == ends, "the application itself was not changed"
    assert own.groups.committed(own.application_id, [again.small.input])[again.small.input] is not None

    claimed = again.claim(request)
    recovery, ticket = again.processed(claimed, [])
    assert read(own, output) == [], "an earlier run's results are gone with the next run's beginning"
    interval.remove(recovery, ticket, None)
    assert again.here() == set(), "and of a run that published nothing nothing stays"
    entry = again.ended(recovery, claimed, None)
    with pytest.raises(Damaged, match="the interval failed before it began"):
        interval.raise_unless_succeeded(entry)


@pytest.mark.deep
def test_a_removal_that_is_repeated_leaves_the_results_of_a_later_run(again: Again) -> None:
    request = again.request(20, 45)
    claimed = again.claim(request)
    output = f"again.{again.own.application_id}.out-{request.slice.interval.name}"
    results = [(b"a", b"2", 20), (b"b", b"3", 44)]
    recovery, failed = again.processed(claimed, results)
    # Its removal failed too, and the interval is run again.
    recovery.lock.release(failed.lock)
    recovery, ticket = again.processed(again.claim(request), results)
    report = interval.publish_results(recovery, ticket, request)
    recovery.lock.release(ticket.lock)
    assert interval.remove(recovery, failed, None) == Removed(topics=(), directories=(), stopped=()), "the later one is not removed yet"
    again.ended(recovery, claimed, ticket, report)
    assert interval.remove(recovery, failed, None) == Removed(topics=(), directories=(), stopped=())
    assert (again.here(), read(again.own, output)) == ({output}, results)


@pytest.mark.deep
def test_a_run_whose_slot_was_given_back_touches_nothing_in_it(again: Again) -> None:
    request, other = again.request(20, 45), again.request(0, 5_000)
    claimed = again.claim(request)
    recovery, ticket = again.processed(claimed, [])
    again.ended(recovery, claimed, ticket)
    assert again.claim(other, "run-2").slot == claimed.slot
    # Somebody clears tasks of the first run: they stop and start what is in the slot, and that is the other interval's now.
    planned = interval.plan(recovery, again.own.application_id, request)
    with configured(again, recovery, status=says(RUNNING), stop=["false"]) as late:
        with pytest.raises(Refused, match="has no slot any more"):
            interval.clear(late, again.own.application_id, request, run_id="run-1")
        with pytest.raises(Refused, match="has no slot any more"):
            interval.open_interval(late, again.own.application_id, request, planned, run_id="run-1", requested_by="test")
        assert interval.remove(late, ticket, None) == Removed(topics=(), directories=(), stopped=())
        assert late.lock.holder() is None
    assert interval.busy(again.own) == (other.slice.interval.name,)


@pytest.mark.deep
def test_a_late_removal_leaves_the_slot_to_the_run_that_has_claimed_it_since(again: Again) -> None:
    request = again.request(20, 45)
    recovery, dead = again.processed(again.claim(request), [])
    recovery.lock.release(dead.lock)
    claimed = again.claim(request, "run-2")
    interval.remove(recovery, dead, None)
    assert again.here() == set(), "what the dead run has left goes"
    assert interval.busy(again.own) == (request.slice.interval.name,), "and the slot stays with the other one"
    again.ended(recovery, claimed, None, run="run-2")
    assert interval.busy(again.own) == ()


@pytest.mark.deep
def test_an_interval_that_was_handed_over_and_could_not_be_finished_has_failed(again: Again) -> None:
    request = again.request(20, 45)
    claimed = again.claim(request)
    recovery, ticket = again.processed(claimed, [(b"a", b"2", 20)])
    report = interval.publish_results(recovery, ticket, request)
    entry = again.ended(recovery, claimed, ticket, report, finished=False)
    assert (entry.succeeded, entry.outcome, entry.published) == (False, "failed after recovered", report)
    with pytest.raises(Damaged, match="the interval failed after recovered"):
        interval.raise_unless_succeeded(entry)


@pytest.mark.deep
def test_results_that_nobody_here_made_are_refused_and_left_alone(again: Again) -> None:
    claimed = again.claim(again.request(20, 45))
    recovery = again.scratch(claimed)
    [output] = recovery.config.topics.outputs
    recovery.cluster.create_topic(output, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    write(recovery, output, [(b"k", b"v", 20)])
    with pytest.raises(TargetNotEmpty, match=f"topic {output}"):
        interval.clear(recovery, again.own.application_id, claimed.request, run_id="run-1")
    assert read(recovery, output) == [(b"k", b"v", 20)]


@pytest.mark.deep
def test_no_more_intervals_than_slots_and_none_twice(again: Again) -> None:
    first, second, third = (again.request(start, start + 5_000) for start in (0, 5_000, 10_000))
    slots = [again.claim(first).slot, again.claim(second).slot]
    assert sorted(slots) == [0, 1]
    assert interval.claim(again.own, third, run_id="run-2") is None
    assert len(interval.busy(again.own)) == 2
    assert again.claim(first, "run-2").slot == slots[0], "a run that died is run again"
    again.ended(again.own, again.claim(first, "run-2"), None, run="run-1")
    assert len(interval.busy(again.own)) == 2, "a run does not give back what another has taken"
    again.ended(again.own, again.claim(first, "run-2"), None, run="run-2")
    assert again.claim(third).slot == slots[0]

    recovery = again.scratch(again.claim(second))
    lock = recovery.lock.acquire("somebody", lease_seconds=60, purpose="test")
    with pytest.raises(LockHeld, match="is being processed"):
        interval.claim(again.own, second, run_id="run-3")
    recovery.lock.release(lock)


def replaced(again: Again, results: Sequence[tuple[bytes, bytes | None, int]], **asked: object) -> interval.PublishReport:
    """The interval from 20 to 45 with these results, put into the output."""
    request = again.request(20, 45, publish="replace", confirm=again.own.application_id, **asked)
    claimed = again.claim(request)
    recovery, ticket = again.processed(claimed, results)
    try:
        return interval.publish_results(recovery, ticket, request)
    finally:
        note(recovery, ticket, Phase.CLOSED)
        interval.remove(recovery, ticket, None)


@pytest.mark.deep
def test_in_a_compacted_output_the_newest_result_of_each_key_replaces_the_one_of_the_interval(again: Again) -> None:
    own, output = again.own, again.small.output.topic
    before = [(b"old", b"5", 5), (b"in", b"25", 25), (b"late", b"30", 30), (b"late", b"70", 70), (b"gone", b"40", 40), (b"same", b"44", 44)]
    write(own, output, before)
    results = [
        (b"in", b"outside", 19),
        (b"in", b"first", 21),
        (b"in", b"new", 26),
        (b"late", b"new", 31),
        (b"old", b"new", 20),
        (b"fresh", b"new", 40),
        (b"same", b"44", 44),
        (b"old", b"outside", 45),
    ]
    with pytest.raises(Refused, match=r"1, such as b'gone'.*allow tombstones"):
        replaced(again, results)
    assert read(own, output) == before
    [done] = replaced(again, results, tombstones=True).outputs
    assert (done.results, done.outside, done.written, done.tombstones, done.same, done.superseded) == (6, 2, 3, 1, 1, 1)
    written = [(b"in", b"new", 26), (b"old", b"new", 20), (b"fresh", b"new", 40), (b"gone", None, 44)]
    assert read(own, output) == [*before, *written]
    [again_done] = replaced(again, results).outputs
    assert (again_done.written, again_done.tombstones, again_done.same, again_done.superseded) == (0, 0, 4, 1)
    assert read(own, output) == [*before, *written], "nothing is doubled"
    assert again.here() == set()


@pytest.mark.deep
def test_where_readers_see_every_record_results_come_once_or_not_at_all(again: Again) -> None:
    own, output = again.own, again.small.output.topic
    alter(own.cluster, {output: {"cleanup.policy": "delete"}})
    write(own, output, [(b"k", b"before", 19), (b"k", b"behind", 45)])
    results = [(b"k", b"1", 20), (b"k", b"1", 20), (b"k", b"outside", 19), (b"k", b"2", 44)]
    [done] = replaced(again, results).outputs
    assert (done.written, done.same) == (3, 0)
    whole = [(b"k", b"before", 19), (b"k", b"behind", 45), (b"k", b"1", 20), (b"k", b"1", 20), (b"k", b"2", 44)]
    assert read(own, output) == whole
    [done] = replaced(again, results).outputs
    assert (done.written, done.same) == (0, 3)
    with pytest.raises(Refused) as caught:
        replaced(again, results[:2])
    assert caught.value.facts == {"partitions": [f"{output}-0"]}
    assert read(own, output) == whole


@pytest.mark.deep
def test_an_output_that_cannot_take_old_results_is_refused_before_anything_is_started(again: Again) -> None:
    own, output = again.own, again.small.output.topic
    alter(own.cluster, {output: {"cleanup.policy": "delete", "retention.ms": "1000"}})
    request = again.request(20, 45, publish="replace", confirm=own.application_id)
    recovery = again.scratch(request)
    with pytest.raises(Refused, match=f"{output} keeps records for 1000 ms"):
        interval.plan(recovery, own.application_id, request)
    alter(own.cluster, {output: {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}})
    with pytest.raises(Refused, match="the time of its arrival"):
        interval.plan(recovery, own.application_id, request)
    assert again.here() == set()
    with pytest.raises(Refused, match="only when its id is typed"):
        again.request(20, 45, publish="replace", confirm="small")


@pytest.mark.deep
def test_results_are_not_handed_over_while_they_may_still_grow(again: Again) -> None:
    claimed = again.claim(again.request(20, 45))
    recovery, ticket = again.processed(claimed, [(b"a", b"1", 20)])
    alive = [{**GONE[0], "state": "running"}]
    with configured(again, recovery, status=says(alive)) as running, pytest.raises(ApplicationRunning, match="again"):
        interval.publish_results(running, ticket, claimed.request)
    interval.remove(recovery, ticket, None)


@pytest.mark.deep
def test_durations_of_the_section_are_defaults(again: Again) -> None:
    request = interval.requested(again.own, ReprocessOptions(overlap="PT5M"), Interval(start=ZERO, end=ZERO + 1))
    assert (request.slice.lateness, request.slice.overlap, request.slice.beyond) == (milliseconds("PT1H"), 300_000, 0)
