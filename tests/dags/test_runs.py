"""Every DAG once, from its file to what it leaves on a real broker and in a real repository: savepoints and their upkeep, and runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from airflow.sdk import DAG
from confluent_kafka import Producer

from streams_recovery.core import codec
from streams_recovery.core.archive.log import ArchiveEvent
from streams_recovery.core.errors import SparkJobFailed, TransientError
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operations import archive
from streams_recovery.operations.state.inspect import newest
from streams_recovery.operations.status import log as status_log
from streams_recovery.operators.spark import ArchiveInputsOperator
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from tests.support.airflow.dag_runs import run
from tests.support.applications.counting import Counting
from tests.support.applications.topic_records import aborted

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


def test_every_dag_file_has_a_run() -> None:
    here = Path(__file__).parent
    ran = {name for path in here.glob("test_runs*.py") for name in runs_of(ast.parse(path.read_text()))}
    # What tells of a configuration that cannot be used has nothing to run on: test_configurations.py runs it.
    assert ran == {path.stem.removeprefix("streams_") for path in (here.parents[1] / "dags").glob("streams_*.py")} - {"configuration"}


def runs_of(module: ast.Module) -> set[str]:
    """The DAGs that are run by tests of a file which every run of the tests has, or by what these call."""
    functions = {one.name: one for one in module.body if isinstance(one, ast.FunctionDef)}
    waiting = [name for name, one in functions.items() if name.startswith("test_") and not _left_out(one)]
    ran, seen = set[str](), set[str]()
    while waiting:
        seen.add(name := waiting.pop())
        for call in (node for node in ast.walk(functions[name]) if isinstance(node, ast.Call)):
            called = ast.unparse(call.func)
            if called == "run" and isinstance(call.args[1], ast.Constant):
                ran.add(str(call.args[1].value))
            elif called in functions and called not in seen:
                waiting.append(called)
    return ran


def _left_out(test: ast.FunctionDef) -> bool:
    return any(mark in ast.unparse(decorator) for decorator in test.decorator_list for mark in ("deep", "skip", "xfail"))


def test_a_run_that_not_every_run_of_the_tests_has_is_none() -> None:
    text = """
def test_a():
    run(x, "one")
    # run(x, "two")
    by_way_of()
@pytest.mark.deep
def test_b():
    run(x, "three")
def by_way_of():
    run(x, "four")
def helper_of_nobody():
    run(x, "five")
