"""The repository's contract runs on each kind of store that exists: memory, a local directory, and a real S3 server."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3  # type: ignore[import-untyped]
import pytest

from streams_recovery.core.location import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import Repository
from tests.go_programs import go_program

S3_SERVER = ("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
CREDENTIALS = StorageCredentials(access_key_id="test-access", secret_access_key="test-secret-canary")

OpenRepository = Callable[[], Repository]


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A VersityGW of our own on a free loopback port, ended by its pid."""
    program = go_program(*S3_SERVER)
    directory = tmp_path_factory.mktemp("s3")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    keys = {"ROOT_ACCESS_KEY": CREDENTIALS.access_key_id, "ROOT_SECRET_KEY": CREDENTIALS.secret_access_key}
    with (directory / "log").open("wb") as log:
        (directory / "data").mkdir()
        process = subprocess.Popen(
            [str(program), "--port", f"127.0.0.1:{port}", "posix", str(directory / "data")],
            env={**os.environ, **keys},
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_listening(process, port, directory / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture(params=["memory", "filesystem", "s3"])
def open_repository(request: pytest.FixtureRequest, tmp_path: Path) -> OpenRepository:
    """Opens one empty repository, again and again: what one opening wrote, the next one sees."""
    if request.param == "memory":
        only = Repository(StorageLocation(backend="memory"))
        return lambda: only
    if request.param == "filesystem":
        location = StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))
        return lambda: Repository(location)
    location = _bucket(request.getfixturevalue("s3_endpoint"))
    return lambda: Repository(location, CREDENTIALS)


@pytest.fixture
def repository(open_repository: OpenRepository) -> Repository:
    return open_repository()


def _bucket(endpoint: str) -> StorageLocation:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS.access_key_id,
        aws_secret_access_key=CREDENTIALS.secret_access_key,
    ).create_bucket(Bucket=bucket)
    return StorageLocation(
        backend="s3", bucket=bucket, prefix="some/prefix", region="us-east-1", endpoint=endpoint, path_style=True, allow_http=True
    )


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"the S3 server did not start:\n{log.read_text()}")
