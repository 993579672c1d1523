"""A job ends with the process that submitted it: what nobody waits for any more must not go on reading, let alone writing."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping

SUBMITTER = "STREAMS_RECOVERY_SUBMITTER"
# What EX_UNAVAILABLE is elsewhere; nobody is left to read it.
_EXIT_CODE = 69


def end_with_submitter(environment: Mapping[str, str] = os.environ) -> None:
    """Watch the process that ``STREAMS_RECOVERY_SUBMITTER`` names by pid, and end this one as soon as that is gone: Spark ends the tasks of a driver
    that died. Watches nobody when nobody is named.
    """
    pid = environment.get(SUBMITTER)
    if pid:
        threading.Thread(target=_end_after, args=(int(pid),), name="submitter-watch", daemon=True).start()


def _end_after(pid: int) -> None:
    _await_end(pid)
    print(f"The submitter, pid {pid}, is gone: the job ends.", file=sys.stderr, flush=True)  # noqa: T201  # a job's stderr is its log
    os._exit(_EXIT_CODE)


def _await_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if (handle := _handle_of(pid)) is not None:
            select.select([handle], [], [])
            return
        while True:
            os.kill(pid, 0)
            time.sleep(1)


def _handle_of(pid: int) -> int | None:
    """What stands for the process on Linux, whatever becomes of its pid, and can be read from as soon as that has ended, reaped or not. None where the system
    has none or refuses it, as older kernels and some containers do. Raises ``ProcessLookupError``.
    """
    open_handle: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    try:
        return None if open_handle is None else open_handle(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
