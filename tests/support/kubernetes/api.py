"""The API server as tests and the kubelet of the tests use it: plain JSON, without the client that the product uses."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SECONDS = 20


class Answered(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:500]}")
        self.status = status


@dataclass(frozen=True)
class Api:
    """One user of an API server."""

    url: str
    authority: Path
    token: str

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def items(self, path: str) -> list[Any]:
        return self._ask("GET", path)["items"]

    def find(self, path: str) -> Any:
        """None for what is not there."""
        try:
            return self.get(path)
        except Answered as error:
            if error.status == 404:
                return None
            raise

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, body)

    def patch(self, path: str, body: Any, kind: str = "merge-patch", manager: str = "tests") -> Any:
        return self._ask("PATCH", f"{path}?fieldManager={manager}", body, f"application/{kind}+json")

    def delete(self, path: str, body: Any = None) -> Any:
        return self._ask("DELETE", path, body)

    def _ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        trusted = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=trusted) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Answered(error.code, error.read().decode()) from error
