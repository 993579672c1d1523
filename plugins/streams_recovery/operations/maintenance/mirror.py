"""The second place of a repository: everything that a restore needs is copied there. It holds nothing, and takes no lock but on the way back. Run again, it
goes on where it ended.

Objects never change, so what is listed can be copied whatever runs meanwhile. What expires meanwhile is not found any more, and does not come.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from streams_recovery.core.errors import Damaged, NotFound, RecoveryError, Refused
from streams_recovery.core.repository.encryption import KEY_ID, KeyAccess
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.mirror import (
    MirrorPlan,
    MirrorStep,
    Moved,
    PassedOver,
    at_once,
    savepoint_of,
)
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.archive import archive_lock
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lock_holder import is_dead, this_process
from streams_recovery.operations.maintenance.wanted_there import Places, WantedThere, places
from streams_recovery.operations.renewed_lock import HeldLock, held_lock
from streams_recovery.operations.unfinished import refuse_if_unfinished
from streams_recovery.storage.json_object import create_value
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.mirror import copy_object, note_proven, prove_object, require_apart, require_paired

if TYPE_CHECKING:
    from streams_recovery.storage.keys.keyring import Keyring

# Objects that are on their way at once.
_COPIERS: Final = 8
_MESSAGE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorReport:
    """The result of a run. ``savepoints`` are in two places since then. ``damaged`` are objects that could not be copied or are not what they should be, with
    the reason; what needs them is not there either.
    """

    application_id: str
    place: str
    copied: int
    bytes: int
    proven: int
    savepoints: tuple[str, ...]
    damaged: tuple[PassedOver, ...]


def plan_mirror(recovery: RecoveryContext, *, full: bool = False, back: bool = False, moves: bool = False) -> MirrorPlan:
    """What the second place lacks. Writes nothing. With ``full`` everything that is there is read as well, not only what is new to it. ``back`` is set for a
    context that has the two places the other way round: then the target may have gone on. Raises ``ConfigInvalid``, also for a second place that is the first
    one.
    """
    found = places(recovery)
    _require_two(recovery, found, back=back, writes=False)
    return _planned(recovery, found, full=full, back=back, moves=moves)


def fill_mirror(
    recovery: RecoveryContext,
    say: Callable[[str], None] = lambda _: None,
    *,
    full: bool = False,
    back: bool = False,
    moves: bool = False,
) -> MirrorReport:
    """Copy what the second place lacks, and prove it there. What is damaged takes nothing from the rest: see ``raise_unless_mirrored``. Raises
    ``ConfigInvalid`` as ``plan_mirror`` does, and ``RepositoryUnavailable``: what was copied stays, and the next run goes on behind it. On the way ``back``
    the target is where expiry works, so its lock is held. Raises ``LockHeld`` then. With ``moves`` what the other place needs as the first one
    comes too.
    """
    found = places(recovery)
    _require_two(recovery, found, back=back, writes=True)
    if back:
        with _lock_of_target(recovery, found):
            return _Copying(found, _planned(recovery, found, full=full, back=back, moves=moves), say, notes=False).report()
    own = _with_own_key(recovery)
    plan = _planned(recovery, found, full=full, back=back, moves=moves)
    report = _Copying(found, plan, say, notes=True).report()
    return replace(report, damaged=(*report.damaged, *own, *_not_opened(recovery, found, plan)))


def _with_own_key(recovery: RecoveryContext) -> tuple[PassedOver, ...]:
    """Make up for what the key of the second place has not wrapped. Returns what keeps it from that: what is encrypted is copied all the same."""
    keyring, prefix = recovery.repository.keyring, recovery.layout.keys
    try:
        if keyring is not None:
            keyring.complete(recovery.application_id)
    except RecoveryError as error:
        return (PassedOver(key=prefix, why=f"{prefix} needs the keys of the first place to be read there: {error.reason}"),)
    return ()


def _not_opened(recovery: RecoveryContext, found: Places, plan: MirrorPlan) -> tuple[PassedOver, ...]:
    """Data keys of this run that the second place's own key does not open there, where it has one."""
    access, prefix = recovery.repository.encryption, recovery.layout.keys
    own = tuple(one for one in access.places if one.mirror) if isinstance(access, KeyAccess) else ()
    copied = {step.what.key.removeprefix(prefix).partition("/")[0] for step in plan.steps if step.what.key.startswith(prefix)}
    ids = {one for one in copied if KEY_ID.fullmatch(one)}
    if not own or not ids:
        return ()
    # Slow to import, and not needed where records are in clear.
    from streams_recovery.storage.keys.keyring import Keyring  # noqa: PLC0415

    seals = recovery.repository.seals
    there = Keyring(found.other if seals is None else found.other.with_seals(seals.keys), KeyAccess(places=own))
    try:
        stored = there.stored(recovery.application_id, ids)
        problems = {one.key_id: one.problem for one in stored if one.problem} | _contradicted(recovery, there, ids)
    except RecoveryError as error:
        return (PassedOver(key=prefix, why=f"{prefix} could not be opened there with the second place's own key: {error.reason}"),)
    return tuple(
        PassedOver(key=f"{prefix}{one}/", why=f"{prefix}{one}/ is not opened there by the second place's own key: {why}")
        for one, why in problems.items()
    )


