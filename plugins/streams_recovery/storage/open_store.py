"""Opening the store behind a location: a bucket, with secrets that are kept apart from its address, or a directory with its files.

A file in a directory is there whole or not at all. Its mode follows from the directory's, never from the umask: the owner may read and write, the group
what the directory lets it, others nothing. A directory that this makes is its owner's alone.

A created file is on disk when the call returns, with its name and those of its directories, and a removed file is gone: a power cut changes neither. So a file
that is created later, such as a manifest, never outlasts the files that it names.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import itertools
import os
import re
import secrets
import ssl
import stat
from collections.abc import Callable, Iterator
from datetime import timedelta
from mmap import mmap
from pathlib import Path
from typing import Any, BinaryIO

from obstore import exceptions
from obstore.store import LocalStore, MemoryStore

from streams_recovery.core.durable import sync_directory
from streams_recovery.core.errors import ConfigInvalid, StoreUnsuitable
from streams_recovery.core.escaping import logger
from streams_recovery.core.names import NAME
from streams_recovery.core.repository.layout import PROBE, StorageLocation
from streams_recovery.storage.backends import BUCKETS
from streams_recovery.storage.credentials import StorageCredentials

_PEM_BEGIN, _PEM_END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"

LOGGER = logger("streams_recovery.storage.open_store")
_PIECE = 8 << 20
# Name of a file that is being written, or whose writer was killed: the library that reads passes over ``#`` and digits at the end of a name.
_STAGED = re.compile(rf"{NAME}\.(?:json|md|parquet|zst|txt)#[0-9]{{1,9}}")
# What a file system without hard links answers (link(2)).
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
# Directories of an application and of each kind of object, which stay.
_UPPER = 2
# Directories whose names this process has made durable: their creator may have been killed before it could.
_synced: set[Path] = set()

_RETRY_SECONDS = 60


def key_in_file(path: Path) -> tuple[str | None, str]:
    """A secret key in a file that only its owner can read, or None; with why there is none. Raises ``ConfigInvalid`` for one that others can read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigInvalid(f"{path} has a secret key, and others can read it", next_step="give it mode 0600", path=str(path))
        return path.read_text().strip(), ""
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror or type(error).__name__}"


def open_directory(location: StorageLocation) -> Any:
    """A directory, made when it is missing; for tests, one in memory. Raises ``ConfigInvalid`` when it cannot be used."""
    if location.backend == "memory":
        return MemoryStore()
    try:
        make_root(Path(str(location.path)))
        return LocalStore(location.path)
    except (exceptions.BaseError, OSError, ValueError) as error:
        raise ConfigInvalid(
            f"the repository directory {location.path} cannot be used: {error}",
            next_step="create it and give this user the right to write there",
            path=location.path,
        ) from error


