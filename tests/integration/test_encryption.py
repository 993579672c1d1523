"""Savepoints with encrypted records: taken, continued, checked, merged, looked into and restored; and what is said when a key is gone."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.application import Store
from streams_recovery.core import codec
from streams_recovery.core.errors import KeyUnavailable
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, RangeToCopy
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.preflight.findings import blocking
from streams_recovery.core.repository.encryption import named_key
from streams_recovery.core.repository.manifest import ENCRYPTED_VERSION, Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.one_process import ProcessSubmit
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operations import restore
from streams_recovery.operations.compaction import CompactRequest, How
from streams_recovery.operations.preflight import of_store
from streams_recovery.operations.restore import dry_run
from streams_recovery.operations.second_place import see_encryption
from streams_recovery.operations.state.read import open_side, table
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish, published, take
from tests.support.applications.small import Small, asked, reopened, rows_of, small_application
from tests.support.repository.golden import checked
from tests.support.repository.local_keys import by, new_key

pytestmark = pytest.mark.kafka

SECRET = b"the customer's secret"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A local key-encryption key."""
    return new_key(tmp_path / "key")


@pytest.fixture
def encrypted(bootstrap: str, tmp_path: Path, key_file: Path) -> Iterator[Small]:
    """An application whose records are encrypted, with one in its changelog that can be recognised."""
    with small_application(bootstrap, tmp_path, encryption=by(key_file)) as small:
        stores = {"totals": Store(kind=StoreKind.KEY_VALUE)}
        config = small.recovery.config
        config = config.model_copy(update={"stores": stores, "retention": config.retention.model_copy(update={"merge_files": 3})})
        log(small, SECRET)
        yield replace(small, recovery=replace(small.recovery, config=config))


def log(small: Small, *values: bytes) -> None:
    """What a store logs of one key."""
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(small.changelog.topic, value, SECRET, small.changelog.partition)
    assert producer.flush(30) == 0


def in_clear(root: Path) -> list[Path]:
    """Stored objects that show the record."""
    forms = (SECRET, base64.b64encode(SECRET), SECRET.hex().encode())
    return [path for path in root.rglob("*") if path.is_file() and any(form in path.read_bytes() for form in forms)]


def key_ids(savepoint: Manifest) -> set[str]:
    return {named[1] for _, file in savepoint.files() if (named := named_key(file.key)) is not None}


def test_an_encrypted_savepoint_is_continued_checked_looked_into_and_restored(encrypted: Small, tmp_path: Path) -> None:
    recovery = encrypted.recovery
    first = published(encrypted)
    log(encrypted, b"later")
    second = published(encrypted)
    assert (second.parent_id, second.format_version) == (first.savepoint_id, ENCRYPTED_VERSION)
    assert {second.encryption_key_id} == key_ids(first) == key_ids(second), "one key a day"
    assert len(list(second.files())) == len([file for _, file in second.files() if named_key(file.key)]) == 3
    assert in_clear(tmp_path / "repository") == []
    assert checked(recovery, "full").good
    assert SECRET in {entry.key for entry in table(open_side(recovery, "totals", "latest")).values()}

    truth, ended = rows_of(recovery, second, encrypted.changelog), end(encrypted)
    recovery.cluster.delete_topics([encrypted.changelog.topic, encrypted.tail.topic])
    with reopened(encrypted) as found:
        ticket = opened(found.recovery, asked(found.recovery, savepoint=second.savepoint_id))
        saved(found.recovery, ticket)
        assert loaded(found.recovery, ticket) == len(truth) + 3
        assert verified(found.recovery, ticket).partitions
        restore.abandon(found.recovery, ticket)
        assert end(found) == ended
    assert in_clear(tmp_path / "repository") == []


@pytest.mark.spark
def test_encrypted_savepoints_are_merged_and_compacted_into_encrypted_ones(encrypted: Small, in_session: Submitter, tmp_path: Path) -> None:
    recovery = encrypted.recovery
    for number in range(4):
        log(encrypted, b"v%d" % number)
        source = published(encrypted)
    runner = Runner(recovery=recovery, submitter=in_session, say=lambda line: None)  # noqa: ARG005
    for how in (How.SMALL_FILES, How.LATEST_PER_KEY):
        request = CompactRequest(savepoint="latest", how=how, run_id=how.value, requested_by="test", reason="smaller")
        done = runs.compact(runner, request)
        assert done is not None
        made = recovery.savepoints.read(done.savepoint_id)
        assert key_ids(made) == {made.encryption_key_id} == key_ids(source)
        assert all(named_key(file.key) for _, file in made.files())
    assert checked(recovery, "full").good
    newest = {row["key"]: row["value"] for row in rows_of(recovery, source, encrypted.changelog)}
    assert {row["key"]: row["value"] for row in rows_of(recovery, made, encrypted.changelog)} == newest
    assert in_clear(tmp_path / "repository") == []


