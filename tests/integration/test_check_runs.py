"""What runs an application is played, dry and for real: what was answered wrongly is said field by field, and what was stopped runs again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from streams_recovery.application.instance_record import InstanceFiles, session_of
from streams_recovery.cli.app import app
from streams_recovery.core.waiting import poll
from streams_recovery.operations.check_runs import check_real
from tests.support.applications.small import RUNNING, Small, says, small_application

pytestmark = pytest.mark.kafka

# An application that is a file with its state. What it answers wrongly is said by the third argument.
PROGRAM = """
import json, sys, time
from pathlib import Path
place, verb, fault = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
running, paused, state = place / "running", place / "paused", place / "state"
if verb == "start" and fault != "never starts":
    running.touch()
elif verb == "stop" and fault != "never stops":
    running.unlink(missing_ok=True)
    if fault == "slow":
        (place / "stopping").touch()
        while not (place / "go on").exists():
            time.sleep(0.05)
elif verb == "pause" and fault != "deaf":
    paused.touch()
elif verb == "resume":
    paused.unlink(missing_ok=True)
elif verb == "wipe":
    (place / "wiped").touch()
    print(json.dumps({"removed": [], "remaining": ["/state/shop"] if fault == "keeps state" else []}))
if verb in ("status", "stop"):
    up = running.exists()
    one = {"name": "one", "state": "running" if up else "gone", "streams_state": None, "closed_cleanly": None if up else True, "detail": "a file"}
    if up:
        one["streams_state"] = "PAUSED" if paused.exists() else "RUNNING"
    elif fault == "killed":
        one["closed_cleanly"] = False
    print(json.dumps([one]))
"""
# A member of the group as Kafka Streams has it, without a word of its own.
MEMBER = """
import signal, sys, uuid
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:4]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": f"{group}-{uuid.uuid4()}-StreamThread-1-consumer"})
consumer.subscribe([topic])
try:
    while True:
        consumer.poll(0.1)
finally:
    consumer.close()
