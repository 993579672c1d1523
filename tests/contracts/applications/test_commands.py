"""Programs of the user's own, and containers, where these differ from processes."""

from __future__ import annotations

import json
import os
import sys
import threading
import tracemalloc

import pytest

from streams_recovery.application.docker_compose import DockerComposeApplication
from streams_recovery.application.docker_compose_verbs import _settings
from streams_recovery.application.instance_record import Process, birth
from streams_recovery.application.port import AnswerTooLarge
from streams_recovery.core.errors import (
    ApplicationNotReady,
    ApplicationRunning,
    ConfigInvalid,
    LockLost,
    Refused,
)
from tests.support.applications.rig import gone, wait
from tests.support.applications.states import GONE, RUNNING, UNKNOWN, started, states


def test_a_program_of_a_command_that_takes_too_long_is_ended(tmp_path):
    from streams_recovery.application.command import run_program

    marker = tmp_path / "child"
    # Both sleep far longer than the program is given, so that only being ended ends them.
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(marker)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(ApplicationNotReady, match="longer than"):
        run_program([sys.executable, "-c", script], {}, verb="stop", seconds=1.5)
    gone(Process(pid=int(marker.read_text()), born=birth(int(marker.read_text())) or "gone"))


HANGS = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
    "open({marker!r}, 'w').write(str(child.pid))\n"
    "time.sleep(120)"
)


def test_a_program_is_ended_with_what_it_started_once_its_run_is_over(tmp_path):
    from streams_recovery.application.command import run_program

    marker = tmp_path / "child"

    def confirm():
        if marker.exists() and marker.read_text():
            raise LockLost("the run is over", next_step="none")

    with pytest.raises(LockLost):
        run_program([sys.executable, "-c", HANGS.format(marker=str(marker))], {}, verb="deploy", seconds=60, confirm=confirm)
    gone(Process(pid=int(marker.read_text()), born=birth(int(marker.read_text())) or "gone"))


def test_a_program_that_has_just_ended_hides_no_error(tmp_path):
    from streams_recovery.application.command import run_program

    marker = tmp_path / "program"
    program = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(1.5)"

    def confirm():
        if marker.exists() and marker.read_text():
            # As an interrupt does that comes between the end of the program and the answer to who waits for it.
            os.waitpid(int(marker.read_text()), 0)
            raise LockLost("the run is over", next_step="none")

    with pytest.raises(LockLost):
        run_program([sys.executable, "-c", program], {}, verb="deploy", seconds=60, confirm=confirm)


def test_a_task_that_airflow_tells_to_end_ends_its_programs(tmp_path):
    from streams_recovery.application.command import run_program
    from streams_recovery.operators.restore import StartApplicationOperator

    marker, ended = tmp_path / "child", []

    def waits():
        try:
            run_program([sys.executable, "-c", HANGS.format(marker=str(marker))], {}, verb="deploy", seconds=60)
        except ApplicationNotReady as error:
            ended.append(error.reason)

    step = threading.Thread(target=waits)
    step.start()
    wait(lambda: marker.exists() and marker.read_text())
    StartApplicationOperator(application_name="app").on_kill()
    step.join(15)
    assert ended == ["deploy ended with status -9: "]
    gone(Process(pid=int(marker.read_text()), born=birth(int(marker.read_text())) or "gone"))


@pytest.mark.parametrize(
    ("status", "kind"), [(1, ApplicationNotReady), (2, ConfigInvalid), (3, Refused), (4, AnswerTooLarge), (75, ApplicationNotReady)]
)
def test_exit_statuses_of_commands(status, kind):
    from streams_recovery.application.command import run_program

    with pytest.raises(kind, match="because"):
        run_program(
            [sys.executable, "-c", f"import sys; print('because', file=sys.stderr); sys.exit({status})"], {}, verb="start", seconds=20
        )


@pytest.mark.deep
def test_what_a_command_prints_is_read_up_to_a_limit():
    from streams_recovery.application.command import run_program

    def printing(size, *, status=0):
        text = f"import sys; sys.stdout.write('x' * {size}); sys.stderr.write('y' * 100_000_000 + ' the end'); sys.exit({status})"
        return run_program([sys.executable, "-c", text], {}, verb="query", seconds=60)

    assert len(printing(32 << 20)) == 32 << 20
    with pytest.raises(AnswerTooLarge) as caught:
        printing((32 << 20) + 1)
    assert caught.value.facts == {"where": "the query program", "limit": 32 << 20}
    tracemalloc.start()
    with pytest.raises(ApplicationNotReady, match="the end"):
        printing(0, status=1)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


@pytest.mark.deep
def test_a_store_too_large_for_an_answer_is_that_and_no_failure_of_the_application(docker, monkeypatch):
    from streams_recovery.application import http_control

    one = docker(per_instance=[{"STORE": json.dumps({"a": "x" * 100_000})}])
    application = started(one)
    assert len(application.query("totals")["a"]) == 100_000
    monkeypatch.setattr(http_control, "MAX_STORE_BYTES", 1000)
    with pytest.raises(AnswerTooLarge, match="more than 1000 bytes"):
        http_control.store(one.urls[0], "/state/{store}", "totals")


@pytest.mark.deep
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


@pytest.mark.fault("F45")
def test_state_that_is_not_mounted_is_not_wiped_state(docker):
    one = docker()
    application = one.open()
    one.states[1].rmdir()
    with pytest.raises(ConfigInvalid, match="not mounted"):
        application.wipe_state()


@pytest.mark.fault("F100")
def test_a_project_that_was_never_seen_is_unknown_and_its_state_stays(docker):
    """By another name it may be running: nothing that the engine lists says otherwise."""
    one = docker()
    settings = one.directory / "settings.json"
    one.open()
    empty = one.directory / "empty-engine"
    empty.write_text(f"#!{sys.executable}\n")
    empty.chmod(0o755)
    application = DockerComposeApplication(_settings(settings).model_copy(update={"docker": (str(empty),)}))
    assert states(application) == [UNKNOWN, UNKNOWN]
    assert "docker compose ls" in application.status()[0].detail
    with pytest.raises(ApplicationRunning):
        application.wipe_state()
    started(one)
    assert one.open().stop(timeout=20).gone
    assert states(application) == [GONE, GONE], "its containers were removed since: it was stopped from here"


def test_a_container_keeps_its_environment(docker):
    one = docker()
    one.open()
    with pytest.raises(Refused, match="APPLICATION_ID"):
        DockerComposeApplication(_settings(one.directory / "settings.json")).start({"APPLICATION_ID": "scratch"})
