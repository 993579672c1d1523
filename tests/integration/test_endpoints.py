"""The endpoints that people copy into their application, asked by the HTTP client that savepoints and restores use."""

from __future__ import annotations

import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.compiled import compiled
from embedded.jars import jar_files
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from streams_recovery.application import http_control
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, NotFound
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from tests.support.kafka.records import connect, topic, write
from tests.support.project import PROJECT

EXAMPLES = PROJECT / "examples" / "endpoints"
TOKEN, QUERY, SECONDS = "a-token", "/state/{store}", 120
ORDERS = [(1_700_000_000_000, key, b"order", []) for key in (b"alice", b"bob", b"alice")]


class Running:
    """The application that counts, on a topic of its own."""

    def __init__(self, bootstrap: str, directory: Path, log: str) -> None:
        [self.port] = free_ports(1)
        self.url, self.log, self.connection = f"http://{HOST}:{self.port}", TopicPartition(log, 0), connect(bootstrap)
        jars = jar_files()
        class_path = (
            *jars,
            endpoints := compiled(EXAMPLES / "RecoveryEndpoints.java", jars),
            compiled(EXAMPLES / "Totals.java", (*jars, endpoints)),
        )
        arguments = [bootstrap, f"endpoints-{uuid.uuid4().hex[:8]}", log, str(directory / "state"), str(self.port)]
        with (directory / "totals.log").open("wb") as output:
            self.child = subprocess.Popen(
                [str(find_java()), *QUICK, "-cp", ":".join(map(str, class_path)), "Totals", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"RECOVERY_TOKEN": TOKEN},
            )

    def state(self) -> str | None:
        """What it says of itself."""
        return http_control.reported(self.url, "/health", token=TOKEN).state

    def becomes(self, state: str) -> bool:
        """Whether it says so in time."""
        return poll(lambda: True if self.state() == state else None, seconds=SECONDS) is True

    def counted(self) -> dict[str, object]:
        """Its store, nothing while it cannot be asked."""
        try:
            return http_control.store(self.url, QUERY, "totals", token=TOKEN)
        except ApplicationNotReady:
            return {}


@pytest.fixture
def running(bootstrap: str, tmp_path: Path) -> Iterator[Running]:
    with topic(connect(bootstrap)) as log:
        found = Running(bootstrap, tmp_path, log)
        try:
            yield found
        finally:
            found.child.kill()
            found.child.wait()


def test_it_is_asked_held_and_closed(running: Running) -> None:
    assert running.becomes("RUNNING")
    health = http_control.reported(running.url, "/health", token=TOKEN)
    assert (health.restoring, health.standby_tasks, health.commit_interval_ms) == (0, 0, 100)

    write(running.connection, running.log, ORDERS)
    assert poll(lambda: True if running.counted() == {"alice": 2, "bob": 1} else None, seconds=SECONDS)
    with pytest.raises(NotFound):
        http_control.store(running.url, QUERY, "others", token=TOKEN)

    http_control.post(running.url, "/pause", token=TOKEN)
    assert running.state() == "PAUSED"
    write(running.connection, running.log, ORDERS)
    http_control.post(running.url, "/resume", token=TOKEN)
    assert running.state() == "RUNNING"
    assert poll(lambda: True if running.counted() == {"alice": 4, "bob": 2} else None, seconds=SECONDS)

    assert http_control.close(running.url, "/close", seconds=60, token=TOKEN)
    assert running.state() == "NOT_RUNNING"
    running.child.send_signal(signal.SIGTERM)
    assert running.child.wait(60) == 143


def test_a_stranger_is_turned_away(running: Running) -> None:
    assert running.becomes("RUNNING")
    for wrong in (None, "another-token"):
        assert http_control.reported(running.url, "/health", token=wrong).state is None
        with pytest.raises(ConfigInvalid):
            http_control.post(running.url, "/pause", token=wrong)
        assert not http_control.close(running.url, "/close", seconds=10, token=wrong)
    assert running.state() == "RUNNING"
