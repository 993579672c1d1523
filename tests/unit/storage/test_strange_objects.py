"""What somebody else put between our objects stops no run: it is passed over, or named with what to do about it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import Damaged, EntryUnreadable, NotFound, Refused
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.lease import LEASE_SECONDS
from streams_recovery.core.words import is_id, new_id
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import RunArtifacts

LAYOUT = Layout("orders")
# Long after the objects that a test writes.
NOW = 1_900_000_000_000
LEASE_MS = LEASE_SECONDS * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    text: str


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))


def lock(repository: Repository) -> ApplicationLock:
    return ApplicationLock(repository, LAYOUT, lambda: NOW)


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    "name", ["notes.json", "000000000001.json.tmp", "1.json", "0000000000001.json", "000000000001", "a/000000000001.json"]
)
def test_an_object_of_another_name_stops_no_lock(repository: Repository, name: str) -> None:
    repository.create(f"{LAYOUT.locks}{name}", b"x")
    first = lock(repository).acquire("backup 1", lease_seconds=60, purpose="savepoint")
    lock(repository).renew(first, lease_seconds=60)
    lock(repository).release(first)
    assert lock(repository).acquire("backup 2", lease_seconds=60, purpose="savepoint").number == 4


def link(name: str, target: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).symlink_to(target)


STRANGE: dict[str, Callable[[Path], object]] = {
    "no UTF-8": lambda directory: Path(os.fsdecode(os.fsencode(directory) + b"/\xff\xfe")).write_bytes(b"x"),
    "a line break": lambda directory: (directory / "a\nb").write_bytes(b"x"),
    "a tab in a directory": lambda directory: (directory / "a\tb").mkdir() or (directory / "a\tb" / "c").write_bytes(b"x"),
    "a link to itself": link("self", "self"),
    "a link to its directory": link("above", "."),
    "a link to nowhere": link("gone", "/no/such/file"),
    "a pipe": lambda directory: os.mkfifo(directory / "pipe"),
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("strange", list(STRANGE))
def test_a_name_that_no_key_can_have_hides_nothing_else(repository: Repository, strange: str, caplog: pytest.LogCaptureFixture) -> None:
    log = AppendLog(repository, LAYOUT.locks, Entry)
    log.append(Entry(text="a"))
    STRANGE[strange](Path(str(repository.location.path)) / LAYOUT.locks)
    with caplog.at_level(logging.WARNING):
        assert log.append(Entry(text="b")) == 2
    assert [entry.text for entry in log.read_all()] == ["a", "b"]
    found = repository.listed(LAYOUT.locks)
    assert [file.key for file in found] == [f"{LAYOUT.locks}00000000000{number}.json" for number in (1, 2)]
    assert all(file.bytes == repository.size(file.key) and file.modified > NOW - 10**12 for file in found)
    if strange.startswith(("no UTF-8", "a line break")):
        assert "1 objects below orders/locks/ in" in caplog.text
        assert "passed over" in caplog.text


@pytest.mark.fault("F63")
def test_a_missing_directory_with_strange_neighbours_is_empty(repository: Repository) -> None:
    repository.create("orders/x", b"x")
    (Path(str(repository.location.path)) / "a\nb").write_bytes(b"x")
    assert list(repository.keys("")) == ["orders/x"]
    assert list(repository.keys(LAYOUT.holds)) == []


@pytest.mark.fault("F63")
def test_a_record_that_cannot_be_read_is_named_and_can_be_ended(repository: Repository) -> None:
    mine = lock(repository).acquire("backup 1", lease_seconds=60, purpose="savepoint")
    key = f"{LAYOUT.locks}000000000002.json"
    repository.create(key, b'{"kind": ["acquire"]}')
    with pytest.raises(EntryUnreadable, match="unknown who holds") as caught:
        lock(repository).acquire("backup 2", lease_seconds=60, purpose="savepoint")
    assert (caught.value.facts["key"], caught.value.exit_code) == (key, 6)
    for other in ("backup 1", f"{LAYOUT.locks}000000000001.json"):
        with pytest.raises(EntryUnreadable, match="it is unknown"):
            lock(repository).take_from(other)
    assert lock(repository).take_from(key)
    assert lock(repository).holder() is None
    assert not lock(repository).holds(mine), "who had it before must not go on"
    with pytest.raises(Refused, match="not by"):
        lock(repository).acquire("backup 2", lease_seconds=60, purpose="savepoint")
        lock(repository).take_from(key)


@pytest.mark.fault("F63")
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b'{"kind": ["acquire"]}'])
def test_a_record_that_cannot_be_read_blocks_for_a_lease_and_is_then_taken_over_and_said(
    repository: Repository, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lock(repository).release(lock(repository).acquire("backup 1", lease_seconds=60, purpose="savepoint"))
    key = f"{LAYOUT.locks}000000000003.json"
    repository.create(key, content)
    written = repository.modified(key)
    assert written is not None
    for young in (-3_600_000, 0, LEASE_MS - 1):
        early = ApplicationLock(repository, LAYOUT, lambda young=young: written + young)
        for use in (early.holder, lambda early=early: early.acquire("backup 2", lease_seconds=60, purpose="savepoint")):
            with pytest.raises(EntryUnreadable):
                use()
    late = ApplicationLock(repository, LAYOUT, lambda: written + LEASE_MS)
    assert late.holder() is None
    with caplog.at_level(logging.WARNING):
        taken = late.acquire("backup 2", lease_seconds=60, purpose="savepoint")
    assert (taken.number, late.holder().took_over_from) == (4, key)
    assert key in caplog.text
    assert "counts as dead" in caplog.text
    late.renew(taken, lease_seconds=60)


@pytest.mark.fault("F63")
def test_a_record_that_cannot_be_read_takes_no_lock_from_who_has_it(repository: Repository) -> None:
    lock(repository).acquire("backup 1", lease_seconds=60, purpose="savepoint")
    for number in (2, 3):
        repository.create(f"{LAYOUT.locks}{number:012}.json", b"forged")
    with pytest.raises(EntryUnreadable):
        lock(repository).acquire("backup 2", lease_seconds=60, purpose="savepoint")
    later = ApplicationLock(repository, LAYOUT, lambda: NOW + 60_000)
    assert later.acquire("backup 2", lease_seconds=60, purpose="savepoint").number == 4


@pytest.mark.fault("F63")
def test_of_two_that_end_the_same_record_the_second_takes_nothing(repository: Repository) -> None:
    key = f"{LAYOUT.locks}000000000001.json"
    repository.create(key, b"\0" * 100)
    slow, log = lock(repository), AppendLog(repository, LAYOUT.locks, Entry)
    assert lock(repository).take_from(key)
    taken = lock(repository).acquire("restore 1", lease_seconds=60, purpose="restore")
    assert not log.append_behind(key, Entry(text="late")), "there is a record behind it already"
    with pytest.raises(Refused, match="held by 'restore 1'"):
        slow.take_from(key)
    assert lock(repository).holds(taken)


@pytest.mark.fault("F63")
def test_a_number_far_ahead_is_damage_with_what_to_do(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.holds, Entry)
    for text in "ab":
        log.append(Entry(text=text))
    repository.create(f"{LAYOUT.holds}000000000009.json", b"{}")
    with pytest.raises(Damaged, match="has no entry 3") as caught:
        log.append(Entry(text="c"))
    assert caught.value.facts == {"key": f"{LAYOUT.holds}000000000009.json"}


@pytest.mark.fault("F63")
def test_the_last_number_there_is_ends_a_log_and_does_not_hide_what_comes(repository: Repository) -> None:
    repository.create(f"{LAYOUT.locks}999999999999.json", b"{}")
    with pytest.raises(Damaged, match="no number is left behind it"):
        AppendLog(repository, LAYOUT.locks, Entry).append(Entry(text="a"))
    assert len(list(repository.keys(LAYOUT.locks))) == 1


@pytest.mark.fault("F63")
def test_an_entry_is_no_larger_than_its_log_allows(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.holds, Entry, most_bytes=100)
    with pytest.raises(Refused, match="too large") as caught:
        log.append(Entry(text="x" * 200))
    assert caught.value.facts == {"key": f"{LAYOUT.holds}000000000001.json"}
    repository.create(f"{LAYOUT.holds}000000000001.json", b" " * 101)
    with pytest.raises(EntryUnreadable, match="101 bytes") as unreadable:
        log.last()
    assert unreadable.value.facts["key"] == f"{LAYOUT.holds}000000000001.json"
    assert log.append(Entry(text="y")) == 2, "what comes behind it needs no look at it"


@pytest.mark.fault("F63")
def test_nothing_is_read_of_an_object_that_is_too_large(repository: Repository) -> None:
    assert repository.size("sparse") is None
    with (Path(str(repository.location.path)) / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Damaged) as caught:
        repository.get("sparse")
    assert caught.value.facts == {"key": "sparse", "bytes": 1 << 40, "limit": MOST_BYTES}


@pytest.mark.fault("F63")
@pytest.mark.timeout(60)
def test_a_note_that_is_not_ours_neither_answers_nor_keeps_anybody_waiting(repository: Repository) -> None:
    notes = RunArtifacts(repository, LAYOUT)
    repository.create(LAYOUT.work("run", "cut.zzzz"), b"{}")
    repository.create(LAYOUT.work("run", "cut.99999999999999"), b"{}")
    with pytest.raises(NotFound, match="has left no note cut"):
        notes.read_once(Entry, "run", "cut")
    repository.create(LAYOUT.work("run", "cut.0002"), b'{"text":"two"}')
    mine = notes.write("run", "cut", Entry(text="three"))
    assert mine.key == LAYOUT.work("run", "cut.0003")
    assert notes.read(Entry, mine) == Entry(text="three")
    repository.create(LAYOUT.work("run", "cut.10000"), b'{"text":"later"}')
    assert notes.read(Entry, mine) == Entry(text="three")
    assert notes.reserve("run", "cut") == LAYOUT.work("run", "cut.10001"), "by number, not by name"


@pytest.mark.fault("F63")
@pytest.mark.parametrize("text", ["20269999T999999Z-0123456789", "20261121T012345Z-012345678٣", "20261121T012345Z-01234567890", "x"])
def test_an_id_with_a_time_that_there_is_not_is_none(text: str) -> None:
    assert not is_id(text)


@pytest.mark.fault("F63")
def test_an_id_of_the_last_second_stops_no_clock() -> None:
    mine = new_id(NOW, "run", after=["99991231T235959Z-0123456789"])
    assert is_id(mine)
    assert mine == new_id(NOW, "run")
    soon = new_id(NOW + 86_000_000, "other run")
    assert new_id(NOW, "run", after=[soon]) > soon, "of clocks that differ the newest counts"
    ahead = new_id(NOW + 86_402_000, "a clock that is a day ahead")
    assert soon < new_id(NOW, "run", after=[soon, ahead]) < ahead, "one that is ahead hides none that is not"
