"""A restore deploys before it starts: what is started is what was approved, and a deployment that fails leaves the application down."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning, PlanChanged
from streams_recovery.core.offsets.strategies import Earliest
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.operations import restore
from streams_recovery.operations.unfinished import unfinished_restore
from tests.support.applications import restore_steps as steps
from tests.support.applications.counting import Counting
from tests.support.applications.pair import Here
from tests.support.applications.small import asked
from tests.support.applications.versioned import Versioned

pytestmark = pytest.mark.kafka

# Writes what it was told and whether the application runs, and fails while a file says so.
PROGRAM = """\
import os, pathlib, sys
place, version = pathlib.Path(sys.argv[1]), sys.argv[2]
if (place / "broken").exists():
    sys.exit("no such version")
with (place / "deployed").open("a") as log:
    print(version, os.environ["APPLICATION_ID"], os.environ["SITE"], (place / "started").exists(), file=log)
"""


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    found = Counting(bootstrap=bootstrap, directory=tmp_path)
    (tmp_path / "deploy.py").write_text(PROGRAM)
    deploys(found, "2.0")
    found.build()
    yield found
    found.tidy()


def deploys(app: Counting, version: str) -> None:
    """Let this version be deployed from now on."""
    app.configure(deploy={"command": [sys.executable, str(app.directory / "deploy.py"), str(app.directory), version]})


def deployed(app: Counting) -> list[str]:
    log = app.directory / "deployed"
    return log.read_text().splitlines() if log.exists() else []


def restored(app: Counting, savepoint: str = "latest") -> RestoreReport:
    """From a savepoint, in place of what is there."""
    with app.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
        return runs.restore_in_place(runner, asked(recovery, savepoint=savepoint, replace=True), requester(), approve=seen)


def seen(planned: RestorePlan) -> bool:
    """Whether somebody who reads the plan sees that it deploys."""
    return "**Deploy** by" in planned.text and planned.deploy[-1] in planned.text


def resumed(app: Counting, *, approve: bool = True) -> RestoreReport:
    with app.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
        return runs.resume(runner, "latest", requester(), take_over=False, approve=lambda _: approve)


def requester() -> runs.Requester:
    return runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")


def saved(app: Counting) -> None:
    app.worked("aab")
    with app.recovery() as recovery:
        app.savepoint(Here(recovery))


def test_what_was_approved_is_deployed_while_the_application_is_down(app: Counting) -> None:
    saved(app)
    app.start()
    restored(app)
    assert deployed(app) == [f"2.0 {app.id} primary False"]
    assert app.running
    assert app.state() == app.truth() == {"a": 2, "b": 1}


@pytest.mark.deep
def test_a_deployment_that_fails_leaves_the_application_down_and_the_restore_goes_on_behind_it(app: Counting) -> None:
    saved(app)
    (app.directory / "broken").touch()
    with pytest.raises(ApplicationNotReady, match="no such version"):
        restored(app)
    assert not app.running
    with app.recovery() as recovery:
        restore_id = unfinished_restore(recovery)
        assert restore_id is not None
    (app.directory / "broken").unlink()
    resumed(app)
    assert (len(deployed(app)), app.running) == (1, True)
    assert app.state() == {"a": 2, "b": 1}


@pytest.mark.deep
def test_what_a_failed_deployment_has_started_is_not_taken_for_the_new_version(app: Counting) -> None:
    saved(app)
    (app.directory / "broken").touch()
    with app.recovery() as recovery:
        ticket = steps.opened(recovery, asked(recovery, replace=True))
        steps.saved(recovery, ticket)
        steps.loaded(recovery, ticket)
        steps.verified(recovery, ticket)
        restore.set_offsets(recovery, ticket)
        restore.wipe(recovery, ticket)
        with pytest.raises(ApplicationNotReady, match="no such version"):
            restore.start(recovery, ticket)
        recovery.application.start()
        with pytest.raises(ApplicationRunning, match="the deployment did not end well"):
            restore.start(recovery, ticket)
        recovery.application.stop(timeout=30)
        (app.directory / "broken").unlink()
        restore.start(recovery, ticket)
    assert (len(deployed(app)), app.running) == (1, True)


@pytest.mark.deep
def test_a_command_that_nobody_approved_is_not_run(app: Counting) -> None:
    saved(app)
    (app.directory / "broken").touch()
    with pytest.raises(ApplicationNotReady):
        restored(app)
    (app.directory / "broken").unlink()
    deploys(app, "6.6")
    with pytest.raises(PlanChanged):
        resumed(app)
    assert (deployed(app), app.running) == ([], False)
    deploys(app, "2.0")
    resumed(app)
    assert app.running


@pytest.mark.deep
def test_only_what_starts_the_application_deploys(app: Counting) -> None:
    topics = {"inputs": [app.input.topic], "outputs": [app.output.topic], "include": [app.input.topic]}
    app.configure(topics=topics)
    saved(app)
    with app.recovery() as recovery:
        from_savepoint = restore.plan(recovery, asked(recovery, replace=True))
        rebuilt = restore.plan(recovery, asked(recovery, restore.Rebuild, replace=True, offsets=Earliest(text="earliest")))
    assert rebuilt.deploy == from_savepoint.deploy == recovery.config.deploy.command
    deploys(app, "3.0")
    with app.recovery() as recovery:
        other = restore.plan(recovery, asked(recovery, replace=True))
        copied = asked(recovery, restore.RestoreTopics, topics=(app.input.topic,), new_name=f"{app.id}.copy")
        single = restore.plan(recovery, copied)
    assert (other.hash != from_savepoint.hash, single.deploy) == (True, ())


@pytest.mark.deep
def test_an_upgrade_goes_on_and_one_that_fails_is_taken_back(bootstrap: str, tmp_path: Path) -> None:
    app = Versioned(bootstrap=bootstrap, directory=tmp_path)

    def deploying(version: str) -> None:
        write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
        command = [sys.executable, "-c", write, str(tmp_path / "version"), version]
        app.configure(stores={}, deploy={"command": command}, restore={"catch_up_timeout_seconds": 5})

    deploying("counted")
    app.deploy("counted")
    app.build()
    try:
        app.feed("aab")
        app.start()
        app.works_off()
        app.stop()
        with app.recovery() as recovery:
            app.savepoint(Here(recovery))
        deploying("added")
        app.feed("ab")
        restored(app)
        assert (app.version, app.counts()) == ("added", {"a": 3, "b": 2})
        app.stop()
        with app.recovery() as recovery:
            before = app.savepoint(Here(recovery))
        deploying("failing")
        app.feed("b")
        with pytest.raises(ApplicationNotReady):
            restored(app)
        deploying("added")
        app.stop()
        restored(app, before)
        assert (app.version, app.counts(), app.truth()) == ("added", {"a": 3, "b": 3}, {"a": 3, "b": 3})
    finally:
        app.stop()
        app.tidy()
