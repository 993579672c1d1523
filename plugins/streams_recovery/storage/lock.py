"""One run at a time for each application, across schedulers and machines, kept in the repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from streams_recovery.core.errors import EntryUnreadable, LockHeld, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.remedies.locks import end_record, take_lock
from streams_recovery.core.repository import lease
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import HolderProcess, LockRecord, LockTicket
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.storage.lock")


class ApplicationLock:
    """The lock of one application. ``clock`` gives milliseconds; machines whose clocks differ by more than a lease can take over too early,
    which the slower one notices at its next renewal. The same goes for the store's clock where the newest record cannot be read: such a record blocks
    for a lease, and longer while the newest one that can be read does. ``name`` is the application's configured one, for commands, and ``options`` say there
    which repository it is. ``process`` is who takes the lock, None unless this process is the whole run; ``is_dead`` tells of another holder's process
    whether it is proven dead.
    """

    def __init__(
        self,
        repository: Repository,
        layout: Layout,
        clock: Callable[[], int],
        *,
        name: str = "",
        options: Sequence[str] = (),
        process: HolderProcess | None = None,
        is_dead: Callable[[HolderProcess], bool] = lambda _: False,
    ) -> None:
        self._repository = repository
        self._log = AppendLog(repository, layout.locks, LockRecord)
        self._clock = clock
        self._name, self._options, self._process, self._is_dead = name, options, process, is_dead

    def acquire(self, owner: str, *, lease_seconds: int, purpose: str) -> LockTicket:
        """Take the lock, or keep it when ``owner`` has it. The lock of a run whose process is proven dead is taken at once, and that of an unreadable record
        once it is older than a lease.

        Raises ``LockHeld`` naming the owner, since when and until when, and ``EntryUnreadable`` when the owner is unknown.
        """
        taken: list[LockRecord] = []

        def decide(last: LockRecord | None, number: int) -> LockRecord:
            record = lease.acquisition(
                last,
                number,
                owner=owner,
                purpose=purpose,
                now=self._clock(),
                lease_ms=lease_seconds * 1000,
                process=self._process,
                dead=last is not None and self.is_proven_dead(last),
            )
            taken.append(record)
            return record

        try:
            try:
                self._log.append_after(decide)
            except EntryUnreadable as error:
                return self._take_over(error, decide, taken)
        except LockHeld as error:
            raise error.then(*take_lock(self._name, str(error.facts["owner"]), None, options=self._options).commands) from None
        return LockTicket(owner=owner, number=taken[-1].acquired)

    def _take_over(
        self, error: EntryUnreadable, decide: Callable[[LockRecord | None, int], LockRecord], taken: list[LockRecord]
    ) -> LockTicket:
        """The lock behind an unreadable record, when its run counts as dead. Raises ``EntryUnreadable`` when it does not."""
        key = str(error.facts["key"])
        if not self._is_over(key):
            raise self._unreadable(error) from None
        record = replace(decide(None, self._log.number(key) + 1), took_over_from=key)
        if not self._log.append_behind(key, record):
            # Another run was faster. The newest record can be read now.
            self._log.append_after(decide)
            return LockTicket(owner=record.owner, number=taken[-1].acquired)
        LOGGER.warning("%s takes over the lock: %s is older than a lease and counts as dead, although %s", record.owner, key, error.reason)
        return LockTicket(owner=record.owner, number=record.acquired)

    def _is_over(self, key: str) -> bool:
        readable = next(self._log.readable_back(whole=False), None)
        dead = readable is not None and self.is_proven_dead(readable)
        return lease.is_over(self._repository.modified(key), readable, now=self._clock(), dead=dead)

    def renew(self, ticket: LockTicket, *, lease_seconds: int) -> None:
        """Prove that the lock is still this ticket's, and extend it. Raises ``LockLost``."""
        self._log.append_after(lambda last, _: lease.renewal(last, ticket, now=self._clock(), lease_ms=lease_seconds * 1000))

    def release(self, ticket: LockTicket) -> None:
        """Give the lock back. Harmless when it was given back or lost before."""
        record = lease.release(self._log.last(), ticket, now=self._clock())
        if record is not None:
            self._log.append_after(lambda last, _: lease.release(last, ticket, now=self._clock()) or _again(last, record))

    def take_from(self, owner: str) -> bool:
        """End the acquisition of a dead owner; False when no run has the lock. Should the owner live after all, its next step finds the lock lost and goes no
        further. An unreadable newest record is named by its key. Raises ``Refused`` when another owner has the lock.
        """
        try:
            held = lease.holder(self._log.last(), self._clock())
        except EntryUnreadable as error:
            if error.facts["key"] != owner:
                raise self._unreadable(error) from None
            # When another run was faster, the newest record can be read now.
            return self._log.append_behind(owner, lease.ending_unreadable(owner, now=self._clock())) or self.take_from(owner)
        if held is None:
            return False
        if held.owner != owner:
            raise Refused(
                f"the lock is held by {held.owner!r} for {held.purpose}, not by {owner!r}",
                next_step="make sure that the run which holds it is dead, and name that one",
                owner=held.owner,
                named=owner,
            )
        self.release(LockTicket(owner=held.owner, number=held.acquired))
        return True

    def forget(self, keep: int) -> int:
        """Remove all but the newest ``keep`` records and return how many went: a long log is slow to list. Raises what deleting raises."""
        return self._log.prune(keep)

    def holds(self, ticket: LockTicket) -> bool:
        """True while the lock is still this ticket's. Adds no record: for those who look often."""
        return lease.holds(self._log.last(), ticket)

    def check_no_other_owner(self, ticket: LockTicket) -> None:
        """Raise ``LockLost`` when another owner has the lock by the newest record that can be read."""
        lease.check_no_other_owner(next(self._log.readable_back(whole=False), None), ticket, now=self._clock())

    def holder(self) -> LockRecord | None:
        """The record of the present owner of the lock, None without one. A run that is proven dead has the lock until another takes it. Raises
        ``EntryUnreadable`` while a record that cannot be read blocks.
        """
        try:
            return lease.holder(self._log.last(), self._clock())
        except EntryUnreadable as error:
            if self._is_over(str(error.facts["key"])):
                return None
            raise

    def is_proven_dead(self, held: LockRecord) -> bool:
        """True when this record's holder was one process, and that process is proven dead from here."""
        return held.process is not None and self._is_dead(held.process)

    def _unreadable(self, error: EntryUnreadable) -> EntryUnreadable:
        remedy = end_record(self._name, str(error.facts["key"]), options=self._options)
        return EntryUnreadable(f"it is unknown who holds the lock: {error.reason}", next_step=str(remedy), **error.facts).then(
            *remedy.commands
        )


def _again(last: LockRecord | None, record: LockRecord) -> LockRecord:
    # Another run was faster: a repetition of its record does not change the owner.
    return record if last is None else last
