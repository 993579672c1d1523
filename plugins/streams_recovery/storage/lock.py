"""The lock of one application in its repository. core/lease.py decides; this reads and writes the records."""

from __future__ import annotations

from collections.abc import Callable

from streams_recovery.core import lease
from streams_recovery.core.errors import RepositoryUnavailable
from streams_recovery.core.layout import Layout
from streams_recovery.core.lease import Claim, LockRecord, LockTicket
from streams_recovery.storage.failures import AlreadyExists
from streams_recovery.storage.numbered import NumberedLog
from streams_recovery.storage.repository import Repository

_ATTEMPTS = 20


class ApplicationLock:
    """One lock for everything that reads or changes an application as a whole. ``clock`` gives epoch milliseconds."""

    def __init__(self, repository: Repository, layout: Layout, clock: Callable[[], int]) -> None:
        self._log = NumberedLog(repository, layout.locks, LockRecord)
        self._clock = clock

    def acquire(self, owner: str, *, lease_seconds: float, purpose: str) -> LockTicket:
        """Take the lock, or go on with it when this owner has it already. An expired one is taken over, and the record says whose it was.

        Raises ``LockHeld``.
        """
        claim = Claim(owner=owner, purpose=purpose, lease_ms=_milliseconds(lease_seconds))
        record = self._write(lambda newest, number: lease.acquire(newest, number, claim, self._clock()))
        if record is None:
            raise _contended()
        return LockTicket(number=record.lock, owner=owner)

    def renew(self, ticket: LockTicket, *, lease_seconds: float) -> LockTicket:
        """Lengthen the lease to ``lease_seconds`` from now. Raises ``LockLost``."""
        self._write(lambda newest, _: lease.renew(newest, ticket, _milliseconds(lease_seconds), self._clock()), known=ticket.number)
        return ticket

    def release(self, ticket: LockTicket) -> bool:
        """Give the lock back. False when it was not this ticket's any more, which is no error."""
        return self._write(lambda newest, _: lease.release(newest, ticket, self._clock()), known=ticket.number) is not None

    def break_(self, number: int, *, by: str) -> bool:
        """End lock ``number`` in its owner's place; the record says who did. False when it had ended already.

        Its owner finds out at its next ``ensure`` or ``renew``. Make sure that it is dead: it may be in the middle of a step.
        """
        return self._write(lambda newest, _: lease.break_(newest, number, by, self._clock())) is not None

    def ensure(self, ticket: LockTicket) -> None:
        """Return when the ticket holds the lock at this moment. Raises ``LockLost``. Says nothing about the next moment."""
        _, newest = self._newest(ticket.number)
        lease.ensure(newest, ticket, self._clock())

    def holder(self) -> LockRecord | None:
        """The newest record when the lock is taken, also when its lease has run out; None when it is free."""
        _, newest = self._newest()
        return None if newest is None or newest.released else newest

    def _write(self, decide: Callable[[LockRecord | None, int], LockRecord | None], known: int = 0) -> LockRecord | None:
        for _ in range(_ATTEMPTS):
            number, newest = self._newest(known)
            record = decide(newest, number + 1)
            if record is None:
                return None
            try:
                self._log.create(number + 1, record)
            except AlreadyExists:
                continue
            return record
        raise _contended()

    def _newest(self, known: int = 0) -> tuple[int, LockRecord | None]:
        number = self._log.last_number(known=known)
        return number, self._log.read(number) if number else None


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _contended() -> RepositoryUnavailable:
    return RepositoryUnavailable("other runs kept changing the lock at the same moment", next_step="run this again")
