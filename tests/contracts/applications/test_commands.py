"""Programs of the user's own, and containers, where these differ from processes."""

from __future__ import annotations

import sys

import pytest

from streams_recovery.application.liveness import Process, birth
from streams_recovery.core.errors import (
    ApplicationNotReady,
    ApplicationRunning,
    ConfigInvalid,
    Refused,
)
from tests.contracts.applications.seen import RUNNING, UNKNOWN, started, states
from tests.contracts.streams_apps.running import gone


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


@pytest.mark.parametrize(("status", "kind"), [(1, ApplicationNotReady), (2, ConfigInvalid), (3, Refused), (75, ApplicationNotReady)])
def test_exit_statuses_of_commands(status, kind):
    from streams_recovery.application.command import run_program

    with pytest.raises(kind, match="because"):
        run_program(
            [sys.executable, "-c", f"import sys; print('because', file=sys.stderr); sys.exit({status})"], {}, verb="start", seconds=20
        )


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


def test_a_container_keeps_its_environment(docker):
    from streams_recovery.application.docker_compose import DockerComposeApplication
    from streams_recovery.application.docker_compose_verbs import _settings

    one = docker()
    one.open()
    with pytest.raises(Refused, match="APPLICATION_ID"):
        DockerComposeApplication(_settings(one.directory / "settings.json")).start({"APPLICATION_ID": "scratch"})
