"""Local state in directories that are seen from here: removed whole, and proven to be younger than that once the application runs again.

It is ``{state.dir}/{application.id}`` of Kafka Streams, ``{datadir}/v1/tables`` of Faust. Both accept stale state beside a new changelog without an error, so
nothing of it may stay, and nothing else may go.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import psutil

from streams_recovery.application.port import StateSince, WipeMark, WipeReport
from streams_recovery.core.application_kind import ApplicationKind, StateDirectory
from streams_recovery.core.durable import sync_directory
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.names import checked_name

LOGGER = logger(__name__)

# "/" and its direct children are never a state directory.
_LEAST_PARTS: Final = 3
_NAMED: Final = 5
# Directory of a task, with the name of its topology in front if it has one.
_TASK: Final = re.compile(r"(.+__)?\d+_\d+")
# Directories of tasks come first; of a large store not every file is looked at.
_LOOKED_AT: Final = 10_000
# statx(2): its structure, the place of the time of birth in it, and the words for that.
_STATX_BYTES, _BIRTH_AT, _HAS_BIRTH, _FROM_HERE, _NO_FOLLOW = 256, 80, 0x800, -100, 0x100


def wipe(state_directories: Iterable[Path], application_id: str, kind: ApplicationKind = ApplicationKind.KAFKA_STREAMS) -> WipeReport:
    """Remove the application's directory in each state directory. Everything is checked before anything is removed; what could not be
    removed is in ``remaining``. Raises ``ConfigInvalid`` for a state directory that cannot be one, ``Refused`` for a symbolic link or a file, and for what may
    not be state of this application.
    """
    states = list(dict.fromkeys(map(Path, state_directories)))
    directories = checked(states, application_id, kind)
    removed = [directory for directory in directories if _removed(directory)]
    remaining = [directory for directory in directories if directory.exists() or directory.is_symlink()]
    marks = [mark for state, directory in zip(states, directories, strict=True) if (mark := marked(directory, state)) is not None]
    return WipeReport(removed=tuple(map(str, removed)), remaining=tuple(map(str, remaining)), marks=tuple(marks))


def checked(state_directories: Iterable[Path], application_id: str, kind: ApplicationKind) -> list[Path]:
    """The directories that would be removed, whether they are there or not. Changes nothing; raises what ``wipe`` does."""
    checked_name("application id", application_id)
    return [_checked(Path(state), application_id, kind) for state in dict.fromkeys(state_directories)]


def _checked(state: Path, application_id: str, kind: ApplicationKind) -> Path:
    if not state.is_absolute() or ".." in state.parts or len(state.parts) < _LEAST_PARTS or state == Path.home():
        raise ConfigInvalid(
            f"{state} cannot be a state directory", next_step="give every instance an absolute directory of its own", path=str(state)
        )
    layout = kind.dialect.state_directory(application_id)
    directory = state.joinpath(*layout.parts)
    for path in (state, *(state.joinpath(*layout.parts[: count + 1]) for count in range(len(layout.parts)))):
        if path.is_symlink():
            raise Refused(
                f"{path} is a symbolic link; it was not followed",
                next_step="configure the directory it points to, or remove the link by hand",
                path=str(path),
            )
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a directory", next_step="look what it is; local state is a directory", path=str(directory))
    _refuse_other_state(state, directory, application_id, layout)
    return directory


def _refuse_other_state(state: Path, directory: Path, application_id: str, layout: StateDirectory) -> None:
    other = state.joinpath(*layout.beside)
    if layout.beside and other.is_dir():
        raise Refused(
            f"{other} may be state of {application_id} or of another application: its id ends like that of a version, and nobody can tell whether it is one",
            next_step=f"nothing was removed; move {other} away, whole: Faust makes it again from its changelogs",
            path=str(other),
        )
    if layout.children is None or not directory.is_dir():
        return
    strange = sorted(child.name for child in directory.iterdir() if layout.children.fullmatch(child.name) is None or child.is_symlink())
    if strange:
        raise Refused(
            f"{directory} has what is no state of {application_id}: {', '.join(strange[:_NAMED])}",
            next_step="nothing was removed; move that away, or configure the directory that the application really has its tables in",
            path=str(directory),
            strange=strange,
        )


def _removed(directory: Path) -> bool:
    if not directory.exists():
        return False
    try:
        shutil.rmtree(directory)
        # Or a power cut brings back stale state, which the restore has on record as gone.
        sync_directory(directory.parent)
    except OSError as error:
        # Reported by what remains: a wipe that fails half-way has removed something all the same.
        LOGGER.warning("local state in %s could not be removed whole: %s", directory, error)
    return not directory.exists()


def marked(directory: Path, beside: Path) -> WipeMark | None:
    """The moment from which on ``directory`` is made anew, by the clock of the file system that has it; None if nothing can be written ``beside`` it. An empty
    directory is noted as ``wiped``: the wipe created it again, or removed only its files.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=beside, prefix=".wiped-") as file:
            emptied = directory.is_dir() and not any(directory.iterdir())
            return WipeMark(place=str(directory), at=os.fstat(file.fileno()).st_mtime_ns, wiped=(str(directory),) if emptied else ())
    except OSError as error:
        LOGGER.info("the time of %s cannot be measured: %s", beside, error)
        return None