"""
    assert runs_of(ast.parse(text)) == {"one", "four"}


@pytest.mark.way("savepoint")
def test_a_savepoint_is_taken_and_the_application_comes_back(
    counting: Counting, in_session: Submitter, capsys: pytest.CaptureFixture[str]
) -> None:
    counting.feed("abcab")
    counting.start()
    done = run(counting, "backup", in_session, per_application=True)
    assert (done.state, done.jobs, done.by("success")) == ("success", ["backup"], set(done.tasks))
    assert (counting.running, counting.free()) == (True, True)
    manifest = counting.newest()
    assert (manifest.consistency.value, manifest.records, manifest.provenance.reason) == ("exact", 5, "test")
    assert manifest.committed()[counting.input].offset == 5
    told = capsys.readouterr().out
    assert f"savepoint {manifest.savepoint_id}: exact, 5 records, 5 new" in told
    assert "it has: exact state" in told, "the first one is explained"
    assert "a restore takes: about " in told


@pytest.mark.deep
def test_a_savepoint_whose_copy_fails_is_none_and_the_application_comes_back_all_the_same(counting: Counting) -> None:
    counting.feed("abcab")
    counting.start()
    done = run(counting, "backup", Failing(), per_application=True)
    assert (done.state, done.by("failed")) == ("failed", {"copy_records"})
    assert done.by("upstream_failed") == {"publish", "report"}
    assert (counting.running, counting.free(), counting.savepoints()) == (True, True, [])


def test_a_cut_that_cannot_be_read_of_an_application_that_is_held_lets_it_go(counting: Counting) -> None:
    counting.configure(backup={"survive_cluster_loss": False, "consistency": {"mode": "stop", "timeout_seconds": 3}})
    counting.feed("abcab")
    counting.start()
    producer = Producer({"bootstrap.servers": counting.bootstrap, "transactional.id": f"{counting.id}-other", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(counting.changelog.topic, b"1", b"z", 0)
    producer.flush(30)
    done = run(counting, "backup", Failing(), per_application=True)
    producer.abort_transaction(30)
    assert (done.state, done.by("failed"), done.jobs) == ("failed", {"capture_cut"}, [])
    assert (counting.running, counting.free(), counting.savepoints()) == (True, True, [])


@pytest.mark.way("archive")
def test_a_run_archives_what_is_there_and_hands_over(counting: Counting, in_session: Submitter) -> None:
    sections = {"backup": {"survive_cluster_loss": True, "consistency": {"mode": "stop"}}, "archive": {"enabled": True, "interval": "PT1S"}}
    counting.configure(**sections)
    counting.feed("abcab")
    done = run(counting, "archive", in_session, per_application=True, changes={"begin": {"seconds": 6.0}})
    assert (done.state, done.jobs, done.by("success")) == ("success", ["archive"], {"begin", "archive_inputs"})
    with counting.recovery() as recovery:
        found = archive.read_archive(recovery)
        assert (found.event, found.newest[counting.input].end) == (ArchiveEvent.ENDED, 5)
        assert recovery.lock.holder() is None, "a savepoint may be taken meanwhile"
    assert not counting.running


def test_while_an_archiver_that_was_killed_has_its_lock_the_next_one_is_tried_again(counting: Counting, in_session: Submitter) -> None:
    counting.configure(
        backup={"survive_cluster_loss": True, "consistency": {"mode": "stop"}}, archive={"enabled": True, "interval": "PT1S"}
    )
    with counting.recovery() as recovery:
        lock = ApplicationLock(recovery.repository, recovery.layout.archiving, recovery.clock)
        lock.acquire("killed", lease_seconds=90, purpose="archiving")
        ticket = archive.begin(recovery, "run", seconds=60.0)
    with DAG("archive", schedule=None):
        task = ArchiveInputsOperator(
            task_id="archive_inputs", application_name=counting.name, results={"begin": codec.dumps(ticket).decode()}
        )
    task.submitter = in_session
    # Airflow tries these again, and no others.
    with pytest.raises(TransientError, match="killed"):
        task.execute({})


@pytest.mark.way("monitor")
def test_the_monitor_looks_at_it_and_stores_what_it_saw(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    counting.savepoint(in_session)
    done = run(counting, "monitor", in_session)
    assert (done.state, done.by("success")) == ("success", {"check_configurations", "choose_applications", "observe"})
    with counting.recovery() as recovery:
        report = status_log.newest(recovery.repository, recovery.layout)
        assert report is not None
        [savepoint] = report.savepoints
        assert (savepoint.savepoint_id, savepoint.records) == (counting.newest().savepoint_id, 5)
        assert {topic.name for topic in report.topics} == {counting.changelog.topic, counting.input.topic, counting.output.topic}
    assert not counting.running
    assert counting.free()


class Failing:
    """See Submitter. No job succeeds."""

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Raise."""
        raise SparkJobFailed(f"no {job.name} succeeds here", next_step="none")


