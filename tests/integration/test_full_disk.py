"""A savepoint on a file system that becomes full, or takes no writes: it ends at once, says what to do, and leaves nothing that needs room."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.applications.small import Small, small_application
from tests.support.project import PROJECT

pytestmark = [pytest.mark.kafka, pytest.mark.fault("F13")]

RECORDS, BYTES = 8_000, 900
# Three attempts at the copy alone would take a minute of pauses.
SECONDS = 45.0


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[None]:
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("NOT checked: only root can make a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


@pytest.fixture
def wide(bootstrap: str, tmp_path: Path) -> Iterator[tuple[Small, Path]]:
    """An application with more than 7 MB in one changelog, of which a segment has a thousand records. Its repository is on a disk of its own."""
    place = tmp_path / "repository"
    with small_disk(place, "size=4m"), small_application(bootstrap, tmp_path) as small:
        file = tmp_path / "small.yaml"
        config = json.loads(file.read_text())
        config["backup"]["segment_max_records"] = 1_000
        file.write_text(json.dumps(config))
        producer = Producer(small.recovery.connection.client_config())
        for number in range(RECORDS):
            producer.produce(small.changelog.topic, os.urandom(BYTES), b"k%d" % number, 0)
        assert producer.flush(30) == 0
        yield small, place


def backup(bootstrap: str, directory: Path, **changes: str) -> tuple[subprocess.CompletedProcess[str], float]:
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
        "COLUMNS": "1000",
        "AIRFLOW_CONN_KAFKA_DEFAULT": kafka,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        **changes,
    }
    began = time.monotonic()
    words = [sys.executable, "-m", "streams_recovery", "backup", "small", "--configs", str(directory), "--logs", str(directory / "logs")]
    done = subprocess.run(words, env=environment, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    return done, time.monotonic() - began


def segments(small: Small) -> list[str]:
    return list(small.recovery.repository.keys(small.recovery.layout.segments))


def test_a_full_repository_ends_a_savepoint_at_once_without_segments(wide: tuple[Small, Path], bootstrap: str, tmp_path: Path) -> None:
    small, place = wide
    full, seconds = backup(bootstrap, tmp_path)
    assert full.returncode == 2, full.stderr
    assert "NoRoom: uploading" in full.stderr
    assert "make room there" in full.stderr
    assert "attempt 1 of" not in full.stderr
    assert seconds < SECONDS
    assert segments(small) == []
    assert small.recovery.lock.holder() is None, "room was made before the lock was given back"
    settings = small.recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].config
    assert settings == {"cleanup.policy": "compact"}, "nothing of the guard is left"
    remount(place, "size=64m")
    again, _ = backup(bootstrap, tmp_path)
    assert again.returncode == 0, again.stderr
    assert len(segments(small)) > 2


def test_a_full_disk_of_a_task_ends_a_savepoint_at_once(wide: tuple[Small, Path], bootstrap: str, tmp_path: Path) -> None:
    small, place = wide
    remount(place, "size=64m")
    work = tmp_path / "work"
    with small_disk(work, "size=512k"):
        full, seconds = backup(bootstrap, tmp_path, TMPDIR=str(work))
    assert full.returncode == 2, full.stderr
    assert "NoRoom" in full.stderr
    assert "TMPDIR" in full.stderr
    assert seconds < SECONDS
    assert segments(small) == []


def test_a_repository_that_takes_no_writes_ends_a_savepoint_before_it_begins(
    wide: tuple[Small, Path], bootstrap: str, tmp_path: Path
) -> None:
    _, place = wide
    remount(place, "ro")
    refused, seconds = backup(bootstrap, tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert "Read-only file system" in refused.stderr
    assert "attempt 1 of" not in refused.stderr
    assert seconds < SECONDS


# An application that is a file with its state. While it is stopped somebody else fills the disk of the repository.
FILLS = """
import json, sys
from pathlib import Path
place, verb = Path(sys.argv[1]), sys.argv[2]
running = place / "running"
if verb == "start":
    running.touch()
elif verb == "stop":
    running.unlink(missing_ok=True)
    with (place / "repository" / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
if verb in ("status", "stop"):
    up = running.exists()
    print(json.dumps([{"name": "one", "state": "running" if up else "gone", "streams_state": "RUNNING" if up else None,
                       "closed_cleanly": None if up else True, "detail": "a file"}]))
"""


def test_an_application_that_was_stopped_when_the_disk_became_full_runs_again(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FILLS)
    (tmp_path / "running").touch()
    programs = {verb: [sys.executable, str(tmp_path / "program.py"), str(tmp_path), verb] for verb in ("status", "stop", "start")}
    place = tmp_path / "repository"
    with small_disk(place, "size=2m"), small_application(bootstrap, tmp_path, programs=programs) as small:
        full, seconds = backup(bootstrap, tmp_path)
        assert full.returncode == 2, full.stderr
        assert "make room there" in full.stderr
        assert (tmp_path / "running").exists(), "nobody else has the lock, and whose it is can be read on a full disk"
        assert seconds < SECONDS
        (place / "filler").unlink()
        (tmp_path / "program.py").write_text(FILLS.replace("while True:", "while False:"))
        again, _ = backup(bootstrap, tmp_path)
        assert again.returncode == 0, again.stderr
        assert (tmp_path / "running").exists()
        settings = small.recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].config
    assert settings == {"cleanup.policy": "compact"}
