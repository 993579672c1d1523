"""The lock of an application: its holder at a moment, by the newest record of the lock's log.

Records are only ever added under the next number, so this needs neither compare-and-set nor delete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from streams_recovery.core.errors import LockHeld, LockLost
from streams_recovery.core.remedies.locks import take_lock

# Of every run. Long enough for an orchestrator to lose a worker and start the task again on another one.
LEASE_SECONDS: Final = 1_800


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTicket:
    """Proof of an acquisition: its owner and the number of its record."""

    owner: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderProcess:
    """The one process that is a whole run: a command on a terminal. ``boot`` and ``namespace`` say where its pid counts, ``born`` tells it from every
    other process that had or will have this pid.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    born: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecord:
    """One record. ``acquired`` is the number of the acquisition that a renewal or a release belongs to, its own for an acquisition.
    ``took_over_from`` names the owner whose lease had run out or whose process was proven dead, or the key of a record that could not be read, so that a
    takeover is never silent. ``process`` is None for a run of many processes, such as one of Airflow: that one of them is gone proves nothing.
    """

    kind: Literal["acquire", "renew", "release"]
    owner: str
    purpose: str
    acquired: int
    at: int
    expires_at: int
    took_over_from: str | None
    process: HolderProcess | None

    @property
    def place(self) -> tuple[str, int] | None:
        """Host and pid, where a person finds a run that is one process."""
        return None if self.process is None else (self.process.host, self.process.pid)


def holder(last: LockRecord | None, now: int) -> LockRecord | None:
    """The newest record if it holds the lock at ``now`` (ms), else None."""
    return last if last is not None and last.kind != "release" and last.expires_at > now else None


def acquisition(
    last: LockRecord | None,
    number: int,
    *,
    owner: str,
    purpose: str,
    now: int,
    lease_ms: int,
    process: HolderProcess | None = None,
    dead: bool = False,
) -> LockRecord:
    """The record, to be the one of this ``number``, that would give ``owner`` the lock. A run that holds it already keeps its acquisition. ``process`` is
    the whole run, if it is one process. ``dead`` says that the holder's process is proven dead: its lease counts for nothing then. Raises ``LockHeld``.
    """
    held = None if dead and last is not None and last.owner != owner else holder(last, now)
    if held is not None and held.owner != owner:
        raise LockHeld(
            f"{held.owner} holds the lock for {held.purpose}; its last sign of life is {(now - held.at) // 1000} s old, "
            f"its lease ends in {(held.expires_at - now) // 1000} s",
            next_step=str(take_lock("", held.owner, held.place)),
            owner=held.owner,
            purpose=held.purpose,
            expires_at=held.expires_at,
        )
    expired = last is not None and last.kind != "release" and held is None
    return LockRecord(
        kind="renew" if held else "acquire",
        owner=owner,
        purpose=purpose,
        acquired=held.acquired if held else number,
        at=now,
        expires_at=now + lease_ms,
        took_over_from=last.owner if last is not None and expired and last.owner != owner else None,
        process=process,
    )


def is_over(written_at: int | None, readable: LockRecord | None, *, now: int, dead: bool = False) -> bool:
    """True when the newest record cannot be read, and its run counts as dead: it is older than a lease by the store's clock, and so holds nothing, and the
    newest record that is ``readable`` holds nothing either. So an unreadable record that was added by a stranger takes no lock from its owner. ``written_at``
    is None for a record that is gone; ``dead`` says that the readable one's process is proven dead.
    """
    return written_at is not None and written_at + LEASE_SECONDS * 1000 <= now and (dead or holder(readable, now) is None)


def renewal(last: LockRecord | None, ticket: LockTicket, *, now: int, lease_ms: int) -> LockRecord:
    """The record that extends this acquisition. An expired lease that no other run took over may be extended. Raises ``LockLost``."""
    return replace(_own(last, ticket), kind="renew", at=now, expires_at=now + lease_ms, took_over_from=None)


def check_no_other_owner(last: LockRecord | None, ticket: LockTicket, *, now: int) -> None:
    """Raise ``LockLost`` when another acquisition than this one holds the lock at ``now`` (ms)."""
    if holder(last, now) is not None:
        _own(last, ticket)


def holds(last: LockRecord | None, ticket: LockTicket) -> bool:
    """True while no other run took the lock of this acquisition and it was not given back. A lease that ran out alone changes nothing."""
    return last is not None and last.acquired == ticket.number and last.owner == ticket.owner and last.kind != "release"


def release(last: LockRecord | None, ticket: LockTicket, *, now: int) -> LockRecord | None:
    """The record that ends this acquisition, or None when it has ended already or belongs to another by now: nothing of theirs is touched."""
    if last is None or last.acquired != ticket.number or last.kind == "release":
        return None
    return replace(last, kind="release", owner=ticket.owner, at=now, expires_at=now, took_over_from=None, process=None)


def ending_unreadable(key: str, *, now: int) -> LockRecord:
    """The record that gives the lock back in place of the owner of the record at ``key``, which cannot be read."""
    return LockRecord(
        kind="release",
        owner="unlock",
        purpose=f"ends {key}, which cannot be read",
        acquired=0,
        at=now,
        expires_at=now,
        took_over_from=None,
        process=None,
    )


def _own(last: LockRecord | None, ticket: LockTicket) -> LockRecord:
    if last is not None and holds(last, ticket):
        return last
    now_with = f"{last.owner} ({last.kind})" if last else "no run"
    raise LockLost(
        f"{ticket.owner} no longer holds the lock it took as number {ticket.number}; the newest record is of {now_with}",
        next_step="do not go on with this run; see what the other one did and start again",
        owner=ticket.owner,
        number=ticket.number,
    )
