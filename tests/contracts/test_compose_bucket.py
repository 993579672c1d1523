"""What the compose stack does to its S3 server, on a real one: the key that Airflow gets works in one bucket, and can neither delete nor do anything else."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType

import pytest
from botocore.exceptions import ClientError

from embedded.stores.s3 import CREDENTIALS, S3Server
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials, access_key
from streams_recovery.storage.repository import AlreadyExists, Repository
from tests.support.project import PROJECT

Prepare = Callable[[str], StorageCredentials]
BUCKET = "compose-repository"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("create_bucket", PROJECT / "docker/create_bucket.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def prepare(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """Runs what s3-init runs, with this secret for Airflow's key."""

    def run(secret: str) -> StorageCredentials:
        found = {
            "STREAMS_RECOVERY_S3_ENDPOINT": s3.endpoint,
            "STREAMS_RECOVERY_REGION": "us-east-1",
            "STREAMS_RECOVERY_BUCKET": BUCKET,
            "S3_ROOT_ACCESS_KEY": CREDENTIALS.options["access_key_id"],
            "S3_ROOT_SECRET_KEY": CREDENTIALS.options["secret_access_key"],
            "S3_ACCESS_KEY": "airflow-key",
            "S3_SECRET_KEY": secret,
            "S3_READER_ACCESS_KEY": "page-key",
            "S3_READER_SECRET_KEY": f"{secret}-of-the-page",
        }
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        script().main()
        return access_key("airflow-key", secret)

    return run


def test_airflow_s_key_takes_savepoints_and_can_destroy_none(s3: S3Server, prepare: Prepare) -> None:
    keys = prepare("first-secret_1")
    location = StorageLocation(
        backend="s3", bucket=BUCKET, prefix="savepoints", region="us-east-1", endpoint=s3.endpoint, path_style=True, allow_http=True
    )
    repository = Repository(location, keys)
    repository.create("a/b", b"1")
    with pytest.raises(AlreadyExists):
        repository.create("a/b", b"2")
    assert (repository.get("a/b"), list(repository.keys("a/"))) == (b"1", ["a/b"])
    with pytest.raises(ConfigInvalid, match="not allowed"):
        repository.delete(["a/b"])
    client = s3.client(keys)
    other = s3.bucket().bucket
    for forbidden in (
        lambda: client.create_bucket(Bucket="airflow-s-own"),
        lambda: client.delete_bucket(Bucket=BUCKET),
        lambda: client.put_bucket_policy(Bucket=BUCKET, Policy="{}"),
        lambda: client.put_object(Bucket=other, Key="x", Body=b"x"),
        lambda: client.list_objects_v2(Bucket=other),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            forbidden()
    assert repository.get("a/b") == b"1"


def test_the_key_of_the_page_reads_and_can_do_nothing_else(s3: S3Server, prepare: Prepare) -> None:
    keys = prepare("first-secret_1")
    location = StorageLocation(
        backend="s3", bucket=BUCKET, prefix="savepoints", region="us-east-1", endpoint=s3.endpoint, path_style=True, allow_http=True
    )
    Repository(location, keys).create("page/a", b"1")
    page = Repository(location, access_key("page-key", "first-secret_1-of-the-page"))
    assert (page.get("page/a"), list(page.keys("page/"))) == (b"1", ["page/a"])
    for forbidden in (lambda: page.create("page/b", b"2"), lambda: page.delete(["page/a"])):
        with pytest.raises(ConfigInvalid, match="not allowed"):
            forbidden()
    assert list(page.keys("page/")) == ["page/a"]


@pytest.mark.deep
def test_it_may_run_again_also_with_another_secret(s3: S3Server, prepare: Prepare) -> None:
    old = prepare("first-secret_1")
    assert prepare("first-secret_1") == old
    new = prepare("second-secret_2")
    s3.client(new).put_object(Bucket=BUCKET, Key="after", Body=b"x")
    with pytest.raises(ClientError):
        s3.client(old).list_objects_v2(Bucket=BUCKET)
