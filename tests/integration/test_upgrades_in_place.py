"""A new version goes on with the state that is there, is watched, and is taken back when it fails, wherever that happens."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application.instance_record import birth
from streams_recovery.cli import runs
from streams_recovery.core.approval import approval
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, LockLost, PlanChanged, RecoveryError, Refused, VersionFailed
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.waiting import poll
from streams_recovery.operations import restore
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.restore.open import TICKET
from streams_recovery.operations.unfinished import unfinished_restore
from streams_recovery.workflows import restore as workflows
from tests.support.applications.counting import Counting
from tests.support.applications.pair import Here
from tests.support.applications.upgrades import asked, at_work, back, is_whole, more, opened, requester, runner_of, same, upgraded
from tests.support.applications.versioned import Versioned

pytestmark = pytest.mark.kafka


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    found = Counting(bootstrap=bootstrap, directory=tmp_path)
    found.deploys("same")
    found.build()
    yield found
    found.tidy()


@pytest.mark.deep
def test_a_new_version_goes_on_with_the_state_and_can_be_taken_back_later(app: Counting) -> None:
    at_work(app, "aab")
    app.deploys("adds")
    report = upgraded(app, asked(app, more(app)))
    assert (report.watched.failure, report.watched.looks > 1, report.part.new_version.verdict) == (None, True, "compatible")
    assert app.deployments == ["adds down"]
    assert is_whole(app)
    assert f"{app.id}-more-changelog" in app.topics()
    with app.recovery() as recovery:
        # Airflow takes the end of a run after a success too, and another run may have the lock by then.
        held = recovery.lock.acquire("savepoint", lease_seconds=60, purpose="savepoint")
        ticket = recovery.artifacts.read_once(restore.RestoreTicket, report.restore_id, TICKET)
        assert restore.abandon_upgrade(recovery, ticket).next_step == "nothing: the restore is over"
        recovery.lock.release(held)
    app.stop()
    app.worked("ab")
    undo = restore.Undo(restore_id=report.restore_id, reason="it is wrong", safeguards=restore.Safeguards(replace=True, confirm=app.id))
    deploy = app.sections["deploy"]
    app.configure(deploy={"command": deploy["command"]})
    with app.recovery() as recovery, pytest.raises(ConfigInvalid, match=r"deploy\.roll_back of .* is not set"):
        restore.plan(recovery, undo)
    app.configure(deploy=deploy)
    with app.recovery() as recovery:
        runs.restore_in_place(runner_of(recovery), undo, requester(), approve=lambda _: True)
        found, page = restore.evidence(recovery, report.restore_id)
        # The configuration still has the version that was taken back.
        restored = restore.FromSavepoint(reason="", safeguards=undo.safeguards)
        assert [one for one in restore.plan(recovery, restored).warnings if "this one deploys by" in one and one.count("deployer.py") == 2]
    assert (found, "A new version goes on with the state" in page) == (report, True)
    assert app.deployments[-1] == "old down"
    assert is_whole(app)
    assert f"{app.id}-more-changelog" not in app.topics()


@pytest.mark.deep
@pytest.mark.parametrize(("version", "why"), [("dies", "instances ended: one gone"), ("sleeps", "nothing was")])
def test_a_version_that_fails_is_taken_back_and_nothing_is_lost(app: Counting, version: str, why: str) -> None:
    at_work(app, "aab")
    app.stop()
    # What the old version has not seen: a version that sleeps leaves it there.
    app.feed("ba")
    app.deploys(version)
    with pytest.raises(VersionFailed, match=f"taken back.*{why}"):
        upgraded(app, asked(app))
    assert [one.split()[0] for one in app.deployments] == [version, "old"]
    assert is_whole(app)
    assert app.state() == {"a": 3, "b": 2}


@pytest.mark.deep
def test_a_version_that_is_too_far_behind_is_taken_back(app: Counting) -> None:
    at_work(app, "aab")
    app.deploys("same", max_lag=2, watch="PT1S")
    with app.recovery() as recovery:
        runner, request = runner_of(recovery), asked(app)
        planned = restore.plan(recovery, request)
        assert "more than 2 records behind" in planned.text
        ticket = restore.open_restore(recovery, request, run_id="far", requested_by="test", approved_hash=planned.hash)
        outcome = runner.take(workflows.UPGRADE.steps[:7], {workflows.OPEN_RESTORE.name: ticket})
        assert outcome.error is None
        app.feed("abab")
        with pytest.raises(VersionFailed, match="4 records behind, and 2 are allowed"):
            restore.watch(recovery, ticket)
        # Whoever goes on with it sees the same, and takes it back.
        recovery.lock.release(ticket.lock)
        with pytest.raises(VersionFailed, match="taken back"):
            runs.resume(runner, ticket.restore_id, requester(), take_over=False, approve=lambda _: True)
    assert is_whole(app)


@pytest.mark.way("upgrade in place")
def test_where_only_the_deployment_fails_the_old_version_goes_on_as_it_was(app: Counting) -> None:
    at_work(app, "aab")
    before = app.end(app.changelog)
    app.deploys("missing")
    with pytest.raises(ApplicationNotReady, match="no such version"):
        upgraded(app, asked(app))
    assert app.deployments == ["missing down", "old down"]
    assert is_whole(app)
    assert app.end(app.changelog) == before


@pytest.mark.deep
@pytest.mark.parametrize("version", ["same", "adds"])
def test_a_deployment_that_deploys_nothing_is_told_where_it_can_be_seen(
    app: Counting, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    at_work(app, "aab")
    app.deploys(version)
    upgraded(app, asked(app, more(app)))
    told = f"it has made none of the internal topics that its description adds, {app.id}-more-changelog"
    assert (told in caplog.text) == (version == "same")
    assert is_whole(app)


@pytest.mark.deep
def test_what_would_lose_state_is_refused_before_anything_happens(app: Counting) -> None:
    at_work(app, "aab")
    renamed = same(app, "sums")
    with pytest.raises(Refused, match="rename these stores: totals"):
        upgraded(app, asked(app, renamed))
    with pytest.raises(ConfigInvalid, match="nothing is lost of others"):
        upgraded(app, asked(app, renamed, lose=("others",)))
    with app.recovery() as recovery:
        planned = restore.plan(recovery, asked(app, renamed, lose=("totals",)))
        assert "This may go" in planned.text
        other = restore.plan(recovery, asked(app, more(app)))
        assert other.hash != planned.hash
    app.configure(deploy={"command": ["x"]})
    with pytest.raises(ConfigInvalid, match="nothing takes back"):
        upgraded(app, asked(app))
    app.configure(deploy={"command": ["x"], "roll_back": ["x"]})
    with pytest.raises(ConfigInvalid, match=r"is deploy\.command"):
        upgraded(app, asked(app))
    assert (app.deployments, app.running) == ([], True)


@pytest.mark.deep
def test_a_savepoint_in_between_changes_no_plan_and_another_description_does(app: Counting) -> None:
    at_work(app, "aab")
    with app.recovery() as recovery:
        planned = restore.plan(recovery, asked(app))
        app.savepoint(Here(recovery))
        assert restore.plan(recovery, asked(app)).hash == planned.hash
        with pytest.raises(PlanChanged, match="the new version"):
            restore.open_restore(recovery, asked(app, more(app)), run_id="x", requested_by="test", approved_hash=approval(planned))


CHECKED = 5


@pytest.mark.deep
def test_the_end_of_a_dead_upgrade_starts_nothing_on_what_another_restore_has_left_half_loaded(app: Counting) -> None:
    at_work(app, "aab")
    with app.recovery() as recovery:
        ticket = opened(app, recovery, asked(app), CHECKED)
        undo = back(app, ticket)
        second = restore.open_restore(recovery, undo, run_id="undo", requested_by="test", approved_hash=restore.plan(recovery, undo).hash)
        assert runner_of(recovery).take(workflows.FROM_SAVEPOINT.steps[:5], {workflows.OPEN_RESTORE.name: second}).error is None
        recovery.lock.release(second.lock)
        restore.abandon_upgrade(recovery, ticket)
        assert (app.running, app.deployments, unfinished_restore(recovery)) == (False, [], second.restore_id)
        runs.resume(runner_of(recovery), second.restore_id, requester(), take_over=False, approve=lambda _: True)
    assert is_whole(app)


@pytest.mark.deep
def test_an_old_version_whose_offsets_are_gone_is_not_started_but_restored(app: Counting) -> None:
    at_work(app, "aab")
    with app.recovery() as recovery:
        ticket = opened(app, recovery, asked(app), CHECKED)
        recovery.groups.delete(app.id)
        with pytest.raises(VersionFailed, match=r"taken back.*nothing in place of 3"):
            runs.resume(runner_of(recovery), ticket.restore_id, requester(), take_over=False, approve=lambda _: True)
    assert is_whole(app)
    assert app.state() == {"a": 2, "b": 1}


@pytest.mark.deep
@pytest.mark.fault("F113")
def test_a_deployment_of_a_step_that_goes_on_is_over_before_the_old_version_is_put_back(app: Counting) -> None:
    at_work(app, "aab")
    marker = app.directory / "deploys"
    program = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(120)"
    app.configure(deploy={**app.sections["deploy"], "command": [sys.executable, "-c", program]})
    ended: list[RecoveryError] = []

    def goes_on() -> None:
        with app.recovery() as recovery:
            try:
                restore.start(recovery, ticket)
            except RecoveryError as error:
                ended.append(error)

    with app.recovery() as recovery:
        ticket = opened(app, recovery, asked(app), CHECKED)
        lock = recovery.lock.acquire(ticket.lock.owner, lease_seconds=LEASE_SECONDS, purpose="its step goes on")
        ticket = replace(ticket, lock=lock)
        step = threading.Thread(target=goes_on)
        step.start()
        assert poll(lambda: (marker.exists() and marker.read_text()) or None, seconds=60)
        assert restore.abandon_upgrade(recovery, ticket).restarted
        pid = int(marker.read_text())
        assert birth(pid) is None, "it was over when the old version was put back"
        step.join(60)
    assert [type(error) for error in ended] == [LockLost]
    assert app.deployments == ["old down"]
    assert is_whole(app)


@pytest.mark.deep
def test_a_deployment_that_fails_after_it_has_started_something_is_taken_back_by_a_restore(app: Counting) -> None:
    at_work(app, "aab")
    app.stop()
    app.feed("ab")
    app.deploys("same")
    verbs = app.programs("started")
    # It starts the version, which works and writes what is wrong; then it ends, and the deployment fails.
    program = f"""
