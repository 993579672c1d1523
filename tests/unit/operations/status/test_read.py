"""The newest status and the detail of a savepoint, read from a repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.operations.status.read import StoredStatus, detail, newest
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.statuses import report
from tests.support.repository.golden import COMPACTED, OpenGolden

LAYOUT = Layout("orders")


def shown(found: StoredStatus | None) -> StatusReport:
    assert found is not None
    return found.report


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))


def test_the_newest_status_comes_back_as_it_was_written(repository: Repository) -> None:
    assert newest(repository, LAYOUT, None) is None
    log = AppendLog(repository, LAYOUT.status, StatusReport)
    log.append(report())
    second = replace(report(), taken_at=report().taken_at + 60_000)
    log.append(second)
    assert shown(newest(repository, LAYOUT, None)) == second
    log.prune(1)
    assert shown(newest(repository, LAYOUT, None)) == second


def test_a_status_that_is_known_is_not_read_again(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.status, StatusReport)
    log.append(report())
    known = newest(repository, LAYOUT, None)
    assert known is not None
    assert newest(repository, LAYOUT, known) is known
    log.append(report())
    assert newest(repository, LAYOUT, known) is not known


def test_a_status_of_another_release_hides_no_older_one(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.status, StatusReport)
    log.append(report())
    repository.create(f"{LAYOUT.status}000000000002.json", b'{"name": "orders"}')
    known = newest(repository, LAYOUT, None)
    assert shown(known) == report()
    assert newest(repository, LAYOUT, known) is known


def test_where_no_entry_is_a_status_that_is_damage(repository: Repository) -> None:
    repository.create(f"{LAYOUT.status}000000000001.json", b'{"name": "orders"}')
    with pytest.raises(Damaged):
        newest(repository, LAYOUT, None)


def test_publishing_writes_what_people_look_at(repository: Repository) -> None:
    manifest = manifest_with(partition([copied(0, 5)], [], end=5))
    SavepointStore(repository, LAYOUT).publish(manifest)
    assert detail(repository, LAYOUT, manifest.savepoint_id) == savepoint_detail(manifest)
    assert detail(repository, LAYOUT, "20261121T012345Z-aaaaaaaaaa") is None


def test_a_savepoint_is_published_although_something_else_is_in_the_place_of_its_detail(repository: Repository) -> None:
    manifest = manifest_with(partition([copied(0, 5)], [], end=5))
    repository.create(LAYOUT.detail(manifest.savepoint_id), b"{}")
    store = SavepointStore(repository, LAYOUT)
    store.publish(manifest)
    store.publish(manifest)
    assert store.ids() == [manifest.savepoint_id]
    with pytest.raises(Damaged):
        detail(repository, LAYOUT, manifest.savepoint_id)


def test_what_is_left_of_an_expired_savepoint_goes_with_its_detail(repository: Repository) -> None:
    manifest = manifest_with(partition([copied(0, 5)], [], end=5))
    store = SavepointStore(repository, LAYOUT)
    store.publish(manifest)
    store.forget(manifest.savepoint_id, [])
    assert detail(repository, LAYOUT, manifest.savepoint_id) is None


def test_a_savepoint_from_before_details_has_none(golden: OpenGolden) -> None:
    recovery = golden("compacted")
    assert detail(recovery.repository, recovery.layout, COMPACTED) is None