"""


def programs(place: Path, fault: str, *, pauses: bool = True) -> dict[str, list[str]]:
    (place / "program.py").write_text(PROGRAM)
    (place / "running").touch()
    verbs = ("status", "stop", "start", "wipe", *(("pause", "resume") if pauses else ()))
    return {verb: [sys.executable, str(place / "program.py"), str(place), verb, fault] for verb in verbs}


@contextmanager
def application(bootstrap: str, place: Path, own: Mapping[str, list[str]]) -> Iterator[Small]:
    with small_application(bootstrap, place, programs=dict(own)) as small:
        yield small


def check(bootstrap: str, place: Path, *words: str) -> Result:
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    return CliRunner().invoke(app, ["check-runs", "small", "--configs", str(place), *words], env={**kafka, "COLUMNS": "1000"})


def for_real(small: Small, bootstrap: str, place: Path, *words: str) -> Result:
    planned = check(bootstrap, place, "--for-real", *words, "--plan", "--json")
    assert planned.exit_code == 0, planned.output
    return check(bootstrap, place, "--for-real", *words, "--approve", json.loads(planned.stdout)["approve"])


def test_dry_only_looks_and_says_what_was_not_tried(bootstrap: str, tmp_path: Path) -> None:
    with application(bootstrap, tmp_path, programs(tmp_path, "")):
        done = check(bootstrap, tmp_path)
        assert done.exit_code == 0, done.output
        assert "2 of 2 answers are right, 5 verbs were not tried" in done.stdout
        assert (tmp_path / "running").exists()
        told = json.loads(check(bootstrap, tmp_path, "--json").stdout)
    assert (told["good"], set(told["not_tried"])) == (True, {"pause", "resume", "stop", "wipe", "start"})


def test_dry_names_each_field_that_was_answered_wrongly(bootstrap: str, tmp_path: Path) -> None:
    wrong = [{"name": "one", "state": "up", "streams_state": None, "closed_cleanly": None}]
    own = {"status": says(wrong), "stop": ["/no/such/program"], "start": ["true"], "wipe": ["true"]}
    with application(bootstrap, tmp_path, own):
        done = check(bootstrap, tmp_path)
    assert done.exit_code == 2, done.output
    assert 'status: [0].state: expected one of running, gone, unknown, got "up"' in done.stderr
    assert "status: [0].detail: expected text, got no such field" in done.stderr
    assert "programs: runs.command.stop: expected a program that this user may run, got /no/such/program" in done.stderr


def test_for_real_every_verb_is_played_and_the_application_is_as_before(bootstrap: str, tmp_path: Path) -> None:
    with application(bootstrap, tmp_path, programs(tmp_path, "")) as small:
        done = for_real(small, bootstrap, tmp_path, "--wipe")
        assert done.exit_code == 0, done.output
        assert "6 of 6 answers are right, 0 verbs were not tried" in done.stdout
        assert small.recovery.lock.holder() is None
    assert (tmp_path / "running").exists()
    assert not (tmp_path / "paused").exists()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("killed", "stop: one.closed_cleanly: expected true: it was asked to end, and ended by itself, got false"),
        ("never stops", 'stop: one.state: expected gone, got "running"'),
        ("keeps state", "wipe: remaining: expected no directory, got /state/shop"),
    ],
)
def test_for_real_what_a_verb_did_not_reach_is_told(bootstrap: str, tmp_path: Path, fault: str, told: str) -> None:
    with application(bootstrap, tmp_path, programs(tmp_path, fault, pauses=False)) as small:
        done = for_real(small, bootstrap, tmp_path, "--wipe")
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert "cannot be paused" in done.stdout or "no pause" in done.stdout
    assert (tmp_path / "running").exists(), "it is brought back whatever was answered"
    assert (tmp_path / "wiped").exists() is (fault == "keeps state"), "nothing is wiped after a stop that was answered wrongly"


@contextmanager
def joined(bootstrap: str, small: Small, place: Path) -> Iterator[None]:
    """A member of the group that goes on whatever the programs answer."""
    (place / "member.py").write_text(MEMBER)
    group = small.recovery.application_id
    member = subprocess.Popen([sys.executable, str(place / "member.py"), bootstrap, group, small.input.topic])
    try:
        assert poll(lambda: small.recovery.groups.describe(group).state == "Stable" or None, seconds=60, interval=0.5)
        yield
    finally:
        member.kill()
        member.wait()


def test_for_real_a_stop_that_the_group_does_not_bear_out_is_followed_by_no_wipe(bootstrap: str, tmp_path: Path) -> None:
    with application(bootstrap, tmp_path, programs(tmp_path, "lies", pauses=False)) as small, joined(bootstrap, small, tmp_path):
        done = for_real(small, bootstrap, tmp_path, "--wipe")
    assert done.exit_code != 0, done.output
    assert not (tmp_path / "wiped").exists(), done.output


def test_for_real_what_has_lost_its_lock_neither_wipes_nor_starts(bootstrap: str, tmp_path: Path) -> None:
    with application(bootstrap, tmp_path, programs(tmp_path, "slow", pauses=False)) as small, ThreadPoolExecutor(1) as pool:
        done = pool.submit(check_real, small.recovery, "one", wipe=True)
        lock = small.recovery.lock
        assert poll(lambda: (tmp_path / "stopping").exists() or None, seconds=60, interval=0.1)
        assert lock.take_from("check one")
        lock.acquire("another run", lease_seconds=600, purpose="a restore")
        (tmp_path / "go on").touch()
        played = {one.verb: one for one in done.result(timeout=60).played}
    assert played["stop"].good
    assert "lock" in played["wipe"].error
    assert "lock" in played["start"].error
    assert not (tmp_path / "wiped").exists()
    assert not (tmp_path / "running").exists()


def test_for_real_it_asks_and_is_refused_where_nothing_runs(bootstrap: str, tmp_path: Path) -> None:
    with application(bootstrap, tmp_path, programs(tmp_path, "")) as small:
        assert check(bootstrap, tmp_path, "--for-real").exit_code != 0
        assert (tmp_path / "running").exists()
        (tmp_path / "running").unlink()
        done = for_real(small, bootstrap, tmp_path)
    assert done.exit_code != 0
    assert "not every instance" in str(done.exception)
    assert not (tmp_path / "running").exists(), "what was down stays down"


def test_a_process_without_endpoints_is_played_by_its_group(bootstrap: str, tmp_path: Path) -> None:
    with application(bootstrap, tmp_path, {"status": says(RUNNING)}) as small:
        (tmp_path / "member.py").write_text(MEMBER)
        file = tmp_path / "small.yaml"
        config = json.loads(file.read_text())
        one = {"name": "one", "state_directory": str(tmp_path / "state" / "one")}
        config["runs"] = {
            "kind": "process",
            "process": {
                "directory": str(tmp_path / "run"),
                "command": [sys.executable, str(tmp_path / "member.py"), bootstrap, small.recovery.application_id, small.input.topic],
                "instances": [one],
                "start_timeout_seconds": 60,
            },
        }
        file.write_text(json.dumps(config))
        from streams_recovery.application.factory import open_application
        from streams_recovery.config.loader import load_named

        port = open_application(load_named("small", tmp_path, {}).runs, small.recovery.application_id)
        port.start()
        try:
            done = _once_joined(small, bootstrap, tmp_path)
            assert done.exit_code == 0, done.output
            assert "4 of 4 answers are right, 2 verbs were not tried" in done.stdout
            assert "instances without a url" in done.stdout
            started = InstanceFiles(tmp_path / "run", "one").started()
            assert started is not None
            assert session_of(started.process), "it runs again"
        finally:
            assert port.stop(timeout=20).gone


def _once_joined(small: Small, bootstrap: str, place: Path) -> Result:
    group = small.recovery.application_id
    assert poll(lambda: small.recovery.groups.describe(group).state == "Stable" or None, seconds=60, interval=0.5)
    return for_real(small, bootstrap, place, "--wipe")
