"""The repository is lost, and the application comes back from its second place alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from embedded.stores.s3 import CREDENTIALS, S3Server
from streams_recovery.config.backup import Mirror, Storage
from streams_recovery.core.errors import Damaged, RecoveryError, Refused
from streams_recovery.core.repository.layout import Backend
from streams_recovery.core.words import moment
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.operations import archive, maintenance, preflight, restore, second_place
from streams_recovery.operations.context import open_context
from streams_recovery.operations.preflight import of_store
from streams_recovery.operations.unfinished import restores_of
from streams_recovery.storage.credentials import StorageCredentials
from tests.support.applications.archiver import archiving, with_archive
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish, published
from tests.support.applications.small import Small, asked, lose, lose_state, reopened, small_application
from tests.support.applications.topic_records import produce
from tests.support.repository.golden import checked
from tests.support.repository.local_keys import by, new_key
from tests.support.spark.session import InSession

pytestmark = pytest.mark.kafka


def two_places(small: Small, second: Path) -> tuple[Small, Small]:
    """The application with its repository, and with its second place as its repository."""
    storage = small.recovery.config.storage.model_copy(update={"mirror": Mirror(backend="filesystem", path=str(second))})
    config = small.recovery.config.model_copy(update={"storage": storage})
    return tuple(replace(small, recovery=replace(small.recovery, config=one)) for one in (config, config.from_second_place))  # type: ignore[return-value]


@pytest.mark.way("second place")
def test_a_restore_from_the_second_place_alone_brings_the_state_back_and_is_on_record_in_a_new_first_place(
    small: Small, tmp_path: Path
) -> None:
    savepoint, ended = publish(small), end(small)
    home, away = two_places(small, tmp_path / "second")
    assert maintenance.fill_mirror(home.recovery).savepoints == (savepoint,)
    with reopened(away) as found, pytest.raises(Refused, match="is not lost"):
        second_place.require_lost(found.recovery)

    (tmp_path / "repository").rename(tmp_path / "lost")
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    with reopened(away) as found:
        recovery = found.recovery
        assert "is not there" in second_place.require_lost(recovery)
        ticket = opened(recovery, asked(recovery, savepoint=savepoint))
        saved(recovery, ticket)
        assert loaded(recovery, ticket) == 7
        assert verified(recovery, ticket).partitions
        restore.abandon(recovery, ticket)
        assert end(found) == ended
        assert not (tmp_path / "repository").exists()
        back = maintenance.fill_mirror(recovery, back=True)
    assert savepoint in back.savepoints
    with reopened(home) as found:
        assert restores_of(found.recovery) == {ticket.restore_id}
        assert checked(found.recovery, "full", savepoint).good


@pytest.mark.way("second place")
@pytest.mark.deep
def test_the_first_store_and_its_key_are_gone_and_the_second_place_with_its_own_key_brings_the_state_back(
    bootstrap: str, tmp_path: Path
) -> None:
    first, own = new_key(tmp_path / "first"), new_key(tmp_path / "own")
    with small_application(bootstrap, tmp_path, encryption=by(first, mirror=own)) as small:
        home, away = two_places(small, tmp_path / "second")
        own.rename(tmp_path / "away")
        with reopened(home) as found:
            savepoint, ended = publish(found), end(found)
            assert "No such file" in next(one.text for one in of_store(found.recovery) if one.kind == "keys")
            report = maintenance.fill_mirror(found.recovery)
            assert report.savepoints == (savepoint,)
            with pytest.raises(Damaged, match=r"needs the keys of the first place to be read there: .*No such file"):
                maintenance.raise_unless_mirrored(report)
        (tmp_path / "away").rename(own)
        with reopened(home) as found:
            assert maintenance.fill_mirror(found.recovery).damaged == (), "what lacked is made up for, and proven there"
            assert of_store(found.recovery) == ()

        (tmp_path / "repository").rename(tmp_path / "lost")
        first.unlink()
        lose_state(small)
        with reopened(away) as found:
            recovery = found.recovery
            assert checked(recovery, "full", savepoint).good
            ticket = opened(recovery, asked(recovery, savepoint=savepoint))
            saved(recovery, ticket)
            assert loaded(recovery, ticket) == 7
            assert verified(recovery, ticket).partitions
            restore.abandon(recovery, ticket)
            assert end(found) == ended
            maintenance.fill_mirror(recovery, back=True)

        new_key(first)
        with reopened(home) as found:
            ids = {one.key_id for one in found.recovery.repository.keyring.stored(found.recovery.application_id)}
            assert set(found.recovery.repository.keyring.rotate(found.recovery.application_id)) == ids
        own.unlink()
        with reopened(home) as found:
            assert checked(found.recovery, "full", savepoint).good, "the new key of the first place opens all again"


@pytest.mark.spark
@pytest.mark.way("second place")
@pytest.mark.deep
def test_the_store_is_deleted_in_mid_archive_and_the_application_comes_back_up_to_what_was_mirrored(
    small: Small, tmp_path: Path, in_session: InSession
) -> None:
    home, away = two_places(with_archive(small), tmp_path / "second")
    recovery, source = home.recovery, home.input
    published(home)
    with pytest.raises(RecoveryError), archiving(recovery, in_session) as beside:
        produce(recovery, source, 9)
        mirrored = beside.upto(source)
        assert maintenance.fill_mirror(recovery).damaged == ()
        seen = second_place.see_second_place(recovery)
        assert seen is not None
        assert seen.archived_at is not None
        produce(recovery, source, 4)
        beside.upto(source)
        newer = second_place.see_second_place(recovery)
        assert newer is not None
        assert newer.entries > 0
        assert newer.archived_at == seen.archived_at
        (tmp_path / "repository").rename(tmp_path / "lost")
        produce(recovery, source, 1)
        assert beside.thread is not None
        beside.thread.join(timeout=60)
        assert not beside.thread.is_alive(), "an archiver without its log ends"
    lose(home)
    with reopened(away) as found:
        recovery = found.recovery
        assert "first place" in second_place.require_lost(recovery)
        planned = restore.plan(recovery, asked(recovery))
        assert planned.part.archived is not None
        assert (planned.part.archived.records, planned.part.archived.safe_at) == (mirrored.newest[source].end - 5, seen.archived_at)
        assert f"Input up to **{moment(seen.archived_at)}**: 9 records" in planned.text
        ticket = opened(recovery, asked(recovery))
        saved(recovery, ticket)
        assert loaded(recovery, ticket) == 14 + 4 + 3
        assert verified(recovery, ticket).partitions
        restore.abandon(recovery, ticket)
        assert recovery.cluster.high_watermarks([source])[source] == 14
        maintenance.fill_mirror(recovery, back=True)
    with reopened(home) as found:
        archived = archive.read_archive(found.recovery)
        assert archived.newest[source].end == 14
        assert checked(found.recovery, "full").good


@pytest.mark.remedy("mirror-schedule")
def test_an_archive_that_is_copied_behind_savepoints_only_is_told_before_each_of_them_and_times_of_its_own_end_that(
    small: Small, tmp_path: Path
) -> None:
    home, _ = two_places(with_archive(small), tmp_path / "second")
    (told,) = [one for one in preflight.before_backup(home.recovery) if one.kind == "archive-one-place"]
    assert "archived input of up to 1 h" in told.text
    key, _, schedule = told.next_step.partition(": ")
    assert key == "storage.mirror.schedule"
    mirror = Mirror(backend="filesystem", path=str(tmp_path / "second"), schedule=yaml.safe_load(schedule))
    storage = home.recovery.config.storage.model_copy(update={"mirror": mirror})
    mended = replace(home.recovery, config=home.recovery.config.model_copy(update={"storage": storage}))
    assert [one for one in preflight.before_backup(mended) if one.kind == "archive-one-place"] == []


@dataclass(frozen=True)
class BothStores:
    """The connections of an application whose repository goes from a directory into a bucket."""

    connection: KafkaConnection

    def kafka(self, connection_id: str) -> KafkaConnection:  # noqa: ARG002
        return self.connection

    def storage(self, connection_id: str | None, backend: Backend) -> StorageCredentials | None:  # noqa: ARG002
        return CREDENTIALS if backend == "s3" else None

    def secret(self, connection_id: str) -> str | None:  # noqa: ARG002
        return None

    def spark_master(self, connection_id: str) -> str:  # noqa: ARG002
        return "local[2]"


@pytest.mark.way("second place")
def test_a_repository_moves_from_a_directory_into_a_bucket_and_the_application_is_restored_from_there(
    small: Small, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint, ended = publish(small), end(small)
    place = s3.bucket()
    names = ("bucket", "prefix", "region", "endpoint", "path_style", "allow_http")
    mirror = Mirror(backend="s3", connection="s3", **{name: getattr(place, name) for name in names})
    storage = small.recovery.config.storage.model_copy(update={"mirror": mirror})
    config = small.recovery.config.model_copy(update={"storage": storage})
    connections = BothStores(small.recovery.connection)
    home = replace(small.recovery, config=config, connections=connections)
    assert savepoint in maintenance.move(home).savepoints
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    written = config.model_copy(update={"storage": Storage(**config.storage.moved["storage"])})
    with open_context(written, connections) as recovery:
        assert recovery.repository.location.backend == "s3"
        assert checked(recovery, "full", savepoint).good
        ticket = opened(recovery, asked(recovery, savepoint=savepoint))
        saved(recovery, ticket)
        assert loaded(recovery, ticket) == 7
        assert verified(recovery, ticket).partitions
        restore.abandon(recovery, ticket)
        assert end(replace(small, recovery=recovery)) == ended
    # Who has the old configuration, in another process.
    monkeypatch.setattr("streams_recovery.storage.repository._asked", set())
    with pytest.raises(Refused, match="has moved to s3://"):
        publish(small)
