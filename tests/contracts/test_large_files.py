"""The memory an upload takes does not follow the size of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS, S3Server
from streams_recovery.core import codec
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository
from tests.support.project import PROJECT

SIZE = 300 << 20
UPLOADS = """
import json, re, sys, threading, time
from pathlib import Path
from streams_recovery.core import codec
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import access_key
from streams_recovery.storage.repository import Repository

def used():
    status = Path("/proc/self/status").read_text()
    return {name: int(re.search(rf"{name}:\\s+(\\d+)", status)[1]) << 10 for name in ("RssAnon", "VmHWM")}

def watch():
    while True:
        for name, now in used().items():
            peak[name] = max(peak[name], now)
        time.sleep(0.005)

location = codec.loads(StorageLocation, sys.argv[1].encode(), where="test")
repository = Repository(location, access_key(sys.argv[2], sys.argv[3]))
repository.create("first", b"x")
before = used()
peak = dict(before)
threading.Thread(target=watch, daemon=True).start()
repository.put_file("large", Path(sys.argv[4]))
peak["VmHWM"] = used()["VmHWM"]
print(json.dumps({name: peak[name] - before[name] for name in peak}))
"""


@pytest.mark.deep
@pytest.mark.parametrize("backend", ["filesystem", "s3"])
def test_a_file_of_300_mb_is_uploaded_in_a_fraction_of_it(request: pytest.FixtureRequest, tmp_path: Path, backend: str) -> None:
    with (tmp_path / "large").open("wb") as file:
        # Empty space: quick to make, and read page by page like any other file.
        file.truncate(SIZE)
    if backend == "s3":
        server: S3Server = request.getfixturevalue("s3")
        location = server.bucket()
    else:
        location = StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))
    keys = [CREDENTIALS.options["access_key_id"], CREDENTIALS.options["secret_access_key"]]
    done = subprocess.run(
        [sys.executable, "-c", UPLOADS, codec.dumps(location).decode(), *keys, str(tmp_path / "large")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])},
        capture_output=True,
        text=True,
        timeout=540,
        check=True,
    )
    grown = json.loads(done.stdout)
    assert grown["RssAnon"] < 40 << 20
    assert grown["VmHWM"] < SIZE * 2 // 3, "pages of the file counted too"
    stored = Repository(location, CREDENTIALS)
    assert stored.size("large") == SIZE
    stored.delete(["large"])
