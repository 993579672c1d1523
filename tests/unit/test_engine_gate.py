"""The gate before the engine's socket: what it lets through, and that everything else never reaches the engine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socketserver
import subprocess
import tempfile
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from streams_recovery.application.docker_compose import ContainerSettings, DockerComposeApplication, DockerComposeSettings
from streams_recovery.application.port import InstanceState
from streams_recovery.config.runs.process import Control
from tests.support.project import PROJECT

STACK, LABEL = "streams-recovery", "streams-recovery.controlled"
MINE, OTHER = "a" * 64, "b" * 64


def container(identity, service, *, controlled):
    labels = {"com.docker.compose.project": STACK, "com.docker.compose.service": service, "com.docker.compose.oneoff": "False"}
    state = {"Status": "running", "Running": True, "ExitCode": 0, "OOMKilled": False}
    state |= {"StartedAt": "2026-01-02T03:04:05.123456789Z", "FinishedAt": "0001-01-01T00:00:00Z"}
    return {
        "Id": identity,
        "Name": f"/{service}",
        "Config": {"Labels": labels | ({LABEL: "true"} if controlled else {}), "Env": ["PASSWORD=rosebud"]},
        "State": state,
    }


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """An engine with two containers of one project, of which one carries the label. It remembers what it was asked."""

    daemon_threads = True

    def __init__(self, path):
        super().__init__(str(path), Answering)
        self.containers = {
            MINE: container(MINE, "order-processor-1", controlled=True),
            OTHER: container(OTHER, "postgres", controlled=False),
        }
        self.asked = []


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(f"{self.command} {self.path}")
        parts = urlsplit(self.path)
        steps = parts.path.removeprefix("/").split("/")
        if steps[0].startswith("v1"):
            steps = steps[1:]
        if steps == ["_ping"]:
            self.answer(b"OK")
        elif steps == ["version"]:
            self.answer(b'{"ApiVersion": "1.47"}')
        elif steps == ["containers", "json"]:
            wanted = json.loads(parse_qs(parts.query)["filters"][0])["label"]
            found = [
                one for one in self.server.containers.values() if set(wanted) <= {f"{k}={v}" for k, v in one["Config"]["Labels"].items()}
            ]
            self.answer(json.dumps([{"Id": one["Id"], "Labels": one["Config"]["Labels"]} for one in found]).encode())
        elif steps[0] == "containers" and steps[2] == "json":
            self.answer(json.dumps(self.server.containers[steps[1]]).encode())
        elif self.command == "POST":
            state = self.server.containers[steps[1]]["State"]
            ended = {"Status": "exited", "ExitCode": 143, "FinishedAt": "2026-01-02T03:05:00Z"}
            state |= ended if steps[2] == "stop" else {"Status": "running", "StartedAt": "2026-01-02T03:06:00Z"}
            self.answer(b"", 204)
        else:
            self.answer(b"{}", 200)

    do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Api-Version", "1.47")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def address_string(self):
        return "gate"

    def log_message(self, *_):
        pass


@pytest.fixture
def socket_path():
    """The path of a socket has about a hundred characters at most; pytest's own directories are longer when one run starts another."""
    with tempfile.TemporaryDirectory(prefix="engine-", dir="/tmp") as directory:
        yield f"{directory}/engine.sock"


