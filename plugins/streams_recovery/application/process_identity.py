"""Which process is which. A pid alone says nothing: it is given to another process once its owner is gone.

A process is named by its pid and its *birth*: boot id and start tick on Linux, where the start time in seconds moves whenever the clock is
set, else the start time. A zombie without a living thread counts as gone: it cannot do anything any more.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

_LINUX = sys.platform == "linux"
_PROC = Path("/proc")


def birth(pid: int) -> str | None:
    """What tells this process from every other that has or had its pid, or None when no such process is alive."""
    if not _LINUX:
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
        except psutil.Error:
            return None
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may itself hold spaces and parentheses. After it: state, ppid, pgrp, session, ... num_threads (field 20), starttime (22).
    fields = text[text.rindex(")") + 2 :].split()
    state, threads = fields[0], int(fields[17])
    # The state is that of the first thread. One that has ended waits as a zombie for the others, which may run for as long as they like.
    return None if state == "X" or (state == "Z" and threads <= 1) else f"{_boot()}/{fields[19]}"


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where pids count: one kernel since one boot, one pid namespace. Pids of another place say nothing here."""

    host: str
    boot: str
    namespace: str

    @classmethod
    def here(cls) -> Place:
        """Where this runs."""
        if not _LINUX:
            return cls(host=platform.node(), boot="", namespace="")
        return cls(host=platform.node(), boot=_boot(), namespace=str((_PROC / "self/ns/pid").readlink()))

    def visible_from(self, other: Place) -> bool:
        """True when a pid of this place that ``other`` cannot find is proof of an end. Same host after a reboot or a container's restart: yes."""
        same_kernel = bool(self.boot) and (self.boot, self.namespace) == (other.boot, other.namespace)
        return same_kernel or self.host == other.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process for good."""

    pid: int
    born: str

    @classmethod
    def current(cls) -> Process:
        """The process this runs in."""
        return cls(pid=os.getpid(), born=birth(os.getpid()) or "")

    @property
    def alive(self) -> bool:
        """True while this very process lives."""
        return birth(self.pid) == self.born

    def signal(self, number: signal.Signals) -> None:
        """Signal this very process, never one that was given its pid later. Does nothing when it is gone. Raises ``PermissionError``."""
        with contextlib.suppress(ProcessLookupError):
            # The handle before the look: if the pid had changed hands by then, the look shows it; later the handle stays with the process.
            handle = _handle(self.pid)
            try:
                if not self.alive:
                    return
                if handle is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
            finally:
                if handle is not None:
                    os.close(handle)


def _handle(pid: int) -> int | None:
    # Between looking and signalling a pid can change hands; a handle on the process cannot. Old kernels and other systems have none.
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def session_of(leader: Process) -> tuple[Process, ...]:
    """Every running process in the session that ``leader`` founded, itself included while it lives.

    A session's number is not given to a new process while the session has members. Should the number have been reused after the whole
    session ended, its new owner is a running process with another birth, and then nothing here is ours.
    """
    owner = birth(leader.pid)
    if owner is not None and owner != leader.born:
        return ()
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader.pid and (born := birth(pid)) is not None:
                members.append(Process(pid=pid, born=born))
    return tuple(members)
