"""The endpoints that people copy into their application, of plain Java and of Spring, asked by the HTTP client that savepoints and restores use."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from streams_recovery.application import http_control
from streams_recovery.application.http_control import exchange
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, NotFound
from streams_recovery.core.rollout.described import described
from tests.support.applications.endpoints import EXAMPLES, QUERY, Running, asked_by_key, held_and_resumed, java_endpoints, running
from tests.support.kafka.records import connect, topic
from tests.support.programs import spring

TOKEN = "a-token"


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Running]:
    jars, [port] = java_endpoints(), free_ports(1)
    class_path = ":".join(map(str, (*jars, compiled(EXAMPLES / "Totals.java", jars))))
    with topic(connect(bootstrap)) as log:
        arguments = [bootstrap, f"endpoints-{uuid.uuid4().hex[:8]}", log, str(tmp_path / "state"), str(port)]
        command = [str(find_java()), *QUICK, "-cp", class_path, "Totals", *arguments]
        with running(command, port, log, connect(bootstrap), tmp_path / "totals.log", token=TOKEN) as found:
            yield found


@pytest.mark.deep
def test_it_is_asked_held_and_closed(app: Running) -> None:
    assert app.becomes("RUNNING")
    health = http_control.reported(app.url, "/health", token=TOKEN)
    assert (health.restoring, health.standby_tasks, health.commit_interval_ms) == (0, 0, 100)
    held_and_resumed(app)
    answer = exchange("GET", app.url, "/topology", seconds=10, limit=1 << 16, token=TOKEN)
    assert (described(answer.body).read, [*described(answer.body).homes]) == ({app.log.topic}, ["totals"])
    with pytest.raises(NotFound):
        http_control.store(app.url, QUERY, "others", token=TOKEN)
    asked_by_key(app, port=int(app.url.rpartition(":")[2]))
    assert http_control.close(app.url, "/close", seconds=60, token=TOKEN)
    assert app.state() == "NOT_RUNNING"
    with pytest.raises(ApplicationNotReady, match="503"):
        app.key("totals", "alice")
    assert app.cleaned() == 200
    app.child.send_signal(signal.SIGTERM)
    assert app.child.wait(60) == 143


@pytest.mark.deep
def test_a_stranger_is_turned_away(app: Running) -> None:
    assert app.becomes("RUNNING")
    for wrong in (None, "another-token"):
        assert http_control.reported(app.url, "/health", token=wrong).state is None
        with pytest.raises(ConfigInvalid):
            http_control.post(app.url, "/pause", token=wrong)
        assert not http_control.close(app.url, "/close", seconds=10, token=wrong)
        stranger = replace(app, token=wrong)
        with pytest.raises(ConfigInvalid):
            stranger.key("totals", "alice")
        with pytest.raises(ConfigInvalid):
            stranger.owner("totals", "alice")
        assert stranger.cleaned() == 401
    assert app.state() == "RUNNING"


# Spring


def spring_settings(bootstrap: str, port: int, log: str, state: Path) -> list[str]:
    """The arguments of the application: properties of Spring."""
    streams = {
        "application-id": f"spring-{uuid.uuid4().hex[:8]}",
        "bootstrap-servers": bootstrap,
        "state-dir": str(state),
        "replication-factor": "1",
        "properties.processing.guarantee": "exactly_once_v2",
        "properties.commit.interval.ms": "100",
        "properties.application.server": f"{HOST}:{port}",
    }
    found = {"server.address": HOST, "server.port": port, "totals.input": log}
    found |= {f"spring.kafka.streams.{name}": value for name, value in streams.items()}
    return [f"--{name}={value}" for name, value in found.items()]


@pytest.fixture
def spring_app(bootstrap: str, tmp_path: Path) -> Iterator[Running]:
    jars, [port] = spring.class_path(), free_ports(1)
    queries = compiled(EXAMPLES / "KeyQueries.java", jars)
    controller = compiled(EXAMPLES / "spring" / "RecoveryController.java", (*jars, queries))
    application = compiled(EXAMPLES / "spring" / "TotalsApplication.java", (*jars, controller, queries))
    class_path = ":".join(map(str, (*jars, queries, controller, application)))
    with topic(connect(bootstrap)) as log:
        command = [str(find_java()), *QUICK, "-cp", class_path, "com.example.recovery.TotalsApplication"]
        command += spring_settings(bootstrap, port, log, tmp_path / "state")
        with running(command, port, log, connect(bootstrap), tmp_path / "spring.log") as found:
            yield found


@pytest.mark.deep
def test_an_application_of_spring_is_asked_held_and_closed(spring_app: Running) -> None:
    assert spring_app.becomes("RUNNING")
    health = http_control.reported(spring_app.url, "/health")
    assert (health.standby_tasks, health.commit_interval_ms) == (0, 100)
    held_and_resumed(spring_app)
    answer = exchange("GET", spring_app.url, "/topology", seconds=10, limit=1 << 16)
    assert [*described(answer.body).homes] == ["totals"]
    with pytest.raises(NotFound):
        http_control.store(spring_app.url, QUERY, "others")
    asked_by_key(spring_app, port=int(spring_app.url.rpartition(":")[2]))
    assert http_control.close(spring_app.url, "/close", seconds=60)
    assert spring_app.state() == "NOT_RUNNING"
    assert spring_app.cleaned() == 200
    spring_app.child.send_signal(signal.SIGTERM)
    assert spring_app.child.wait(60) == 143
