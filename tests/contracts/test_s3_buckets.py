"""Savepoints, checks and expiry in the kinds of buckets that people have: nothing is lost, nothing is said to be gone that is there, and what somebody
deletes or writes over comes back from a bucket that keeps versions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS, S3Server, s3_server
from streams_recovery.core.errors import ConfigInvalid, LockHeld, NotFound, Refused
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.repository.undelete import Harm
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import AlreadyExists, Repository
from streams_recovery.storage.s3 import BucketVersions
from tests.support.kafka.secured_broker import Authority
from tests.support.programs.lacking import or_skipped
from tests.support.repository.golden import FIRST, SECOND, checked
from tests.support.repository.golden_place import GOOD, approval_of, command, environment, opened, upload_golden, write_config
from tests.support.storage.contract import Entry

Place = tuple[StorageLocation, StorageCredentials]

PLACES = ["plain", "versioned", "compliance", "governance", "plain, no right to delete", "compliance, no right to delete"]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, s3: S3Server) -> Place:
    """A new bucket of every kind, and who writes there."""
    kind, _, poor = request.param.partition(",")
    location = s3.bucket(kind)
    return location, s3.writer(location) if poor else CREDENTIALS


def stored(location: StorageLocation, prefix: str = "golden/") -> list[str]:
    """Keys that are there for everybody."""
    return list(Repository(location, CREDENTIALS).keys(prefix))


@pytest.mark.fault("F18")
def test_everything_but_expiry_works_in_every_kind_of_bucket(place: Place, tmp_path: Path) -> None:
    upload_golden(*place)
    with opened(tmp_path, *place) as recovery:
        lock = recovery.lock.acquire("savepoint r", lease_seconds=60, purpose="savepoint")
        recovery.lock.renew(lock, lease_seconds=60)
        with pytest.raises(LockHeld, match="savepoint r"):
            recovery.lock.acquire("another", lease_seconds=60, purpose="savepoint")
        for text in ("first", "second"):
            noted = recovery.artifacts.write("run", "cut", Entry(text=text))
            AppendLog(recovery.repository, "golden/holds-of-a-test/", Entry).append(Entry(text=text))
        assert recovery.artifacts.read(Entry, noted) == Entry(text="second")
        assert len(AppendLog(recovery.repository, "golden/holds-of-a-test/", Entry).read_all()) == 2
        with pytest.raises(AlreadyExists):
            recovery.repository.create(recovery.layout.manifest(SECOND), b"x")
        recovery.savepoints.publish(recovery.savepoints.read(SECOND))
        recovery.lock.release(lock)
        maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="r")
        assert recovery.lock.holder() is None
        report = checked(recovery, "full")
        assert (report.findings, report.savepoints, report.files_read) == ((), 2, 4)
        assert report.good


@pytest.mark.deep
@pytest.mark.fault("F18")
@pytest.mark.parametrize("mode", ["compliance", "governance"])
def test_what_object_lock_holds_stays_and_is_named_until_the_lock_ends(s3: S3Server, tmp_path: Path, mode: str) -> None:
    location = s3.bucket(mode)
    upload_golden(location, CREDENTIALS)
    before = s3.versions(location)
    with opened(tmp_path, location, CREDENTIALS) as recovery:
        report = maintenance.expire(recovery, "r")
        (left,) = report.left
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert left.startswith(f"{recovery.layout.manifest(FIRST)}: locked until {tomorrow:%Y-%m-%d} ")
        assert left.endswith(f"({mode})")
        assert (report.expired, report.files_removed) == ((), 0)
        assert recovery.savepoints.ids() == [FIRST, SECOND], "it exists as long as it is held"
        assert stored(location, "golden/expired/") == [], "what stays has not left a copy behind"
        assert checked(recovery, "full").good
    assert {key: ids for key, ids in s3.versions(location).items() if key in before} == before
    with opened(tmp_path, location, CREDENTIALS, days_later=1.1) as recovery:
        report = maintenance.expire(recovery, "a day later")
        assert (report.expired, report.left, report.versions_kept) == ((FIRST,), (), True)
        assert recovery.savepoints.ids() == [SECOND]
    assert s3.versions(location)[f"golden/savepoints/{FIRST}/manifest.json.zst"], "the server itself held it longer than our clock says"


@pytest.mark.parametrize("held", ["retention", "legal hold"])
def test_files_that_are_locked_stay_with_the_record_of_whose_they_are(s3: S3Server, tmp_path: Path, held: str) -> None:
    location = s3.bucket("compliance")
    upload_golden(location, CREDENTIALS, without=f"savepoints/{SECOND}")
    with opened(tmp_path, location, CREDENTIALS, days_later=30) as recovery:
        copy = recovery.layout.retired(SECOND, wall_clock())
        recovery.repository.put_file(copy, GOOD / "golden" / "savepoints" / SECOND / "manifest.json.zst")
        only_second = [
            key for key in stored(location, "golden/segments/") if "/00000000000000000040-" in key or "/00000000000000000017-" in key
        ]
        until = datetime.now(UTC) + timedelta(days=400)
        for key in only_second:
            where = {"Bucket": location.bucket, "Key": f"{location.prefix}/{key}"}
            if held == "retention":
                s3.client().put_object_retention(**where, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": until})
            else:
                s3.client().put_object_legal_hold(**where, LegalHold={"Status": "ON"})
        report = maintenance.expire(recovery, "r")
        said = "locked by a legal hold" if held == "legal hold" else f"locked until {until:%Y-%m-%d %H:%M:%S} UTC (compliance)"
        assert report.left == tuple(f"{key}: {said}" for key in only_second)
        assert report.files_removed == 2, "the range tables, which nothing locks"
        assert set(only_second) < set(stored(location))
        assert copy in stored(location)


@pytest.mark.fault("F18")
def test_in_a_versioned_bucket_what_expired_is_hidden_and_that_is_said(s3: S3Server, tmp_path: Path) -> None:
    location = s3.bucket("versioned")
    upload_golden(location, CREDENTIALS)
    before = s3.versions(location)
    with opened(tmp_path, location, CREDENTIALS) as recovery:
        report = maintenance.expire(recovery, "r")
        assert (report.expired, report.left, report.versions_kept) == ((FIRST,), (), True)
        assert checked(recovery, "full").good
    after = s3.versions(location)
    assert all(after[key] == ids for key, ids in before.items()), "every byte can still be brought back"


def test_in_a_plain_bucket_files_go_for_good_after_their_grace_period(s3: S3Server, tmp_path: Path) -> None:
    location = s3.bucket()
    upload_golden(location, CREDENTIALS, without=f"savepoints/{SECOND}")
    with opened(tmp_path, location, CREDENTIALS) as recovery:
        recovery.repository.put_file(
            recovery.layout.retired(SECOND, wall_clock() - 20 * DAY_MS), GOOD / "golden" / "savepoints" / SECOND / "manifest.json.zst"
        )
        assert maintenance.expire(recovery, "young").files_removed == 0
    with opened(tmp_path, location, CREDENTIALS, days_later=8) as recovery:
        report = maintenance.expire(recovery, "old")
        assert (report.files_removed, report.left, report.versions_kept) == (4, (), False), "segments and range tables"
        assert len(stored(location, "golden/segments/")) == 2
        assert stored(location, "golden/expired/") == []
        assert checked(recovery, "full").good


@pytest.mark.fault("F18")
def test_without_the_right_to_delete_expiry_names_everything_and_removes_nothing(s3: S3Server, tmp_path: Path) -> None:
    location = s3.bucket()
    poor = s3.writer(location)
    upload_golden(location, poor, without=f"savepoints/{SECOND}")
    with opened(tmp_path, location, poor, days_later=30) as recovery:
        recovery.repository.put_file(
            recovery.layout.retired(SECOND, wall_clock()), GOOD / "golden" / "savepoints" / SECOND / "manifest.json.zst"
        )
        segments = stored(location, "golden/segments/")
        report = maintenance.expire(recovery, "r")
        assert report.files_removed == 0
        assert len(report.left) == 4, "segments and range tables"
        assert all("is not allowed" in left and "AccessDenied" in left for left in report.left)
        assert stored(location, "golden/segments/") == segments
        with pytest.raises(ConfigInvalid, match="is not allowed"):
            recovery.repository.delete([segments[0]])


@pytest.mark.deep
@pytest.mark.fault("F18")
@pytest.mark.parametrize("kind", ["plain", "compliance"])
def test_the_command_says_what_it_could_not_remove_and_exits_with_8(s3: S3Server, tmp_path: Path, kind: str) -> None:
    location = s3.bucket(kind)
    who = s3.writer(location) if kind == "plain" else CREDENTIALS
    keys = upload_golden(location, who)
    write_config(tmp_path, location)
    approval = approval_of(tmp_path, environment(who), "expire", "golden")
    done = command(tmp_path, environment(who), "expire", "golden", "--approve", approval)
    assert done.returncode == 8, done
    assert "0 savepoints expired, 0 files removed, 1 could not be removed" in done.stdout
    assert f"{FIRST}/manifest.json.zst: " in done.stderr
    assert ("locked until " if kind == "compliance" else "is not allowed") in done.stderr
    assert "Traceback" not in done.stderr
    assert who.options["secret_access_key"] not in done.stderr + done.stdout
    assert set(keys) <= set(stored(location))


@pytest.mark.deep
def test_the_command_takes_its_key_from_the_machine_when_no_connection_is_named(s3: S3Server, tmp_path: Path) -> None:
    location = s3.bucket("versioned")
    upload_golden(location, CREDENTIALS)
    write_config(tmp_path, location, connection=None)
    machine = {"AWS_ACCESS_KEY_ID": CREDENTIALS.options["access_key_id"], "AWS_SECRET_ACCESS_KEY": CREDENTIALS.options["secret_access_key"]}
    variables = environment(CREDENTIALS) | machine
    done = command(tmp_path, variables, "expire", "golden", "--approve", approval_of(tmp_path, variables, "expire", "golden"))
    assert done.returncode == 0, done
    assert "1 savepoints expired" in done.stdout
    assert "The bucket keeps versions" in done.stderr


def test_a_bucket_that_does_not_exist_is_named(s3: S3Server) -> None:
    location = s3.bucket()
    s3.client().delete_bucket(Bucket=location.bucket)
    repository = Repository(location, CREDENTIALS)
    for use in (lambda: list(repository.keys("")), lambda: repository.create("key", b"x"), lambda: repository.get("key")):
        with pytest.raises(ConfigInvalid, match=f"there is no bucket for s3://{location.bucket}"):
            use()


def deleted_and_overwritten(s3: S3Server, recovery: RecoveryContext) -> tuple[list[str], str]:
    """Everything is deleted but one segment, which is written over. Returns the deleted keys and the other one."""
    where, client = recovery.repository.location, s3.client()
    keys = list(recovery.repository.keys("golden/"))
    replaced = next(key for key in keys if "/segments/" in key)
    gone = [key for key in keys if key != replaced]
    for key in gone:
        client.delete_object(Bucket=where.bucket, Key=f"{where.prefix}/{key}")
    client.put_object(Bucket=where.bucket, Key=f"{where.prefix}/{replaced}", Body=b"ransom")
    return gone, replaced


@pytest.mark.fault("F19")
def test_all_that_was_there_comes_back_and_nothing_is_deleted_for_it(s3: S3Server, tmp_path: Path) -> None:
    location = s3.bucket("versioned")
    upload_golden(location, CREDENTIALS)
    with opened(tmp_path, location, CREDENTIALS) as recovery:
        assert maintenance.plan_undelete(recovery).objects == ()
        gone, replaced = deleted_and_overwritten(s3, recovery)
        assert recovery.savepoints.ids() == []
        kept = s3.versions(location)

        planned = maintenance.plan_undelete(recovery)
        assert {one.key: one.harm for one in planned.objects} == dict.fromkeys(gone, Harm.DELETED) | {replaced: Harm.REPLACED}
        manifests = [number for number, one in enumerate(planned.objects) if "/savepoints/" in one.key]
        assert manifests == list(range(len(planned.objects)))[-len(manifests) :], "what makes a savepoint exist comes last"
        assert recovery.savepoints.ids() == [], "a plan changes nothing"

        told: list[str] = []
        assert maintenance.undelete(recovery, run_id="r", say=told.append) == planned
        assert len(told) == len(planned.objects)
        assert recovery.savepoints.ids() == [FIRST, SECOND]
        assert checked(recovery, "full").good
        after = s3.versions(location)
        assert all(set(ids) < set(after[key]) for key, ids in kept.items() if key in {*gone, replaced}), "each has one version more"
        assert recovery.lock.holder() is None
        assert maintenance.plan_undelete(recovery).objects == (), "a second time there is nothing to do"


@pytest.mark.fault("F19")
def test_a_log_that_was_deleted_where_nothing_is_created_over_a_delete_marker_says_what_to_do(s3: S3Server, tmp_path: Path) -> None:
    """Amazon S3 creates there, this server does not: the lock that bringing back needs is one of what was deleted."""
    location = s3.bucket("versioned")
    upload_golden(location, CREDENTIALS)
    with opened(tmp_path, location, CREDENTIALS) as recovery:
        recovery.lock.release(recovery.lock.acquire("before", lease_seconds=60, purpose="savepoint"))
        deleted_and_overwritten(s3, recovery)
        with pytest.raises(Refused, match="creates nothing where a deleted object was") as caught:
            maintenance.undelete(recovery, run_id="r", say=lambda _: None)
        assert "remove the delete markers below golden/locks/" in caught.value.next_step
        assert recovery.savepoints.ids() == [], "nothing was changed"
        client = s3.client()
        listed = client.list_object_versions(Bucket=location.bucket, Prefix=f"{location.prefix}/golden/locks/")
        for marker in listed["DeleteMarkers"]:
            client.delete_object(Bucket=location.bucket, Key=marker["Key"], VersionId=marker["VersionId"])
        maintenance.undelete(recovery, run_id="r", say=lambda _: None)
        assert recovery.savepoints.ids() == [FIRST, SECOND]
        assert checked(recovery, "full").good


@pytest.mark.fault("F19")
def test_it_is_refused_where_it_could_not_be_true(s3: S3Server, tmp_path: Path) -> None:
    plain = s3.bucket()
    upload_golden(plain, CREDENTIALS)
    with opened(tmp_path, plain, CREDENTIALS) as recovery:
        deleted_and_overwritten(s3, recovery)
        with pytest.raises(Refused, match="keeps no versions"):
            maintenance.plan_undelete(recovery)
    versioned = s3.bucket("versioned")
    upload_golden(versioned, CREDENTIALS)
    with opened(tmp_path, versioned, CREDENTIALS) as recovery:
        deleted_and_overwritten(s3, recovery)
        running = recovery.lock.acquire("expiry x", lease_seconds=60, purpose="expiry")
        with pytest.raises(LockHeld, match="expiry x"):
            maintenance.undelete(recovery, run_id="r", say=print)
        recovery.lock.release(running)
        assert recovery.savepoints.ids() == []
        with pytest.raises(NotFound):
            recovery.savepoints.read(SECOND)
    with opened(tmp_path, versioned, s3.writer(versioned)) as recovery, pytest.raises(ConfigInvalid, match="s3:ListBucketVersions"):
        maintenance.plan_undelete(recovery)


@pytest.mark.deep
def test_the_command_shows_first_and_does_it_when_told(s3: S3Server, tmp_path: Path) -> None:
    location = s3.bucket("versioned")
    upload_golden(location, CREDENTIALS)
    write_config(tmp_path, location)
    with opened(tmp_path, location, CREDENTIALS) as recovery:
        gone, replaced = deleted_and_overwritten(s3, recovery)
        shown = command(tmp_path, environment(CREDENTIALS), "undelete", "golden", "--plan")
        assert shown.returncode == 0, shown
        assert all(key in shown.stdout for key in (*gone, replaced))
        assert f"{len(gone) + 1} objects** with" in shown.stdout
        assert "would be brought back" in shown.stdout
        assert recovery.savepoints.ids() == []
        approval = approval_of(tmp_path, environment(CREDENTIALS), "undelete", "golden")
        done = command(tmp_path, environment(CREDENTIALS), "undelete", "golden", "--approve", approval, "--json")
        assert done.returncode == 0, done
        assert len(json.loads(done.stdout)["objects"]) == len(gone) + 1
        assert recovery.savepoints.ids() == [FIRST, SECOND]


def test_an_authority_of_one_s_own_is_named_once_for_both_clients(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    authority, other = Authority(tmp_path, "own"), Authority(tmp_path, "other")
    with or_skipped(), s3_server(tmp_path / "server", authority) as server:
        location = server.bucket("versioned")
        Repository(location, CREDENTIALS).create("orders/status/000000000001.json", b"x")
        assert BucketVersions(location, CREDENTIALS).kept
        for ca_file, said in ((None, "no authority that this machine knows"), (str(other.certificate), "no authority in storage.ca_file")):
            wrong = replace(location, ca_file=ca_file)
            for ask in (lambda: Repository(wrong, CREDENTIALS).get("orders/x.json"), lambda: BucketVersions(wrong, CREDENTIALS).below("")):  # noqa: B023
                with pytest.raises(ConfigInvalid, match=rf"the certificate of the server is not trusted, {said}"):
                    ask()
        good = authority.certificate.read_text()
        (tmp_path / "empty.pem").write_text("")
        (tmp_path / "cut.pem").write_text(good + good[:400])
        for name, said in (("none", "cannot be read"), ("empty", "has no certificate"), ("cut", "is cut off: .*number 2 of 2")):
            wrong = replace(location, ca_file=str(tmp_path / f"{name}.pem"))
            for ask in (lambda: Repository(wrong, CREDENTIALS).get("orders/x.json"), lambda: BucketVersions(wrong, CREDENTIALS).below("")):  # noqa: B023
                with pytest.raises(ConfigInvalid, match=f"{name}.pem.*{said}"):
                    ask()
