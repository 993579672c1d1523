"""Holding the application's lock across the tasks of one run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from streams_recovery.core.errors import WAITED_OUT, LockLost, TransientError
from streams_recovery.core.repository import lease
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.operations.context import RecoveryContext

LEASE_SECONDS = lease.LEASE_SECONDS
_AGAIN_SECONDS = 60


class Locked(Protocol):
    """Any ticket that carries the number and the owner of a lock."""

    @property
    def lock(self) -> LockTicket:
        """The lock as it was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock and nothing else, for steps that need no more of a ticket."""

    lock: LockTicket


def require_lock(recovery: RecoveryContext, ticket: Locked) -> None:
    """Prove that the lock is still this run's, and extend it. Called first by every step that changes something. Raises ``LockLost``."""
    recovery.lock.renew(ticket.lock, lease_seconds=LEASE_SECONDS)


def require_held(recovery: RecoveryContext, ticket: Locked) -> None:
    """As ``require_lock`` for those who ask each second: nothing is written. A repository that does not answer has not said that the lock is lost."""
    with suppress(TransientError):
        if not recovery.lock.holds(ticket.lock):
            raise LockLost(
                f"{ticket.lock.owner} has lost the lock of {recovery.application_id} while it worked",
                next_step="another run, or the end of this one, has it by now; see what that does",
            )


@contextmanager
def held_lock(recovery: RecoveryContext, owner: str, *, purpose: str) -> Iterator[HeldLock]:
    """Take the application's lock, keep it for as long as the block takes, and give it back. Raises ``LockHeld``."""
    held = HeldLock(lock=recovery.lock.acquire(owner, lease_seconds=LEASE_SECONDS, purpose=purpose))
    try:
        with _extended(recovery, held):
            yield held
    finally:
        recovery.lock.release(held.lock)


@contextmanager
def renewed_lock(recovery: RecoveryContext, ticket: Locked) -> Iterator[None]:
    """Keep extending the lock in the background while a long job runs. A lost lock shows at the next step, which must not go on then."""
    require_lock(recovery, ticket)
    with _extended(recovery, ticket):
        yield


@contextmanager
def _extended(recovery: RecoveryContext, ticket: Locked) -> Iterator[None]:
    # A repository that does not answer is asked again a minute later, and most of a lease is left for that.
    done = threading.Event()

    def extend() -> None:
        wait = LEASE_SECONDS / 3
        while not done.wait(wait):
            try:
                require_lock(recovery, ticket)
            except LockLost:
                return
            except WAITED_OUT:
                wait = _AGAIN_SECONDS
            else:
                wait = LEASE_SECONDS / 3

    keeper = threading.Thread(target=extend, name="lock-keeper", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join(timeout=5)
