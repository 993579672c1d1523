"""The example of Faust is saved, destroyed and brought back, and counts what it would have counted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streams_recovery.cli import runs
from streams_recovery.cli.app import app
from streams_recovery.cli.runner import Runner
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import Consistency, Evidence, QuiesceMode, StoreKind, TopicRole
from streams_recovery.core.offsets.strategies import Earliest
from streams_recovery.core.remedies.restores import guard_unread_input
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore
from streams_recovery.operations.restore import SafetyPolicy
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.small import asked
from tests.support.applications.word_counts import PORTION, UNREAD, WordCounts, word_counts

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(900)]


@pytest.fixture
def words(bootstrap: str, tmp_path: Path) -> Iterator[WordCounts]:
    with word_counts(bootstrap, tmp_path) as found:
        yield found


def backup(words: WordCounts, submitter: Submitter) -> str:
    # What it has counted it commits seconds later.
    words.await_committed()
    with words.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=submitter, say=print)
        return runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)).savepoint_id


def bring_back(words: WordCounts, submitter: Submitter, kind: type | None = None, **wanted: object) -> RestorePlan:
    """Restore, or rebuild where ``kind`` says so, and return the plan that was approved."""
    shown: list[RestorePlan] = []
    with words.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=submitter, say=print)
        request = asked(recovery, kind, **wanted)
        who = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        runs.restore_in_place(runner, request, who, approve=lambda planned: bool(shown.append(planned) or True))
    return shown[0]


@pytest.mark.remedy("restore-unread-input")
def test_words_are_counted_right_after_a_loss(words: WordCounts, in_session: Submitter) -> None:
    """The example has the handler that the plan asks for. Without it most of such starts count wrong, and some do not: no test asks for that."""
    words.start()
    words.say(4)
    saved = backup(words, in_session)
    with words.recovery() as recovery:
        manifest = recovery.savepoints.read(saved)
        assert manifest.consistency is Consistency.EXACT
        assert manifest.proof.mode is QuiesceMode.STOP
        found = {topic.name: (topic.role, topic.evidence) for topic in manifest.topics}
    assert found == {
        words.input: (TopicRole.INPUT, None),
        words.repartition: (TopicRole.REPARTITION, Evidence.COMMITTED),
        f"{words.id}-counts-changelog": (TopicRole.CHANGELOG, Evidence.STORE),
        f"{words.id}-minutes-changelog": (TopicRole.CHANGELOG, Evidence.STORE),
    }
    before = len(words.said)
    words.feed(UNREAD)
    words.await_some(before + 1)
    words.kill()
    words.lose()
    planned = bring_back(words, in_session, replace=True)
    assert {topic.name for topic in planned.create} == set(words.internal[:3])
    assert [one for one in planned.warnings if str(guard_unread_input(ApplicationKind.FAUST.dialect.loses_unread)) in one]
    words.await_counted()
    words.say(1)
    assert words.changelogs() == words.truth()


def test_state_that_is_there_still_is_replaced_with_what_belongs_to_the_application(words: WordCounts, in_session: Submitter) -> None:
    """Local state and topics of after the savepoint: all of it goes, the repartition topic too, whose name does not say whose it is."""
    words.start()
    words.say(2)
    backup(words, in_session)
    words.say(1)
    planned = bring_back(words, in_session, replace=True)
    assert planned.evidence[words.repartition] is Evidence.COMMITTED
    words.await_counted()
    assert words.changelogs() == words.truth()


def test_a_rebuild_counts_all_words_anew(words: WordCounts, in_session: Submitter) -> None:
    words.start()
    words.feed(UNREAD)
    words.await_committed()
    words.kill()
    planned = bring_back(words, in_session, restore.Rebuild, replace=True, safety=SafetyPolicy.SKIP, offsets=Earliest(text="earliest"))
    assert set(words.internal[:3]) == {topic.name for topic in planned.delete}
    words.await_counted()
    words.say(1)
    assert words.changelogs() == words.truth()


def test_words_are_counted_up_to_a_moment_and_on_from_there(bootstrap: str, tmp_path: Path, in_session: Submitter) -> None:
    with word_counts(bootstrap, tmp_path, backup={"survive_cluster_loss": True}) as words:
        words.start()
        words.say(3)
        backup(words, in_session)
        words.say(3)
        backup(words, in_session)
        upto = 5 * PORTION - 7
        moment = AsOf(moment=words.before(upto), by=CutBy.TIMESTAMP)
        planned = bring_back(words, in_session, restore.AsOfMoment, as_of=moment, in_place=True, replace=True)
        assert planned.part.point is not None
        assert planned.part.point.with_state
        del words.said[upto:]
        # It was stopped there, with everything counted.
        assert words.changelogs() == words.truth()
        words.start()
        words.say(1)
        assert words.changelogs() == words.truth()


def test_two_workers_count_right_after_a_loss(bootstrap: str, tmp_path: Path, in_session: Submitter) -> None:
    with word_counts(bootstrap, tmp_path, workers=2) as words:
        words.start()
        words.say(2)
        backup(words, in_session)
        before = len(words.said)
        words.feed(UNREAD)
        words.await_some(before + 1)
        words.kill()
        words.lose()
        bring_back(words, in_session, replace=True)
        words.await_counted()
        words.say(1)
        assert words.changelogs() == words.truth()


def test_the_file_that_init_writes_takes_a_savepoint(words: WordCounts, in_session: Submitter) -> None:
    """Its own configuration is put aside; what the cluster does not show is how it is run."""
    words.start()
    words.say(2)
    words.await_committed()
    own = (words.directory / "word-counts.yaml").rename(words.directory / "by-hand.txt")
    process = json.loads(own.read_text())["runs"]["process"]
    given = {
        "runs.kind": "process",
        "runs.process.command": json.dumps(process["command"]),
        "runs.process.url": process["instances"][0]["url"],
        "runs.process.state_directory": process["instances"][0]["state_directory"],
        # Those of the instance that runs: it was started by the other file.
        "runs.process.directory": process["directory"],
        "runs.process.instances": json.dumps(process["instances"]),
        "runs.process.environment": json.dumps(process["environment"]),
        "runs.process.working_directory": process["working_directory"],
        "application.session_timeout_ms": "10000",
        "storage": str(words.directory / "repository"),
    }
    sets = [word for key, value in given.items() for word in ("--answer", f"{key}={value}")]
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": words.bootstrap}})
    done = CliRunner().invoke(
        app,
        ["init", words.id, "--name", "word-counts", "--configs", str(words.directory), *sets],
        env={"AIRFLOW_CONN_KAFKA_DEFAULT": kafka},
    )
    assert done.exit_code == 0, done.output
    with words.recovery() as recovery:
        config = recovery.config
        assert (config.application.kind, config.topics.inputs) == (ApplicationKind.FAUST, (words.input,))
        assert {name: one.kind for name, one in config.stores.items()} == {"counts": StoreKind.KEY_VALUE, "minutes": StoreKind.KEY_VALUE}
    with_file = backup(words, in_session)
    with words.recovery() as recovery:
        assert recovery.savepoints.read(with_file).consistency is Consistency.EXACT
