"""Microsoft's own emulator of Azure Blob Storage."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import subprocess
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from embedded.foreign import node_program
from embedded.ports import free_ports
from embedded.stores.listening import wait_until_listening
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials

ACCOUNT = "devstoreaccount1"
KEY = base64.b64encode(b"the key of an account of an emulator").decode()
CREDENTIALS = StorageCredentials(options={"account_key": KEY})
_PACKAGE = Path(__file__).with_name("azurite")
_VERSION = "2021-08-06"


@dataclass(frozen=True)
class AzureServer:
    """A running emulator. Every container is new."""

    endpoint: str

    def bucket(self) -> StorageLocation:
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.ask("PUT", f"{name}?restype=container", canonical=f"{name}\nrestype:container")
        return StorageLocation(
            backend="azure", account=ACCOUNT, bucket=name, prefix="some/prefix", endpoint=f"{self.endpoint}/{ACCOUNT}", allow_http=True
        )

    def writer(self, location: StorageLocation) -> StorageCredentials:
        """A signature that may read, list and create in this container, for an hour. It may neither overwrite nor delete."""
        until = datetime.now(UTC) + timedelta(hours=1)
        rights = {"sp": "rcl", "se": f"{until:%Y-%m-%dT%H:%M:%SZ}", "sv": _VERSION, "sr": "c"}
        # https://learn.microsoft.com/rest/api/storageservices/create-service-sas: what is left out is an empty line.
        lines = [rights["sp"], "", rights["se"], f"/blob/{ACCOUNT}/{location.bucket}", "", "", "", rights["sv"], rights["sr"], *[""] * 7]
        return StorageCredentials(options={"sas_key": urllib.parse.urlencode({**rights, "sig": _signature("\n".join(lines))})})

    def ask(self, method: str, below: str, *, canonical: str) -> bytes:
        """A request without the library, signed with the account's key: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key."""
        now = email.utils.formatdate(usegmt=True)
        headers = f"x-ms-date:{now}\nx-ms-version:{_VERSION}"
        text = f"{method}{chr(10) * 12}{headers}\n/{ACCOUNT}/{ACCOUNT}/{canonical}"
        request = urllib.request.Request(f"{self.endpoint}/{ACCOUNT}/{below}", method=method)  # noqa: S310  # this machine
        for name, value in (("x-ms-date", now), ("x-ms-version", _VERSION), ("Authorization", f"SharedKey {ACCOUNT}:{_signature(text)}")):
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # this machine
            return bytes(answer.read())


def _signature(text: str) -> str:
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


@contextmanager
def azure_server(directory: Path) -> Iterator[AzureServer]:
    """An emulator on a free loopback port, ended by its pid."""
    program = node_program(_PACKAGE, "azurite/dist/src/blob/main.js")
    (port,) = free_ports(1)
    where = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(directory),
        "--skipApiVersionCheck",
        "--disableTelemetry",
    ]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*program, *where, "--silent"], env={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}", "HOME": str(directory)}, stdout=log, stderr=log
        )
    try:
        wait_until_listening(process, port, directory / "log")
        yield AzureServer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=60)
