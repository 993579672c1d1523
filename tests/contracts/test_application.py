"""What every way of running an application must do, tried on real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application import locks
from streams_recovery.application.liveness import Process, birth
from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import (
    ApplicationNotReady,
    ApplicationRunning,
    ConfigInvalid,
    NotFound,
    PermanentError,
    Refused,
)
from tests.contracts.streams_apps.running import APPLICATION_ID, HERE, PLUGINS, Rig, gone, wait


@contextlib.contextmanager
def rigs(kind, directory):
    made = []

    def make(**settings):
        made.append(Rig(kind, directory / str(len(made)), **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["process", "command"])
def rig(request, tmp_path):
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture(params=["process", "command", "docker"])
def any_rig(request, tmp_path):
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture
def local(tmp_path):
    """A rig for what only processes can do."""
    with rigs("process", tmp_path) as make:
        yield make


@pytest.fixture
def docker(tmp_path):
    with rigs("docker", tmp_path) as make:
        yield make


def started(one):
    application = one.open()
    application.start()
    one.await_up()
    return application


def states(application):
    return [status.state for status in application.status()]


def clean(report):
    return [status.closed_cleanly for status in report.instances]


GONE, RUNNING, UNKNOWN = InstanceState.GONE, InstanceState.RUNNING, InstanceState.UNKNOWN


def test_never_started_is_gone_and_not_clean(rig):
    application = rig().open()
    assert states(application) == [GONE, GONE]
    report = application.stop(timeout=5)
    assert (report.gone, report.clean) == (True, False)


def test_stop_is_witnessed_as_clean_and_stays_so(any_rig):
    one = any_rig()
    application = started(one)
    assert [(s.name, s.state, s.streams_state, s.closed_cleanly) for s in application.status()] == [
        ("one", RUNNING, "RUNNING", None),
        ("two", RUNNING, "RUNNING", None),
    ]
    assert application.stop(timeout=10).clean
    wait(lambda: not one.leftovers())
    again = application.stop(timeout=10)
    assert again.clean
    assert "exit status 143" in again.instances[0].detail


def test_exit_status_zero_after_a_request_is_clean(rig):
    one = rig(environment={"ON_TERM": "0"})
    assert started(one).stop(timeout=10).clean


def test_exit_status_of_a_failure_is_not_clean(any_rig):
    one = any_rig(per_instance=[{"ON_TERM": "1"}])
    report = started(one).stop(timeout=10)
    assert report.gone
    assert clean(report) == [False, True]


def test_a_killed_instance_is_not_clean(any_rig):
    one = any_rig()
    application = started(one)
    one.kill("one")
    first, second = application.status()
    assert (first.state, first.closed_cleanly, second.state) == (GONE, False, RUNNING)
    assert clean(application.stop(timeout=10)) == [False, True]


def test_an_end_that_nobody_asked_for_is_not_clean(rig):
    one = rig(environment={"ON_TERM": "0"})
    application = started(one)
    one.kill("one", signal.SIGTERM)
    assert clean(application.stop(timeout=10)) == [False, True]


def test_who_ignores_sigterm_is_killed_and_not_clean(any_rig):
    one = any_rig(per_instance=[{"ON_TERM": "ignore"}])
    application = started(one)
    began = time.monotonic()
    report = application.stop(timeout=1)
    assert time.monotonic() - began >= 1
    assert report.gone
    assert clean(report) == [False, True]
    assert "SIGKILL" in report.instances[0].detail or "137" in report.instances[0].detail
    wait(lambda: not one.leftovers())


def test_closing_in_error_is_not_clean(rig):
    one = rig(per_instance=[{"HEALTH": "ERROR"}])
    report = started(one).stop(timeout=10)
    assert report.gone
    assert clean(report) == [False, True]
    assert "ERROR before" in report.instances[0].detail


def test_without_its_witness_an_instance_is_still_found_but_never_clean(rig):
    one = rig()
    application = started(one)
    one.kill_witness("one")
    assert states(application) == [RUNNING, RUNNING]
    application.start()
    report = application.stop(timeout=10)
    assert report.gone
    assert clean(report) == [False, True]
    wait(lambda: not one.leftovers())


def test_start_leaves_running_instances_alone(rig):
    one = rig()
    application = started(one)
    before = one.process("one"), one.process("two")
    application.start()
    assert (one.process("one"), one.process("two")) == before
    one.kill("one")
    application.start()
    one.await_up()
    assert one.process("two") == before[1]
    assert one.process("one") != before[0]
    assert states(application) == [RUNNING, RUNNING]


def test_an_old_end_says_nothing_about_a_new_run(rig):
    one = rig()
    application = started(one)
    assert application.stop(timeout=10).clean
    application.start()
    one.await_up()
    assert [s.closed_cleanly for s in application.status()] == [None, None]
    one.kill_witness("one")
    one.kill("one")
    assert clean(application.stop(timeout=10)) == [False, True]


def test_starting_twice_at_once_starts_once(rig):
    one = rig()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: one.open().start(), range(4)))
    one.await_up()
    programs = [p for p in one.leftovers() if p.cmdline()[-1].endswith("counting.py")]
    assert len(programs) == 2


def test_pause_and_resume(any_rig):
    one = any_rig()
    application = started(one)
    application.resume()
    application.pause()
    assert [s.streams_state for s in application.status()] == ["PAUSED", "PAUSED"]
    application.pause()
    application.resume()
    assert [s.streams_state for s in application.status()] == ["RUNNING", "RUNNING"]


def test_a_pause_that_does_not_hold_everywhere_is_an_error(rig):
    one = rig(per_instance=[{}, {"DEAF": "1"}])
    application = started(one)
    with pytest.raises(ApplicationNotReady, match=r"not paused: two \(running, RUNNING\)"):
        application.pause()
    application.resume()


def test_an_instance_that_is_gone_is_not_paused(rig):
    one = rig()
    application = started(one)
    one.kill("two")
    with pytest.raises(ApplicationNotReady, match="two"):
        application.pause()
    application.resume()
    application.stop(timeout=10)
    with pytest.raises(ApplicationNotReady):
        application.pause()


def test_without_a_way_to_pause_it_is_refused(rig):
    one = rig(control={"pause": None, "resume": None, "query": None})
    application = started(one)
    with pytest.raises(Refused, match="no way to pause"):
        application.pause()
    application.resume()
    with pytest.raises(Refused, match=r"no queries|no way to query"):
        application.query("totals")


def test_wipe_refuses_while_anything_runs(any_rig):
    one = any_rig()
    application = started(one)
    one.kill("one")
    with pytest.raises(ApplicationRunning, match="two"):
        application.wipe_state()
    assert all((state / APPLICATION_ID).is_dir() for state in one.states)


def test_wipe_removes_the_application_and_nothing_else(any_rig):
    one = any_rig()
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


def test_query_merges_instances(any_rig):
    one = any_rig(per_instance=[{"STORE": json.dumps({"a": 1, "": None})}, {"STORE": json.dumps({"b": {"x": 2}})}])
    assert started(one).query("totals") == {"a": 1, "": None, "b": {"x": 2}}


def test_query_waits_for_a_rebalance(rig):
    one = rig(environment={"BUSY": "3"}, per_instance=[{"STORE": '{"a": 1}'}])
    assert started(one).query("totals") == {"a": 1}


def test_a_rebalance_that_does_not_end_is_not_an_answer(rig):
    one = rig(environment={"BUSY": "10000"}, start_timeout=1)
    with pytest.raises(ApplicationNotReady, match="503"):
        started(one).query("totals")


def test_two_instances_that_contradict_each_other_are_damaged(rig):
    one = rig(start_timeout=1, per_instance=[{"STORE": '{"k": 1}'}, {"STORE": '{"k": 2}'}])
    with pytest.raises(PermanentError, match="different values"):
        started(one).query("totals")


def test_a_key_that_is_there_twice_is_damaged(local):
    one = local(per_instance=[{"STORE": "{}"}])
    application = started(one)
    from streams_recovery.application.http_control import json_object

    with pytest.raises(PermanentError, match="twice"):
        json_object(b'{"k": 1, "k": 2}', where="here")
    with pytest.raises(NotFound):
        application.query("no-such-store")


def test_no_running_instance_answers_nothing_rather_than_an_empty_store(rig):
    one = rig(start_timeout=1)
    with pytest.raises(ApplicationNotReady, match="no instance is running"):
        one.open().query("totals")


def test_nothing_of_the_caller_is_in_the_environment(rig, monkeypatch):
    for name in (
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW_CONN_AWS_DEFAULT",
        "AWS_SECRET_ACCESS_KEY",
        "PYTHONHOME",
        "SOME_SECRET",
        "LD_PRELOAD_X",
    ):
        monkeypatch.setenv(name, "leaked")
    monkeypatch.setenv("LANG", "C.UTF-8")
    one = rig(per_instance=[{"MINE": "{name}"}])
    application = one.open()
    application.start({"OVERLAY_ID": "scratch"})
    one.await_up()
    found = one.get(0, "/environment")
    allowed = {
        "PATH",
        "HOME",
        "JAVA_HOME",
        "LANG",
        "TMPDIR",
        "PORT",
        "STATE_DIR",
        "APPLICATION_ID",
        "MINE",
        "OVERLAY_ID",
        "LC_CTYPE",
        "UNTIL",
    }
    assert set(found) <= allowed
    assert (found["MINE"], found["OVERLAY_ID"], found["LANG"]) == ("one", "scratch", "C.UTF-8")
    for witness in [one.files(name).started().witness for name in ("one", "two")]:
        assert "leaked" not in Path(f"/proc/{witness.pid}/environ").read_text() if sys.platform == "linux" else True


def test_instances_outlive_whoever_started_them(rig):
    one = rig()
    script = (
        "import json, os, signal, sys\n"
        "from tests.contracts.streams_apps.operate import open_application, Runs\n"
        f"open_application(Runs.model_validate(json.load(sys.stdin)), {APPLICATION_ID!r}).start()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{PLUGINS}:{HERE.parents[2]}"},
        start_new_session=True,
    )
    caller.communicate(json.dumps(one.runs()).encode(), timeout=60)
    assert caller.returncode == -signal.SIGKILL
    one.await_up()
    application = one.open()
    assert states(application) == [RUNNING, RUNNING]
    assert application.stop(timeout=10).clean


def test_a_program_that_cannot_be_started_is_said_so(rig):
    one = rig()
    one.section["command"] = ["/no/such/program"]
    with pytest.raises(PermanentError, match="no/such/program"):
        one.open().start()
    assert states(one.open()) == [GONE, GONE]


def test_a_program_that_ends_at_once_is_gone_and_not_clean(rig):
    one = rig()
    one.section["command"] = [sys.executable, "-c", "raise SystemExit(0)"]
    application = one.open()
    application.start()
    wait(lambda: states(application) == [GONE, GONE])
    assert not application.stop(timeout=5).clean


# What only processes can do.


def test_a_pid_that_was_given_to_somebody_else_is_neither_running_nor_signalled(local):
    one = local()
    application = started(one)
    application.stop(timeout=10)
    somebody = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        files = one.files("one")
        files.write(replace(files.started(), run="later", process=Process(pid=somebody.pid, born=one.process("one").born)))
        first = application.status()[0]
        assert (first.state, first.closed_cleanly) == (GONE, False)
        application.stop(timeout=1)
        assert somebody.poll() is None
        assert birth(somebody.pid) is not None
    finally:
        somebody.kill()
        somebody.wait()


def test_a_record_from_another_machine_is_unknown_and_left_alone(local):
    one = local()
    application = started(one)
    application.stop(timeout=10)
    files = one.files("one")
    run = files.started()
    files.write(replace(run, run="elsewhere", place=replace(run.place, host="elsewhere", boot="another-boot")))
    assert states(application) == [UNKNOWN, GONE]
    application.start()
    assert files.started().run == "elsewhere"
    assert application.stop(timeout=1).instances[0].state is UNKNOWN
    with pytest.raises(ApplicationRunning, match="elsewhere"):
        application.wipe_state()


def test_a_child_that_outlives_its_parent_is_running(local):
    one = local()
    # A wrapper that does not exec: killing it leaves the real program behind.
    one.section["command"] = ["sh", "-c", f"{sys.executable} {HERE / 'counting.py'} & wait"]
    application = started(one)
    one.kill("one")
    first = application.status()[0]
    assert first.state is RUNNING
    assert "left" in first.detail
    report = application.stop(timeout=10)
    assert report.gone
    wait(lambda: not one.leftovers())


def test_a_close_that_left_something_behind_is_not_clean(local):
    one = local(environment={"ON_TERM": "ignore"})
    one.section["command"] = ["sh", "-c", f"trap 'exit 0' TERM; {sys.executable} {HERE / 'counting.py'} & wait"]
    report = started(one).stop(timeout=1)
    assert report.gone
    assert clean(report) == [False, False]
    assert "exit status 0" in report.instances[0].detail


def test_an_instance_that_is_being_started_is_not_gone(local):
    one = local()
    application = one.open()
    files = one.files("one")
    with locks.held(files.lock, seconds=1):
        assert states(application) == [RUNNING, GONE]
    assert states(application) == [GONE, GONE]


def test_an_instance_that_is_not_on_record_is_not_gone(local):
    one = local()
    application = started(one)
    (one.files("one").home / "started.json").unlink()
    first = application.status()[0]
    assert first.state is RUNNING
    with pytest.raises(ApplicationRunning, match="not on record"):
        application.wipe_state()


def test_two_calls_that_stop_and_start_wait_for_each_other(local):
    one = local(start_timeout=1)
    application = one.open()
    with locks.held(one.files("two").lock, seconds=1), pytest.raises(ApplicationNotReady, match="another call"):
        application.start()


def test_the_environment_is_in_no_argument_list(local):
    one = local(environment={"PASSWORD": "rosebud"})
    started(one)
    for process in one.leftovers():
        assert "rosebud" not in " ".join(process.cmdline())
    assert not any("rosebud" in file.read_text(errors="replace") for file in (one.directory / "run").rglob("*") if file.is_file())


def test_sigterm_may_be_blocked_or_ignored_by_the_caller(local):
    one = local()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        application = started(one)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        signal.signal(signal.SIGTERM, before)
    assert application.stop(timeout=10).clean


def test_a_hanging_instance_costs_its_time_out_once(local):
    one = local()
    application = started(one)
    for name in ("one", "two"):
        os.kill(one.process(name).pid, signal.SIGSTOP)
    began = time.monotonic()
    assert [s.streams_state for s in application.status()] == [None, None]
    assert time.monotonic() - began < 5
    report = application.stop(timeout=0.5)
    assert report.gone
    assert not report.clean


def test_a_program_of_a_command_that_takes_too_long_is_ended(tmp_path):
    from streams_recovery.application.command import run_program

    marker = tmp_path / "child"
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(marker)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(ApplicationNotReady, match="longer than"):
        run_program([sys.executable, "-c", script], {}, verb="stop", seconds=1.5)
    gone(Process(pid=int(marker.read_text()), born=birth(int(marker.read_text())) or "gone"))


@pytest.mark.parametrize(("status", "kind"), [(1, ApplicationNotReady), (2, ConfigInvalid), (3, Refused), (75, ApplicationNotReady)])
def test_exit_statuses_of_commands(status, kind):
    from streams_recovery.application.command import run_program

    with pytest.raises(kind, match="because"):
        run_program(
            [sys.executable, "-c", f"import sys; print('because', file=sys.stderr); sys.exit({status})"], {}, verb="start", seconds=20
        )


# What only containers can do.


def test_without_an_engine_instances_are_held_and_asked_but_not_stopped(docker):
    one = docker(per_instance=[{"STORE": '{"a": 1}'}])
    started(one)
    one.docker_host = ""
    application = one.open()
    assert states(application) == [RUNNING, RUNNING]
    application.pause()
    assert [s.streams_state for s in application.status()] == ["PAUSED", "PAUSED"]
    application.resume()
    assert application.query("totals") == {"a": 1}
    for verb in (application.start, lambda: application.stop(timeout=1)):
        with pytest.raises(Refused, match="no container engine"):
            verb()
    one.kill("one")
    assert states(application) == [UNKNOWN, RUNNING]
    with pytest.raises(ApplicationRunning, match="one"):
        application.wipe_state()


def test_state_that_is_not_mounted_is_not_wiped_state(docker):
    one = docker()
    application = one.open()
    one.states[1].rmdir()
    with pytest.raises(ConfigInvalid, match="not mounted"):
        application.wipe_state()


def test_a_container_keeps_its_environment(docker):
    from streams_recovery.application.docker_compose import DockerComposeApplication
    from streams_recovery.application.docker_compose_verbs import _settings

    one = docker()
    one.open()
    with pytest.raises(Refused, match="APPLICATION_ID"):
        DockerComposeApplication(_settings(one.directory / "settings.json")).start({"APPLICATION_ID": "scratch"})
