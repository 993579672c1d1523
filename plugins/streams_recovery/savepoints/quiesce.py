"""Holding the application still for a cut, and letting it go."""

from __future__ import annotations

import time

from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning
from streams_recovery.core.model import QuiesceMode
from streams_recovery.eviction import await_decided, empty_group
from streams_recovery.leases import under_lock
from streams_recovery.savepoints.values import Quiesced, ResumeReport, Ticket
from streams_recovery.waiting import poll
from streams_recovery.workbench import Workbench

# A commit starts up to one interval after the pause and takes a moment to become visible.
_COMMIT_MARGIN_SECONDS = 0.3


def quiesce(bench: Workbench, ticket: Ticket) -> Quiesced:
    """Hold the application the way the ticket says. An application that is down already is held by that, whatever the mode."""
    under_lock(bench, ticket)
    since = bench.clock()
    _check_none_started(bench, ticket)
    if ticket.mode is QuiesceMode.LIVE and ticket.running:
        return Quiesced(mode=QuiesceMode.LIVE, since=since, members=(), still=False, why_not="the application was not held")
    if ticket.mode is QuiesceMode.PAUSE and ticket.running:
        return _pause(bench, since)
    return _stop(bench, since)


def _check_none_started(bench: Workbench, ticket: Ticket) -> None:
    # Nobody would bring back what was not there at the beginning.
    started = [i.name for i in bench.application.status() if i.state is not InstanceState.GONE] if not ticket.running else []
    if started:
        raise ApplicationNotReady(
            f"{', '.join(started)} of {bench.application_id} started while the savepoint began", next_step="run the savepoint again"
        )


def _pause(bench: Workbench, since: int) -> Quiesced:
    bench.application.pause()
    # A paused application still commits what it had processed (KafkaStreams#pause). Wait until that has happened.
    time.sleep(bench.config.application.commit_interval_seconds + _COMMIT_MARGIN_SECONDS)
    unpaused = [status.name for status in bench.application.status() if not _is_paused(status)]
    members = tuple(sorted(member.member_id for member in bench.groups.describe(bench.application_id).members))
    why_not = f"not every instance is paused: {', '.join(unpaused)}" if unpaused else ""
    return Quiesced(mode=QuiesceMode.PAUSE, since=since, members=members, still=not unpaused, why_not=why_not)


def _is_paused(status: InstanceStatus) -> bool:
    return status.state is InstanceState.RUNNING and status.streams_state == "PAUSED"


def _stop(bench: Workbench, since: int) -> Quiesced:
    report = bench.application.stop(timeout=stop_timeout(bench))
    if not report.gone:
        alive = [f"{i.name} ({i.detail})" for i in report.instances if i.state is not InstanceState.GONE]
        raise ApplicationRunning(
            f"instances of {bench.application_id} did not stop: {', '.join(alive)}",
            next_step="stop them by hand, or raise stop_timeout_seconds",
            instances=alive,
        )
    empty_group(bench, report)
    await_decided(bench)
    unclean = [i.name for i in report.instances if i.closed_cleanly is not True]
    why_not = f"not seen to close cleanly: {', '.join(unclean)}" if unclean else ""
    return Quiesced(mode=QuiesceMode.STOP, since=since, members=(), still=report.clean, why_not=why_not)


def stop_timeout(bench: Workbench) -> float:
    """Seconds an instance gets to close."""
    process = bench.config.runs.process
    return float(process.stop_timeout_seconds) if process else 60.0


def still_held(bench: Workbench, quiesced: Quiesced) -> tuple[bool, str]:
    """Whether the hold of ``quiesced`` still stands after the cut was read, and if not, why not."""
    if not quiesced.still:
        return False, quiesced.why_not
    if quiesced.mode is QuiesceMode.STOP:
        alive = [i.name for i in bench.application.status() if i.state is not InstanceState.GONE]
        empty = bench.groups.describe(bench.application_id).empty
        return not alive and empty, f"running again during the cut: {', '.join(alive) or 'a group member'}"
    members = tuple(sorted(member.member_id for member in bench.groups.describe(bench.application_id).members))
    if members != quiesced.members:
        return False, "the members of the group changed during the cut"
    unpaused = [status.name for status in bench.application.status() if not _is_paused(status)]
    return not unpaused, f"resumed during the cut: {', '.join(unpaused)}"


def resume(bench: Workbench, ticket: Ticket) -> ResumeReport:
    """Bring back what ran when the savepoint began. Idempotent: repeating it, or resuming what was never held, changes nothing.

    Starts nothing once the lock is lost: another run may be restoring. Raises ``ApplicationNotReady`` when an instance does not come back.
    """
    mode = ticket.mode if ticket.mode is not QuiesceMode.LIVE else _fallen_back(bench, ticket)
    if ticket.running and mode is QuiesceMode.STOP:
        under_lock(bench, ticket)
        bench.application.start()
    elif ticket.running and mode is QuiesceMode.PAUSE:
        bench.application.resume()
    back = poll(lambda: _back(bench, ticket), seconds=start_timeout(bench), interval=0.25)
    if back is None:
        states = ", ".join(f"{i.name} {i.state} {i.streams_state}" for i in bench.application.status())
        raise ApplicationNotReady(
            f"not every instance of {bench.application_id} came back: {states}",
            next_step="look at the instances' logs and start or resume them by hand",
            states=states,
        )
    return ResumeReport(mode=ticket.mode, instances=back)


def _fallen_back(bench: Workbench, ticket: Ticket) -> QuiesceMode | None:
    """How an application that was to be left alone was held after all; None when it works as before, for then nothing of it may be touched."""
    if ticket.fallback is None or _back(bench, ticket) is not None:
        return None
    return ticket.fallback


def _back(bench: Workbench, ticket: Ticket) -> tuple[str, ...] | None:
    states = {status.name: status for status in bench.application.status()}
    alive = [name for name in ticket.running if name in states and states[name].state is InstanceState.RUNNING]
    working = [name for name in alive if states[name].streams_state not in (None, "PAUSED", "CREATED")]
    return tuple(working) if len(working) == len(ticket.running) else None


def start_timeout(bench: Workbench) -> float:
    """Seconds an instance gets until it answers."""
    process = bench.config.runs.process
    return float(process.start_timeout_seconds) if process else 120.0
