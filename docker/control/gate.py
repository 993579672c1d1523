"""A gate before a container engine's socket: it lets through what stopping and starting one application takes, and nothing else.

| request | answer |
|---|---|
| ping, version | the engine's |
| list containers | those of the project that carry the label, whatever filter was asked for besides |
| inspect one of them | its id, labels and state: not its environment, which may hold secrets |
| stop or start one of them | the engine's |
| anything else | 403 or 501, and the engine is not asked |

Everything comes from the environment: GATE_PROJECT, GATE_LABEL, GATE_SOCKET, GATE_PORT. Standard library only. It knows no users: whoever
reaches its port may do the above, so give its network to nobody else.
"""

from __future__ import annotations

import json
import os
import re
import socket
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

_VERSION = r"(?:/v[0-9.]+)?"
_ID = r"(?P<id>[A-Za-z0-9][A-Za-z0-9_.-]{0,127})"
_GREETING = re.compile(rf"{_VERSION}/(?:_ping|version)")
_LIST = re.compile(rf"(?P<version>{_VERSION})/containers/json")
_INSPECT = re.compile(rf"(?P<version>{_VERSION})/containers/{_ID}/json")
_ACT = re.compile(rf"(?P<version>{_VERSION})/containers/{_ID}/(?P<verb>stop|start)")
# A stop answers when the container has ended.
_SECONDS = 3700.0
_OK = 200
_KEPT_HEADERS = ("Content-Type", "Api-Version", "Ostype", "Docker-Experimental")


class Engine(HTTPConnection):
    """The engine behind its socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a port."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


class Gate(BaseHTTPRequestHandler):
    """One request. Bodies are not read: nothing that is let through has one."""

    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        """Greetings, lists and inspections."""
        parts = urlsplit(self.path)
        if _GREETING.fullmatch(parts.path):
            self._pass_on(parts.path)
        elif found := _LIST.fullmatch(parts.path):
            self._list(found["version"], parse_qs(parts.query))
        elif (found := _INSPECT.fullmatch(parts.path)) and (identity := self._mine(found["version"], found["id"])):
            self._inspect(found["version"], identity)
        else:
            self._refuse()

    def do_HEAD(self) -> None:
        """A greeting."""
        if _GREETING.fullmatch(self.path):
            self._pass_on(self.path)
        else:
            self._refuse()

    def do_POST(self) -> None:
        """A stop or a start, with how long a stop may take and no other option."""
        parts = urlsplit(self.path)
        found = _ACT.fullmatch(parts.path)
        identity = self._mine(found["version"], found["id"]) if found else None
        if found is None or identity is None:
            self._refuse()
            return
        seconds = parse_qs(parts.query).get("t", [""])[0]
        patience = f"?t={seconds}" if found["verb"] == "stop" and re.fullmatch(r"\d{1,5}", seconds) else ""
        self._pass_on(f"{found['version']}/containers/{identity}/{found['verb']}{patience}")

    def _list(self, version: str, query: dict[str, list[str]]) -> None:
        status, headers, body = self._ask("GET", self._listing(version, query.get("filters", ["{}"])[0]))
        self._answer(status, headers, body)

    def _listing(self, version: str, filters: str) -> str:
        try:
            asked = json.loads(filters)
        except ValueError:
            asked = {}
        labels = asked.get("label") if isinstance(asked, dict) else None
        # Both forms that clients write: a list, and an object whose keys count.
        named = [label for label in labels or [] if isinstance(label, str)]
        wanted = [*named, f"com.docker.compose.project={os.environ['GATE_PROJECT']}", f"{os.environ['GATE_LABEL']}=true"]
        return f"{version}/containers/json?" + urlencode({"all": "1", "filters": json.dumps({"label": wanted})})

    def _mine(self, version: str, asked: str) -> str | None:
        status, _, body = self._ask("GET", self._listing(version, "{}"))
        if status != _OK:
            return None
        return next((one["Id"] for one in json.loads(body) if one["Id"] == asked), None)

    def _inspect(self, version: str, identity: str) -> None:
        status, headers, body = self._ask("GET", f"{version}/containers/{quote(identity)}/json")
        if status == _OK:
            found = json.loads(body)
            shown: dict[str, Any] = {key: found.get(key) for key in ("Id", "Name", "State")}
            body = json.dumps({**shown, "Config": {"Labels": found["Config"]["Labels"]}}).encode()
        self._answer(status, headers, body)

    def _pass_on(self, path: str) -> None:
        self._answer(*self._ask(self.command, path))

    def _ask(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        engine = Engine(os.environ["GATE_SOCKET"])
        try:
            engine.request(method, path)
            answer = engine.getresponse()
            headers = {name: value for name in _KEPT_HEADERS if (value := answer.getheader(name))}
            return answer.status, headers, answer.read()
        except (OSError, HTTPException) as error:
            return 502, {"Content-Type": "application/json"}, json.dumps({"message": f"the engine did not answer: {error}"}).encode()
        finally:
            engine.close()

    def _refuse(self) -> None:
        body = json.dumps({"message": f"{self.command} {urlsplit(self.path).path} is not let through"}).encode()
        self._answer(403, {"Content-Type": "application/json"}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> None:
    """Serve until the container is stopped."""
    ThreadingHTTPServer(("0.0.0.0", int(os.environ["GATE_PORT"])), Gate).serve_forever()  # noqa: S104 - inside a container's own network


if __name__ == "__main__":
    main()
