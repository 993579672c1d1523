"""A repository's files in a directory. Each is there whole or not at all, and its mode follows from the directory's, never from the umask.

The owner may read and write, the group what the directory lets it, others nothing. A directory that this makes is its owner's alone.

What is created is on disk when the call returns, with the names of it and of its directories, and what is removed is gone: a power cut changes
neither. So what is created later, such as a manifest, never outlasts what it names.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterator
from mmap import mmap
from pathlib import Path
from typing import BinaryIO

from streams_recovery.core.durable import sync_directory
from streams_recovery.core.names import NAME

_PIECE = 8 << 20
# Of a file that is being written, or whose writer was killed: the library that reads passes over ``#`` and digits at the end of a name.
_STAGED = re.compile(rf"{NAME}\.(?:json|md|parquet|zst)#[0-9]{{1,9}}")
# Directories of an application and of each kind of object, which stay.
_UPPER = 2
# Directories whose names this process has made durable: whoever made them may have been killed before it could.
_synced: set[Path] = set()


def forget_synced() -> None:
    """Begin as a new process does, for tests of power cuts."""
    _synced.clear()


def make_root(path: Path) -> None:
    """The repository's own directory, when it is missing. Raises ``OSError``."""
    missing = list(itertools.takewhile(lambda above: not above.exists(), (path, *path.parents)))
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    for made in reversed(missing or [path] * (path not in _synced)):
        # Above a directory that somebody gave us we need not be allowed to read.
        with contextlib.nullcontext() if missing else contextlib.suppress(PermissionError):
            sync_directory(made.parent)
    _synced.add(path)


def create_file(root: Path, key: str, data: bytes | mmap) -> bool:
    """Write ``data`` as the file ``key`` below ``root``. False when there is one: it stays as it is. Raises ``OSError``; nothing half written stays."""
    path = root / key
    mode = root.stat().st_mode
    _make_directories(root, path.parent, mode)
    with _staged(path) as (staged, file):
        os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR | (mode & (stat.S_IRGRP | stat.S_IWGRP)))
        with memoryview(data) as view:
            for start in range(0, len(view), _PIECE):
                file.write(view[start : start + _PIECE])
        file.flush()
        os.fsync(file.fileno())
        try:
            # Unlike a rename this fails when there is a file of that name.
            path.hardlink_to(staged)
            created = True
        except FileExistsError:
            created = False
    # Also for the file of another one, which may have been killed right before this: the caller may build on it.
    sync_directory(path.parent)
    return created


@contextlib.contextmanager
def removal(root: Path, *, emptied: bool = False) -> Iterator[Callable[[str], None]]:
    """A function that removes the file of a key; one that does not exist is passed over. What was removed is gone for good at the end. With ``emptied``
    directories that are empty then go too, but for the upper two: only where nobody writes any more. Raises ``OSError``.
    """
    parents: set[Path] = set()

    def remove(key: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (root / key).unlink()
            parents.add((root / key).parent)

    try:
        yield remove
    finally:
        for parent in _left_over(root, parents) if emptied else parents:
            sync_directory(parent)


def _left_over(root: Path, directories: set[Path]) -> set[Path]:
    """Remove these directories, and those above them, that are empty. Returns the ones that stay, whose content has changed."""
    changed: set[Path] = set()
    for deepest in sorted(directories, key=lambda one: -len(one.parts)):
        directory = deepest
        while len(directory.relative_to(root).parts) > _UPPER:
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                break
            _synced.discard(directory)
            directory = directory.parent
        changed.add(directory)
    return {directory for directory in changed if directory.exists()}


def files_in(root: Path, prefix: str) -> list[str]:
    """Keys of the files right below ``prefix``, in order. Raises ``OSError``."""
    try:
        with os.scandir(root / prefix) as found:
            return sorted(prefix + entry.name for entry in found if _is_file(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []


def staged_in(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Keys of staged files below ``prefix``: of files that are being written, and of those whose writer was killed. Raises ``OSError``."""
    # Not through links: what they lead to is somebody else's.
    for directory, _, names in os.walk(root / prefix, onerror=_raise_unless_gone):
        for name in filter(_STAGED.fullmatch, names):
            path = Path(directory, name)
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if stat.S_ISREG(found.st_mode):
                    yield path.relative_to(root).as_posix(), found


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        # A link to itself is no object.
        return False


def _make_directories(root: Path, directory: Path, mode: int) -> None:
    if directory == root or (directory in _synced and directory.is_dir()):
        return
    _make_directories(root, directory.parent, mode)
    if not directory.is_dir():
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=stat.S_IRWXU)
            inherited = stat.S_IMODE(directory.stat().st_mode) & stat.S_ISGID
            directory.chmod(stat.S_IRWXU | (mode & stat.S_IRWXG) | inherited)
    sync_directory(directory.parent)
    _synced.add(directory)


@contextlib.contextmanager
def _staged(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside ``path`` under a name that no listing shows."""
    for number in itertools.count(1):
        staged = path.with_name(f"{path.name}#{number}")
        try:
            handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR)
        except FileExistsError:
            continue
        try:
            with os.fdopen(handle, "wb") as file:
                yield staged, file
        finally:
            staged.unlink(missing_ok=True)
        return
