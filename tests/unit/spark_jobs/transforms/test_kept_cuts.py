"""The log of kept cuts when it is damaged: cuts that can be read stay, and the archiver, whose inputs do not depend on it, goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.transforms.archived_state import KeptCuts
from streams_recovery.core.archive.cuts import ArchivedCut, ArchivedTail, KeptCut
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from tests.support.examples.savepoints import manifest_of, segment

PREFIX = Layout("orders").archive_cuts


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))
    before = cuts_of(repository)
    for at in range(1, 7):
        before.keep(cut(at), "cluster")
    return repository


def cuts_of(repository: Repository) -> KeptCuts:
    """Those that an archiver has which begins."""
    found = KeptCuts(log=AppendLog(repository, PREFIX, KeptCut))
    found.read()
    return found


def cut(at: int, *tails: str) -> ArchivedCut:
    """A cut whose unread records are in these files."""
    found = tuple(ArchivedTail(tp=TopicPartition("by-key", at), copied=segment(0, 1, [0], key=key)) for at, key in enumerate(tails))
    return ArchivedCut(captured_at=at, proof=manifest_of().proof, topics={}, inputs=(), written=(), tails=found)


def readable(repository: Repository) -> list[int]:
    """When the cuts that can be read were captured, the oldest first."""
    log = AppendLog(repository, PREFIX, KeptCut)
    return sorted(one.cut.captured_at for one in log.readable_back(whole=False))


def damage(repository: Repository, number: int) -> None:
    Path(str(repository.location.path), f"{PREFIX}{number:012}.json").write_bytes(b"{")


def test_one_damaged_cut_does_not_take_the_others_with_it(repository: Repository) -> None:
    damage(repository, 4)
    again = cuts_of(repository)
    again.keep(cut(7), "cluster")
    again.forget(upto=0)
    assert {3, 5, 6, 7} <= {*readable(repository)}


def test_a_damaged_cut_goes_with_those_before_the_newest_savepoint(repository: Repository) -> None:
    damage(repository, 2)
    again = cuts_of(repository)
    again.keep(cut(7), "cluster")
    again.forget(upto=4)
    assert [one.cut.captured_at for _, one in AppendLog(repository, PREFIX, KeptCut).numbered_back()] == [7, 6, 5]


@pytest.mark.parametrize("number", [3, 5])
def test_an_archiver_goes_on_where_a_cut_is_gone(repository: Repository, number: int) -> None:
    repository.delete([f"{PREFIX}{number:012}.json"])
    again = cuts_of(repository)
    again.keep(cut(7), "cluster")
    assert readable(repository) == [at for at in range(1, 8) if at != number]
    again.forget(upto=5)
    assert readable(repository) == [6, 7]


def test_an_archiver_goes_on_where_no_cut_can_be_kept(repository: Repository, caplog: pytest.LogCaptureFixture) -> None:
    again = cuts_of(repository)
    # No number is left behind it.
    repository.create(f"{PREFIX}999999999999.json", b"{}")
    again.keep(cut(7), "cluster")
    assert "no number is left" in caplog.text


def test_only_files_that_this_archiver_has_written_are_given_up_at_once(repository: Repository) -> None:
    # Whoever can create an object could name any file there, a savepoint's or another application's. Expiry asks who needs it.
    AppendLog(repository, PREFIX, KeptCut).append(KeptCut(cluster_id="cluster", cut=cut(7, "payments/segments/needed.parquet")))
    again = cuts_of(repository)
    for at in (8, 9):
        again.keep(cut(at, f"orders/segments/{at}.parquet"), "cluster")
    assert again.forget(upto=8) == ["orders/segments/8.parquet"]
    assert readable(repository) == [9]
