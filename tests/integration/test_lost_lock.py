"""A run that slept while another took its lock over: whenever it wakes, it publishes nothing over the other's work and changes nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.bounded_json import MOST_BYTES
from streams_recovery.core.errors import Damaged, LockLost, TargetNotEmpty
from streams_recovery.core.topic_holds.compaction_guard import marked
from streams_recovery.core.topic_holds.log import HoldEntry
from streams_recovery.operations import restore, savepoint, topic_holds
from streams_recovery.operations.context import Workbench, wall_clock
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.savepoint import Ticket
from streams_recovery.storage.append_log import NumberedLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import Notes
from streams_recovery.storage.savepoints import SavepointStore
from tests.integration.small import Small, asked, begun, copy, produce, publish

pytestmark = pytest.mark.kafka


class Drowsy(Repository):
    """A real repository whose process falls asleep right before its n-th change. ``meanwhile`` is what others do until it wakes up."""

    def __init__(self, real: Repository, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(real.location)
        self.changes, self.at, self.meanwhile, self.before = 0, at, meanwhile, ""

    def _change(self, key: str) -> None:
        self.changes += 1
        if self.changes == self.at:
            self.before = key
            self.meanwhile()

    def create(self, key: str, data: bytes) -> None:
        self._change(key)
        super().create(key, data)

    def put_file(self, key: str, path: Path) -> None:
        self._change(key)
        super().put_file(key, path)


class Dozing(Repository):
    """A real repository whose process falls asleep the first time it reads a key with ``part`` in it, with what it read in its hands."""

    def __init__(self, real: Repository, part: str, meanwhile: Callable[[], None]) -> None:
        super().__init__(real.location)
        self.part, self.meanwhile, self.slept = part, meanwhile, False

    def get(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        data = super().get(key, most_bytes=most_bytes)
        if self.part in key and not self.slept:
            self.slept = True
            self.meanwhile()
        return data


def through(bench: Workbench, repository: Repository, clock: Callable[[], int] = wall_clock) -> Workbench:
    """The bench with another way to its repository, and another clock."""
    return replace(
        bench,
        repository=repository,
        savepoints=SavepointStore(repository, bench.layout),
        notes=Notes(repository, bench.layout),
        hold_log=NumberedLog(repository, bench.layout.holds, HoldEntry),
        lock=ApplicationLock(repository, bench.layout, clock),
        clock=clock,
    )


def take(bench: Workbench) -> str:
    """A whole savepoint."""
    return complete(bench, begun(bench))


def complete(bench: Workbench, ticket: Ticket) -> str:
    """The steps after the first, in the order of every run; ranges are copied here, as Spark tasks would."""
    try:
        try:
            cut = savepoint.capture(bench, ticket, savepoint.quiesce(bench, ticket))
        finally:
            savepoint.resume(bench, ticket)
        gathered = savepoint.gather(bench, ticket, *copy(bench, ticket, cut))
        return savepoint.publish(bench, ticket, gathered.copied).savepoint_id
    finally:
        savepoint.finish(bench, ticket)


def configs(bench: Workbench) -> dict[str, dict[str, str]]:
    mine = [name for name in bench.cluster.topic_names() if name.startswith(bench.application_id)]
    return {name: found.config for name, found in bench.cluster.describe_topics(mine).items()}


def whole(bench: Workbench, savepoint_id: str) -> bool:
    sizes = {file.key: file.bytes for file in bench.repository.listed(bench.layout.segments)}
    return bench.savepoints.read(savepoint_id).whole(sizes)


def later(leases: int) -> Callable[[], int]:
    return lambda: wall_clock() + leases * (LEASE_SECONDS + 1) * 1000


@pytest.mark.fault("F16")
def test_whenever_it_wakes_it_finds_its_lock_lost_and_leaves_the_other_run_s_work_alone(small: Small) -> None:
    bench, before = small.bench, configs(small.bench)
    take(bench)
    seen: list[str] = []
    while True:
        produce(bench, small.changelog, 2)
        number = len(seen) + 2  # the first change is the one that takes the lock
        here, there = later(2 * number), later(2 * number + 1)
        known, taken = set(bench.savepoints.ids()), []
        drowsy = Drowsy(bench.repository, number, lambda: taken.append(take(through(bench, bench.repository, there))))  # noqa: B023
        finished = lost = None
        try:
            finished = take(through(bench, drowsy, here))
        except LockLost as error:
            lost = str(error)
        if not drowsy.before:
            break
        seen.append(drowsy.before)
        (successor,) = taken
        published = set(bench.savepoints.ids()) - known - {successor}
        # No store knows of locks: what it is about to write in the moment of the check, it writes. It is whole, and on record.
        assert len(published) == any(key.endswith("manifest.json.zst") for key in seen), drowsy.before
        assert all(whole(bench, savepoint_id) for savepoint_id in (*published, successor))
        assert (finished is None) == ("no longer holds the lock it took" in str(lost))
        held = {item.hold.topic for item in topic_holds.outstanding(bench)}
        assert {name for name, config in configs(bench).items() if config != before[name]} <= held
        assert ApplicationLock(bench.repository, bench.layout, here).holder() is None
        if held:
            assert "/holds/" in drowsy.before
            take(through(bench, bench.repository, there))
        assert configs(bench) == before
        assert topic_holds.outstanding(bench) == ()
    assert len(seen) >= 20, "every change of a savepoint was a moment to sleep at"
    for part in ("/locks/", "/holds/", "/segments/", "cut.", "copy-plan.", "backup-result.", "copied.", "manifest.json.zst"):
        assert any(part in key for key in seen), (part, seen)


@pytest.mark.fault("F16")
@pytest.mark.parametrize("part", ["/holds/", "/cut.", "/copied."])
def test_one_that_wakes_while_the_other_run_works_takes_neither_its_lock_nor_its_guard(small: Small, part: str) -> None:
    bench, before = small.bench, configs(small.bench)
    take(bench)
    produce(bench, small.changelog, 2)
    known, awake = bench.savepoints.ids(), through(bench, bench.repository, later(1))
    tickets: list[Ticket] = []
    dozing = Dozing(bench.repository, part, lambda: tickets.append(begun(awake)))
    with pytest.raises(LockLost, match=r"no longer holds the lock it took as number \d+"):
        take(through(bench, dozing))
    (ticket,) = tickets
    held = awake.lock.holder()
    assert held is not None
    assert held.acquired == ticket.lock.number
    assert {item.run for item in topic_holds.outstanding(bench)} == {ticket.savepoint_id}
    assert marked(configs(bench)[small.changelog.topic], ticket.mark)
    assert bench.savepoints.ids() == known
    savepoint_id = complete(awake, ticket)
    assert whole(bench, savepoint_id)
    assert (configs(bench), topic_holds.outstanding(bench)) == (before, ())


def test_one_that_wakes_before_its_guard_when_the_other_run_is_over_guards_nothing(small: Small) -> None:
    bench, before = small.bench, configs(small.bench)
    take(bench)
    awake = through(bench, bench.repository, later(1))
    with pytest.raises(LockLost):
        take(through(bench, Dozing(bench.repository, "/holds/", lambda: take(awake))))
    assert (configs(bench), topic_holds.outstanding(bench)) == (before, ())


@pytest.mark.fault("F37")
def test_a_chain_without_its_middle_is_refused_by_name_and_the_next_savepoint_is_a_full_one(small: Small) -> None:
    bench = small.bench
    ids = chain(small)
    first, middle, last = ([file.key for tp, file in found.files() if tp == small.changelog] for found in map(bench.savepoints.read, ids))
    (lost,) = set(middle) - set(first)
    assert last[:2] == middle, "the last one shares the files of both"
    (Path(str(bench.config.storage.path)) / lost).unlink()
    for savepoint_id in ids[1:]:
        with pytest.raises(Damaged, match=rf"savepoint {savepoint_id} is not whole, 1 of its files .*: {lost} is missing \(") as caught:
            plan(bench, savepoint_id)
        assert f"{small.changelog}, offsets" in str(caught.value)
        assert caught.value.exit_code == 6
    with pytest.raises(TargetNotEmpty):
        plan(bench, ids[0])
    full = bench.savepoints.read(publish(small))
    assert (full.parent_id, full.records) == (None, bench.savepoints.read(ids[2]).records)
    assert {file.key for _, file in full.files()} & set(last) == set()
    with pytest.raises(TargetNotEmpty):
        plan(bench, "latest")
    assert bench.savepoints.ids() == [*ids, full.savepoint_id]


@pytest.mark.fault("F37")
def test_a_manifest_missing_in_the_middle_breaks_nothing(small: Small) -> None:
    bench, ids = small.bench, chain(small)
    bench.repository.delete([bench.layout.manifest(ids[1])])
    with pytest.raises(TargetNotEmpty):
        plan(bench, ids[2])
    assert whole(bench, ids[2])
    assert bench.savepoints.read(publish(small)).parent_id == ids[2]


def chain(small: Small) -> list[str]:
    """Three savepoints, each with three records more than the one before it."""
    ids = []
    for _ in range(3):
        produce(small.bench, small.changelog, 3)
        ids.append(publish(small))
    return ids


def plan(bench: Workbench, savepoint_id: str) -> None:
    restore.plan(bench, asked(bench, savepoint=savepoint_id))
