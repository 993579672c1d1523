"""An instance that was not started from here, found with proof: by the file in which its program has written its pid, or by its exact command line.

A pid alone says nothing. A pid file counts only if none but root and the user of the process can have written it, and if it was written soon after the
process began: one that was given the pid later is younger than the file. A command line counts only if it is exactly the configured one, argument by argument,
and no other process has it. Either way it has to be a process that this user may signal, in the pid namespace of this one, alone, and not run by a unit.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from streams_recovery.application.instance_record import Process, birth, is_hidden, session_of

_PROC: Final = Path("/proc")
_MOST_BYTES: Final = 64
# The start of a process is told in seconds by a clock that may have been set since.
_SLACK_SECONDS: Final = 2.0
# A program writes its pid when it begins. What is written later may be about any process that ran by then.
_MOST_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProcess:
    """``process`` is the instance, None if it does not run. ``doubt`` says why nobody can tell: then nothing may be signalled, and it counts as running.
    ``how`` says by what it was found.
    """

    process: Process | None = None
    how: str = ""
    doubt: str = ""


NOT_THERE: Final = FoundProcess()


def by_pid_file(path: Path, argv: Sequence[str] | None = None) -> FoundProcess:
    """The process that a pid file names, which has to have the command line ``argv`` if that is given. A file that is missing, or older than the process that
    has its pid by now, names none.
    """
    try:
        # A link may be somebody else's, and a pipe would be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            found, text = os.fstat(file.fileno()), file.read(_MOST_BYTES + 1)
        room = path.parent.stat()
    except FileNotFoundError:
        return NOT_THERE
    except OSError as error:
        return FoundProcess(doubt=f"{path} cannot be read: {error.strerror}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return FoundProcess(doubt=f"others can write {path}, so it proves nothing: take that right from them (chmod go-w)")
    if room.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not room.st_mode & stat.S_ISVTX:
        return FoundProcess(doubt=f"others can replace {path}, so it proves nothing: take that right from them (chmod go-w {path.parent})")
    words = text.split()
    if len(words) != 1 or not words[0].isdigit() or len(text) > _MOST_BYTES or int(words[0]) <= 1:
        return FoundProcess(doubt=f"{path} has no pid in it")
    named = _named(int(words[0]), written=found.st_mtime, owners={found.st_uid, room.st_uid}, argv=argv)
    if isinstance(named, str):
        return FoundProcess(doubt=f"{path} names pid {int(words[0])}, {named}")
    return NOT_THERE if named is None else FoundProcess(process=named, how=f"pid {named.pid} by {path}")


def _named(pid: int, *, written: float, owners: set[int], argv: Sequence[str] | None) -> Process | str | None:
    """The process that a file names which was written then and can be changed by ``owners``, or why it proves nothing. None where it names none."""
    process = _process(pid)
    if process is None:
        return "which this user may not see" if is_hidden(Process(pid=pid, born="")) else None
    if (began := _began(process)) is None or began > written + _SLACK_SECONDS:
        return None
    doubt = _doubt(process)
    if not doubt and (strangers := owners - {0, _user(pid)}):
        doubt = f"and it or its directory is user {max(strangers)}'s, who is not that of the process: so it proves nothing"
    if not doubt and written - began > _MOST_SECONDS:
        doubt = f"and was written more than {_MOST_SECONDS:.0f} s after that began: so it proves nothing"
    if not doubt and argv is not None and _argv(pid) != list(argv):
        doubt = "which has another command line than running_as"
    return (doubt or process) if process.alive else None


def by_command_line(argv: Sequence[str]) -> FoundProcess:
    """The only process of this pid namespace whose command line is ``argv``."""
    # The birth before the command line: a pid that changes hands in between is not alive by that birth.
    begun = [process for pid in psutil.pids() if (process := _process(pid)) is not None]
    found = [one for one in begun if _argv(one.pid) == list(argv) and one.alive and _is_here(one.pid) is not False]
    if not found:
        return NOT_THERE
    if len(found) > 1:
        return FoundProcess(
            doubt=f"processes {', '.join(str(one.pid) for one in found)} have its command line, and nobody can tell which one it is"
        )
    if doubt := _doubt(found[0]):
        return FoundProcess(doubt=f"pid {found[0].pid} has its command line, {doubt}") if found[0].alive else NOT_THERE
    return FoundProcess(process=found[0], how=f"pid {found[0].pid} by its command line")


def command_line(pid: int) -> list[str] | None:
    """The command line of a process, None if there is none that this user may see."""
    return _argv(pid) or None


def directory_of(pid: int) -> str | None:
    """The directory that a process is in, None if there is none that this user may see."""
    try:
        return str(psutil.Process(pid).cwd())
    except psutil.Error:
        return None


def connected_to(ports: Collection[int]) -> list[int]:
    """The processes of this user, but for this one and what has started it, that are connected to one of these ports of any machine."""
    found, mine = set(), _lineage()
    for pid in psutil.pids():
        if pid not in mine and _ours(pid):
            with contextlib.suppress(psutil.Error):
                found |= {pid for one in psutil.Process(pid).net_connections("tcp") if one.raddr and one.raddr.port in ports}
    return sorted(found)


def _doubt(process: Process) -> str:
    """Why this process cannot be ended as the instance, or its end not be seen. Empty if it can."""
    pid = process.pid
    if not _ours(pid):
        return "and is another user's"
    if pid in _lineage():
        return "and is this process, or has started it"
    if _is_here(pid) is not True:
        return "and is not known to run in the pid namespace of this process"
    if units := _units(pid) - _units(os.getpid()):
        return f"and unit {', '.join(sorted(units))} runs it, which may start it again: use runs.kind command"
    if others := _others(process):
        return f"and has started pid {', '.join(map(str, others))}, which may outlive it: let the pid file name that one, or start it with exec"
    return ""


def _lineage() -> set[int]:
    """The caller, and all that it descends from."""
    return {os.getpid(), *(one.pid for one in psutil.Process().parents())}


def _is_here(pid: int) -> bool | None:
    """Whether it runs in the pid namespace of this process; None where that cannot be read."""
    if sys.platform != "linux":
        return True
    try:
        return (_PROC / str(pid) / "ns/pid").readlink() == (_PROC / "self/ns/pid").readlink()
    except OSError:
        return None


def _units(pid: int) -> set[str]:
    """The units of systemd whose process it is."""
    try:
        lines = (_PROC / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return set()
    return {unit for line in lines if (unit := line.rpartition("/")[2]).endswith(".service")}


def _others(process: Process) -> list[int]:
    """What else there is of it: its descendants, and the rest of the session that it founded."""
    try:
        below = {one.pid for one in psutil.Process(process.pid).children(recursive=True) if birth(one.pid) is not None}
    except psutil.Error:
        below = set()
    return sorted({*below, *(one.pid for one in session_of(process))} - {process.pid})


def _process(pid: int) -> Process | None:
    born = birth(pid)
    return None if born is None else Process(pid=pid, born=born)


def _argv(pid: int) -> list[str] | None:
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return None


def _began(process: Process) -> float | None:
    try:
        began = psutil.Process(process.pid).create_time()
    except psutil.Error:
        return None
    # Asked after: the pid may have changed hands meanwhile.
    return began if process.alive else None


def _ours(pid: int) -> bool:
    return _user(pid) in (os.geteuid(), os.getuid()) or (os.geteuid() == 0 and _user(pid) >= 0)


def _user(pid: int) -> int:
    try:
        return int(psutil.Process(pid).uids().effective)
    except psutil.Error:
        return -1
