"""The lock of an application as pure decisions over its newest record.

A lock is a log of numbered records, each created only if its number was free; the newest one says how things stand. Taking, renewing and
releasing add a record behind the newest one that was read, so of two runs that decide at one moment exactly one succeeds, and the other
reads again. Nothing is rewritten or deleted. A lock's *number* is that of the record that took it: it only ever grows, so a run that slept
through its lease sees a higher number and knows that it must stop.

Leases are wall clock times of the run that wrote them. A clock that is wrong by more than the lease breaks the promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from streams_recovery.core.errors import LockHeld, LockLost


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecord:
    """One record. Times are epoch milliseconds. ``took_over`` names the owner whose expired lock ended with this one, ``broken_by`` the person
    or run that released it in the owner's place.
    """

    lock: int
    owner: str
    purpose: str
    taken_at: int
    written_at: int
    expires_at: int
    released: bool
    took_over: str | None
    broken_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTicket:
    """Proof of holding: the lock's number, and who holds it. Renewing does not change it, so it can be handed from task to task."""

    number: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a run wants the lock for, and for how long at a time."""

    owner: str
    purpose: str
    lease_ms: int


def acquire(newest: LockRecord | None, next_number: int, claim: Claim, now: int) -> LockRecord:
    """The record that takes the lock, or goes on with a lock that this owner already has. Raises ``LockHeld``."""
    if newest is not None and not newest.released:
        if newest.owner == claim.owner:
            return replace(newest, written_at=now, expires_at=max(newest.expires_at, now + claim.lease_ms))
        if newest.expires_at > now:
            raise held(newest, now)
    expired_owner = newest.owner if newest is not None and not newest.released else None
    return LockRecord(
        lock=next_number,
        owner=claim.owner,
        purpose=claim.purpose,
        taken_at=now,
        written_at=now,
        expires_at=now + claim.lease_ms,
        released=False,
        took_over=expired_owner,
        broken_by=None,
    )


def renew(newest: LockRecord | None, ticket: LockTicket, lease_ms: int, now: int) -> LockRecord:
    """The record that lengthens the lease, also of one that expired as long as nobody took it over. Never shortens. Raises ``LockLost``."""
    record = _own(newest, ticket)
    return replace(record, written_at=now, expires_at=max(record.expires_at, now + lease_ms))


def release(newest: LockRecord | None, ticket: LockTicket, now: int) -> LockRecord | None:
    """The record that gives the lock back, or None when it is not this ticket's any more and nothing is left to give."""
    try:
        return replace(_own(newest, ticket), written_at=now, released=True)
    except LockLost:
        return None


def break_(newest: LockRecord | None, number: int, by: str, now: int) -> LockRecord | None:
    """The record with which ``by`` ends lock ``number`` in its owner's place, or None when that lock has ended already."""
    if newest is None or newest.released or newest.lock != number:
        return None
    return replace(newest, written_at=now, released=True, broken_by=by)


def ensure(newest: LockRecord | None, ticket: LockTicket, now: int) -> LockRecord:
    """The newest record when the ticket holds the lock and its lease has not run out. Raises ``LockLost``."""
    record = _own(newest, ticket)
    if record.expires_at <= now:
        raise LockLost(
            f"the lease on lock {ticket.number} ran out at {moment(record.expires_at)}",
            next_step="renew the lock before going on; if another run has taken it over by then, start again",
            number=ticket.number,
            expires_at=record.expires_at,
        )
    return record


def _own(newest: LockRecord | None, ticket: LockTicket) -> LockRecord:
    if newest is not None and newest.lock == ticket.number and newest.owner == ticket.owner and not newest.released:
        return newest
    raise LockLost(
        f"lock {ticket.number} of {ticket.owner} is gone: {_what_happened(newest, ticket)}",
        next_step="stop this run; start a new one when the application is free",
        number=ticket.number,
        owner=ticket.owner,
    )


def _what_happened(newest: LockRecord | None, ticket: LockTicket) -> str:
    if newest is None:
        return "the repository has no record of any lock"
    if newest.lock != ticket.number:
        return f"lock {newest.lock} was taken by {newest.owner} at {moment(newest.taken_at)}"
    if newest.owner != ticket.owner:
        return f"it belongs to {newest.owner}"
    by = newest.broken_by or newest.owner
    return f"it was released by {by} at {moment(newest.written_at)}"


def held(record: LockRecord, now: int) -> LockHeld:
    """The refusal that tells who holds the lock, since when, and what can be done."""
    return LockHeld(
        f"{record.owner} holds lock {record.lock} for: {record.purpose}; taken {max(0, now - record.taken_at) // 1000} s ago, "
        f"last renewed {max(0, now - record.written_at) // 1000} s ago, lease ends {moment(record.expires_at)}",
        next_step=(
            "wait until it has finished; if it is dead, its lock can be taken over when the lease has ended, "
            f"or at once after breaking lock {record.lock} by hand"
        ),
        number=record.lock,
        owner=record.owner,
        purpose=record.purpose,
        taken_at=record.taken_at,
        expires_at=record.expires_at,
    )


def moment(at: int) -> str:
    """Epoch milliseconds as people read them, UTC."""
    return f"{datetime.fromtimestamp(at / 1000, tz=UTC):%Y-%m-%d %H:%M:%SZ}"
