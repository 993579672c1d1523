"""An instance that was not started from here, found with proof: by the file in which its program has written its pid, or by its exact command line.

A pid alone says nothing. A pid file counts only for a process that is older than the file and that this user may signal: one that was given the pid later is
younger. A command line counts only if it is exactly the configured one, argument by argument, and no other process has it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from streams_recovery.application.instance_record import Process, birth

_MOST_BYTES: Final = 64
# The start of a process is told in seconds by a clock that may have been set since.
_SLACK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProcess:
    """``process`` is the instance, None if it does not run. ``doubt`` says why nobody can tell: then nothing may be signalled, and it counts as running.
    ``how`` says by what it was found.
    """

    process: Process | None = None
    how: str = ""
    doubt: str = ""


NOT_THERE: Final = FoundProcess()


def by_pid_file(path: Path) -> FoundProcess:
    """The process that a pid file names. A file that is missing, or older than the process that has its pid by now, names none."""
    try:
        with path.open("rb") as file:
            found, text = os.fstat(file.fileno()), file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return NOT_THERE
    except OSError as error:
        return FoundProcess(doubt=f"{path} cannot be read: {error.strerror}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return FoundProcess(doubt=f"others can write {path}, so it proves nothing: take that right from them (chmod go-w)")
    words = text.split()
    if len(words) != 1 or not words[0].isdigit() or len(text) > _MOST_BYTES or int(words[0]) <= 1:
        return FoundProcess(doubt=f"{path} has no pid in it")
    process = _process(int(words[0]))
    if process is None or (began := _began(process)) is None or began > found.st_mtime + _SLACK_SECONDS:
        return NOT_THERE
    if not _ours(process.pid):
        return FoundProcess(doubt=f"{path} names pid {process.pid}, which is another user's")
    return FoundProcess(process=process, how=f"pid {process.pid} by {path}")


def by_command_line(argv: Sequence[str]) -> FoundProcess:
    """The only process whose command line is ``argv``."""
    found = [process for pid in psutil.pids() if _argv(pid) == list(argv) and (process := _process(pid)) is not None]
    if not found:
        return NOT_THERE
    if len(found) > 1:
        return FoundProcess(
            doubt=f"processes {', '.join(str(one.pid) for one in found)} have its command line, and nobody can tell which one it is"
        )
    if not _ours(found[0].pid):
        return FoundProcess(doubt=f"pid {found[0].pid} has its command line, and is another user's")
    return FoundProcess(process=found[0], how=f"pid {found[0].pid} by its command line")


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
    try:
        return psutil.Process(pid).uids().effective in (os.geteuid(), os.getuid()) or os.geteuid() == 0
    except psutil.Error:
        return False
