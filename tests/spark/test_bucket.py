"""A job reaches a bucket as the product gives it: address in the arguments, key in a file, by Spark every task on its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedded.stores.s3 import S3Server
from tests.support.repository.golden_place import command, environment, upload_golden, write_config

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("always", [True, False], ids=["by Spark", "in one process"])
def test_a_check_reads_every_byte_from_a_bucket_that_locks_what_is_written(s3: S3Server, tmp_path: Path, always: bool) -> None:
    location = s3.bucket("compliance")
    writer = s3.writer(location)
    upload_golden(location, writer)
    write_config(tmp_path, location, always=always)
    done = command(tmp_path, environment(writer), "verify", "golden", "--level", "full", "--json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert (report["good"], report["savepoints"], report["files"], report["files_read"], report["rows_read"]) == (True, 2, 4, 4, 48)
    written = "".join(path.read_text(errors="replace") for path in (tmp_path / "build" / "logs").rglob("*.log"))
    assert bool(written) is always, "Spark leaves a log"
    assert writer.options["secret_access_key"] not in done.stderr + done.stdout + written
