"""A run that lost its lock, or a task that somebody cleared: whenever it goes on, it publishes nothing over the other's work and changes nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import Damaged, Forged, LockLost, Refused, TargetNotEmpty
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.repository.seal import StoredObject
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.topic_holds.compaction_guard import marked
from streams_recovery.core.topic_holds.log import HoldEntry
from streams_recovery.operations import restore, savepoint, topic_holds
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.savepoint import Ticket
from streams_recovery.operations.savepoint.values import CutSummary, GatherSummary, Quiesced
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.applications.savepoint_steps import begun, copied, copy, publish
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import produce

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

    def create(self, key: str, data: bytes, *, previous: str | None = None) -> None:
        self._change(key)
        super().create(key, data, previous=previous)

    def put_file(self, key: str, path: Path) -> None:
        self._change(key)
        super().put_file(key, path)


class Dozing(Repository):
    """A real repository whose process falls asleep the first time it reads a key with ``part`` in it once it has the lock, with what it read in its hands."""

    def __init__(self, real: Repository, part: str, meanwhile: Callable[[], None]) -> None:
        super().__init__(real.location)
        self.part, self.meanwhile, self.locked, self.slept = part, meanwhile, False, False

    def create(self, key: str, data: bytes, *, previous: str | None = None) -> None:
        super().create(key, data, previous=previous)
        self.locked |= "/locks/" in key

    def judged(self, key: str, *, most_bytes: int = MOST_BYTES) -> tuple[StoredObject, Forged | None]:
        found = super().judged(key, most_bytes=most_bytes)
        if self.part in key and self.locked and not self.slept:
            self.slept = True
            self.meanwhile()
        return found


def through(recovery: RecoveryContext, repository: Repository, clock: Callable[[], int] = wall_clock) -> RecoveryContext:
    """The context with another way to its repository, and another clock."""
    return replace(
        recovery,
        repository=repository,
        savepoints=SavepointStore(repository, recovery.layout),
        artifacts=RunArtifacts(repository, recovery.layout),
        hold_log=AppendLog(repository, recovery.layout.holds, HoldEntry),
        lock=ApplicationLock(repository, recovery.layout, clock),
        clock=clock,
    )


def take(recovery: RecoveryContext) -> str:
    """A whole savepoint."""
    return complete(recovery, begun(recovery))


def complete(recovery: RecoveryContext, ticket: Ticket) -> str:
    """The steps after the first, in the order of every run; ranges are copied here, as Spark tasks would."""
    try:
        try:
            cut = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        finally:
            savepoint.resume(recovery, ticket)
        gathered = savepoint.gather(recovery, ticket, *copy(recovery, ticket, cut))
        return savepoint.publish(recovery, ticket, gathered.copied).savepoint_id
    finally:
        savepoint.finish(recovery, ticket)


def configs(recovery: RecoveryContext) -> dict[str, dict[str, str]]:
    mine = [name for name in recovery.cluster.topic_names() if name.startswith(recovery.application_id)]
    return {name: found.config for name, found in recovery.cluster.describe_topics(mine).items()}


def whole(recovery: RecoveryContext, savepoint_id: str) -> bool:
    sizes = {file.key: file.bytes for file in recovery.repository.listed(recovery.layout.segments)}
    return recovery.savepoints.read(savepoint_id).whole(sizes)


def later(leases: int) -> Callable[[], int]:
    return lambda: wall_clock() + leases * (LEASE_SECONDS + 1) * 1000


@pytest.mark.deep
@pytest.mark.fault("F16")
def test_whenever_it_wakes_it_finds_its_lock_lost_and_leaves_the_other_run_s_work_alone(small: Small) -> None:
    recovery, before = small.recovery, configs(small.recovery)
    take(recovery)
    seen: list[str] = []
    while True:
        produce(recovery, small.changelog, 2)
        number = len(seen) + 2  # the first change is the one that takes the lock
        here, there = later(2 * number), later(2 * number + 1)
        known, taken = set(recovery.savepoints.ids()), []
        drowsy = Drowsy(recovery.repository, number, lambda: taken.append(take(through(recovery, recovery.repository, there))))  # noqa: B023
        finished = lost = None
        try:
            finished = take(through(recovery, drowsy, here))
        except LockLost as error:
            lost = str(error)
        if not drowsy.before:
            break
        seen.append(drowsy.before)
        (successor,) = taken
        published = set(recovery.savepoints.ids()) - known - {successor}
        # No store knows of locks: what it is about to write in the moment of the check, it writes. It is whole, and on record.
        assert len(published) == any(key.endswith("manifest.json.zst") for key in seen), drowsy.before
        assert all(whole(recovery, savepoint_id) for savepoint_id in (*published, successor))
        assert (finished is None) == ("no longer holds the lock it took" in str(lost))
        held = {item.hold.topic for item in topic_holds.outstanding(recovery)}
        assert {name for name, config in configs(recovery).items() if config != before[name]} <= held
        assert ApplicationLock(recovery.repository, recovery.layout, here).holder() is None
        if held:
            assert "/holds/" in drowsy.before
            take(through(recovery, recovery.repository, there))
        assert configs(recovery) == before
        assert topic_holds.outstanding(recovery) == ()
    assert len(seen) >= 20, "every change of a savepoint was a moment to sleep at"
    for part in ("/locks/", "/holds/", "/segments/", "cut.", "copy-plan.", "backup-result.", "copied.", "/ranges/", "manifest.json.zst"):
        assert any(part in key for key in seen), (part, seen)


@pytest.mark.deep
@pytest.mark.fault("F16")
@pytest.mark.parametrize("part", ["/holds/", "/cut.", "/copied."])
def test_one_that_wakes_while_the_other_run_works_takes_neither_its_lock_nor_its_guard(small: Small, part: str) -> None:
    recovery, before = small.recovery, configs(small.recovery)
    take(recovery)
    produce(recovery, small.changelog, 2)
    known, awake = recovery.savepoints.ids(), through(recovery, recovery.repository, later(1))
    tickets: list[Ticket] = []
    dozing = Dozing(recovery.repository, part, lambda: tickets.append(begun(awake)))
    with pytest.raises(LockLost) as caught:
        take(through(recovery, dozing))
    assert caught.value.facts.keys() == {"owner", "number"}
    (ticket,) = tickets
    held = awake.lock.holder()
    assert held is not None
    assert held.acquired == ticket.lock.number > caught.value.facts["number"]
    assert {item.run for item in topic_holds.outstanding(recovery)} == {ticket.savepoint_id}
    assert marked(configs(recovery)[small.changelog.topic], ticket.mark)
    assert recovery.savepoints.ids() == known
    savepoint_id = complete(awake, ticket)
    assert whole(recovery, savepoint_id)
    assert (configs(recovery), topic_holds.outstanding(recovery)) == (before, ())


@pytest.mark.deep
def test_one_that_wakes_before_its_guard_when_the_other_run_is_over_guards_nothing(small: Small) -> None:
    recovery, before = small.recovery, configs(small.recovery)
    take(recovery)
    awake = through(recovery, recovery.repository, later(1))
    with pytest.raises(LockLost):
        take(through(recovery, Dozing(recovery.repository, "/holds/", lambda: take(awake))))
    assert (configs(recovery), topic_holds.outstanding(recovery)) == (before, ())


@pytest.mark.fault("F37")
def test_a_chain_without_its_middle_is_refused_by_name_and_the_next_savepoint_is_a_full_one(small: Small) -> None:
    recovery = small.recovery
    ids = chain(small)
    first, middle, last = (
        [file.key for tp, file in found.files() if tp == small.changelog] for found in map(recovery.savepoints.read, ids)
    )
    (lost,) = set(middle) - set(first)
    assert last[:2] == middle, "the last one shares the files of both"
    (Path(str(recovery.config.storage.path)) / lost).unlink()
    for savepoint_id in ids[1:]:
        with pytest.raises(Damaged, match="is not whole") as caught:
            plan(recovery, savepoint_id)
        assert caught.value.facts["savepoint"] == savepoint_id
        assert [file.startswith(f"{lost} is missing ({small.changelog}, ") for file in caught.value.facts["files"]] == [True]
        assert caught.value.exit_code == 6
    with pytest.raises(TargetNotEmpty):
        plan(recovery, ids[0])
    full = recovery.savepoints.read(publish(small))
    assert (full.parent_id, full.records) == (None, recovery.savepoints.read(ids[2]).records)
    assert {file.key for _, file in full.files()} & set(last) == set()
    with pytest.raises(TargetNotEmpty):
        plan(recovery, "latest")
    assert recovery.savepoints.ids() == [*ids, full.savepoint_id]


@pytest.mark.fault("F37")
def test_a_manifest_missing_in_the_middle_breaks_nothing(small: Small) -> None:
    recovery, ids = small.recovery, chain(small)
    recovery.repository.delete([recovery.layout.manifest(ids[1])])
    with pytest.raises(TargetNotEmpty):
        plan(recovery, ids[2])
    assert whole(recovery, ids[2])
    assert recovery.savepoints.read(publish(small)).parent_id == ids[2]


def chain(small: Small) -> list[str]:
    """Three savepoints, each with three records more than the one before it."""
    ids = []
    for _ in range(3):
        produce(small.recovery, small.changelog, 3)
        ids.append(publish(small))
    return ids


def plan(recovery: RecoveryContext, savepoint_id: str) -> None:
    restore.plan(recovery, asked(recovery, savepoint=savepoint_id))


# Airflow takes `begin` along with a task that is cleared, which begins another savepoint, and hands the steps behind it what the first attempt read.

HOURS_LATER = 4 * 3_600_000


@dataclass(frozen=True)
class Read:
    """What the steps of one attempt returned."""

    quiesced: Quiesced
    cut: CutSummary
    plan: JobPlan
    result: ArtifactRef | None
    gathered: GatherSummary


def attempted(recovery: RecoveryContext, ticket: Ticket) -> Read:
    """All steps up to the one that publishes, which is never reached."""
    try:
        quiesced = savepoint.quiesce(recovery, ticket)
        cut = savepoint.capture(recovery, ticket, quiesced)
        plan = savepoint.plan_copy(recovery, ticket, cut.draft)
        result = copied(recovery, plan)
        return Read(quiesced, cut, plan, result, savepoint.gather(recovery, ticket, plan.plan, result))
    finally:
        savepoint.finish(recovery, ticket)


CLEARED: dict[str, Callable[[RecoveryContext, Ticket, Read], object]] = {
    "capture": lambda recovery, ticket, read: savepoint.capture(recovery, ticket, read.quiesced),
    "plan_copy": lambda recovery, ticket, read: savepoint.plan_copy(recovery, ticket, read.cut.draft),
    "gather": lambda recovery, ticket, read: savepoint.gather(recovery, ticket, read.plan.plan, read.result),
    "publish": lambda recovery, ticket, read: savepoint.publish(recovery, ticket, read.gathered.copied),
}


@pytest.mark.deep
@pytest.mark.fault("F20")
@pytest.mark.parametrize("task", CLEARED)
def test_what_an_earlier_attempt_has_read_is_in_no_savepoint(small: Small, task: str) -> None:
    recovery = small.recovery
    produce(recovery, small.changelog, 3)
    first = begun(recovery)
    read = attempted(recovery, first)
    later = replace(recovery, clock=lambda: wall_clock() + HOURS_LATER)
    second = savepoint.begin(later, first.request)
    try:
        assert second.savepoint_id != first.savepoint_id
        with pytest.raises(Refused, match="another attempt") as caught:
            CLEARED[task](later, second, read)
        assert caught.value.facts["attempt"] == second.savepoint_id
        assert first.savepoint_id in str(caught.value.facts["what"])
        assert recovery.savepoints.ids() == []
    finally:
        savepoint.finish(recovery, second)