def open_bucket(location: StorageLocation, credentials: StorageCredentials | None, *, retries: int, timeout_seconds: float) -> Any:
    """A bucket. ``retries`` is how often the library sends a failed request again by itself, ``timeout_seconds`` bounds each one."""
    http: dict[str, Any] = {
        "client_options": {"allow_http": location.allow_http, "timeout": timedelta(seconds=timeout_seconds), **authorities(location)},
        "retry_config": {"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
    }
    return BUCKETS[location.backend].open(location, credentials, http)


def authorities(location: StorageLocation) -> dict[str, bytes]:
    """Those beside the system's own whose servers are trusted. Raises ``ConfigInvalid`` for a file that cannot be read, has no certificate, or a broken one."""
    if location.ca_file is None:
        return {}
    try:
        found = Path(location.ca_file).read_bytes()
    except OSError as error:
        raise _no_authorities(location, f"cannot be read: {error.strerror or type(error).__name__}") from error
    begun = found.count(_PEM_BEGIN)
    if not begun:
        raise _no_authorities(location, "has no certificate in PEM form")
    for number, part in enumerate(found.split(_PEM_BEGIN)[1:], start=1):
        if why := _why_broken(part):
            raise _no_authorities(location, f"has a certificate that {why}: number {number} of {begun} in the file")
    return {"root_certificate": found}


def _why_broken(part: bytes) -> str:
    """The fault of a certificate, by the text behind its first line; empty for a good one. Libraries name neither the file nor the certificate."""
    body, end, _ = part.partition(_PEM_END)
    if not end:
        return f"is cut off: it has no line {_PEM_END.decode()}"
    try:
        der = base64.b64decode(b"".join(body.split()), validate=True)
    except ValueError:
        return "is no base64 text between its first and its last line"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
    except (ssl.SSLError, ValueError):
        return "is base64 text of something else than a certificate"
    return ""


def _no_authorities(location: StorageLocation, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"storage.ca_file: {location.ca_file} {why}",
        next_step="put the certificate of the authority there, as PEM, on every machine that opens the repository, workers of Spark among them",
        path=location.ca_file,
    )


def make_root(path: Path) -> None:
    """The repository's own directory, when it is missing. Raises ``OSError``."""
    missing = list(itertools.takewhile(lambda above: not above.exists(), (path, *path.parents)))
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    for made in reversed(missing or [path] * (path not in _synced)):
        # The directory above one that was given to us need not be readable for us.
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
            _link(staged, path)
            created = True
        except FileExistsError:
            created = False
    # Also for the file of another one, which may have been killed right before this: the caller may build on it.
    sync_directory(path.parent)
    return created


def creates_once(root: Path, application_id: str) -> bool:
    """True when the file system of an application's directory refuses to create a file that there is, and to link to its name. Leaves nothing. Raises
    ``OSError``, and ``StoreUnsuitable`` for one without hard links.
    """
    directory = root / application_id
    _make_directories(root, directory, root.stat().st_mode)
    with _staged(directory / PROBE) as (staged, _):
        # The name is of this call alone: others may ask at the same time.
        linked = directory / f"{PROBE}#{secrets.randbelow(10**9):09}"
        try:
            return (
                _refused(lambda: staged.touch(exist_ok=False))
                and not _refused(lambda: _link(staged, linked))
                and _refused(lambda: _link(staged, linked))
            )
        finally:
            linked.unlink(missing_ok=True)


def _refused(create: Callable[[], None]) -> bool:
    try:
        create()
    except FileExistsError:
        return True
    return False


def _link(staged: Path, path: Path) -> None:
    try:
        path.hardlink_to(staged)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        raise StoreUnsuitable(
            f"the file system of {path.parent} has no hard links ({error.strerror}), so it cannot create a file only where there is none: it cannot "
            "hold a repository",
            next_step="put the repository on a file system with hard links (ext4, xfs, NFS), or in a bucket",
            key=path.name,
        ) from error


@contextlib.contextmanager
def removal(root: Path, *, emptied: bool) -> Iterator[Callable[[str], None]]:
    """A function that removes the file of a key; one that does not exist is passed over. Removed files are gone for good at the end. With ``emptied``
    directories that are empty then go too, but for the upper two: only if nothing is written there any more. Raises ``OSError``.
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


def files_in(root: Path, prefix: str) -> list[str]:
    """Keys of the files right below ``prefix``, in order. Raises ``OSError``."""
    try:
        with os.scandir(root / prefix) as found:
            return sorted(prefix + entry.name for entry in found if _is_file(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []


def staged_in(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Keys of staged files below ``prefix``: of files that are being written, and of those whose writer was killed. Raises ``OSError``."""
    # Not through links: they lead to files of others.
    for directory, _, names in os.walk(root / prefix, onerror=raise_unless_gone):
        for name in filter(_STAGED.fullmatch, names):
            path = Path(directory, name)
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if stat.S_ISREG(found.st_mode):
                    yield path.relative_to(root).as_posix(), found


def raise_unless_gone(error: OSError) -> None:
    """Raise the error of a walk through directories, unless it says that one is gone."""
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


def forget_synced() -> None:
    """Begin as a new process does, for tests of power cuts."""
    _synced.clear()


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
