"""What requests are told while a repository answers, is slow, or does not answer at all.

Savepoints that many requests ask for at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streams_recovery.core.errors import NotFound, RepositoryUnavailable
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.sites import PRIMARY, SiteEntry
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail, savepoint_detail
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from streams_recovery.ui.statuses import AT_ONCE, Details, Place, Statuses
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.statuses import report

LAYOUT = Layout("orders-app")


class Repositories:
    """One repository that can be made slow or absent."""

    def __init__(self, directory: Path) -> None:
        self.repository = Repository(StorageLocation(backend="filesystem", path=str(directory)))
        self.opened = 0
        self.error: Exception | None = None
        self.let_go = threading.Event()
        self.let_go.set()

    def open(self, name: str) -> Place:
        assert name == "orders"
        self.opened += 1
        self.let_go.wait(10)
        if self.error is not None:
            raise self.error
        return self.repository, LAYOUT


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    found = Repositories(tmp_path)
    AppendLog(found.repository, LAYOUT.status, StatusReport).append(report())
    return found


def test_many_requests_in_some_seconds_ask_the_repository_once(repositories: Repositories) -> None:
    clock = [0.0]
    statuses = Statuses(repositories.open, wait_seconds=5, fresh_seconds=5, clock=lambda: clock[0])
    for _ in range(5):
        assert statuses.of(["orders"])["orders"].report == report()
    assert repositories.opened == 1
    clock[0] = 5.1
    statuses.of(["orders"], patient=True)
    assert repositories.opened == 2


def test_a_repository_that_hangs_holds_one_thread_and_no_request(repositories: Repositories) -> None:
    clock = [0.0]
    statuses = Statuses(repositories.open, fresh_seconds=0, wait_seconds=0.01, limit_seconds=2, clock=lambda: clock[0])
    assert statuses.of(["orders"], patient=True)["orders"].problem is None
    repositories.let_go.clear()
    assert statuses.of(["orders"])["orders"] == statuses.of(["orders"])["orders"]
    assert statuses.of(["orders"])["orders"].problem is None, "a moment is no failure"
    for _ in range(4):
        clock[0] += 10
        found = statuses.of(["orders"])["orders"]
        assert found.report == report(), "the last known state"
        assert found.problem == "The repository has not answered within 2 s."
    assert repositories.opened == 2
    repositories.let_go.set()
    assert statuses.of(["orders"], patient=True)["orders"].problem is None


def test_before_the_first_reading_is_over_nothing_is_claimed(repositories: Repositories) -> None:
    repositories.let_go.clear()
    found = Statuses(repositories.open, wait_seconds=0.01).of(["orders"])["orders"]
    assert (found.report, found.problem, found.asked) == (None, None, False)
    repositories.let_go.set()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RepositoryUnavailable("/srv/repository is gone", next_step="mount it"), "The repository does not answer."),
        (NotFound("no aws_dr", next_step="add it", connection="aws_dr"), "The Airflow connection aws_dr does not exist."),
        (OSError("/srv/repository: input/output error"), "The status could not be read. The log of the API server says why."),
    ],
)
def test_what_went_wrong_is_said_without_the_place(repositories: Repositories, error: Exception, said: str) -> None:
    statuses = Statuses(repositories.open, wait_seconds=5, fresh_seconds=0)
    assert statuses.of(["orders"], patient=True)["orders"].problem is None
    repositories.error = error
    found = statuses.of(["orders"], patient=True)["orders"]
    assert (found.problem, found.report) == (said, report())
    assert statuses.detail("orders", "20261121T012345Z-aaaaaaaaaa") == said


def test_a_savepoint_without_a_detail_is_no_error(repositories: Repositories) -> None:
    assert Statuses(repositories.open, wait_seconds=5).detail("orders", "20261121T012345Z-aaaaaaaaaa") is None


def test_savepoints_of_a_repository_that_hangs_hold_few_threads(repositories: Repositories) -> None:
    statuses = Statuses(repositories.open, wait_seconds=5, limit_seconds=0.05)
    repositories.let_go.clear()
    for number in (0, 0, 1, 2, 3):
        assert statuses.detail("orders", f"20261121T01234{number}Z-aaaaaaaaaa") == "The repository has not answered within 0.05 s."
    assert repositories.opened == 2
    repositories.let_go.set()
    assert Statuses(repositories.open, wait_seconds=5).detail("orders", "20261121T012345Z-aaaaaaaaaa") is None


def test_repositories_that_hang_keep_no_application_from_its_own(repositories: Repositories) -> None:
    let_go = threading.Event()

    def open_place(name: str) -> Place:
        if name != "orders":
            let_go.wait(30)
        return repositories.open("orders")

    statuses = Statuses(open_place, wait_seconds=0.01, limit_seconds=0.01)
    hanging = [f"hangs-{number}" for number in range(100)]
    try:
        statuses.of(hanging)
        for name in hanging[:10]:
            for savepoint in ("one", "two", "three"):
                assert isinstance(statuses.detail(name, savepoint), str)
            assert isinstance(statuses.inspections(name), str)
            assert isinstance(statuses.outputs(name), str)
        statuses._limit = 10.0  # the machine may be slow; what hangs does so for longer
        assert statuses.of(["orders"], patient=True)["orders"].report == report()
        assert statuses.inspections("orders") == ()
    finally:
        let_go.set()


def test_the_screen_of_an_application_does_not_wait_for_comparisons_of_outputs(repositories: Repositories) -> None:
    statuses = Statuses(repositories.open, wait_seconds=10, limit_seconds=10)
    assert statuses.outputs("orders") == ()
    statuses._wait = 0.01
    repositories.let_go.clear()
    assert statuses.outputs("orders") == (), "what was read last, while the repository does not answer"
    assert statuses.outputs("orders") == "The comparisons are still being read: load this page again."
    repositories.let_go.set()


def test_where_it_is_is_read_with_the_status_and_kept_while_the_repository_does_not_answer(repositories: Repositories) -> None:
    moved = SiteEntry(site="dr", cluster_id="", arrived=True, before=PRIMARY, run="r", at=1, requested_by="", reason="", fences=())

    def site_in(name: str, repository: Repository) -> SiteEntry | None:
        assert (name, repository) == ("orders", repositories.repository)
        return moved

    statuses = Statuses(repositories.open, site_in=site_in, wait_seconds=5, fresh_seconds=0)
    assert statuses.of(["orders"])["orders"].site == moved
    repositories.error = RepositoryUnavailable("no answer", next_step="wait")
    found = statuses.of(["orders"], patient=True)["orders"]
    assert (found.problem, found.site, found.report) == ("The repository does not answer.", moved, report())


DETAIL = savepoint_detail(manifest_with(partition([copied(0, 5)], [], end=5)))


class Store:
    """Reads when it is let; what was asked of it, in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.let_go = threading.Event()

    def read(self, name: str, savepoint_id: str) -> SavepointDetail | None:
        self.asked.append((name, savepoint_id))
        assert self.let_go.wait(30)
        if savepoint_id == "broken":
            raise OSError("it is broken")
        return DETAIL if savepoint_id != "unknown" else None