import os, subprocess, sys
from confluent_kafka import Producer
environment = dict(os.environ, OUT={app.output.topic!r}, PYTHONPATH={":".join(sys.path)!r})
subprocess.run({verbs["start"]!r}, env=environment, check=True)
producer = Producer({{"bootstrap.servers": {app.bootstrap!r}}})
producer.produce({app.changelog.topic!r}, b"99", b"a", 0)
assert producer.flush(30) == 0
subprocess.run({verbs["stop"]!r}, env=environment, check=True)
sys.exit("a loop of crashes")
"""
    app.configure(deploy={**app.sections["deploy"], "command": [sys.executable, "-c", program]})
    with pytest.raises(VersionFailed, match="taken back"):
        upgraded(app, asked(app))
    assert is_whole(app)
    assert app.state() == {"a": 3, "b": 2}


@pytest.mark.deep
def test_an_undo_deploys_what_ran_on_that_state_or_nothing(app: Counting) -> None:
    at_work(app, "aab")
    app.deploys("adds")
    report = upgraded(app, asked(app, more(app)))
    deploy = app.sections["deploy"]
    undo = restore.Undo(restore_id=report.restore_id, reason="", safeguards=restore.Safeguards(replace=True, confirm=app.id))
    # The next upgrade is prepared.
    app.configure(deploy={**deploy, "command": [*deploy["command"][:-1], "third"], "roll_back": deploy["command"]})
    with app.recovery() as recovery, pytest.raises(ConfigInvalid, match="and what takes back upgrade"):
        restore.plan(recovery, undo)
    app.configure(deploy=deploy)
    # Expiry takes the work of restores that are over before it takes safety savepoints.
    with app.recovery() as recovery:
        for key in recovery.repository.keys(recovery.layout.artifacts):
            if report.restore_id in key:
                (app.directory / "repository" / key).unlink()
        planned = restore.plan(recovery, undo)
        assert (planned.deploy[-1], [gone.name for gone in planned.delete]) == ("old", [f"{app.id}-more-changelog"])
        for key in [recovery.layout.report(report.restore_id), recovery.layout.report_page(report.restore_id)]:
            (app.directory / "repository" / key).unlink()
        with pytest.raises(Refused, match="nobody can tell which version"):
            restore.plan(recovery, undo)


@pytest.mark.deep
def test_a_version_that_is_not_the_one_that_was_described_is_stopped_and_told(app: Counting) -> None:
    at_work(app, "aab")
    app.deploys("adds")
    with pytest.raises(VersionFailed, match=r"another version was compared than runs\) and IS NOT TAKEN BACK: .*more-changelog") as failed:
        upgraded(app, asked(app))
    assert any(one.startswith("streams-recovery undo") for one in failed.value.commands)
    assert not app.running
    with app.recovery() as recovery:
        ticket_id = unfinished_restore(recovery)
        assert ticket_id is not None
        undo = restore.Undo(
            restore_id=ticket_id,
            reason="",
            safeguards=restore.Safeguards(replace=True, confirm=app.id, delete=(f"{app.id}-more-changelog",)),
        )
        runs.restore_in_place(runner_of(recovery), undo, requester(), approve=lambda _: True)
    assert is_whole(app)


@pytest.mark.deep
def test_a_version_that_was_watched_is_not_taken_back_when_only_its_report_is_not_written(app: Counting) -> None:
    at_work(app, "aab")
    app.deploys("same", watch="PT1S")
    with app.recovery() as recovery:
        ticket = opened(app, recovery, asked(app), len(LAST) - 1)
        # What is in the way of the report; a person removes it.
        strange = app.directory / "repository" / recovery.layout.report(ticket.restore_id)
        strange.parent.mkdir(parents=True, exist_ok=True)
        strange.write_text("{}")
        with pytest.raises(RecoveryError) as failed:
            runs.resume(runner_of(recovery), ticket.restore_id, requester(), take_over=False, approve=lambda _: True)
        assert not isinstance(failed.value, VersionFailed)
        assert (app.running, app.deployments) == (True, ["same down"])
        strange.unlink()
        runs.resume(runner_of(recovery), ticket.restore_id, requester(), take_over=False, approve=lambda _: True)
    assert is_whole(app)


@pytest.mark.deep
def test_a_run_that_has_the_lock_is_waited_for_before_a_version_is_taken_back(app: Counting) -> None:
    at_work(app, "aab")
    app.deploys("dies")
    with app.recovery() as recovery:
        request = asked(app)
        ticket = restore.open_restore(
            recovery, request, run_id="dies", requested_by="test", approved_hash=restore.plan(recovery, request).hash
        )
        assert isinstance(runner_of(recovery).take(workflows.UPGRADE.steps, {workflows.OPEN_RESTORE.name: ticket}).error, VersionFailed)
        held = recovery.lock.acquire("expiry", lease_seconds=60, purpose="expiry")
        freed = threading.Timer(2, lambda: recovery.lock.release(held))
        freed.start()
        restore.stop_failed(recovery, ticket)
        freed.join()
        assert not app.running
        runs.restore_in_place(runner_of(recovery), back(app, ticket), requester(), approve=lambda _: True)
    assert is_whole(app)


@pytest.mark.deep
def test_what_runs_at_certain_hours_is_not_upgraded_in_place(app: Counting) -> None:
    at_work(app, "aab")
    app.configure(run={"schedule": "0 2 * * *", "until": "ends"})
    with pytest.raises(Refused, match="runs at certain hours"):
        upgraded(app, asked(app))


LAST = [step.name for step in workflows.UPGRADE.steps[:-1]]


@pytest.mark.deep
@pytest.mark.parametrize("last", LAST)
def test_killed_behind_any_step_it_is_finished_or_nothing_has_happened(app: Counting, last: str) -> None:
    at_work(app, "aab")
    app.deploys("adds", watch="PT1S")
    with app.recovery() as recovery:
        request, runner = asked(app, more(app)), runner_of(recovery)
        planned = restore.plan(recovery, request)
        ticket = restore.open_restore(recovery, request, run_id="killed", requested_by="test", approved_hash=planned.hash)
        done = runner.take(workflows.UPGRADE.steps[: LAST.index(last) + 1], {workflows.OPEN_RESTORE.name: ticket})
        assert done.error is None
        recovery.lock.release(ticket.lock)
        reached = restore.phase_of(recovery, ticket)
        if reached.rank < Phase.WIPED.rank:
            # Nothing was deployed: the next run of anything starts the old version again.
            with pytest.raises(Refused, match="before it had replaced anything"):
                runs.resume(runner, ticket.restore_id, requester(), take_over=False, approve=lambda _: True)
            app.savepoint(Here(recovery))
            assert app.deployments == []
        elif reached is not Phase.CLOSED:
            runs.resume(runner, ticket.restore_id, requester(), take_over=False, approve=lambda _: True)
            assert set(app.deployments) == {"adds down"}
    assert is_whole(app)


@pytest.mark.deep
@pytest.mark.parametrize("last", [step.name for step in workflows.FROM_SAVEPOINT.steps[:-2]])
def test_a_way_back_that_is_killed_behind_any_step_is_finished_by_resume(app: Counting, last: str) -> None:
    at_work(app, "aab")
    app.deploys("dies")
    with app.recovery() as recovery:
        runner, request = runner_of(recovery), asked(app)
        ticket = restore.open_restore(
            recovery, request, run_id="dies", requested_by="test", approved_hash=restore.plan(recovery, request).hash
        )
        assert isinstance(runner.take(workflows.UPGRADE.steps, {workflows.OPEN_RESTORE.name: ticket}).error, RecoveryError)
        back = restore.way_back(recovery, ticket)
        assert back is not None
        planned = restore.plan(recovery, back)
        assert planned.deploy[-1] == "old"
        second = restore.open_restore(recovery, back, run_id="back", requested_by="test", approved_hash=planned.hash)
        names = [step.name for step in workflows.FROM_SAVEPOINT.steps]
        assert runner.take(workflows.FROM_SAVEPOINT.steps[: names.index(last) + 1], {workflows.OPEN_RESTORE.name: second}).error is None
        recovery.lock.release(second.lock)
        if restore.phase_of(recovery, second).rank >= Phase.DESTROYING.rank:
            runs.resume(runner, second.restore_id, requester(), take_over=False, approve=lambda _: True)
        else:
            # Nothing was restored yet, so the upgrade is what is unfinished, and is taken back anew.
            runs.restore_in_place(runner, back, requester(), approve=lambda _: True)
    assert is_whole(app)


@pytest.mark.deep
def test_a_real_application_is_upgraded_and_one_that_cannot_process_a_record_is_taken_back(bootstrap: str, tmp_path: Path) -> None:
    app = Versioned(bootstrap=bootstrap, directory=tmp_path)
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"

    def deploying(version: str, before: str, *owned: str) -> None:
        command, back = ([sys.executable, "-c", write, str(tmp_path / "version"), name] for name in (version, before))
        topics = {"inputs": [app.input.topic], "outputs": [app.output.topic], "owned": [f"{app.id}-{name}" for name in owned]}
        deploy = {"command": command, "roll_back": back, "watch": "PT6S"}
        app.configure(stores={}, topics=topics, deploy=deploy, restore={"catch_up_timeout_seconds": 5})

    deploying("branched", "counted")
    app.deploy("counted")
    app.build()
    try:
        app.feed("aab")
        app.start()
        app.works_off()
        with app.recovery() as recovery:
            app.savepoint(Here(recovery))
        app.feed("ab")
        report = upgraded(app, asked(app, app.describes("branched").decode()))
        assert (report.part.new_version.new_topics, app.version) == (
            (f"{app.id}-by-value-changelog", f"{app.id}-by-value-repartition"),
            "branched",
        )
        assert (app.counts(), app.counts("by-value")) == ({"a": 3, "b": 2}, {})
        # Nothing was written to its new topics yet, and their names could be another application's too: the configuration says whose they are.
        deploying("failing", "branched", "by-value-changelog", "by-value-repartition")
        # The newest savepoint is of the version before: it knows nothing of the store that the safety savepoint has.
        with pytest.raises(Refused, match="another one than was compared"):
            upgraded(app, asked(app, app.describes("failing").decode()))
        app.works_off()
        with app.recovery() as recovery:
            app.savepoint(Here(recovery))
        app.stop()
        app.feed("b")
        with pytest.raises(VersionFailed, match="taken back"):
            upgraded(app, asked(app, app.describes("failing").decode()))
        app.works_off()
        assert (app.version, app.running, app.counts(), app.truth()) == ("branched", True, {"a": 3, "b": 3}, {"a": 3, "b": 3})
    finally:
        app.stop()
        app.tidy()
