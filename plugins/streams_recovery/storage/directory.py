"""A repository's files in a directory. Each is there whole or not at all, and its mode follows from the directory's, never from the umask.

The owner may read and write, the group what the directory lets it, others nothing. A directory that this makes is its owner's alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import BinaryIO

_PIECE = 8 << 20


def make_root(path: Path) -> None:
    """The repository's own directory, when it is missing. Raises ``OSError``."""
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)


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
        try:
            # Unlike a rename this fails when there is a file of that name.
            path.hardlink_to(staged)
        except FileExistsError:
            return False
    return True


def files_in(root: Path, prefix: str) -> list[str]:
    """Keys of the files right below ``prefix``, in order. Raises ``OSError``."""
    try:
        with os.scandir(root / prefix) as found:
            return sorted(prefix + entry.name for entry in found if _is_file(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        # A link to itself is no object.
        return False


def _make_directories(root: Path, directory: Path, mode: int) -> None:
    if directory == root or directory.is_dir():
        return
    _make_directories(root, directory.parent, mode)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=stat.S_IRWXU)
        inherited = stat.S_IMODE(directory.stat().st_mode) & stat.S_ISGID
        directory.chmod(stat.S_IRWXU | (mode & stat.S_IRWXG) | inherited)


@contextlib.contextmanager
def _staged(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside ``path`` under a name that no listing shows: the library that reads passes over ``#`` and digits at the end of a name."""
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
