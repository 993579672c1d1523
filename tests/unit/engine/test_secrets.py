from __future__ import annotations

import stat

import pytest

from spark_jobs.access import SECRETS_FILE, JobAccess
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.engine import spark_submit
from streams_recovery.engine.secrets import secrets_file
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials

CONNECTION = KafkaConnection(bootstrap_servers="b:1", properties={"sasl.password": "hunter2"})
CREDENTIALS = StorageCredentials(access_key_id="id", secret_access_key="hunter3")
REPOSITORY = codec.dumps(StorageLocation(backend="s3", bucket="b")).decode()


@pytest.mark.parametrize("credentials", [CREDENTIALS, None])
def test_a_job_reads_what_the_submitter_wrote(tmp_path, credentials):
    with secrets_file(CONNECTION, credentials, directory=tmp_path) as path:
        access = JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: str(path)})
    assert (access.connection, access.credentials, access.location.bucket) == (CONNECTION, credentials, "b")
    assert "hunter" not in repr(access)


def test_both_sides_name_the_same_variable():
    assert spark_submit.SECRETS_FILE == SECRETS_FILE


@pytest.mark.fault("F61")
def test_the_file_is_its_owner_s_and_is_gone_afterwards_also_after_an_error(tmp_path):
    def fail():
        with secrets_file(CONNECTION, None, directory=tmp_path) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_others_can_read_is_refused(tmp_path):
    with secrets_file(CONNECTION, None, directory=tmp_path) as path:
        path.chmod(0o640)
        with pytest.raises(ConfigInvalid, match="can be read by others"):
            JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: str(path)})


@pytest.mark.parametrize("content", ['{"kafka": {"password": "hunter2"}, "storage": null}', '["hunter2"]', '{"hunter2'])
def test_what_is_no_secrets_file_is_refused_without_quoting_it(tmp_path, content):
    path = tmp_path / "s"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigInvalid) as caught:
        JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: str(path)})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_file_at_all_is_refused():
    with pytest.raises(ConfigInvalid, match=SECRETS_FILE):
        JobAccess.from_environment(REPOSITORY, {})
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: "/nowhere/at/all"})
