"""A job that outlives the run it belongs to must not go on writing: it looks whether the run's lock is still held, and ends with it. A task that was frozen
must not either: Spark may have given its work to another one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from streams_recovery.core.errors import LockLost, RecoveryError
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository

LOOK_SECONDS: Final = 2.0
# Sooner than a master or a driver gives up a worker that is silent (60 and 120 s), and its task begins anew.
ASLEEP_SECONDS: Final = 45.0
_AWAKE_LOOK_SECONDS: Final = 1.0
# What EX_TEMPFAIL is elsewhere: the work may be done again.
_EXIT_CODE: Final = 75


@contextmanager
def fenced(
    repository: Repository, application_id: str, ticket: LockTicket | None, end: Callable[[RecoveryError], object]
) -> Iterator[None]:
    """``end`` this job, and with it its tasks, soon after somebody else took the lock. It is given the reason, in a thread of its own.

    What it cannot see it does not act on: while the repository does not answer, the job goes on. A task that writes after all is noticed by
    its successor, whose records then do not land where they should. Without a ticket nothing is watched. When the block has ended, ``end`` is not called
    any more: what is told then stays true.
    """
    done, ending = threading.Event(), threading.Lock()

    def watch(held: LockTicket) -> None:
        lock = ApplicationLock(repository, Layout(application_id), lambda: time.time_ns() // 1_000_000)
        while not done.wait(LOOK_SECONDS):
            try:
                if lock.holds(held):
                    continue
            except RecoveryError:
                continue
            with ending:
                # Not an exception: the main thread waits inside the JVM, and would not see it.
                if not done.is_set():
                    end(_lost(held))
            return

    if ticket is not None:
        threading.Thread(target=watch, args=(ticket,), name="lock-watch", daemon=True).start()
    try:
        yield
    finally:
        with ending:
            done.set()


def _lost(ticket: LockTicket) -> LockLost:
    return LockLost(
        f"{ticket.owner} no longer holds the lock it took as number {ticket.number}: this job ended itself",
        next_step="do not go on with this run; see what the other one did",
        owner=ticket.owner,
        number=ticket.number,
    )


@contextmanager
def awake(asleep: float = ASLEEP_SECONDS) -> Iterator[None]:
    """End this process, should it have been frozen for ``asleep`` seconds, as soon as it runs again: a client of Kafka would send what was handed to it before,
    behind what another one has written meanwhile.
    """
    done = threading.Event()
    threading.Thread(target=_end_after_sleep, args=(done, asleep), name="awake", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _end_after_sleep(done: threading.Event, asleep: float) -> None:
    last = _since_boot()
    while not done.wait(min(_AWAKE_LOOK_SECONDS, asleep / 2)):
        slept = _since_boot() - last
        if slept > asleep:
            # At once, and without a word: all this time the client's own threads send on.
            os._exit(_EXIT_CODE)
        last += slept


def _since_boot() -> float:
    """Seconds of a clock that goes on while the machine is suspended, as one in a cloud that hibernates; of one that stops then where there is no other."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
