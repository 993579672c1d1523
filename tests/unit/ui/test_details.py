"""Savepoints that many requests ask for at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from streams_recovery.core.status.savepoint_detail import SavepointDetail, savepoint_detail
from streams_recovery.ui.details import AT_ONCE, Details
from tests.support.examples.manifests import copied, manifest_with, partition

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
