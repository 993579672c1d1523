"""A second place of a repository in real buckets, filled by the command line as a person runs it."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS, S3Server
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import ConfigInvalid, RecoveryError, Refused
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.operations import second_place
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.storage.repository import Repository
from tests.support.repository.golden import FIRST, SECOND, checked
from tests.support.repository.golden_place import GOOD, command, environment, opened, upload_golden, write_config

KEYS = sorted(path.relative_to(GOOD).as_posix() for path in GOOD.rglob("*") if path.is_file())


def objects(s3: S3Server, location: StorageLocation) -> dict[str, bytes]:
    """What Amazon's own client finds below the prefix, without the probe and what says which places hold the repository."""
    found = s3.client().list_objects_v2(Bucket=location.bucket, Prefix=location.prefix)["Contents"]
    keys = [one["Key"] for one in found if "/probe/" not in one["Key"] and "/places/" not in one["Key"]]
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


@contextmanager
def from_second(directory: Path, first: StorageLocation, variables: dict[str, str]) -> Iterator[RecoveryContext]:
    """The context whose repository is a second place in a directory."""
    write_config(directory, first, mirror=StorageLocation(backend="filesystem", path=str(GOOD)))
    with open_context(load_named("golden", directory, {}).from_second_place, EnvironmentConnections(variables)) as recovery:
        yield recovery


def test_a_first_place_that_only_this_shell_does_not_get_into_is_not_lost(s3: S3Server, tmp_path: Path) -> None:
    first = s3.bucket()
    upload_golden(first, CREDENTIALS)
    whole = environment(CREDENTIALS)
    no_variable = {name: value for name, value in whole.items() if name != "AIRFLOW_CONN_STORE"}
    wrong_key = environment(replace(CREDENTIALS, options={**CREDENTIALS.options, "secret_access_key": "wrong"}))
    expected: list[tuple[dict[str, str], type[RecoveryError]]] = [
        (whole, Refused),
        (no_variable, ConfigInvalid),
        (wrong_key, ConfigInvalid),
    ]
    for variables, kind in expected:
        with from_second(tmp_path, first, variables) as recovery, pytest.raises(kind) as caught:
            second_place.require_lost(recovery)
        assert (kind is Refused) == ("leave mirror out" not in caught.value.next_step)


def test_a_bucket_that_does_not_exist_and_a_store_that_does_not_answer_are_lost_and_why_is_said(s3: S3Server, tmp_path: Path) -> None:
    empty = s3.bucket()
    gone, silent = replace(empty, bucket="no-such-bucket"), replace(empty, endpoint="http://127.0.0.1:9")
    for first, why in ((gone, "no such bucket"), (silent, "does not answer"), (empty, "has no savepoints")):
        with from_second(tmp_path, first, environment(CREDENTIALS)) as recovery:
            said = second_place.require_lost(recovery)
        assert why in said
        assert "nobody else may use it meanwhile" in said


def test_a_second_place_that_never_answers_holds_up_no_look(tmp_path: Path) -> None:
    first = StorageLocation(backend="filesystem", path=str(GOOD))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        place = StorageLocation(backend="s3", bucket="b", region="us-east-1", endpoint=endpoint, path_style=True, allow_http=True)
        write_config(tmp_path, first, mirror=place)
        with open_context(load_named("golden", tmp_path, {}), EnvironmentConnections(environment(CREDENTIALS))) as recovery:
            began = time.monotonic()
            seen = second_place.see_second_place(recovery)
            assert time.monotonic() - began < 20
    assert seen is not None
    assert "failed after 2 attempts" in seen.problem