def test_a_process_of_its_own_gets_the_keys_by_its_secrets_file(encrypted: Small, tmp_path: Path) -> None:
    recovery = encrypted.recovery
    span = RangeToCopy(tp=encrypted.changelog, start=0, end=end(encrypted), size_hint=9)
    spec = BackupSpec(application_id=recovery.application_id, ranges=(span,), compression_level=3)
    key = recovery.layout.work("run", "spec")
    recovery.repository.create(key, codec.dumps(spec))
    job = SparkJob(
        name="backup",
        spec=ArtifactRef.of(key, codec.dumps(spec)),
        result_key=recovery.layout.work("run", "result"),
        repository=recovery.repository,
        connection=recovery.connection,
        credentials=None,
    )
    left = ProcessSubmit(logs=tmp_path / "logs").submit(job)
    (done,) = codec.loads(BackupResult, left.checked(recovery.repository.get(left.key)), where=left.key).ranges
    assert done.copied.file is not None
    assert named_key(done.copied.file.key) is not None
    assert in_clear(tmp_path / "repository") == []
    log_text = b"".join(path.read_bytes() for path in (tmp_path / "logs").rglob("*") if path.is_file())
    assert (tmp_path / "key").read_bytes() not in log_text


def test_a_clear_savepoint_is_continued_encrypted_and_read_as_one(bootstrap: str, tmp_path: Path, key_file: Path) -> None:
    with small_application(bootstrap, tmp_path) as small:
        log(small, SECRET)
        clear = published(small)
        assert (clear.format_version, clear.encryption_key_id) == (8, None)
        storage = json.loads((tmp_path / "small.yaml").read_text())["storage"] | {"encryption": by(key_file)}
        config = small.recovery.config
        again = config.model_copy(update={"storage": type(config.storage).model_validate(storage)})
        with reopened(replace(small, recovery=replace(small.recovery, config=again))) as found:
            log(found, b"later")
            mixed = published(found)
            assert (mixed.parent_id, mixed.format_version) == (clear.savepoint_id, ENCRYPTED_VERSION)
            assert {named_key(file.key) is None for _, file in mixed.files()} == {True, False}
            assert checked(found.recovery, "full").good


def test_where_encryption_is_switched_off_no_plan_is_made_that_its_tasks_could_not_do(encrypted: Small) -> None:
    first = published(encrypted)
    config = encrypted.recovery.config
    clear = config.model_copy(update={"storage": config.storage.model_copy(update={"encryption": None})})
    with reopened(replace(encrypted, recovery=replace(encrypted.recovery, config=clear))) as found:
        log(found, b"later")
        mixed = published(found)
        assert (mixed.parent_id, mixed.encryption_key_id) == (first.savepoint_id, first.encryption_key_id)
        assert {named_key(file.key) is None for _, file in mixed.files()} == {True, False}
        seen = see_encryption(found.recovery)
        assert seen is not None
        assert "in clear, and earlier ones are encrypted (data keys: 1)" in seen.problems[0], "info and the monitor tell"
        # What a plan looks into of each log may be in clear.
        with pytest.raises(KeyUnavailable, match=r"cannot be unwrapped: .*storage.encryption has n"):
            restore.plan(found.recovery, asked(found.recovery, savepoint=mixed.savepoint_id, replace=True))


def test_without_its_key_nothing_is_begun(encrypted: Small, tmp_path: Path, key_file: Path) -> None:
    savepoint = take(encrypted).savepoint_id
    key_file.rename(tmp_path / "away")
    new_key(key_file)
    with reopened(encrypted) as found:
        report = checked(found.recovery, "full")
        assert not report.good
        assert str(report).count("cannot be unwrapped") == len(report.findings), "once in each"
        with pytest.raises(KeyUnavailable, match=r"none of storage.encryption.keys is that"):
            restore.plan(found.recovery, asked(found.recovery, savepoint=savepoint, replace=True))
        finding = next(
            one for one in dry_run.before_restore(found.recovery, found.recovery.savepoints.outline(savepoint)) if one.kind == "plan"
        )
        assert "cannot be unwrapped" in finding.text
    key_file.unlink()
    with reopened(encrypted) as found:
        assert [one.kind for one in blocking(of_store(found.recovery))] == ["keys"]
        assert of_store(found.recovery, saves=False) == ()
        with pytest.raises(KeyUnavailable, match="No such file") as caught:
            take(found)
        assert caught.value.exit_code == 2
        assert found.recovery.lock.holder() is None
        assert found.recovery.savepoints.ids() == [savepoint]
    assert end(encrypted) == 5, "nothing was deleted"


def test_behind_a_lost_key_the_next_savepoint_is_whole_and_shares_nothing_that_nobody_can_read(encrypted: Small, key_file: Path) -> None:
    lost = publish(encrypted)
    new_key(key_file)
    log(encrypted, b"later")
    with reopened(encrypted) as found:
        taken = take(found)
        assert any(f"savepoint {lost} cannot be decrypted, so all was copied anew: the data key" in text for text in taken.warnings)
        whole = found.recovery.savepoints.read(taken.savepoint_id)
        assert (whole.parent_id, key_ids(whole)) == (None, {whole.encryption_key_id})
        assert checked(found.recovery, "full", taken.savepoint_id).good
        restore.plan(found.recovery, asked(found.recovery, savepoint=taken.savepoint_id, replace=True))
        log(found, b"later still")
        assert published(found).parent_id == taken.savepoint_id, "and is continued as any"
