"""The repository's contract runs on each kind of store that exists: memory, a local directory, a real S3 server, and emulators of the other clouds."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded.stores import azure, google
from embedded.stores.s3 import CREDENTIALS
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository
from tests.support.storage.contract import OpenRepository


@pytest.fixture(params=["memory", "filesystem", "s3", "s3-versioned", "gcs", pytest.param("azure", marks=pytest.mark.deep)])
def open_repository(request: pytest.FixtureRequest, tmp_path: Path) -> OpenRepository:
    """Opens one empty repository, again and again: what one opening wrote, the next one sees."""
    if request.param == "memory":
        only = Repository(StorageLocation(backend="memory"))
        return lambda: only
    if request.param == "filesystem":
        location = StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))
        return lambda: Repository(location)
    if request.param == "gcs":
        in_google = request.getfixturevalue("google").bucket()
        return lambda: Repository(in_google, google.CREDENTIALS)
    if request.param == "azure":
        in_azure = request.getfixturevalue("azure").bucket()
        return lambda: Repository(in_azure, azure.CREDENTIALS)
    location = request.getfixturevalue("s3").bucket("versioned" if request.param == "s3-versioned" else "plain")
    return lambda: Repository(location, CREDENTIALS)


@pytest.fixture
def repository(open_repository: OpenRepository) -> Repository:
    return open_repository()
