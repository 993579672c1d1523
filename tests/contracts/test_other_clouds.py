"""Buckets of Google and containers of Azure: what the contract of all stores does not ask."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path

import pytest

from embedded.stores import azure as in_azure
from embedded.stores import google as in_google
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.operations import maintenance
from streams_recovery.operations.maintenance import plan_undelete
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import AlreadyExists, Repository
from tests.support.repository.golden_place import command, environment, opened, upload_golden, write_config

Place = tuple[StorageLocation, StorageCredentials]
CLOUDS = ["gcs", pytest.param("azure", marks=pytest.mark.deep)]


@pytest.fixture(params=CLOUDS)
def place(request: pytest.FixtureRequest) -> Place:
    """An empty bucket with credentials that may do everything."""
    if request.param == "gcs":
        return request.getfixturevalue("google").bucket(), in_google.CREDENTIALS
    return request.getfixturevalue("azure").bucket(), in_azure.CREDENTIALS


@pytest.mark.deep
@pytest.mark.fault("F18")
def test_a_signature_that_may_read_create_and_list_is_enough_to_write_and_not_to_harm(azure: in_azure.AzureServer, tmp_path: Path) -> None:
    location = azure.bucket()
    writer = azure.writer(location)
    keys = upload_golden(location, writer)
    repository = Repository(location, writer)
    assert list(repository.keys("golden/")) == sorted(keys)
    with pytest.raises(AlreadyExists):
        repository.create(keys[0], b"other")
    with pytest.raises(ConfigInvalid, match="is not allowed") as refused:
        repository.delete([keys[0]])
    assert urllib.parse.parse_qs(writer.options["sas_key"])["sig"][0] not in str(refused.value)
    with opened(tmp_path, location, writer, days_later=30) as recovery:
        report = maintenance.expire(recovery, "r")
    assert report.left, "what could not be removed is named"
    assert all("is not allowed" in left for left in report.left)
    assert set(keys) <= set(repository.keys("golden/"))


@pytest.mark.deep
def test_a_key_of_another_account_is_refused_and_not_shown(azure: in_azure.AzureServer) -> None:
    wrong = StorageCredentials(options={"account_key": "Y2FuYXJ5LWNhbmFyeQ=="})
    with pytest.raises(ConfigInvalid, match="is not allowed") as refused:
        Repository(azure.bucket(), wrong).create("key", b"x")
    assert "Y2FuYXJ5" not in str(refused.value)


def test_a_bucket_that_is_not_there_is_named(place: Place) -> None:
    location, credentials = place
    there = StorageLocation(**{**{name: getattr(location, name) for name in location.__slots__}, "bucket": "not-there"})
    with pytest.raises((ConfigInvalid, Refused), match="not-there"):
        Repository(there, credentials).create("key", b"x")


def test_what_was_deleted_is_brought_back_with_the_cloud_s_own_tools(place: Place, tmp_path: Path) -> None:
    location, credentials = place
    upload_golden(location, credentials)
    with opened(tmp_path, location, credentials) as recovery, pytest.raises(Refused, match="does not bring back") as refused:
        plan_undelete(recovery)
    assert ("gcloud storage restore" if location.backend == "gcs" else "az storage blob undelete") in str(refused.value)


def test_savepoints_expire(place: Place, tmp_path: Path) -> None:
    location, credentials = place
    upload_golden(location, credentials)
    with opened(tmp_path, location, credentials, days_later=30) as recovery:
        maintenance.expire(recovery, "first")
    with opened(tmp_path, location, credentials, days_later=60) as recovery:
        report = maintenance.expire(recovery, "second")
    assert not report.left
    assert len([key for key in Repository(location, credentials).keys("golden/savepoints/") if key.endswith("manifest.json.zst")]) == 1


def test_a_name_with_a_line_break_stops_a_listing_and_is_said(google: in_google.GoogleServer) -> None:
    location = google.bucket()
    name = urllib.parse.quote(f"{location.prefix}/golden/a\nb", safe="")
    google.ask(f"/upload/storage/v1/b/{location.bucket}/o?uploadType=media&name={name}", b"x")
    with pytest.raises(ConfigInvalid, match="cannot list what is there"):
        list(Repository(location, in_google.CREDENTIALS).keys("golden/"))


@pytest.mark.deep
@pytest.mark.parametrize("always", [True, False], ids=["by Spark", "in one process"])
def test_a_check_reads_every_byte(place: Place, tmp_path: Path, always: bool) -> None:
    location, credentials = place
    upload_golden(location, credentials)
    write_config(tmp_path, location, always=always)
    done = command(tmp_path, environment(credentials), "verify", "golden", "--level", "full", "--json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert (report["good"], report["savepoints"], report["files"], report["files_read"], report["rows_read"]) == (True, 2, 4, 4, 48)
    assert "canary" not in done.stdout + done.stderr