def since(marks: Iterable[WipeMark]) -> StateSince:
    """The state in these directories, compared with the time at which they were removed."""
    fresh: list[str] = []
    stale: list[str] = []
    unseen: list[str] = []
    for mark in marks:
        directory = Path(mark.place)
        emptied = str(directory) in mark.wiped
        try:
            old = _older(directory.resolve(), mark.at, emptied=emptied)
            nothing = emptied and not any(directory.iterdir())
        except FileNotFoundError:
            unseen.append(f"{directory} is not there")
        except OSError as error:
            unseen.append(f"{directory} cannot be looked at: {error.strerror}")
        else:
            if old is not None:
                stale.append(f"{old} (of {directory})")
            elif nothing:
                unseen.append(f"{directory} has nothing in it since the wipe")
            else:
                fresh.append(str(directory))
    return StateSince(fresh=tuple(fresh), stale=tuple(stale), unseen=tuple(unseen))


def task_directory_of(file: Path, application_id: str) -> Path | None:
    """The directory ``{application.id}`` of which a task of Kafka Streams has this file, None for any other file."""
    for task in file.parents:
        if _TASK.fullmatch(task.name) and task.parent.name == application_id:
            return task.parent
    return None


def open_files(pid: int) -> Iterator[Path]:
    """The files that a process has open, as far as this may look."""
    try:
        yield from (Path(one.path) for one in psutil.Process(pid).open_files())
    except psutil.Error:
        return


def _older(directory: Path, at: int, *, emptied: bool) -> Path | None:
    """A path of the directory's state that is older than this moment, None without one. The directory itself does not count if a wipe has ``emptied`` it.
    Raises ``OSError`` when the directory itself cannot be seen.
    """
    if _born(directory) < at and not emptied:
        return directory
    return next((path for path in _inside(directory) if (born := _born_or_none(path)) is not None and born < at), None)


def _inside(directory: Path) -> Iterator[Path]:
    left, seen = deque([directory]), 0
    while left and seen < _LOOKED_AT:
        try:
            with os.scandir(left.popleft()) as found:
                for entry in found:
                    seen += 1
                    yield Path(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        left.append(Path(entry.path))
        except OSError:
            # The application works in it, and removes what it does not need.
            continue


def _born_or_none(path: Path) -> int | None:
    try:
        return _born(path)
    except OSError:
        return None


def _born(path: Path) -> int:
    """The moment (nanoseconds) at which it was made, as its file system knows it. Where that keeps no such time, of its last change; of a directory that of its
    content if that is older, since a new owner is a change too.
    """
    found = os.lstat(path)
    birth = _birth(path) if sys.platform == "linux" else _seconds_ns(getattr(found, "st_birthtime", None))
    if birth is None:
        # A file may bring an old time of its content along; a directory gets a new one as it is filled.
        return min(found.st_ctime_ns, found.st_mtime_ns) if stat.S_ISDIR(found.st_mode) else found.st_ctime_ns
    return min(birth, found.st_ctime_ns)


def _seconds_ns(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)


def _birth(path: Path) -> int | None:
    # Python 3.15 has it in os.statx.
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(_FROM_HERE, os.fsencode(path), _NO_FOLLOW, _HAS_BIRTH, buffer)
    except (AttributeError, OSError):
        return None
    mask, seconds = (int.from_bytes(buffer.raw[start:end], sys.byteorder) for start, end in ((0, 4), (_BIRTH_AT, _BIRTH_AT + 8)))
    if failed or not mask & _HAS_BIRTH or not seconds:
        return None
    return seconds * 1_000_000_000 + int.from_bytes(buffer.raw[_BIRTH_AT + 8 : _BIRTH_AT + 12], sys.byteorder)
