"""Ctrl-C in the middle of a run: the teardown is taken, what is left is said, and the command that is named goes on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams_recovery.operations import savepoint
from tests.support.applications.savepoint_steps import begun
from tests.support.applications.small import Small, small_application
from tests.support.project import PROJECT

pytestmark = pytest.mark.kafka

# The programs of an application that is a file with its state: as slow as the file with that name says.
PROGRAM = """
import json, sys, time
from pathlib import Path
place, verb = Path(sys.argv[1]), sys.argv[2]
running = place / "running"
if (place / f"slow-{verb}").exists():
    (place / f"at-{verb}").touch()
    time.sleep(60)
if verb == "start":
    running.touch()
elif verb == "stop":
    running.unlink(missing_ok=True)
elif verb == "wipe":
    print('{"removed": [], "remaining": []}')
if verb in ("status", "stop"):
    up = running.exists()
    print(json.dumps([{"name": "one", "state": "running" if up else "gone", "streams_state": "RUNNING" if up else None,
                       "closed_cleanly": None if up else True, "detail": "a file"}]))
"""


@dataclass(frozen=True)
class Ended:
    code: int
    err: str


@dataclass(frozen=True)
class Here:
    """The application, and the commands of a person in a terminal of their own."""

    small: Small
    place: Path
    bootstrap: str

    def start(self, *words: str) -> subprocess.Popen[str]:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
            "COLUMNS": "1000",
            "STREAMS_RECOVERY_CONFIG_DIR": str(self.place),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "streams_recovery", *words],
            env=environment,
            cwd=self.place,
            text=True,
            stdout=subprocess.PIPE,
            stderr=(self.place / "err").open("w"),
            start_new_session=True,
        )

    def said(self) -> str:
        return (self.place / "err").read_text()

    def run(self, *words: str) -> Ended:
        with self.start(*words) as program:
            out, _ = program.communicate(timeout=180)
        assert program.returncode == 0, (self.said(), out)
        return Ended(program.returncode, self.said())

    def interrupted(self, *words: str, at: str = "", when: str = "", number: signal.Signals = signal.SIGINT) -> Ended:
        """A command that is ended once its program is ``at`` a verb, or once it has said ``when``."""
        with self.start(*words) as program:
            deadline = time.monotonic() + 120
            while not ((self.place / f"at-{at}").exists() if at else when in self.said()):
                assert program.poll() is None, self.said()
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.05)
            for file in self.place.glob("slow-*"):
                file.unlink()
            program.send_signal(number)
            program.communicate(timeout=120)
        return Ended(program.returncode, self.said())


@pytest.fixture
def here(bootstrap: str, tmp_path: Path) -> Iterator[Here]:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "running").touch()
    programs = {verb: [sys.executable, str(tmp_path / "program.py"), str(tmp_path), verb] for verb in ("status", "stop", "start", "wipe")}
    with small_application(bootstrap, tmp_path, programs=programs) as small:
        yield Here(small, tmp_path, bootstrap)


def next_command(ended: Ended) -> list[str]:
    """The words of the last line, behind the name of the program."""
    return shlex.split(ended.err.strip().splitlines()[-1])[1:]


def test_a_savepoint_that_is_interrupted_while_it_stops_the_application_leaves_it_running(here: Here) -> None:
    (here.place / "slow-stop").touch()
    ended = here.interrupted("backup", "small", at="stop")
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    assert "instance one: running, RUNNING" in ended.err
    assert "no topic is held" in ended.err
    assert "the lock is free" in ended.err
    assert next_command(ended)[:2] == ["backup", "small"]
    here.run(*next_command(ended))
    assert len(here.small.recovery.savepoints.ids()) == 1


def test_the_end_of_a_hold_that_is_repeated_leaves_down_what_somebody_has_stopped_since(here: Here) -> None:
    recovery, tickets = here.small.recovery, []
    for _ in range(2):
        ticket = begun(recovery)
        savepoint.quiesce(recovery, ticket)
        assert not (here.place / "running").exists()
        for _ in range(2):
            assert savepoint.resume(recovery, ticket).instances == ("one",)
        savepoint.finish(recovery, ticket)
        tickets.append(ticket)
    # Somebody clears the task of a run that is over, after the application was stopped for work on its topics.
    (here.place / "running").unlink()
    for ticket in tickets:
        assert savepoint.resume(recovery, ticket).instances == ()
    assert not (here.place / "running").exists()


def test_a_call_that_only_looked_says_that_it_changed_nothing(here: Here) -> None:
    (here.place / "slow-status").touch()
    ended = here.interrupted("preflight", "small", at="status")
    assert ended.code == 130, ended
    assert "before anything" in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_restore_that_is_interrupted_half_way_names_its_phase_and_the_command_that_goes_on(here: Here, number: signal.Signals) -> None:
    here.run("backup", "small")
    with here.start("restore", "small", "--replace", "--plan", "--json", "--reason", "x") as shown:
        approval = json.loads(shown.communicate(timeout=120)[0])["approve"]
    (here.place / "slow-start").touch()
    ended = here.interrupted("restore", "small", "--replace", "--reason", "x", "--approve", approval, at="start", number=number)
    assert ended.code == 128 + number, ended
    [restore] = {one for one in ended.err.split() if one in _ids(here)}
    assert f"restore {restore} is half way, after phase started" in ended.err
    assert "instance one: gone" in ended.err
    assert "topics are still held" in ended.err or "no topic is held" in ended.err
    assert next_command(ended)[:3] == ["resume", "small", restore]
    with here.start("resume", "small", restore, "--plan", "--json") as shown:
        approval = json.loads(shown.communicate(timeout=120)[0])["approve"]
    # Nothing processes its input, so it is ended once more: now it runs.
    again = here.interrupted(*next_command(ended), "--approve", approval, when="started one")
    assert f"restore {restore} is half way, after phase started" in again.err
    assert "instance one: running" in again.err


def _ids(here: Here) -> set[str]:
    keys = here.small.recovery.repository.keys(here.small.recovery.layout.restores)
    return {key.removeprefix(here.small.recovery.layout.restores).split("/")[0] for key in keys}