@pytest.fixture
def readers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE + 1) as found:
        yield found


def test_one_application_leaves_readers_for_the_others_and_goes_on_once_it_answers(readers: ThreadPoolExecutor) -> None:
    store = Store()
    details = Details(store.read, lambda _: readers)
    for savepoint_id in ("a", "b", "c", "a"):
        with pytest.raises(TimeoutError):
            details.of("orders", savepoint_id, limit_seconds=0.01)
    with pytest.raises(TimeoutError):
        details.of("payments", "a", limit_seconds=0.01)
    store.let_go.set()
    assert details.of("orders", "c", limit_seconds=30) == DETAIL
    assert sorted(store.asked) == [("orders", "a"), ("orders", "b"), ("orders", "c"), ("payments", "a")]


def test_what_was_read_is_kept_and_what_was_not_is_asked_for_again(readers: ThreadPoolExecutor) -> None:
    store = Store()
    store.let_go.set()
    details = Details(store.read, lambda _: readers)
    for _ in range(2):
        assert details.of("orders", "a", limit_seconds=30) == DETAIL
        assert details.of("orders", "unknown", limit_seconds=30) is None
        with pytest.raises(OSError, match="broken"):
            details.of("orders", "broken", limit_seconds=30)
    assert store.asked.count(("orders", "a")) == 1
    assert (store.asked.count(("orders", "unknown")), store.asked.count(("orders", "broken"))) == (2, 2)
