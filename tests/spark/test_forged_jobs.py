"""A job takes the specification that it was submitted with, and leaves the result that is used, or none: whatever else lies in the repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Altered
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.storage.repository import Repository

pytestmark = pytest.mark.spark

SPEC = BackupSpec(application_id="app", ranges=(), compression_level=3)
RESULT = "app/work/run/backup-result.0001.json"


@pytest.fixture
def job(location, connection):
    Path(location.path).mkdir()
    repository = Repository(location)
    spec = ArtifactRef.of("app/work/run/backup-spec.0001.json", codec.dumps(SPEC))
    repository.create(spec.key, codec.dumps(SPEC))
    return SparkJob(name="backup", spec=spec, result_key=RESULT, repository=repository, connection=connection, credentials=None)


def test_what_a_job_leaves_is_named_with_its_hash(job, in_session):
    left = in_session.submit(job)
    result = codec.loads(BackupResult, left.checked(job.repository.get(RESULT)), where=RESULT)
    assert (left.key, result.ranges) == (RESULT, ())


def test_a_result_that_is_there_before_the_job_has_one_is_refused_by_its_name(job, in_session):
    forged = codec.dumps(BackupResult(ranges=(), seconds=0.0))
    job.repository.create(RESULT, forged)
    with pytest.raises(Altered, match="was there before") as caught:
        in_session.submit(job)
    assert caught.value.facts == {"key": RESULT}
    assert "run this step again" in caught.value.next_step
    assert job.repository.get(RESULT) == forged


def test_a_specification_that_was_replaced_is_refused_by_its_name(job, in_session, location):
    (Path(location.path) / job.spec.key).write_bytes(codec.dumps(replace(SPEC, application_id="another")))
    with pytest.raises(Altered) as caught:
        in_session.submit(job)
    assert caught.value.facts["key"] == job.spec.key
    assert caught.value.facts["written"] != caught.value.facts["found"]
    assert job.repository.size(RESULT) is None
