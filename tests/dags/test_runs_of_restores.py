"""Every way back once, from its DAG's file to what it leaves on a real broker. The application counts; what it has counted must be true of its input."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.mirror import Where
from streams_recovery.core.restore.report import RestoreReport, Verdict
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operations import restore
from streams_recovery.workflows.restore import WIPE_STATE
from tests.support.airflow.dag_runs import Done, run
from tests.support.applications.counting import ZERO, Counting
from tests.support.repository.intruder import Intruder

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


def report_of(counting: Counting, name: str | None = None) -> RestoreReport:
    """The evidence of the newest restore."""
    with counting.recovery(name) as recovery:
        return restore.evidence(recovery)[0]


def whole(done: Done) -> bool:
    """Whether every task succeeded."""
    return done.state == "success" and done.by("success") == set(done.tasks)


@pytest.mark.way("restore")
def test_a_lost_application_comes_back_with_its_state(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    counting.worked("cab")
    counting.lose()
    done = run(counting, "restore_full", in_session, application=counting.name)
    assert whole(done), done
    assert done.jobs[0] == "restore"
    assert (counting.running, counting.free(), counting.committed()) == (True, True, 8)
    assert counting.state() == counting.truth() == {"a": 3, "b": 3, "c": 2}
    report = report_of(counting)
    assert (report.savepoint_id, report.verdict, report.rows, report.reason) == (savepoint, Verdict.EQUAL, 5, "test")
    assert report.requested_by


@pytest.mark.deep
def test_nothing_is_touched_when_the_plan_is_refused(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    counting.lose()
    asked = {"application": counting.name, "savepoint": savepoint, "replace": True, "confirm": "somebody else"}
    done = run(counting, "restore_full", in_session, **asked)
    assert (done.state, done.by("failed"), done.jobs) == ("failed", {"plan"}, [])
    assert counting.changelog.topic not in counting.topics()


@pytest.mark.way("undo")
def test_an_undo_brings_back_what_a_restore_has_replaced(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    counting.savepoint(in_session)
    counting.worked("cab")
    counting.spoil()
    # Not row by row: nobody keeps the log cleaner away before and after the runs.
    before = counting.state()
    asked = {"application": counting.name, "confirm": counting.id}
    done = run(counting, "restore_full", in_session, replace=True, **asked)
    assert whole(done), done
    assert done.jobs[:2] == ["backup", "restore"], "what is there is saved first"
    assert counting.state() == counting.truth() == {"a": 3, "b": 3, "c": 2}
    safety = report_of(counting).safety_savepoint
    assert safety is not None

    done = run(counting, "undo", in_session, **asked)
    assert whole(done), done
    assert counting.state() == before == {"a": 3, "b": 3, "c": 2, "nobody": 99}
    assert (counting.committed(), report_of(counting).savepoint_id) == (8, safety)


@pytest.mark.way("second place")
def test_a_lost_application_comes_back_from_the_second_place_while_the_repository_is_gone(
    counting: Counting, in_session: Submitter
) -> None:
    counting.with_second_place()
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    assert run(counting, "mirror", in_session, per_application=True).state == "success"
    counting.worked("cab")
    counting.lose()
    asked = {"application": counting.name, "place": "mirror"}
    done = run(counting, "restore_full", in_session, **asked)
    assert (done.by("failed"), done.jobs) == ({"plan"}, []), "the first place answers and has savepoints"

    first = counting.directory / "repository"
    first.rename(counting.directory / "lost")
    done = run(counting, "restore_full", in_session, **asked)
    assert whole(done), done
    assert f"**Warning:** the first place {first} is not there: nobody else may use it meanwhile" in done.results["plan"]["text"]
    assert not first.exists()
    assert counting.state() == counting.truth() == {"a": 3, "b": 3, "c": 2}
    with counting.recovery(place=Where.MIRROR) as recovery:
        report = restore.evidence(recovery)[0]
        assert (report.savepoint_id, report.verdict, report.rows) == (savepoint, Verdict.EQUAL, 5)
        assert recovery.lock.holder() is None

    # What a restore has begun is undone there too; and one that fails half way says where it goes on.
    counting.spoil()
    typed = {"replace": True, "confirm": counting.id, **asked}
    assert whole(run(counting, "restore_full", in_session, **typed))
    assert "nobody" not in counting.state()
    del typed["replace"]
    done = run(counting, "undo", in_session, changes={"wipe_state": {"takes": replace(WIPE_STATE, call=lambda *_: 1 / 0)}}, **typed)
    assert done.state == "failed"
    assert done.results["abandon"]["commands"][0].endswith(" --from mirror")
    assert not first.exists()


@pytest.mark.way("rescale")
def test_topics_get_other_numbers_of_partitions_and_each_key_keeps_its_value(counting: Counting, in_session: Submitter) -> None:
    counting.configure(
        topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic], "include": [counting.input.topic]},
        restore={"producers_still_seconds": 1, "catch_up_timeout_seconds": 30},
    )
    counting.worked("abcab")
    counting.savepoint(in_session)
    counting.worked("cabdef")
    asked = {"application": counting.name, "confirm": counting.id}
    done = run(counting, "restore_rescale", in_session, partitions=f"{counting.input.topic}=3", history=True, **asked)
    assert whole(done), done
    assert done.jobs == ["rescale", "backup", "rescale", "restore"]
    inputs = [TopicPartition(counting.input.topic, number) for number in range(3)]
    keys = dict(sorted(Counter(key for tp in inputs for key, _ in counting.rows(tp)).items()))
    assert keys == {"a": 3, "b": 3, "c": 2, "d": 1, "e": 1, "f": 1}
    states = [counting.state(TopicPartition(counting.changelog.topic, number)) for number in range(3)]
    assert {key: value for state in states for key, value in state.items()} == keys
    assert sum(bool(state) for state in states) > 1, "keys are in more than one partition"
    assert counting.running
    report = report_of(counting)
    assert (report.verdict, report.part.facts()) == (
        Verdict.EQUAL,
        [("partitions", f"{counting.changelog.topic} 1 to 3, {counting.input.topic} 1 to 3")],
    )

    counting.stop()
    # Nothing has come since: the old number has all of it.
    done = run(counting, "undo", in_session, **asked)
    assert whole(done), done
    assert counting.state() == counting.truth() == keys
    with counting.recovery() as recovery:
        found = recovery.cluster.describe_topics([counting.input.topic, counting.changelog.topic])
    assert {topic.partitions for topic in found.values()} == {1}


@pytest.mark.way("rebuild")
def test_a_rebuild_counts_the_whole_input_again(counting: Counting, in_session: Submitter) -> None:
    counting.worked("abcab")
    counting.spoil()
    done = run(counting, "restore_rebuild", in_session, application=counting.name, replace=True, confirm=counting.id)
    assert whole(done), done
    assert (done.jobs, counting.committed(), counting.running) == (["backup"], 5, True)
    assert counting.rows(counting.changelog) == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("b", "2")]
    assert len(counting.rows(counting.output)) == 10, "every result comes once more"
    assert report_of(counting).savepoint_id is None


@pytest.mark.deep
def test_into_an_emptied_cluster_a_rebuild_brings_the_input_of_a_minimal_savepoint(counting: Counting, in_session: Submitter) -> None:
    counting.configure(
        topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic], "include": [counting.output.topic]},
        backup={"survive_cluster_loss": True, "profile": "minimal", "consistency": {"mode": "stop"}},
    )
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    counting.worked("cab")
    counting.lose()
    with counting.recovery() as recovery:
        recovery.cluster.delete_topics([counting.input.topic, counting.output.topic])
    done = run(counting, "restore_rebuild", in_session, application=counting.name)
    assert (done.state, done.by("failed"), counting.topics()) == ("failed", {"plan"}, set()), "nobody said where the input is to come from"

    done = run(counting, "restore_rebuild", in_session, application=counting.name, inputs_from="latest")
    assert whole(done), done
    assert (done.jobs[0], counting.running, counting.free(), counting.committed()) == ("restore", True, True, 5)
    assert [key for key, _ in counting.rows(counting.input)] == list("abcab")
    assert counting.state() == counting.truth() == {"a": 2, "b": 2, "c": 1}
    assert len(counting.rows(counting.output)) == 10, "what was archived, and every result once more"
    report = report_of(counting)
    assert (report.savepoint_id, list(report.manifests), report.rows) == (None, [savepoint], 10)


@pytest.mark.way("restore to a moment", "append")
def test_inputs_go_back_to_a_moment_and_what_was_later_comes_back_behind_them(counting: Counting, in_session: Submitter) -> None:
    counting.configure(
        topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic], "include": [counting.input.topic]},
        restore={"producers_still_seconds": 1, "catch_up_timeout_seconds": 5},
    )
    counting.worked("abc")
    counting.savepoint(in_session)
    counting.worked("abcd")
    counting.savepoint(in_session)
    moment = "2026-09-21T14:13:24Z"
    assert ZERO == 1_790_000_000_000, "the fifth record's time is the moment"
    asked = {"application": counting.name, "as_of": moment, "in_place": True, "replace": True, "confirm": counting.id}
    done = run(counting, "restore_pitr", in_session, **asked)
    assert whole(done), done
    assert [key for key, _ in counting.rows(counting.input)] == list("abcab")
    assert (counting.running, counting.free(), counting.committed()) == (False, True, 5)
    assert counting.state() == {"a": 2, "b": 2, "c": 1}

    done = run(counting, "append_quarantine", in_session, application=counting.name)
    assert whole(done), done
    assert done.jobs == ["restore"]
    assert [key for key, _ in counting.rows(counting.input)] == list("abcabcd")
    counting.start()
    assert counting.state() == counting.truth() == {"a": 2, "b": 2, "c": 2, "d": 1}


@pytest.mark.way("restore of single topics")
def test_a_deleted_input_comes_back_alone_and_the_counts_go_on_as_if_nothing_had_been(counting: Counting, in_session: Submitter) -> None:
    counting.configure(
        topics={"inputs": [counting.input.topic], "outputs": [counting.output.topic], "include": [counting.input.topic]},
        restore={"catch_up_timeout_seconds": 5},
    )
    counting.worked("abcab")
    savepoint = counting.savepoint(in_session)
    state = counting.rows(counting.changelog)
    with counting.recovery() as recovery:
        recovery.cluster.delete_topics([counting.input.topic])
    done = run(counting, "restore_topics", in_session, application=counting.name, topics=[counting.input.topic])
    assert whole(done), done
    assert (done.jobs, counting.running, counting.free(), counting.committed()) == (["restore"], False, True, 5)
    assert [key for key, _ in counting.rows(counting.input)] == list("abcab")
    assert counting.rows(counting.changelog) == state, "the state was not touched"
    report = report_of(counting)
    assert (report.savepoint_id, report.verdict, report.rows, report.safety_savepoint) == (savepoint, Verdict.EQUAL, 5, None)

    counting.worked("cab")
    assert counting.state() == counting.truth() == {"a": 3, "b": 3, "c": 2}
    assert len(counting.rows(counting.output)) == 8, "no result came twice"


@dataclass
class Intruding:
    """See Submitter. Somebody puts a plan beside the approved one while the first job of this name runs."""

    submitter: Submitter
    counting: Counting
    name: str
    forged: str = ""

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Intrude, and run it."""
        if job.name == self.name and not self.forged:
            restore_id = job.spec.key.split("/")[-2]
            self.forged = Intruder(job.repository).plan(self.counting.id, restore_id)
        return self.submitter.submit(job)


@pytest.mark.deep
def test_a_plan_beside_the_approved_one_is_refused_by_its_name(
    counting: Counting, in_session: Submitter, capsys: pytest.CaptureFixture[str]
) -> None:
    counting.worked("abcab")
    counting.savepoint(in_session)
    counting.lose()
    intruding = Intruding(in_session, counting, "restore")
    done = run(counting, "restore_full", intruding, application=counting.name)
    assert (done.state, done.by("failed")) == ("failed", {"check_load"})
    assert f"{intruding.forged} was not written by this run" in capsys.readouterr().out
    assert (counting.running, counting.free(), counting.committed()) == (False, True, None)
