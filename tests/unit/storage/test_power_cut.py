"""SIGKILL at any moment, and a power cut that forgets what was not synced: what was said to be written is there, and nothing is half there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from streams_recovery.application.instance_record import Ended, InstanceFiles
from streams_recovery.application.local_state import wipe
from streams_recovery.core.durable import sync_directory
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.engine.spark_home import build_package
from streams_recovery.storage import open_store
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import AlreadyExists, Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.storage.contract import LAYOUT, Entry
from tests.support.storage.power_cut import Change, Disk, Kept, Killed, Synced

NOW = 1_800_000_000_000
SEGMENT = bytes(range(100))
OLD = "20261120T012345Z-0123456789"


@dataclass
class Said:
    """What a caller was told to be written and to be removed, and what it began to remove, each after how many events."""

    disk: Disk
    there: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    removing: dict[str, int] = field(default_factory=dict)


def manifest(savepoint_id: str) -> Manifest:
    piece = copied(0, 10)
    file = replace(piece.file, sha256=sha256(SEGMENT).hexdigest(), bytes=len(SEGMENT))
    whole = manifest_with(partition([replace(piece, file=file)], [], end=10))
    return replace(whole, savepoint_id=savepoint_id)


def run(root: Path, said: Said, number: int) -> None:
    """What a savepoint and an expiry do to a repository, in their order, by the same code."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(root)))
    source = root.parent / "source"
    source.write_bytes(SEGMENT)

    def done(*keys: str) -> None:
        said.there |= {key: said.disk.now for key in keys if key not in said.there}

    lock = ApplicationLock(repository, LAYOUT, lambda: NOW)
    ticket = lock.acquire("run", lease_seconds=60, purpose="savepoint")
    done(f"{LAYOUT.locks}{ticket.number:012}.json")
    store = SavepointStore(repository, LAYOUT)
    for savepoint_id in (OLD, f"2026112{number}T012345Z-0123456789"):
        published = manifest(savepoint_id)
        segment = published.topics[0].partitions[0].ranges[0].file.key
        with contextlib.suppress(AlreadyExists):
            repository.put_file(segment, source)
        done(segment)
        if savepoint_id not in store.ids() and not list(repository.keys(f"{LAYOUT.retired_prefix}{savepoint_id}/")):
            store.publish(published)
            done(LAYOUT.manifest(savepoint_id), LAYOUT.published(savepoint_id))
    log = AppendLog(repository, LAYOUT.holds, Entry)
    at = log.append(Entry(text=f"entry {number}"))
    done(f"{LAYOUT.holds}{at:012}.json")
    if OLD in store.ids():
        copy = store.retire(OLD, at=NOW)
        done(copy)
        said.removing[LAYOUT.manifest(OLD)] = said.disk.now
        repository.delete([LAYOUT.manifest(OLD)])
        said.gone[LAYOUT.manifest(OLD)] = said.disk.now
    lock.renew(ticket, lease_seconds=60)
    lock.release(ticket)


