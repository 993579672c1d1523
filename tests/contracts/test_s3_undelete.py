"""Somebody deletes a repository, or writes over it: a bucket that keeps versions gives it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid, LockHeld, NotFound, Refused
from streams_recovery.core.repository.retention import Harm
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from tests.support.repository.golden import FIRST, SECOND, checked
from tests.support.repository.golden_place import approval_of, command, environment, opened, upload_golden, write_config
from tests.support.storage.s3 import CREDENTIALS, S3Server


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
