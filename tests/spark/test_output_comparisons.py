"""Whole comparisons of outputs, on a real broker and with real Spark: which records come from the same input, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ApplicationNotReady, NotFound, RecoveryError, Refused
from streams_recovery.core.forms import request_of
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.comparison import Against, OutputsOptions, OutputsReport, OutputsRequest, outputs_request
from streams_recovery.core.outputs.keys import ReadBy
from streams_recovery.core.outputs.values import Tolerance
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.single_topics import SingleTopics
from streams_recovery.core.rollout.cutover import cutover_text
from streams_recovery.core.state.inspection import FoundRows, Outcome
from streams_recovery.core.words import new_id
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import interval, outputs, restore, rollout
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.evidence import keep_evidence
from streams_recovery.operations.rollout import CutoverStep
from streams_recovery.operations.rollout.values import keep, newest
from tests.support.applications.pair import Both, request, switched, two_applications
from tests.support.applications.reprocessing import Again, again_at
from tests.support.applications.reprocessing import write as write_results
from tests.support.applications.restore_steps import opened
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import asked, configured, reopened
from tests.support.applications.topic_records import commit, delete_below, produce, recreate
from tests.support.kafka.topic_settings import alter
from tests.support.project import PROJECT

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.deep]


@pytest.fixture
def cloned(bootstrap: str, tmp_path: Path) -> Iterator[Both]:
    """The clone at work beside the old application. Both have read all there is. Before the savepoint the real output had four records."""
    with two_applications(bootstrap, tmp_path) as both:
        savepoint = publish(both.small)
        both.old.application.start()
        both.cloned(savepoint)
        commit(both.old, {both.small.input: 5, both.small.tail: 4})
        with both.clone() as clone:
            commit(clone, {both.tail: clone.cluster.high_watermarks([both.tail])[both.tail]})
        yield both


@pytest.fixture
def again(bootstrap: str, tmp_path: Path) -> Iterator[Again]:
    """An application with a past, that has read all of its input."""
    with again_at(bootstrap, tmp_path) as found:
        logs = [found.small.input, found.small.tail]
        commit(found.own, found.own.cluster.high_watermarks(logs))
        yield found


def put(recovery: RecoveryContext, topic: str, *keys: str) -> None:
    """One record for each key."""
    put_values(recovery, topic, *((key.encode(), b"1") for key in keys))


def put_values(recovery: RecoveryContext, topic: str, *records: tuple[bytes, bytes]) -> None:
    """Records of now: retention would take older ones away."""
    producer = Producer(recovery.connection.client_config())
    for key, value in records:
        producer.produce(topic, value, key, 0)
    assert producer.flush(30) == 0


def compare(
    both: Both, in_session: Submitter, *, of: Callable[[RecoveryContext], RecoveryContext] = lambda one: one, **asked: str
) -> OutputsReport:
    with both.clone() as clone:
        return compared(of(clone), both.old, in_session, **asked)


def compared(recovery: RecoveryContext, original: RecoveryContext | None, in_session: Submitter, **more: str) -> OutputsReport:
    runner = Runner(recovery=recovery, submitter=in_session, say=lambda _: None)
    return runs.compare_outputs(runner, original, wanted(**more))


def wanted(**options: str) -> OutputsRequest:
    return outputs_request(request_of(OutputsOptions, options), run_id=f"run-{time.time_ns()}", requested_by="me")


def refused(both: Both, *, of: Callable[[RecoveryContext], RecoveryContext] = lambda one: one) -> RecoveryError:
    """Why a comparison does not begin."""
    with both.clone() as clone, pytest.raises(RecoveryError) as caught:
        outputs.begin(of(clone), both.old, wanted())
    return caught.value


def plan_text(both: Both) -> str:
    with both.clone() as clone:
        return cutover_text(rollout.plan_cutover(both.old, clone, request(CutoverStep.CUT_OVER)))


def test_results_of_the_same_input_are_equal_and_one_that_is_not_is_found(cloned: Both, in_session: Submitter) -> None:
    old, real = cloned.old, cloned.small.output.topic
    nothing = compare(cloned, in_session)
    assert nothing.outcome is Outcome.NOTHING_COMPARED, "what is empty on both sides is not equal"
    assert "The outputs of the clone were not compared" not in plan_text(cloned)

    for topic in (real, cloned.own):
        put(old, topic, "a", "b", "a")
    equal = compare(cloned, in_session)
    [output] = equal.outputs
    assert (equal.outcome, output.way, output.counts.equal) == (Outcome.EQUAL, ReadBy.RECORDS, 2)
    assert (output.counts.records_here, output.counts.records_there) == (3, 3), "not what was there before the savepoint"
    assert equal.notes[1] == "no result came while the comparison was prepared: both have processed the same input"
    assert f"savepoint {equal.savepoint_id}" in equal.notes[0]
    assert "equal, 2 keys compared." in plan_text(cloned)

    put(old, real, "b")
    different = compare(cloned, in_session)
    assert (different.outcome, different.outputs[0].counts.behind, different.outputs[0].counts.missing) == (Outcome.DIFFERENT, 1, 1)
    assert (different.found.rows, different.has_data) == ((), False), "keys are not shown unless values are"
    assert "different, 2 keys compared." in plan_text(cloned)
    with cloned.clone() as clone:
        kept = newest(clone.repository, clone.layout)
        assert [one.outcome for one in kept] == [Outcome.DIFFERENT, Outcome.EQUAL, Outcome.NOTHING_COMPARED]
        assert (clone.lock.holder(), old.lock.holder()) == (None, None)


def test_the_command_submits_the_job_and_says_it_by_its_exit_code(cloned: Both) -> None:
    real, environment = cloned.small.output.topic, {**os.environ, **cloned.variables, "COLUMNS": "1000"}
    environment["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[2]"})
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])
    command = [sys.executable, "-m", "streams_recovery", "compare-outputs", "next", "--configs", str(cloned.directory)]

    def told(*more: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, *more], env=environment, cwd=cloned.directory, capture_output=True, text=True, timeout=300, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    for topic in (real, cloned.own):
        put(cloned.old, topic, "a", "b")
    code, text = told()
    assert (code, text.splitlines()[0].endswith(": equal")) == (0, True), text
    put(cloned.old, cloned.own, "c")
    code, text = told("--json")
    report = json.loads(text)
    assert (code, report["outputs"][0]["counts"]["equal"], report["outputs"][0]["counts"]["only_there"]) == (9, 2, 1)
    assert [path.name for path in (cloned.directory / "build" / "logs").rglob("*compare_outputs*")] != [], "by spark-submit"


def test_a_plan_of_a_cut_over_says_that_nothing_was_compared_since_the_clone_was_made(cloned: Both) -> None:
    assert "The outputs of the clone were not compared with the real ones since it was made." in plan_text(cloned)


def test_a_comparison_with_an_earlier_clone_says_nothing_of_this_one(cloned: Both) -> None:
    with cloned.clone() as clone:
        origin = restore.evidence(clone)[0].savepoint_id
        assert origin is not None
        found = OutputsReport(
            against=Against.CLONE,
            other=clone.application_id,
            savepoint_id=origin,
            outcome=Outcome.EQUAL,
            outputs=(),
            notes=(),
            found=FoundRows(),
            has_data=False,
            tolerance=Tolerance(),
            at=clone.clock(),
            run_id="run-1",
            requested_by="me",
        )
        keep(clone, found)
        # It began before this clone was made, and ended when it was there.
        keep(clone, replace(found, savepoint_id="20200101T000000Z-0123456789", outcome=Outcome.DIFFERENT))
    assert f": {Outcome.EQUAL.value}, " in plan_text(cloned)


def restored_alone(recovery: RecoveryContext, report: restore.RestoreReport, topic: str, *, in_place: bool) -> None:
    """Evidence that a topic was brought back alone just now."""
    single = SingleTopics(names={topic if in_place else "a-copy": topic}, in_place=in_place)
    topics = (replace(report.topics[0], topic=topic),)
    at = recovery.clock()
    made = replace(
        report,
        restore_id=new_id(at, f"{topic}{in_place}"),
        application_id=recovery.application_id,
        part=TopicsPart(single=single),
        topics=topics,
        finished_at=at,
    )
    keep_evidence(recovery.repository, recovery.layout, made)


def test_topics_that_were_restored_alone_keep_a_comparison_from_beginning_only_in_place(cloned: Both) -> None:
    old, real = cloned.old, cloned.small.output.topic
    with cloned.clone() as clone:
        report = restore.evidence(clone)[0]
        for one, topic in ((old, real), (clone, cloned.own)):
            restored_alone(one, report, topic, in_place=False)
        assert outputs.begin(clone, old, wanted()).savepoint_id == report.savepoint_id, "of the restore of all of the clone"
        time.sleep(1.1)  # an id has whole seconds
        for one, topic in ((old, real), (clone, cloned.own)):
            restored_alone(one, report, topic, in_place=True)
            with pytest.raises(Refused) as caught:
                outputs.begin(clone, old, wanted())
            [found] = caught.value.facts["findings"]
            assert found.startswith(f"topics of {one.application_id} were restored alone")
            assert topic in found
            if one is old:
                newest_restore = restore.evidence(one)[0].restore_id
                one.repository.delete([one.layout.report(newest_restore), one.layout.report_page(newest_restore)])


def test_a_further_output_of_a_new_version_is_named_and_the_others_are_compared(cloned: Both, in_session: Submitter) -> None:
    for topic in (cloned.small.output.topic, cloned.own):
        put(cloned.old, topic, "a")

    def writing(clone: RecoveryContext, names: dict[str, str]) -> RecoveryContext:
        topics = replace(clone.config.topics, outputs=tuple(names.values()))
        renamed = clone.config.restore.model_copy(update={"topic_map": names})
        return replace(clone, config=clone.config.model_copy(update={"topics": topics, "restore": renamed}))

    both, more = {cloned.small.output.topic: cloned.own}, {"more": "more.own"}
    found = compare(cloned, in_session, of=lambda clone: writing(clone, both | more))
    assert (found.outcome, [one.output for one in found.outputs]) == (Outcome.EQUAL, [cloned.small.output.topic])
    assert any(note.endswith("were not compared: more") for note in found.notes)

    error = refused(cloned, of=lambda clone: writing(clone, more))
    assert (type(error), error.facts["outputs"]) == (Refused, ["more"])


def test_what_comes_while_it_is_prepared_is_in_flux_and_no_difference(cloned: Both, in_session: Submitter) -> None:
    old, small = cloned.old, cloned.small
    for topic in (small.output.topic, cloned.own):
        put(old, topic, "a")
    produce(old, small.input, 1)
    end = old.cluster.high_watermarks([small.input])[small.input]
    commit(old, {small.input: end})

    def later() -> None:
        time.sleep(1)
        # The old application has more input and writes on, while the clone is waited for.
        with reopened(small) as elsewhere, cloned.clone() as clone:
            put(elsewhere.recovery, small.output.topic, "a", "new")
            put(elsewhere.recovery, cloned.own, "a")
            commit(clone, {small.input: end})

    helper = threading.Thread(target=later)
    helper.start()
    found = compare(cloned, in_session)
    helper.join()
    assert found.outcome is Outcome.EQUAL
    assert (found.outputs[0].counts.equal, found.outputs[0].counts.in_flux) == (1, 1)
    assert "may be in flux" in found.notes[1]


def test_an_application_that_has_not_processed_its_input_is_waited_for_and_then_named(cloned: Both) -> None:
    produce(cloned.old, cloned.small.input, 1)
    commit(cloned.old, {cloned.small.input: 6})
    error = refused(cloned)
    assert isinstance(error, ApplicationNotReady)
    assert error.facts["unprocessed"] == {cloned.small.input: 1}
    assert cloned.clone_id in error.reason
    with cloned.clone() as clone:
        commit(clone, {cloned.small.input: 6, cloned.tail: 0})
    assert "repartition topics" in refused(cloned).reason
    with cloned.clone() as clone:
        clone.application.stop(timeout=1)
    assert "is down with unread records" in refused(cloned).reason
    cloned.old.application.stop(timeout=1)
    with cloned.clone() as clone:
        commit(clone, {cloned.tail: clone.cluster.high_watermarks([cloned.tail])[cloned.tail]})
    commit(cloned.old, {cloned.small.input: 5})
    error = refused(cloned)
    assert (cloned.old.application_id in error.reason, "it is down" in error.reason) == (True, True)


def test_two_that_are_down_with_all_input_read_are_compared(cloned: Both, in_session: Submitter) -> None:
    for topic in (cloned.small.output.topic, cloned.own):
        put(cloned.old, topic, "a")
    cloned.old.application.stop(timeout=1)
    with cloned.clone() as clone:
        clone.application.stop(timeout=1)
    assert compare(cloned, in_session).outcome is Outcome.EQUAL


def test_formats_come_from_the_configuration_and_keys_are_shown_where_values_are(cloned: Both, in_session: Submitter) -> None:
    small, real = cloned.small, cloned.small.output.topic
    put_values(cloned.old, real, (b"a", b'{"n": 1.0, "at": 1}'), (b"b", b'{"n": 2}'))
    put_values(cloned.old, cloned.own, (b"a", b'{"n": 1.0001, "at": 2}'), (b"b", b'{"n": 3}'))
    form = {"key": "string", "value": "json", "ignore": ["at"]}

    def open_to_all(one: RecoveryContext) -> RecoveryContext:
        return replace(one, config=configured(one, outputs={real: form}, access={"show_values": True}))

    found = compare(cloned, in_session, of=open_to_all, tolerance="0.001")
    assert found.found.rows == (), "the real outputs are those of an application that shows no values"
    assert (found.outputs[0].counts.equal, found.outputs[0].counts.different) == (1, 1)
    with cloned.clone() as clone:
        old = replace(small.recovery, config=configured(small.recovery, access={"show_values": True}))
        shown = compared(open_to_all(clone), old, in_session, tolerance="0.001")
    assert shown.found.rows == ((real, "0", "b", "", "different in record 1 of the key", '{"n": 2}', '{"n": 3}'),)


def test_a_clone_that_was_made_again_is_compared_from_where_it_began_again(cloned: Both, in_session: Submitter) -> None:
    for topic in (cloned.small.output.topic, cloned.own):
        put(cloned.old, topic, "before")
    put(cloned.old, cloned.own, "of the first clone only")
    savepoint = publish(cloned.small)
    cloned.old.application.start()
    with cloned.clone() as clone:
        ticket = opened(clone, asked(clone, source=cloned.old.application_id, savepoint=savepoint, replace=True))
        cloned.restored(clone, ticket)
        commit(clone, {cloned.tail: clone.cluster.high_watermarks([cloned.tail])[cloned.tail]})
    for topic in (cloned.small.output.topic, cloned.own):
        put(cloned.old, topic, "a")
    found = compare(cloned, in_session)
    assert (found.outcome, found.outputs[0].counts.equal, found.outputs[0].counts.records_there) == (Outcome.EQUAL, 1, 1)


def test_outputs_that_cannot_be_compared_are_refused_with_the_reason(cloned: Both) -> None:
    old, real = cloned.old, cloned.small.output
    alter(old.cluster, {real.topic: {"cleanup.policy": "compact"}})
    declared = {real.topic: {"way": "records"}}
    error = refused(cloned, of=lambda one: replace(one, config=configured(one, outputs=declared)))
    assert error.facts["topics"] == [real.topic]
    alter(old.cluster, {real.topic: {"cleanup.policy": "delete"}})
    put(old, real.topic, "a", "b")
    delete_below(old, real, 5)
    error = refused(cloned)
    assert (type(error), error.facts["partitions"]) == (Refused, [str(real)])
    recreate(old, real.topic)
    assert refused(cloned).facts["topics"] == [real.topic]
    old.cluster.delete_topics([cloned.own])
    error = refused(cloned)
    assert (type(error), error.facts["topics"]) == (NotFound, [cloned.own])


def test_after_outputs_were_transferred_there_is_nothing_to_compare_until_the_clone_is_made_again(cloned: Both) -> None:
    switched(cloned, request(CutoverStep.CUT_OVER))
    assert "writes the real outputs" in refused(cloned).reason
    switched(cloned, request(CutoverStep.ROLL_BACK))
    with cloned.clone() as clone:
        clone.application.start()
    assert "outputs were transferred" in refused(cloned).reason


def test_an_application_that_is_no_clone_is_compared_with_an_interval_or_not_at_all(cloned: Both) -> None:
    with cloned.clone() as clone:
        assert outputs.against(clone, wanted()) is Against.CLONE
        assert outputs.against(clone, wanted(interval="2025-11-26T12:00:00Z")) is Against.INTERVAL
    assert outputs.against(cloned.old, wanted()) is Against.INTERVAL
    with pytest.raises(NotFound, match="no interval"):
        outputs.begin(cloned.old, None, wanted())


def test_results_of_an_interval_are_compared_with_the_real_ones_of_that_time(again: Again, in_session: Submitter) -> None:
    claimed = again.claim(again.request(20, 45))
    results = [(b"a", b"1", 20), (b"b", b"1", 30), (b"a", b"7", 46)]
    recovery, ticket = again.processed(claimed, results)
    published = interval.publish_results(recovery, ticket, claimed.request)
    again.ended(recovery, claimed, ticket, published)
    output = again.own.config.topics.outputs[0]
    write_results(again.own, output, [(b"a", b"0", 18), (b"a", b"0", 19), (b"a", b"1", 20), (b"b", b"1", 30), (b"b", b"2", 45)])
    found = compared(again.own, None, in_session)
    [one] = found.outputs
    assert (found.against, found.other, found.outcome) == (Against.INTERVAL, claimed.request.slice.interval.name, Outcome.EQUAL)
    assert (one.way, one.counts.equal, one.counts.superseded) == (ReadBy.LATEST, 1, 1), "the cleaner may remove what b had in the interval"
    assert (one.counts.records_here, one.counts.records_there) == (2, 2), "only what is of the interval"

    write_results(again.own, output, [(b"c", b"1", 44)])
    found = compared(again.own, None, in_session)
    assert (found.outcome, found.outputs[0].counts.only_here) == (Outcome.DIFFERENT, 1)

    real, kept = TopicPartition(output, 0), TopicPartition(one.other, 0)
    alter(again.own.cluster, {name: {"cleanup.policy": "delete"} for name in (output, one.other)})
    delete_below(again.own, real, 1)
    assert compared(again.own, None, in_session).outcome is Outcome.DIFFERENT, (
        "a record from before the interval shows that none of it is gone"
    )
    for tp, gone in ((real, [str(real)]), (kept, sorted([str(kept), str(real)]))):
        delete_below(again.own, tp, 2)
        with pytest.raises(Refused) as caught:
            compared(again.own, None, in_session)
        assert caught.value.facts["partitions"] == gone

    again.own.cluster.delete_topics([one.other])
    with pytest.raises(NotFound, match="outputs do not exist"):
        compared(again.own, None, in_session)


def test_an_application_that_has_not_read_all_input_of_an_interval_is_named(again: Again) -> None:
    claimed = again.claim(again.request(20, 45))
    recovery, ticket = again.processed(claimed, [(b"a", b"1", 20)])
    again.ended(recovery, claimed, ticket, interval.publish_results(recovery, ticket, claimed.request))
    commit(again.own, {again.small.input: 7})
    with pytest.raises(ApplicationNotReady, match="it is down"):
        outputs.begin(again.own, None, wanted())
