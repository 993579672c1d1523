"""A savepoint that is made from another one, without the cluster: a compaction, a merge of small files and an edit are published here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

from streams_recovery.core.errors import Damaged, LockHeld, NotFound
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import Manifest, Provenance
from streams_recovery.core.waiting import poll
from streams_recovery.core.words import command, same_moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets.snapshots import keep_with_another
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, HeldLock, Locked, require_lock
from streams_recovery.operations.savepoint.publish import software

Make = Callable[[Manifest, str, Provenance], Manifest]
"""The new savepoint of a source, its id, and who wanted it."""


class RewriteRequest(Protocol):
    """A request for a savepoint that is made from another one. ``run`` is the name that its id is made of, ``work`` is a noun for what is done, and
    ``again`` says how it is tried again.
    """

    @property
    def run(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def requested_by(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def work(self) -> str: ...
    @property
    def again(self) -> str: ...


def rewrite(
    recovery: RecoveryContext,
    request: RewriteRequest,
    source: Callable[[], Manifest],
    how: Make,
    *,
    about: str,
    proof: Callable[[Manifest], object] = lambda _made: None,
    patience_seconds: float = 0.0,
) -> Manifest:
    """Publish what ``how`` makes of a source, which is chosen under the lock, so that no expiry and no savepoint decides meanwhile. ``proof`` raises where the
    new savepoint, of which all files are there, does not hold what it should. Waits ``patience_seconds`` for the lock, which is said to be for the savepoint
    ``about``. Repeating it after it succeeded changes nothing and returns what was published.

    Raises ``Damaged`` when files of the source or of the new savepoint are missing, ``LockHeld``, ``LockLost``, and what its parts raise.
    """
    with _locked(recovery, request.run, f"{request.work} of {about}", patience_seconds) as lock:
        earlier = recovery.savepoints.published_by_run(request.run)
        if earlier is not None:
            return recovery.savepoints.read(earlier)
        found = source()
        check_sound(recovery, found)
        provenance = Provenance(run_id=request.run_id, requested_by=request.requested_by, reason=request.reason, software=software())
        made = how(found, same_moment(found.savepoint_id, request.run), provenance)
        return publish_made(recovery, lock, found, made, request.again, proof=proof)


def publish_made(
    recovery: RecoveryContext,
    lock: Locked,
    source: Manifest,
    made: Manifest,
    again: str,
    *,
    proof: Callable[[Manifest], object] = lambda _made: None,
) -> Manifest:
    """Publish a savepoint that was made of ``source``, under a lock that is held. ``again`` says how it is tried again. Raises ``Damaged`` when a file of it is
    missing, ``LockLost``, and what ``proof`` does.
    """
    check_whole(recovery, made, f"nothing was published; {again}")
    proof(made)
    if made.replaces == source.savepoint_id:
        # Before the manifest: a reader that finds the savepoint finds these offsets too. The source may be gone soon.
        keep_with_another(recovery, source.savepoint_id, made.savepoint_id)
    recovery.savepoints.publish(made, confirm=lambda: require_lock(recovery, lock))
    return made


@contextlib.contextmanager
def _locked(recovery: RecoveryContext, run: str, purpose: str, patience_seconds: float) -> Iterator[HeldLock]:
    """Hold the application's lock. What a job did is too much to be thrown away because a savepoint is being taken right now."""
    held: list[LockHeld] = []

    def attempt() -> LockTicket | None:
        try:
            return recovery.lock.acquire(run, lease_seconds=LEASE_SECONDS, purpose=purpose)
        except LockHeld as error:
            held.append(error)
            return None

    what = f"the lock of {recovery.application_id}"
    lock = poll(attempt, seconds=patience_seconds, interval=5.0, what=what, message=lambda: held[-1].reason)
    if lock is None:
        raise held[-1]
    try:
        yield HeldLock(lock=lock)
    finally:
        recovery.lock.release(lock)


def check_sound(recovery: RecoveryContext, source: Manifest) -> None:
    """Raise ``Damaged`` for a savepoint that was altered or is not whole: nothing is made from it."""
    # An altered savepoint would come out as published by us. Savepoints of older releases have no record to be compared with.
    with contextlib.suppress(NotFound):
        if recovery.savepoints.altered(source.savepoint_id):
            raise Damaged(
                f"the manifest of savepoint {source.savepoint_id} is not the one that was published",
                next_step="nothing was changed; find out who wrote it, and choose another savepoint",
                savepoint=source.savepoint_id,
            )
    check_whole(recovery, source, "verify it", command("verify", recovery.config.name, source.savepoint_id))


def check_whole(recovery: RecoveryContext, manifest: Manifest, next_step: str, *commands: str) -> None:
    """Raise ``Damaged`` unless every file of a savepoint, published or not, is there with its size."""
    if not manifest.whole(recovery.repository.sizes(recovery.layout.segments)):
        raise Damaged(
            f"savepoint {manifest.savepoint_id} is not whole: files that it names are missing or have another size",
            next_step=next_step,
            savepoint=manifest.savepoint_id,
        ).then(*commands)