@pytest.mark.way("check")
def test_a_check_reads_every_byte_and_finds_the_one_that_changed(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    counting.savepoint(in_session)
    done = run(counting, "check", in_session, per_application=True, level="full")
    assert (done.state, done.jobs) == ("success", ["check"])
    [report] = checks(counting)
    assert (report.savepoints, report.files_read, report.rows_read, report.good) == (1, 1, 5, True)

    [segment] = (counting.directory / "repository" / counting.id / "segments").rglob("*.parquet")
    flip(segment)
    done = run(counting, "check", in_session, per_application=True, level="full")
    assert (done.state, done.by("failed")) == ("failed", {"conclude"})
    assert [[found.cause.value for found in report.findings] for report in checks(counting) if not report.good] == [["altered-file"]]


@pytest.mark.way("second place")
def test_savepoints_are_copied_to_the_second_place_and_what_is_broken_there_fails_the_run(
    counting: Counting, in_session: Submitter
) -> None:
    second = counting.with_second_place()
    counting.worked("abcab")
    counting.savepoint(in_session)
    done = run(counting, "mirror", in_session, per_application=True)
    assert (done.state, done.jobs) == ("success", [])
    first = counting.directory / "repository"
    [segment] = second.rglob("*.parquet")
    assert segment.read_bytes() == (first / segment.relative_to(second)).read_bytes()
    assert run(counting, "mirror", in_session, per_application=True).state == "success"

    segment.write_bytes(segment.read_bytes() + b"x")
    counting.worked("c")
    counting.savepoint(in_session)
    done = run(counting, "mirror", in_session, per_application=True)
    assert (done.state, done.by("failed")) == ("failed", {"mirror"})


def checks(counting: Counting) -> list[CheckReport]:
    with counting.recovery() as recovery:
        ids = sorted(path.name for path in (counting.directory / "repository" / counting.id / "checks").iterdir())
        return [AppendLog(recovery.repository, recovery.layout.check(each), CheckReport).read_all()[-1] for each in ids]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.way("compaction")
def test_a_savepoint_is_compacted_to_the_newest_record_of_each_key(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab" * 8)
    counting.savepoint(in_session)
    done = run(counting, "compact", in_session)
    assert (done.state, done.jobs) == ("success", ["compact"])
    manifest = counting.newest()
    assert {manifest.savepoint_id, manifest.replaces} == set(counting.savepoints())
    assert manifest.records == 3
    assert manifest.committed()[counting.input].offset == 40

    again = run(counting, "compact", in_session)
    assert (again.state, again.jobs, len(counting.savepoints())) == ("success", [], 2), "there is nothing left to compact"


@pytest.mark.way("expiry")
def test_an_expiry_is_carried_out_only_when_that_was_asked_for(counting: Counting, in_session: Submitter) -> None:
    rules = dict.fromkeys(("keep_hourly", "keep_daily", "keep_weekly", "keep_monthly"), 0)
    counting.configure(retention={**rules, "keep_last": 1, "minimum": 1})
    counting.worked("ab")
    counting.savepoint(in_session)
    last = counting.savepoint(in_session)
    done = run(counting, "expire", in_session, per_application=True)
    assert (done.state, done.tasks["expire"], len(counting.savepoints())) == ("success", "skipped", 2)
    assert len(list((counting.directory / "repository" / counting.id / "announcements").iterdir())) == 1, (
        "it was announced in place of that"
    )
    done = run(counting, "expire", in_session, per_application=True, apply="true")
    assert (done.state, done.tasks["expire"], counting.savepoints()) == ("success", "success", [last])
    assert counting.free()


@pytest.mark.deep
def test_an_expiry_merges_small_files_first_and_goes_on_whatever_becomes_of_it(counting: Counting, in_session: Submitter) -> None:
    rules = {**dict.fromkeys(("keep_hourly", "keep_daily", "keep_weekly", "keep_monthly"), 0), "keep_last": 1, "minimum": 1}
    counting.configure(retention={**rules, "merge_files": 0})
    empty = run(counting, "expire", in_session, per_application=True)
    assert (empty.state, empty.jobs, empty.tasks["merge.plan"]) == ("success", [], "skipped"), "there is no savepoint yet"
    for letters in ("abcab", "cabca", "bcabc"):
        counting.worked(letters)
        last = counting.savepoint(in_session)
    never = run(counting, "expire", in_session, per_application=True)
    assert (never.state, never.jobs, never.tasks["merge.plan"], len(counting.savepoints())) == ("success", [], "skipped", 3)
    counting.configure(retention={**rules, "merge_files": 3})
    shown = run(counting, "expire", in_session, per_application=True, apply="false")
    assert (shown.state, shown.jobs, shown.tasks["merge.plan"], len(counting.savepoints())) == ("success", [], "skipped", 3)

    failed = run(counting, "expire", Failing(), per_application=True, apply="true")
    assert (failed.state, failed.by("failed"), failed.by("upstream_failed")) == (
        "failed",
        {"merge.write_files"},
        {"merge.publish", "merged"},
    )
    assert (failed.tasks["expire"], counting.savepoints()) == ("success", [last])

    done = run(counting, "expire", in_session, per_application=True, apply="true")
    assert (done.state, done.jobs, done.by("success")) == ("success", ["compact"], set(done.tasks))
    manifest = counting.newest()
    assert (manifest.replaces, set(counting.savepoints())) == (last, {last, manifest.savepoint_id}), "for a day both"
    assert (manifest.records, manifest.file_count) == (15, 1)

    again = run(counting, "expire", in_session, per_application=True, apply="true")
    assert (again.state, again.jobs, again.by("skipped")) == (
        "success",
        [],
        set(done.tasks) - {"plan", "expire"},
    )
    assert counting.free()


@pytest.mark.way("scheduled run")
def test_a_run_works_off_what_is_there_and_ends_down(counting: Counting, in_session: Submitter) -> None:
    counting.feed("abcab")
    done = run(counting, "run", in_session, per_application=True)
    assert (done.state, done.by("success")) == ("success", set(done.tasks))
    assert (counting.running, counting.free(), counting.committed()) == (False, True, 5)
    assert counting.rows(counting.output) == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("b", "2")]


@pytest.mark.deep
def test_a_run_ends_although_its_input_ends_in_records_that_were_aborted(counting: Counting, in_session: Submitter) -> None:
    counting.feed("abc")
    with counting.recovery() as recovery:
        aborted(recovery, counting.input)
    done = run(counting, "run", in_session, per_application=True)
    assert (done.state, counting.committed(), counting.end(counting.input)) == ("success", 3, 7)
    assert (done.results["stop_application"]["behind"], counting.running) == ({}, False)
    again = run(counting, "run", in_session, per_application=True)
    assert (again.state, again.results["start_application"]["instances"]) == ("success", []), "there is nothing to process"


@pytest.mark.deep
def test_a_run_that_cannot_wait_fails_and_ends_down(counting: Counting, in_session: Submitter) -> None:
    counting.feed("abcab")
    done = run(counting, "run", in_session, per_application=True, changes={"await_ends": {"captured": "{}"}})
    assert (done.state, done.by("failed"), done.by("upstream_failed")) == ("failed", {"await_ends"}, {"ends_reached"})
    assert (counting.running, counting.free(), done.tasks["stop_application"]) == (False, True, "success")


@pytest.mark.deep
def test_a_run_for_a_while_waits_in_the_triggerer(counting: Counting, in_session: Submitter) -> None:
    done = run(counting, "run", in_session, per_application=True, until="duration:PT5S")
    assert (done.state, done.results["stop_application"]["seconds"] >= 5) == ("success", True), "it was not stopped before its time"
    assert (counting.running, (counting.directory / "started.was").exists()) == (False, True)


@pytest.mark.way("comparison", "look-up")
def test_two_savepoints_are_compared_and_looked_into_and_what_was_found_is_stored(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    first = counting.savepoint(in_session)
    counting.worked("ad")
    second = counting.savepoint(in_session)
    both = {"application": counting.name, "savepoint": first, "other": second}

    done = run(counting, "compare", in_session, **both, stores="totals")
    assert (done.state, done.jobs) == ("success", [])
    assert done.results["compare"] == {"savepoint_id": first, "other": second, "outcome": "different"}
    found = newest_inspection(counting)
    assert found.sentences == ("totals: 4 keys compared, 3 and 4: 1 changed, 1 added, 0 removed",)
    assert (found.found.rows, found.has_data, counting.free()) == ((), False, True)

    assert run(counting, "compare", in_session, **both, stores="nothing").state == "failed", "only the stores that are named"

    counting.configure(access={"show_values": True})
    done = run(counting, "look_up", in_session, application=counting.name, savepoint=first, store="totals", key=b"a".hex())
    assert (done.state, done.results["look_up"]) == ("success", {"savepoint_id": first, "other": "", "outcome": "found"})
    found = newest_inspection(counting)
    assert (found.found.rows[0][:2], found.has_data) == ((b"a".hex(), b"2".hex()), True), "it was counted a third time since"

    done = run(counting, "look_up", in_session, application=counting.name, topic=counting.changelog.topic)
    assert done.results["look_up"] == {"savepoint_id": second, "other": "", "outcome": "found"}
    assert newest_inspection(counting).question == f"newest records of {counting.changelog.topic} in {second}"


def newest_inspection(counting: Counting) -> Inspection:
    with counting.recovery() as recovery:
        return newest(recovery.repository, recovery.layout)[0]