def _contradicted(recovery: RecoveryContext, there: Keyring, ids: Collection[str]) -> dict[str, str]:
    """Data keys of which somebody has written another one there, by a key-encryption key that anybody can wrap with."""
    if not there.believes_anybody or recovery.repository.keyring is None:
        return {}
    known = recovery.repository.keyring.unwrapped((recovery.application_id, one) for one in ids).keys
    why = "one of its forms gives another key, which somebody else has wrapped: remove that form in both places"
    return {key.key_id: why for (name, _), key in known.items() if there.contradicts(key, name)}


def _require_two(recovery: RecoveryContext, found: Places, *, back: bool, writes: bool) -> None:
    """Raise unless these are two places of one repository, and it has not moved away; nothing is written before that is known."""
    recovery.repository.require_not_moved(recovery.application_id)
    require_apart(found.first, found.other, recovery.application_id, asks=False)
    require_paired(found.first, found.other, recovery.layout, back=back, marks=False)
    if writes:
        require_apart(found.first, found.other, recovery.application_id, asks=True)
        require_paired(found.first, found.other, recovery.layout, back=back, marks=True)


def move(recovery: RecoveryContext, say: Callable[[str], None] = lambda _: None) -> MirrorReport:
    """Make the second place the place of the repository: what is missing there is copied, all that is there is read and compared, and the first place is
    marked, so that nobody writes to it any more. Under the locks of the application and of its archiver, so nothing comes meanwhile. A move that failed has
    marked nothing; another call goes on. Raises ``LockHeld`` while a run or an archiver works, ``Refused`` while a restore is half way or an application is
    held, and ``Damaged`` where anything could not be copied or is not what it should be.
    """
    archiver = replace(recovery, lock=archive_lock(recovery))
    with _held(recovery, "moving the repository"), _held(archiver, "moving the repository"):
        refuse_if_unfinished(recovery)
        if (held := quiesce_record.left(recovery)) is not None:
            raise Refused(
                f"{', '.join(held.instances)} may still be held by run {held.run}",
                next_step="take a savepoint, which brings them back, and move the repository then",
                run=held.run,
            )
        report = fill_mirror(recovery, say, full=True, moves=True)
        raise_unless_mirrored(report)
        create_value(recovery.repository, recovery.layout.moved, Moved(to=report.place, at=recovery.clock()))
    return report


def _held(recovery: RecoveryContext, purpose: str) -> AbstractContextManager[HeldLock]:
    process = this_process()
    return held_lock(recovery, f"mirror {process.host}-{process.pid}-{secrets.token_hex(4)}", purpose=purpose)


@contextmanager
def _lock_of_target(recovery: RecoveryContext, found: Places) -> Iterator[None]:
    """Hold the lock of the application in the target. Its records are sealed as any others there are."""
    seals = recovery.repository.seals
    target = found.other if seals is None else found.other.with_seals(seals.keys)
    lock = ApplicationLock(target, recovery.layout, recovery.clock, name=recovery.config.name, process=this_process(), is_dead=is_dead)
    with _held(replace(recovery, lock=lock), "copying back from the second place"):
        yield