@pytest.fixture
def engine(socket_path):
    server = Engine(socket_path)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def gate(engine, socket_path, monkeypatch):
    for name, value in {"PROJECT": STACK, "LABEL": LABEL, "SOCKET": socket_path}.items():
        monkeypatch.setenv(f"GATE_{name}", value)
    spec = importlib.util.spec_from_file_location("gate", PROJECT / "docker/control/gate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.Gate, "log_message", lambda *_: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), module.Gate)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def ask(port, method, path, body=None):
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/v1.47/containers/{OTHER}/json"),
        ("POST", f"/v1.47/containers/{OTHER}/stop"),
        ("POST", f"/v1.47/containers/{OTHER}/start"),
        ("POST", "/v1.47/containers/postgres/stop"),
        ("POST", f"/v1.47/containers/{MINE[:12]}/stop"),
        ("POST", f"/v1.47/containers/{MINE}/kill"),
        ("POST", f"/v1.47/containers/{MINE}/exec"),
        ("POST", f"/v1.47/containers/{MINE}/stop/../../{OTHER}/stop"),
        ("POST", f"/v1.47/containers/{MINE}%2F..%2F{OTHER}/stop"),
        ("POST", "/v1.47/containers/create"),
        ("POST", "/v1.47/containers/prune"),
        ("POST", "/v1.47/images/create?fromImage=x"),
        ("POST", "/v1.47/volumes/create"),
        ("POST", "/_ping"),
        ("GET", f"/v1.47/containers/{MINE}/logs"),
        ("GET", f"/v1.47/containers/{MINE}/archive?path=/"),
        ("GET", f"/v1.47/containers/{MINE}/json/../../{OTHER}/json"),
        ("GET", "/v1.47/info"),
        ("GET", "/v1.47/volumes"),
        ("GET", "/v1.47/secrets"),
        ("GET", "/v1.47/../containers/json"),
        ("HEAD", f"/v1.47/containers/{MINE}/archive"),
        ("DELETE", f"/v1.47/containers/{MINE}"),
        ("PUT", f"/v1.47/containers/{MINE}/archive"),
    ],
)
def test_what_is_not_let_through(gate, engine, method, path):
    status, _ = ask(gate, method, path, body=b'{"Image": "x"}' if method == "POST" else None)
    assert status in (403, 501)
    assert all(line.startswith("GET ") and "/containers/json?" in line for line in engine.asked)
    assert {one["State"]["Status"] for one in engine.containers.values()} == {"running"}


@pytest.mark.parametrize(
    "filters",
    ["{}", "nonsense", "[]", '{"label": ["x=y"]}', '{"label": {"com.docker.compose.service=order-processor-1": true}}', '{"id": ["b"]}'],
)
def test_lists_hold_controlled_containers_only(gate, engine, filters):
    status, body = ask(gate, "GET", f"/v1.47/containers/json?all=1&filters={quote(filters)}")
    assert status == 200
    assert [one["Id"] for one in json.loads(body)] == ([] if "x=y" in filters else [MINE])


def test_inspecting_shows_no_environment(gate):
    status, body = ask(gate, "GET", f"/v1.47/containers/{MINE}/json")
    assert status == 200
    assert set(json.loads(body)) == {"Id", "Name", "State", "Config"}
    assert b"rosebud" not in body


@pytest.mark.parametrize(
    ("query", "passed"), [("?t=60", "?t=60"), ("?t=-1", ""), ("?signal=SIGKILL&t=5", "?t=5"), ("?t=5%26signal=x", ""), ("", "")]
)
def test_a_stop_has_no_other_option_than_its_patience(gate, engine, query, passed):
    status, _ = ask(gate, "POST", f"/v1.47/containers/{MINE}/stop{query}")
    assert status == 204
    assert engine.asked[-1] == f"POST /v1.47/containers/{MINE}/stop{passed}"


def test_without_an_engine_it_says_so(gate, engine):
    engine.shutdown()
    engine.server_close()
    status, body = ask(gate, "GET", "/_ping")
    assert status == 502
    assert b"did not answer" in body


@pytest.mark.skipif(shutil.which("docker") is None, reason="the docker client is not installed here")
def test_the_real_client_gets_through(gate, engine, tmp_path, monkeypatch):
    """Status, stop and start with the docker client itself, from the application port to the engine."""
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{gate}")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "client"))
    settings = DockerComposeSettings(
        application_id="order-processor",
        project=STACK,
        docker=("docker",),
        services=(ContainerSettings(service="order-processor-1", url="http://127.0.0.1:9", state_directory=str(tmp_path)),),
        control=Control(pause=None, resume=None, query=None),
        directory=str(tmp_path / "control"),
        timeout=20,
    )
    application = DockerComposeApplication(settings)
    [status] = application.status()
    assert (status.state, status.detail) == (InstanceState.RUNNING, f"container {MINE[:12]} running")
    report = application.stop(timeout=30)
    assert report.clean, report
    assert f"POST /v1.47/containers/{MINE}/stop?t=30" in engine.asked
    assert application.stop(timeout=30).clean
    application.start()
    [status] = application.status()
    assert (status.state, status.closed_cleanly) == (InstanceState.RUNNING, None)
    assert engine.containers[OTHER]["State"]["Status"] == "running"
    refused = subprocess.run(["docker", "kill", MINE], capture_output=True, text=True, env=os.environ, check=False)
    assert refused.returncode != 0
    assert "not let through" in refused.stderr
