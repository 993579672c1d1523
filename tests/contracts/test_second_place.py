"""A second place of a repository in real buckets, filled by the command line as a person runs it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS, S3Server
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository
from tests.support.repository.golden import FIRST, SECOND, checked
from tests.support.repository.golden_place import GOOD, command, environment, opened, upload_golden, write_config

KEYS = sorted(path.relative_to(GOOD).as_posix() for path in GOOD.rglob("*") if path.is_file())


def objects(s3: S3Server, location: StorageLocation) -> dict[str, bytes]:
    """What Amazon's own client finds below the prefix, without the probe."""
    found = s3.client().list_objects_v2(Bucket=location.bucket, Prefix=location.prefix)["Contents"]
    keys = [one["Key"] for one in found if "/probe/" not in one["Key"]]
    return {key.removeprefix(f"{location.prefix}/"): s3.client().get_object(Bucket=location.bucket, Key=key)["Body"].read() for key in keys}


@pytest.mark.way("second place")
def test_a_directory_is_copied_to_a_bucket_by_one_who_may_not_delete_there(s3: S3Server, tmp_path: Path) -> None:
    place = s3.bucket("compliance")
    credentials = s3.writer(place)
    shutil.copytree(GOOD, tmp_path / "repository")
    write_config(tmp_path, StorageLocation(backend="filesystem", path=str(tmp_path / "repository")), mirror=place)
    plan = command(tmp_path, environment(credentials), "mirror", "golden", "--plan", "--json")
    assert (plan.returncode, json.loads(plan.stdout)["savepoints"]) == (0, [SECOND, FIRST]), plan
    done = command(tmp_path, environment(credentials), "mirror", "golden", "--json")
    assert (done.returncode, json.loads(done.stdout)["copied"]) == (0, len(KEYS)), done
    assert f"savepoint {SECOND} is in two places" in done.stderr
    assert objects(s3, place) == {key: (GOOD / key).read_bytes() for key in KEYS}
    again = command(tmp_path, environment(credentials), "mirror", "golden")
    assert again.returncode == 0
    assert again.stdout.startswith("0 objects with 0 bytes were copied")
    with opened(tmp_path, place, credentials) as recovery:
        assert checked(recovery, "full").good


@pytest.mark.way("second place")
def test_a_bucket_is_copied_to_another_bucket_and_nothing_there_is_written_over(s3: S3Server, tmp_path: Path) -> None:
    first, second = s3.bucket(), s3.bucket("versioned")
    upload_golden(first, CREDENTIALS)
    odd = next(key for key in KEYS if key.endswith(".parquet"))
    Repository(second, CREDENTIALS).create(odd, bytes(len((GOOD / odd).read_bytes())))
    write_config(tmp_path, first, mirror=second)
    done = command(tmp_path, environment(CREDENTIALS), "mirror", "golden")
    assert done.returncode == 6
    assert f"{odd} is in the second place {second} with other bytes" in done.stderr
    assert len(s3.versions(second)[odd]) == 1
    s3.client().delete_object(Bucket=second.bucket, Key=f"{second.prefix}/{odd}", VersionId=s3.versions(second)[odd][0])
    assert command(tmp_path, environment(CREDENTIALS), "mirror", "golden").returncode == 0
    assert objects(s3, second) == objects(s3, first)


def test_the_bucket_itself_by_another_address_is_refused_before_anything_is_written(s3: S3Server, tmp_path: Path) -> None:
    first = s3.bucket()
    upload_golden(first, CREDENTIALS)
    write_config(tmp_path, first, mirror=replace(first, endpoint=first.endpoint.replace("127.0.0.1", "localhost")))  # type: ignore[union-attr]
    before = objects(s3, first)
    for more in ([], ["--plan"]):
        refused = command(tmp_path, environment(CREDENTIALS), "mirror", "golden", *more)
        assert refused.returncode == 2
        assert "by another name" in refused.stderr
    assert objects(s3, first) == before
