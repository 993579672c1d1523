"""Pausing, resuming, and wiping local state."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import (
    ApplicationNotReady,
    ApplicationRunning,
    PermanentError,
    Refused,
)
from tests.support.applications.rig import APPLICATION_ID
from tests.support.applications.states import started


def test_pause_and_resume(any_rig):
    one = any_rig()
    application = started(one)
    assert application.can_pause
    application.resume()
    application.pause()
    assert [s.streams_state for s in application.status()] == ["PAUSED", "PAUSED"]
    application.pause()
    application.resume()
    assert [s.streams_state for s in application.status()] == ["RUNNING", "RUNNING"]


@pytest.mark.deep
def test_an_application_that_asks_for_a_token_gets_it(any_rig, tmp_path):
    token = tmp_path / "token"
    token.write_text("canary-7d1f\n")
    one = any_rig(environment={"TOKEN": "canary-7d1f", "STORE": '{"a": 1}'}, control={"token_file": str(token)})
    application = started(one)
    application.pause()
    assert [s.streams_state for s in application.status()] == ["PAUSED", "PAUSED"]
    application.resume()
    assert application.query("totals") == {"a": 1}
    assert application.stop(timeout=10).clean


@pytest.mark.deep
def test_an_application_that_asks_for_another_token_is_not_paused_and_says_so(any_rig, tmp_path):
    token = tmp_path / "token"
    token.write_text("canary-7d1f")
    application = started(any_rig(environment={"TOKEN": "another"}, control={"token_file": str(token)}))
    for status in application.status():
        assert status.streams_state is None
        assert "/health answers 401" in status.detail
    with pytest.raises(PermanentError, match="answered 401") as caught:
        application.pause()
    assert "control.token_file" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert application.stop(timeout=10).gone


@pytest.mark.deep
def test_each_instance_reports_how_often_it_commits_if_it_likes(any_rig):
    application = started(any_rig(per_instance=[{"COMMIT_INTERVAL_MS": "1234"}, {}]))
    assert [status.commit_interval_ms for status in application.status()] == [1234, None]


def test_a_pause_that_does_not_hold_everywhere_is_an_error(speaking_rig):
    one = speaking_rig(per_instance=[{}, {"DEAF": "1"}])
    application = started(one)
    with pytest.raises(ApplicationNotReady, match=r"not paused: two \(running, RUNNING\)"):
        application.pause()
    application.resume()


@pytest.mark.deep
def test_an_instance_that_is_gone_is_not_paused(speaking_rig):
    one = speaking_rig()
    application = started(one)
    one.kill("two")
    with pytest.raises(ApplicationNotReady, match="two"):
        application.pause()
    application.resume()
    application.stop(timeout=10)
    with pytest.raises(ApplicationNotReady):
        application.pause()


@pytest.mark.deep
def test_without_a_way_to_pause_it_is_refused(rig):
    one = rig(control={"pause": None, "resume": None, "query": None})
    application = started(one)
    assert not application.can_pause
    with pytest.raises(Refused, match="no way to pause"):
        application.pause()
    application.resume()
    with pytest.raises(Refused, match=r"no queries|no way to query"):
        application.query("totals")


@pytest.mark.deep
@pytest.mark.fault("F45")
def test_wipe_refuses_while_anything_runs(any_rig):
    one = any_rig()
    application = started(one)
    one.kill(one.names[0])
    with pytest.raises(ApplicationRunning, match=one.names[1]):
        application.wipe_state()
    assert all((state / APPLICATION_ID).is_dir() for state in one.states)


@pytest.mark.fault("F45")
def test_wipe_removes_the_application_and_nothing_else(directory_rig):
    one = directory_rig()
    application = started(one)
    application.stop(timeout=10)
    bystander = one.states[0] / "another-application"
    bystander.mkdir()
    report = application.wipe_state()
    assert report.removed == tuple(str(state / APPLICATION_ID) for state in one.states)
    assert report.remaining == ()
    assert not any((state / APPLICATION_ID).exists() for state in one.states)
    assert bystander.is_dir()
    assert application.wipe_state().removed == ()


@pytest.mark.deep
@pytest.mark.fault("F107")
def test_state_that_was_made_after_the_wipe_is_proven_young(any_rig):
    one = any_rig()
    application = started(one)
    assert application.stop(timeout=20).gone
    marks = application.wipe_state().marks
    assert application.state_since(marks).fresh == ()
    application.start()
    one.await_up()
    found = application.state_since(marks)
    assert (len(found.fresh), found.stale, found.unseen) == (2, (), ())


@pytest.mark.deep
@pytest.mark.fault("F107")
def test_state_that_comes_back_behind_the_wipe_is_seen_before_a_start_and_after_it(directory_rig):
    one = directory_rig()
    application = started(one)
    assert application.stop(timeout=20).gone
    own = one.states[0] / APPLICATION_ID
    kept = one.directory / "kept-aside"
    own.rename(kept)
    marks = application.wipe_state().marks
    kept.rename(own)
    (stale,) = application.state_since(marks).stale
    assert str(own) in stale
    application.start()
    one.await_up()
    found = application.state_since(marks)
    assert (len(found.stale), len(found.fresh)) == (1, 1)
    assert str(own) in found.stale[0]


@pytest.mark.fault("F107")
def test_a_program_whose_state_is_elsewhere_than_configured_is_seen_by_its_open_files(local):
    one = local()
    real = one.directory / "real"
    one.section["instances"][0]["environment"] = {"STATE_DIR": str(real)}
    application = started(one)
    assert application.stop(timeout=20).gone
    report = application.wipe_state()
    assert len(report.removed) == 1
    application.start()
    one.await_up()
    found = application.state_since(report.marks)
    assert (len(found.fresh), len(found.stale)) == (1, 1)
    assert str(real / APPLICATION_ID) in found.stale[0]


@pytest.mark.deep
def test_wipe_does_not_follow_links(rig):
    one = rig()
    application = one.open()
    elsewhere = one.directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    one.states[0].mkdir(parents=True, exist_ok=True)
    (one.states[0] / APPLICATION_ID).symlink_to(elsewhere)
    with pytest.raises(Refused, match="symbolic link"):
        application.wipe_state()
    assert (elsewhere / "precious").exists()
