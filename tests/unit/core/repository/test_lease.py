"""The lock's decisions, tried as any mixture of owners, waiting and repeating."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import LockHeld, LockLost
from streams_recovery.core.repository import lease
from streams_recovery.core.repository.lease import HolderProcess, LockRecord, LockTicket
from streams_recovery.core.words import is_id, new_id

OWNERS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["acquire", "renew", "release", "wait"]), OWNERS, st.integers(1, 40)), max_size=40)
LEASE = 30


DEAD = HolderProcess(host="here", boot="b", namespace="n", pid=7, born="b/1")


@pytest.mark.fault("F14")
@given(STEPS)
def test_nobody_loses_an_unexpired_lock_to_another(steps: list[tuple[str, str, int]]) -> None:
    log: list[LockRecord] = []
    tickets: dict[str, LockTicket] = {}
    now = 0
    for verb, owner, pause in steps:
        last = log[-1] if log else None
        before = lease.holder(last, now)
        ticket = tickets.get(owner, LockTicket(owner=owner, number=10_000))
        try:
            if verb == "wait":
                now += pause
            elif verb == "acquire":
                record = lease.acquisition(last, len(log) + 1, owner=owner, purpose="p", now=now, lease_ms=LEASE)
                log.append(record)
                tickets[owner] = LockTicket(owner=owner, number=record.acquired)
                assert before is None or before.owner == owner
            elif verb == "renew":
                log.append(lease.renewal(last, ticket, now=now, lease_ms=LEASE))
                assert last is not None
                assert last.owner == owner
            elif (released := lease.release(last, ticket, now=now)) is not None:
                log.append(released)
                assert last is not None
                assert last.owner == owner
        except LockHeld:
            assert before is not None
            assert before.owner != owner
        except LockLost:
            assert last is None or last.acquired != ticket.number or last.kind == "release"
    acquired = [record.acquired for record in log]
    assert acquired == sorted(acquired), "the number of the lock only grows"
    taken = [(number, record) for number, record in enumerate(log, 1) if record.kind == "acquire"]
    assert all(record.acquired == number for number, record in taken)


@given(st.integers(0, 100), OWNERS, OWNERS)
def test_a_takeover_is_written_down_and_only_then(waited: int, first: str, second: str) -> None:
    last = lease.acquisition(None, 1, owner=first, purpose="p", now=0, lease_ms=LEASE)
    if waited < LEASE and first != second:
        with pytest.raises(LockHeld):
            lease.acquisition(last, 2, owner=second, purpose="p", now=waited, lease_ms=LEASE)
        return
    record = lease.acquisition(last, 2, owner=second, purpose="p", now=waited, lease_ms=LEASE)
    assert record.took_over_from == (first if first != second else None)


@given(OWNERS, OWNERS, st.booleans())
def test_a_lock_whose_holder_is_proven_dead_is_taken_at_once_and_no_other(first: str, second: str, dead: bool) -> None:
    last = lease.acquisition(None, 1, owner=first, purpose="p", now=0, lease_ms=LEASE, process=DEAD)
    if first != second and not dead:
        with pytest.raises(LockHeld):
            lease.acquisition(last, 2, owner=second, purpose="p", now=1, lease_ms=LEASE)
        return
    record = lease.acquisition(last, 2, owner=second, purpose="p", now=1, lease_ms=LEASE, dead=dead)
    assert (record.kind, record.acquired) == (("acquire", 2) if first != second else ("renew", 1))
    assert record.took_over_from == (first if first != second else None)


def test_a_renewal_keeps_whose_process_it_is_and_a_release_ends_it() -> None:
    last = lease.acquisition(None, 1, owner="a", purpose="p", now=0, lease_ms=LEASE, process=DEAD)
    ticket = LockTicket(owner="a", number=1)
    assert lease.renewal(last, ticket, now=1, lease_ms=LEASE).process == DEAD
    released = lease.release(last, ticket, now=1)
    assert released is not None
    assert released.process is None


def test_a_lease_ends_at_its_last_millisecond() -> None:
    last = lease.acquisition(None, 1, owner="a", purpose="p", now=0, lease_ms=LEASE)
    assert lease.holder(last, LEASE - 1) == last
    assert lease.holder(last, LEASE) is None


def test_a_released_lock_cannot_be_renewed() -> None:
    last = lease.acquisition(None, 1, owner="a", purpose="p", now=0, lease_ms=LEASE)
    ticket = LockTicket(owner="a", number=1)
    released = lease.release(last, ticket, now=1)
    assert released is not None
    assert lease.holder(released, 1) is None
    assert lease.release(released, ticket, now=2) is None
    with pytest.raises(LockLost):
        lease.renewal(released, ticket, now=2, lease_ms=LEASE)


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 4_000_000_000_000), st.text())
def test_savepoint_ids_sort_by_time_and_name_their_run(one: int, other: int, run: str) -> None:
    first, second = new_id(one, run), new_id(other, run)
    assert is_id(first)
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{10}", first)
    assert (first < second) == (one // 1000 < other // 1000)
    assert first.rpartition("-")[2] == second.rpartition("-")[2]


@given(st.integers(0, 4_000_000_000_000), st.integers(-86_390_000, 10**9), st.text(), st.text())
def test_a_later_savepoint_sorts_last_whatever_the_clocks_say(at: int, skew: int, run: str, next_run: str) -> None:
    first = new_id(at, run)
    later = max(0, at + skew)
    second = new_id(later, next_run, after=[first])
    assert second > first
    assert is_id(second)
    if later // 1000 > at // 1000:
        assert second == new_id(later, next_run)


def test_other_runs_have_other_ids() -> None:
    assert new_id(0, "run 1") != new_id(0, "run 2")
