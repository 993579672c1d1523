"""The API server as tests and the kubelet of the tests use it: plain JSON, without the client that the product uses."""

from __future__ import annotations

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SECONDS = 20


class Answered(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:500]}")
        self.status = status


@dataclass(frozen=True)
class Api:
    """One user of an API server. Raises ``Answered``, and ``OSError`` when there is no answer. Each thread keeps a connection."""

    url: str
    authority: Path
    token: str
    _kept: threading.local = field(default_factory=threading.local, compare=False)

    def get(self, path: str) -> Any:
        return json.loads(self.text(path))

    def items(self, path: str) -> list[Any]:
        found: list[Any] = self.get(path)["items"]
        return found

    def find(self, path: str) -> Any:
        """None for what is not there."""
        try:
            return self.get(path)
        except Answered as error:
            if error.status == 404:
                return None
            raise

    def post(self, path: str, body: Any) -> Any:
        return json.loads(self._ask("POST", path, body))

    def patch(self, path: str, body: Any, kind: str = "merge-patch", manager: str = "tests") -> Any:
        # What a server-side apply takes is called YAML, and JSON is that too.
        form = "yaml" if kind == "apply-patch" else "json"
        return json.loads(self._ask("PATCH", f"{path}?fieldManager={manager}", body, f"application/{kind}+{form}"))

    def delete(self, path: str, body: Any = None) -> Any:
        return json.loads(self._ask("DELETE", path, body))

    def text(self, path: str) -> str:
        return self._ask("GET", path).decode()

    def _ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> bytes:
        data = None if body is None else json.dumps(body).encode()
        kept = getattr(self._kept, "connection", None)
        try:
            answer, found = self._exchange(kept or self._connected(), method, path, data, content)
        except ConnectionError:
            # One that was kept may have been closed for being idle.
            if kept is None:
                raise
            answer, found = self._exchange(self._connected(), method, path, data, content)
        if answer >= 400:
            raise Answered(answer, found.decode())
        return found

    def _exchange(self, connection: HTTPSConnection, method: str, path: str, data: bytes | None, content: str) -> tuple[int, bytes]:
        try:
            connection.request(method, path, body=data, headers={"Authorization": f"Bearer {self.token}", "Content-Type": content})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            self._kept.connection = None
            raise ConnectionError(f"{method} {path}: {error!r}") from error

    def _connected(self) -> HTTPSConnection:
        parts = urlsplit(self.url)
        trusted = ssl.create_default_context(cafile=str(self.authority))
        self._kept.connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=_SECONDS, context=trusted)
        return self._kept.connection
