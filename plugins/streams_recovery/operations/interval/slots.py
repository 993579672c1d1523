"""Which slot an interval is processed in: taken from the application's own part of the repository, so that no orchestrator can start too many."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams_recovery.config.reprocess import Reprocess
from streams_recovery.config.sandbox_application import SandboxName
from streams_recovery.core.errors import ConfigInvalid, LockHeld
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.sandbox import slots
from streams_recovery.core.sandbox.interval_log import ReprocessOptions, ReprocessRequest, reprocess_request
from streams_recovery.core.sandbox.slots import SlotEntry
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An interval with its slot. ``application`` is the configured name of what processes it."""

    application: str
    slot: int
    request: ReprocessRequest


def section(recovery: RecoveryContext) -> Reprocess:
    """The application's section. Raises ``ConfigInvalid`` when there is none, or it is not enabled."""
    found = recovery.config.reprocess
    if found is None or not found.enabled:
        raise ConfigInvalid(f"reprocessing is not configured for {recovery.config.name}", next_step="write a reprocess section")
    return found


def requested(recovery: RecoveryContext, asked: ReprocessOptions, interval: Interval) -> ReprocessRequest:
    """What is asked of the application that ``recovery`` is of, the configuration's where nothing is. Raises ``ConfigInvalid`` and ``Refused``."""
    own = section(recovery)
    filled = {name: getattr(asked, name) or getattr(own, name) for name in ("lateness", "leave_late", "overlap", "beyond", "base")}
    return reprocess_request(replace(asked, **filled), interval, recovery.application_id, own.tables)


def claim(recovery: RecoveryContext, request: ReprocessRequest, *, run_id: str) -> Claimed | None:
    """A slot for the interval, the one it has when its last run has ended or died; None while all of them are taken. ``recovery`` is that of the application
    itself. Raises ``LockHeld`` while the interval is being processed.
    """
    reprocess, name = section(recovery), request.slice.interval.name
    held = ApplicationLock(recovery.repository, Layout(f"{reprocess.application_id}-{name}"), recovery.clock).holder()
    if held is not None:
        raise LockHeld(
            f"interval {name} is being processed: the lock is held by {held.owner!r}",
            next_step="wait until that run has ended; if it is dead, its lock runs out by itself",
            owner=held.owner,
        )
    log = slot_log(recovery, recovery.application_id)
    if slots.take(log.last(), name, run=run_id, at=recovery.clock(), slots=reprocess.parallel).slot is None:
        return None
    taken: list[SlotEntry] = []

    def decide(last: SlotEntry | None, _number: int) -> SlotEntry:
        taken.append(slots.take(last, name, run=run_id, at=recovery.clock(), slots=reprocess.parallel))
        return taken[-1]

    log.append_after(decide)
    slot = taken[-1].slot
    return (
        None
        if slot is None
        else Claimed(application=str(SandboxName(application=recovery.config.name, interval=name, slot=slot)), slot=slot, request=request)
    )


def busy(recovery: RecoveryContext) -> tuple[str, ...]:
    """Intervals that have a slot now."""
    return slots.busy(slot_log(recovery, recovery.application_id).last())


def release(recovery: RecoveryContext, application_id: str, interval: str, *, run_id: str | None) -> None:
    """The interval needs its slot no more, if it was ``run_id`` that took it (None: whoever did). ``application_id`` is the application's own. Repeating
    it is harmless.
    """
    log, at = slot_log(recovery, application_id), recovery.clock()
    if slots.release(log.last(), interval, run=run_id, at=at) is not None:
        # When somebody was faster and nothing is left to give back, their entry is written once more: it changes nothing.
        log.append_after(lambda newest, _: slots.release(newest, interval, run=run_id, at=at) or _same(newest, interval, at))


def _same(last: SlotEntry | None, interval: str, at: int) -> SlotEntry:
    return last or SlotEntry(interval=interval, at=at, slot=None, taken={})


def slot_log(recovery: RecoveryContext, application_id: str) -> AppendLog[SlotEntry]:
    """Every slot taken and given back."""
    return AppendLog(recovery.repository, Layout(application_id).slots, SlotEntry)