def check(place: Path, said: Said, at: int) -> int:
    """Look at what a power cut has left as a later run does, and return how many savepoints it has."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(place)))
    keys = set(repository.keys(""))
    for key, since in said.there.items():
        assert since > at or key in keys or said.removing.get(key, at) < at, f"{key} was said to be there"
    for key, since in said.gone.items():
        assert since > at or key not in keys, f"{key} was said to be gone"
    assert all(repository.size(key) for key in keys), "a file is there whole or not at all"
    store = SavepointStore(repository, LAYOUT)
    for savepoint_id in store.ids():
        for topic in store.read(savepoint_id).topics:
            for piece in (piece for one in topic.partitions for piece in one.ranges):
                assert piece.file is None or repository.get(piece.file.key) == SEGMENT
    AppendLog(repository, LAYOUT.holds, Entry).read_all()
    later = ApplicationLock(repository, LAYOUT, lambda: NOW + 3_600_000)
    later.release(later.acquire("after the cut", lease_seconds=60, purpose="savepoint"))
    return len(store.ids())


def cuts(seed: int) -> list[Kept]:
    """Nothing that was not synced stays; everything does, with empty files; some of it."""
    some = random.Random(seed)
    return [lambda *_: 0, lambda _, later: later, lambda _, later: some.randint(0, later)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The recording says what was synced; the disk below it need not be.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    open_store.forget_synced()
    return tmp_path / "disk" / "repository"


def begun(root: Path) -> Said:
    root.parent.mkdir()
    return Said(Disk(root.parent))


def test_a_power_cut_at_any_moment_takes_nothing_that_was_said_to_be_there(root: Path, tmp_path: Path) -> None:
    said = begun(root)
    with said.disk.recorded():
        run(root, said, 1)
    seen = set()
    for at in range(said.disk.now + 1):
        for number, kept in enumerate(cuts(at)):
            place = tmp_path / f"cut-{at}-{number}"
            said.disk.after_cut(at, kept, place)
            seen.add(check(place / "repository", said, at))
    assert said.disk.now > 50
    assert seen == {0, 1, 2}


def test_what_a_killed_run_left_unsynced_is_synced_by_the_next_one_that_builds_on_it(root: Path, tmp_path: Path) -> None:
    begun(root)
    alone = Said(Disk(root.parent))
    with alone.disk.recorded():
        run(root, alone, 1)
    seen = set()
    for dies_at in range(alone.disk.now):
        place = tmp_path / f"killed-{dies_at}" / "repository"
        place.parent.mkdir()
        said = Said(Disk(place.parent, dies_at=dies_at))
        open_store.forget_synced()
        with said.disk.recorded(), pytest.raises(Killed):
            run(place, said, 1)
        said.disk.dies_at = None
        open_store.forget_synced()
        with said.disk.recorded():
            run(place, said, 2)
        end = said.disk.now
        for number, kept in enumerate(cuts(dies_at)):
            said.disk.after_cut(end, kept, tmp_path / f"{dies_at}-{number}")
            seen.add(check(tmp_path / f"{dies_at}-{number}" / "repository", said, end))
    # The second run's, the first one's when it got that far, and an old one whose removal was not synced: it is back, and whole.
    assert seen == {1, 2, 3}


def made(open_store: Path) -> Path:
    """A directory that was there long before."""
    open_store.mkdir()
    sync_directory(open_store.parent)
    return open_store


def a_record(root: Path) -> Callable[[Path], bool]:
    """The record of an instance, which replaces an earlier one."""
    files = InstanceFiles(root, "one")
    made(files.home)
    for status in (1, 2):
        files.write(Ended(run="r", status=status, left_behind=0, stop_request=None, at=status))
    return lambda place: InstanceFiles(place, "one").ended("r") == files.ended("r")


def no_local_state(root: Path) -> Callable[[Path], bool]:
    """Local state, which is gone."""
    (made(root / "app") / "rocksdb").write_bytes(b"stale")
    sync_directory(root / "app")
    assert wipe([root], "app").removed == (str(root / "app"),)
    return lambda place: place.exists() and not (place / "app").exists()


def a_package(root: Path) -> Callable[[Path], bool]:
    """The package for Spark, which is made again when it is not there."""
    package = build_package(root)
    return lambda place: not (place / package.name).exists() or (place / package.name).read_bytes() == package.read_bytes()


@pytest.mark.parametrize("writer", [a_record, no_local_state, a_package])
def test_what_is_kept_beside_the_repository_outlasts_a_power_cut(
    root: Path, tmp_path: Path, writer: Callable[[Path], Callable[[Path], bool]]
) -> None:
    disk = begun(root).disk
    with disk.recorded():
        holds = writer(made(root))
    assert disk.now > 3
    for number, kept in enumerate(cuts(0)):
        disk.after_cut(disk.now, kept, tmp_path / f"cut-{number}")
        assert holds(tmp_path / f"cut-{number}" / root.name)


class Told(Disk):
    """Tells another process of all that happens, and waits after each event until it may go on."""

    def __init__(self, root: Path, to: Connection) -> None:
        super().__init__(root)
        self.said, self.to = Said(self), to

    def note(self, event: Change | Synced) -> None:
        super().note(event)
        self.to.send((event, self.directories, self.uses, self.said.there, self.said.gone, self.said.removing))
        self.to.recv()


def write(root: Path, to: Connection) -> None:
    """What the process does that is killed."""
    os.fsync = lambda _: None
    disk = Told(root.parent, to)
    with disk.recorded():
        run(root, disk.said, 1)
    to.close()


def killed_after(events: int, root: Path) -> tuple[Said, bool]:
    """What a process had said when SIGKILL ended it, at any moment between this event and the next one; and whether it was over before."""
    context = multiprocessing.get_context("forkserver")
    # Nothing of this process is in the other one: what is imported is imported once.
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    writer = context.Process(target=write, args=(root, theirs))
    writer.start()
    theirs.close()
    said = Said(Disk(root.parent))
    with contextlib.suppress(EOFError):
        while said.disk.now <= events:
            event, said.disk.directories, said.disk.uses, said.there, said.gone, said.removing = ours.recv()
            said.disk.events.append(event)
            ours.send("go on")
    over = said.disk.now <= events
    if not over:
        writer.kill()
    writer.join()
    assert writer.exitcode == (0 if over else -signal.SIGKILL)
    said.disk.catch_up()
    return said, over


def test_a_process_that_is_killed_leaves_a_repository_that_is_whole_and_the_next_one_goes_on(root: Path, tmp_path: Path) -> None:
    seen, at, over = set(), 0, False
    while not over:
        place = tmp_path / f"killed-{at}" / "repository"
        place.parent.mkdir()
        said, over = killed_after(at, place)
        # It alone is gone, and then the power too.
        shutil.copytree(place.parent, tmp_path / f"{at}-alone")
        check(tmp_path / f"{at}-alone" / "repository", said, said.disk.now)
        for number, kept in enumerate(cuts(at)):
            said.disk.after_cut(said.disk.now, kept, tmp_path / f"{at}-{number}")
            check(tmp_path / f"{at}-{number}" / "repository", said, said.disk.now)
        open_store.forget_synced()
        with said.disk.recorded():
            run(place, said, 2)
        for number, kept in enumerate(cuts(at)):
            said.disk.after_cut(said.disk.now, kept, tmp_path / f"{at}-{number}-later")
            seen.add(check(tmp_path / f"{at}-{number}-later" / "repository", said, said.disk.now))
        at += 17
    assert at > 50, "it died more than twice"
    assert seen >= {1, 2}
