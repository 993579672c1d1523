"""The lock of an application on each kind of store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from streams_recovery.core.errors import LockHeld, LockLost, Refused
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LEASE_SECONDS, LockTicket
from streams_recovery.storage.lock import ApplicationLock
from tests.support.storage.contract import OpenRepository

START = 1_800_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: int) -> None:
        self.now += seconds * 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def locks(open_repository: OpenRepository, clock: Clock) -> tuple[ApplicationLock, ApplicationLock]:
    """The same lock as two processes see it."""
    return ApplicationLock(open_repository(), Layout("orders"), clock), ApplicationLock(open_repository(), Layout("orders"), clock)


@pytest.mark.fault("F14")
def test_the_second_is_told_who_holds_it_for_what_since_and_until_when(locks: tuple[ApplicationLock, ...], clock: Clock) -> None:
    mine, theirs = locks
    mine.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    clock.forward(20)
    with pytest.raises(LockHeld, match=r"backup 1 .*hourly savepoint.*20 s.*40 s") as caught:
        theirs.acquire("restore 2", lease_seconds=60, purpose="restore")
    assert caught.value.facts["owner"] == "backup 1"
    assert caught.value.exit_code == 5


@pytest.mark.fault("F14")
def test_of_many_that_want_it_one_gets_it(open_repository: OpenRepository, clock: Clock) -> None:
    def attempt(number: int) -> LockTicket | None:
        try:
            return ApplicationLock(open_repository(), Layout("orders"), clock).acquire(f"run {number}", lease_seconds=60, purpose="race")
        except LockHeld:
            return None

    with ThreadPoolExecutor(6) as pool:
        tickets = [ticket for ticket in pool.map(attempt, range(6)) if ticket]
    assert len(tickets) == 1
    holder = ApplicationLock(open_repository(), Layout("orders"), clock).holder()
    assert holder is not None
    assert holder.owner == tickets[0].owner


@pytest.mark.fault("F20")
def test_a_retried_task_gets_its_own_lock_back(locks: tuple[ApplicationLock, ...], clock: Clock) -> None:
    first = locks[0].acquire("run", lease_seconds=60, purpose="p")
    clock.forward(10)
    assert locks[1].acquire("run", lease_seconds=60, purpose="p") == first
    clock.forward(55)
    assert locks[0].holder() is not None, "acquiring again lengthens the lease"


def test_a_released_lock_is_free_and_releasing_again_is_harmless(locks: tuple[ApplicationLock, ...]) -> None:
    mine, theirs = locks
    ticket = mine.acquire("a", lease_seconds=60, purpose="p")
    mine.release(ticket)
    assert mine.holder() is None
    successor = theirs.acquire("b", lease_seconds=60, purpose="p")
    mine.release(ticket)
    assert successor.number > ticket.number
    holder = theirs.holder()
    assert holder is not None
    assert (holder.owner, holder.took_over_from) == ("b", None)


@pytest.mark.fault("F16")
def test_an_expired_lock_is_taken_over_in_writing_and_its_owner_finds_out(locks: tuple[ApplicationLock, ...], clock: Clock) -> None:
    sleeper, successor = locks
    old = sleeper.acquire("sleeper", lease_seconds=60, purpose="p")
    clock.forward(60)
    new = successor.acquire("successor", lease_seconds=60, purpose="p")
    holder = successor.holder()
    assert holder is not None
    assert holder.took_over_from == "sleeper"
    assert new.number > old.number
    with pytest.raises(LockLost, match="successor"):
        sleeper.renew(old, lease_seconds=60)
    sleeper.release(old)
    assert successor.holder() == holder, "what the old owner does changes nothing"


def test_renewing_keeps_others_out_and_revives_what_nobody_took(locks: tuple[ApplicationLock, ...], clock: Clock) -> None:
    mine, theirs = locks
    ticket = mine.acquire("mine", lease_seconds=60, purpose="p")
    clock.forward(50)
    mine.renew(ticket, lease_seconds=60)
    clock.forward(50)
    with pytest.raises(LockHeld):
        theirs.acquire("theirs", lease_seconds=60, purpose="p")
    clock.forward(500)
    mine.renew(ticket, lease_seconds=60)
    with pytest.raises(LockHeld):
        theirs.acquire("theirs", lease_seconds=60, purpose="p")


def test_a_ticket_that_was_never_given_is_worth_nothing(locks: tuple[ApplicationLock, ...]) -> None:
    with pytest.raises(LockLost):
        locks[0].renew(LockTicket(owner="forger", number=1), lease_seconds=60)
    locks[0].acquire("owner", lease_seconds=60, purpose="p")
    with pytest.raises(LockLost):
        locks[1].renew(LockTicket(owner="forger", number=1), lease_seconds=60)


def test_a_dead_run_s_lock_can_be_taken_and_if_it_lives_it_notices(locks: tuple[ApplicationLock, ...]) -> None:
    mine, theirs = locks
    ticket = mine.acquire("backup 1", lease_seconds=1_800, purpose="hourly savepoint")
    with pytest.raises(Refused) as caught:
        theirs.take_from("backup 2")
    assert caught.value.facts == {"owner": "backup 1", "named": "backup 2"}
    assert theirs.take_from("backup 1")
    assert theirs.holder() is None
    assert not theirs.take_from("backup 1"), "there is nothing left to take"
    theirs.acquire("restore 2", lease_seconds=60, purpose="restore")
    with pytest.raises(LockLost):
        mine.renew(ticket, lease_seconds=60)


def test_forgetting_old_records_changes_nothing_about_whose_turn_it_is(locks: tuple[ApplicationLock, ...]) -> None:
    mine, theirs = locks
    for number in range(5):
        mine.release(mine.acquire(f"run {number}", lease_seconds=60, purpose="p"))
    ticket = mine.acquire("run 5", lease_seconds=60, purpose="p")
    mine.renew(ticket, lease_seconds=60)
    assert theirs.forget(1) == 11
    with pytest.raises(LockHeld, match="run 5"):
        theirs.acquire("run 6", lease_seconds=60, purpose="p")
    mine.renew(ticket, lease_seconds=60)
    mine.release(ticket)
    assert theirs.acquire("run 6", lease_seconds=60, purpose="p").number > ticket.number


def test_looking_whether_a_lock_is_held_adds_nothing_and_sees_what_ended_it(locks: tuple[ApplicationLock, ...], clock: Clock) -> None:
    mine, theirs = locks
    ticket = mine.acquire("restore 1", lease_seconds=60, purpose="restore")
    clock.forward(600)
    assert theirs.holds(ticket), "a lease that ran out takes the lock from nobody"
    mine.renew(ticket, lease_seconds=60)
    assert mine.holds(ticket)
    assert theirs.take_from("restore 1")
    assert not mine.holds(ticket)
    again = theirs.acquire("restore 1", lease_seconds=60, purpose="restore")
    assert theirs.holds(again)
    assert not mine.holds(ticket), "the same owner's next acquisition is another one"


@pytest.mark.fault("F16")
def test_a_release_that_comes_too_late_leaves_the_lock_to_whoever_took_it(open_repository: OpenRepository, clock: Clock) -> None:
    """Between the look at the lock and the release of it: the lease has run out, and somebody else was faster."""
    theirs = ApplicationLock(open_repository(), Layout("orders"), clock)
    taken: list[LockTicket] = []

    def late() -> int:
        if clock.now > START and not taken:
            taken.append(theirs.acquire("restore 2", lease_seconds=60, purpose="restore"))
        return clock()

    mine = ApplicationLock(open_repository(), Layout("orders"), late)
    ticket = mine.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    clock.forward(61)
    mine.release(ticket)
    (other,) = taken
    assert theirs.holds(other)
    assert not mine.holds(ticket)
    holder = mine.holder()
    assert holder is not None
    assert holder.owner == "restore 2"
    theirs.renew(other, lease_seconds=60)


def overtaken(open_repository: OpenRepository, clock: Clock, overtake: Callable[[ApplicationLock], object]) -> ApplicationLock:
    """A lock whose newest record, the first, cannot be read and is older than a lease; ``overtake`` comes between its look at that and its takeover."""
    repository, key = open_repository(), f"{Layout('orders').locks}000000000001.json"
    repository.create(key, b"")
    written = repository.modified(key)
    assert written is not None
    clock.now = written + LEASE_SECONDS * 1000
    faster = [ApplicationLock(open_repository(), Layout("orders"), clock)]

    def late() -> int:
        if faster:
            overtake(faster.pop())
        return clock()

    return ApplicationLock(repository, Layout("orders"), late, name="orders")


def test_a_lock_that_another_run_was_faster_to_take_over_is_theirs(open_repository: OpenRepository, clock: Clock) -> None:
    slower = overtaken(open_repository, clock, lambda faster: faster.acquire("restore 2", lease_seconds=60, purpose="restore"))
    with pytest.raises(LockHeld, match="restore 2 holds the lock") as error:
        slower.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    assert [one for one in error.value.commands if "unlock orders" in one], "how to give it back, as for any other"


def test_what_the_faster_one_gave_back_is_taken_behind_it(open_repository: OpenRepository, clock: Clock) -> None:
    slower = overtaken(
        open_repository, clock, lambda faster: faster.release(faster.acquire("restore 2", lease_seconds=60, purpose="restore"))
    )
    ticket = slower.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    assert ticket == LockTicket(owner="backup 1", number=4)
    assert slower.holds(ticket)
