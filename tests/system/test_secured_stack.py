"""Everything that a careful company asks for, at once: TLS and users who may do little, a bucket that nobody may delete from, encryption, signatures, jobs on a
cluster of Spark, and Airflow in charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from botocore.exceptions import ClientError

from embedded.airflow import Airflow
from embedded.demo.checks import differences, nothing_in_clear, wait_counted
from embedded.demo.disaster import destroy, kill_processes
from embedded.spark_cluster import WORKERS
from embedded.stack import APPLICATION, RECORDS_KEY
from examples.order_processing.truth import truth
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations import preflight
from tests.support.kafka.access_rules import follow
from tests.support.kafka.secured_broker import ADMIN, PASSWORDS
from tests.support.kubernetes.pod_rig import running_cluster
from tests.support.kubernetes.pod_stack import pod_killer
from tests.support.programs.kafka_versions import kafka
from tests.support.stack.dag_runs import Play
from tests.support.stack.secured_stack import SecuredStack, Surroundings, surroundings
from tests.support.stack.stage import ORDERS, stage
from tests.support.story import play_through

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3_600)]
BACKUP, CHECK, RESTORE = f"streams_backup_{APPLICATION}", f"streams_check_{APPLICATION}", "streams_restore_full"
LATER = 500


@dataclass(frozen=True)
class Secret(Play):
    """A play in these surroundings."""

    around: Surroundings

    @property
    def saved(self) -> Manifest:
        """The newest savepoint."""
        found = self.on.recovery.savepoints.latest()
        assert found is not None
        return found

    def lose(self) -> None:
        """Kill the application, and have the administrator delete its state."""
        kill = kill_processes if self.around.cluster is None else pod_killer(self.around.cluster)
        with self.on.as_user(self.around.secured.extra(ADMIN)) as admin:
            destroy(admin, kill)


@contextmanager
def secret(directory: Path, version: str, *, pods: bool) -> Iterator[Secret]:
    with ExitStack() as opened:
        (directory / "control-plane").mkdir()
        cluster: Any = opened.enter_context(running_cluster(directory / "control-plane")) if pods else None
        around = opened.enter_context(surroundings(directory, jars=kafka(version), cluster=cluster))
        here = directory / "stage"
        on = opened.enter_context(stage(here, kind=partial(SecuredStack, **SecuredStack.on(here, around))))
        assert on.stack.spark is not None
        on.stack.spark.start(on.processes)
        for name, value in on.stack.spark.variables.items():
            # What looks at the settings of Spark's driver in this process looks at those.
            opened.enter_context(pytest.MonkeyPatch.context()).setenv(name, value)
        client = Airflow(on.stack, on.processes).start()
        opened.callback(client.close)
        yield Secret(on, client, around)


@pytest.mark.parametrize(("version", "pods"), [("3.9.1", False), ("4.4.0", True)], ids=["processes-on-3.9", "pods-on-4.4"])
def test_an_application_comes_back_where_nobody_may_do_more_than_he_must(
    version: str, pods: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with secret(tmp_path_factory.mktemp("secured"), version, pods=pods) as play:
        play_through(STORY, play)


def without_rights_a_savepoint_is_refused_before_anything_is_touched(play: Secret) -> None:
    before = play.on.instances()
    state, tasks, failures = play.run(BACKUP)
    assert (state, tasks["begin"]) == ("failed", "failed"), tasks
    assert "kafka-acls.sh" in failures
    assert play.on.instances() == before


def rights_are_given_as_the_preflight_says(play: Secret) -> None:
    recovery = play.on.recovery
    assert follow(play.around.rules, lambda: preflight.before_backup(recovery, QuiesceMode.PAUSE))


def savepoints_come_by_airflow_and_spark_into_the_bucket(play: Secret) -> None:
    play.succeed(BACKUP)
    first = play.saved
    play.on.generator.feed(LATER)
    wait_counted(play.on.recovery, ORDERS + LATER, seconds=180)
    play.succeed(BACKUP)
    second = play.saved
    assert first.savepoint_id != second.savepoint_id
    for manifest in (first, second):
        assert manifest.consistency is Consistency.EXACT, manifest.proof.reasons


def everything_in_the_bucket_is_locked_encrypted_and_signed(play: Secret) -> None:
    s3, location = play.around.s3.client(), play.around.location
    versions = play.around.s3.versions(location)
    keys = [file.key for _, file in play.saved.files()]
    assert keys
    for key in keys:
        assert len(versions[key]) == 1, "written once"
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.delete_object(Bucket=location.bucket, Key=f"{location.prefix}/{key}", VersionId=versions[key][0])
    assert nothing_in_clear(play.on.recovery)
    state, _, failures = play.run(CHECK, level="full")
    assert (state, failures) == ("success", "")


def what_is_lost_comes_back_with_rights_as_advised(play: Secret) -> None:
    recovery = play.on.recovery
    play.lose()
    assert follow(play.around.rules, lambda: preflight.before_restore(recovery, play.saved))
    run_id = play.succeed(RESTORE, application=APPLICATION)
    assert len(play.airflow.result(RESTORE, run_id, "check_load")["workers"]) == WORKERS
    play.on.await_running()
    wait_counted(recovery, ORDERS + LATER, seconds=180)
    assert set(differences(recovery, truth(play.on.generator.world, range(ORDERS + LATER))).values()) == {0}


def it_goes_on_and_is_saved_again(play: Secret) -> None:
    play.on.generator.feed(LATER)
    wait_counted(play.on.recovery, ORDERS + 2 * LATER, seconds=180)
    assert set(differences(play.on.recovery, truth(play.on.generator.world, range(ORDERS + 2 * LATER))).values()) == {0}
    play.succeed(BACKUP)
    assert play.on.held() == []


def no_password_is_in_a_log_or_in_the_bucket(play: Secret) -> None:
    directory = play.on.stack.directory
    logs = [path for below in ("airflow/logs", "spark/work", "processes") for path in (directory / below).rglob("*") if path.is_file()]
    written = {str(path): path.read_bytes() for path in logs}
    s3, location = play.around.s3.client(), play.around.location
    for key in play.around.s3.versions(location):
        body = s3.get_object(Bucket=location.bucket, Key=f"{location.prefix}/{key}")["Body"].read()
        written[key] = zstandard.ZstdDecompressor().decompress(body) if key.endswith(".zst") else body
    assert len(written) > 100
    key = (directory / RECORDS_KEY).read_text()
    secrets = [*PASSWORDS.values(), key, play.on.stack.environment["AIRFLOW_CONN_SAVEPOINT_STORE"].split('"password": "')[1].split('"')[0]]
    assert [path for path, content in written.items() if any(secret.encode() in content for secret in secrets)] == []


STORY = (
    without_rights_a_savepoint_is_refused_before_anything_is_touched,
    rights_are_given_as_the_preflight_says,
    savepoints_come_by_airflow_and_spark_into_the_bucket,
    everything_in_the_bucket_is_locked_encrypted_and_signed,
    what_is_lost_comes_back_with_rights_as_advised,
    it_goes_on_and_is_saved_again,
    no_password_is_in_a_log_or_in_the_bucket,
)