def raise_unless_mirrored(report: MirrorReport) -> None:
    """Raise ``Damaged`` for a run that could not copy everything."""
    if report.damaged:
        raise Damaged(
            f"{len(report.damaged)} objects of {report.application_id} are not in the second place {report.place} as they have to be: "
            + "; ".join(one.why for one in report.damaged[:3]),
            next_step="run `streams-recovery verify --level full`, and find out who writes in either place; where a key does not answer, run it again when "
            "it does. Everything else was copied",
            keys=[one.key for one in report.damaged[:20]],
        )


def _planned(recovery: RecoveryContext, found: Places, *, full: bool, back: bool, moves: bool) -> MirrorPlan:
    # The second place before the first one: what is copied by another run meanwhile is only read once more.
    there = found.other.sizes(f"{recovery.application_id}/")
    here = found.first.sizes(f"{recovery.application_id}/")
    # A data key is there before what it encrypts. A listing of all may take minutes, and passes the keys first.
    here |= found.first.sizes(recovery.layout.keys)
    gathering = WantedThere(recovery, found, here, {} if full else there, back=back, moves=moves)
    if not back:
        gathering.pass_over_what_was_written(there)
    return gathering.plan(there, str(found.other.location))


class _Copying:
    """A plan that is carried out. Objects that failed are remembered: what needs them does not come. It ``notes`` in the second place what was proven there."""

    def __init__(self, found: Places, plan: MirrorPlan, say: Callable[[str], None], *, notes: bool) -> None:
        self._notes = notes
        self._places, self._plan, self._say = found, plan, say
        self._failed: dict[str, str] = dict.fromkeys(plan.different, "is in the second place with other bytes")
        self._gone: set[str] = set()
        self._done: list[MirrorStep] = []
        self._bytes, self._message_at = 0, time.monotonic()

    def report(self) -> MirrorReport:
        """Carry it out."""
        application_id = self._plan.application_id
        with ThreadPoolExecutor(_COPIERS) as copiers:
            for group in at_once(self._plan.steps):
                ready = [step for step in group if not self._is_blocked(step)]
                for step, problem in zip(ready, copiers.map(self._taken, ready), strict=True):
                    self._note(step, problem)
        copied = [step for step in self._done if step.copies]
        problems = [PassedOver(key=key, why=f"{key}: {why}") for key, why in self._failed.items()]
        passed_over = [PassedOver(key=one.key, why=f"{one.key}: {one.why}") for one in self._plan.passed_over]
        return MirrorReport(
            application_id=application_id,
            place=self._plan.place,
            copied=len(copied),
            bytes=sum(step.what.bytes for step in copied),
            proven=len(self._done) - len(copied),
            savepoints=tuple(found for step in copied if (found := savepoint_of(application_id, step.what.key)) is not None),
            damaged=(*problems, *passed_over),
        )

    def _is_blocked(self, step: MirrorStep) -> bool:
        blocked = any(key in self._failed or key in self._gone for key in step.what.needs)
        if blocked:
            self._gone.add(step.what.key)
        return blocked

    def _taken(self, step: MirrorStep) -> Damaged | NotFound | None:
        take = copy_object if step.copies else prove_object
        try:
            take(self._places.first, self._places.other, step.what)
        except (Damaged, NotFound) as error:
            return error.with_traceback(None)
        return None

    def _note(self, step: MirrorStep, problem: Damaged | NotFound | None) -> None:
        if isinstance(problem, NotFound):
            # It was removed since it was listed: then no savepoint that there still is needs it.
            self._gone.add(step.what.key)
        elif problem is not None:
            self._failed[step.what.key] = problem.reason
        else:
            self._done.append(step)
            self._bytes += step.what.bytes if step.copies else 0
            self._tell(step)

    def _tell(self, step: MirrorStep) -> None:
        savepoint_id = savepoint_of(self._plan.application_id, step.what.key)
        if savepoint_id is not None and self._notes:
            note_proven(self._places.other, Layout(self._plan.application_id), savepoint_id)
        if savepoint_id is not None:
            self._say(f"savepoint {savepoint_id} is in two places")
        elif time.monotonic() - self._message_at > _MESSAGE_SECONDS:
            self._message_at = time.monotonic()
            self._say(f"{len(self._done):,} of {len(self._plan.steps):,} objects, {self._bytes:,} of {self._plan.bytes:,} bytes copied")
