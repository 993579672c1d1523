"""Savepoints that are left out when all are listed, or when the newest is looked for."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.words import moment_of
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from streams_recovery.storage.seals import new_private_key
from tests.support.storage.contract import LAYOUT, savepoint

FIRST, SECOND = savepoint(1), savepoint(2)


class JustExpired(BaseHTTPRequestHandler):
    """A bucket in which the first savepoint was removed right after it was listed."""

    def do_GET(self) -> None:
        listing = (
            f"<ListBucketResult><Contents><Key>{LAYOUT.manifest(FIRST.savepoint_id)}</Key><Size>9</Size><ETag>e</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
        )
        status, body = (200, listing.encode()) if "list-type" in self.path else (404, b"")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_savepoint_that_expires_while_all_are_listed_is_left_out() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), JustExpired) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{server.server_port}"
        location = StorageLocation(backend="s3", bucket="test", region="us-east-1", endpoint=where, path_style=True, allow_http=True)
        store = SavepointStore(Repository(location, CREDENTIALS, Retries(attempts=1)), LAYOUT)
        assert store.ids() == [FIRST.savepoint_id]
        assert store.summaries() == {}
        server.shutdown()


def test_a_forged_savepoint_is_passed_over_when_the_latest_is_looked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    location = StorageLocation(backend="filesystem", path=str(tmp_path))
    private, public = new_private_key()
    sealed = Repository(location, seal=SealKeys(public=(public,), private=private))
    store = SavepointStore(sealed, LAYOUT, lambda: moment_of(SECOND.savepoint_id))
    store.publish(FIRST)
    SavepointStore(Repository(location), LAYOUT).publish(SECOND)
    assert store.latest() == FIRST
    assert f"savepoint {SECOND.savepoint_id} is passed over" in caplog.text
