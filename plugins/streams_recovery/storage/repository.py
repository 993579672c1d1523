"""The repository: objects under relative keys, each created once and never replaced."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import obstore

from streams_recovery.core.errors import Refused, RepositoryUnavailable
from streams_recovery.core.location import StorageLocation
from streams_recovery.storage.failures import AlreadyExists, translated
from streams_recovery.storage.location import StorageCredentials
from streams_recovery.storage.object_file import ObjectFile
from streams_recovery.storage.opening import Store, open_store

__all__ = ["AlreadyExists", "Repository"]

# Above this size a file goes up in parts, which need only a few MiB of memory.
IN_ONE_PIECE = 16 * 1024 * 1024
READ_BUFFER = 1024 * 1024
PROBE_KEY = "write-probe"
_CREATE_ATTEMPTS = 6
_FIRST_PAUSE = 0.2


class Repository:
    """Objects at one location. Opens nothing before it is used, and may be used by several threads.

    Raises ``RepositoryUnavailable`` when the store does not answer after retries, ``NotFound``, ``AlreadyExists``, and ``Refused`` for
    everything that a retry would not change: keys that leave the repository, missing permissions. It never overwrites.
    """

    def __init__(
        self,
        location: StorageLocation,
        credentials: StorageCredentials | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.location = location
        self._credentials = credentials
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"Repository({self.location})"

    @cached_property
    def _store(self) -> Store:
        return open_store(self.location, self._credentials, retrying=True)

    @cached_property
    def _creating_store(self) -> Store:
        # A second store in memory would be an empty one.
        return self._store if self.location.backend == "memory" else open_store(self.location, self._credentials, retrying=False)

    def get(self, key: str) -> bytes:
        """The whole object. For small ones; segments are read through ``open``."""
        with self._translated("read", key):
            return bytes(obstore.get(self._store, checked_key(key)).bytes())

    def size(self, key: str) -> int | None:
        """Bytes in the object, None when it does not exist."""
        with self._translated("look up", key):
            try:
                return int(obstore.head(self._store, checked_key(key))["size"])
            except FileNotFoundError:
                return None

    def create(self, key: str, data: bytes) -> None:
        """Store ``data`` under a key that must be free. Raises ``AlreadyExists``.

        An answer that got lost is asked for again. When the key is then found taken with exactly these bytes, it was this call that took it.
        """
        self._create(key, data, lambda: self.get(key) == data)

    def put_file(self, key: str, path: Path) -> None:
        """Store a local file under a key that must be free. Raises ``AlreadyExists``.

        Big files go up in parts. Object stores cannot make that conditional, so the key is looked up before: two writers that choose one
        key at one moment are not told apart. Names of segments are unique for each attempt, so they never do.
        """
        size = path.stat().st_size
        if size <= IN_ONE_PIECE:
            data = path.read_bytes()
            self._create(key, data, lambda: self.get(key) == data)
            return
        if self.size(key) is not None:
            raise AlreadyExists(f"{key} already exists in {self.location}", next_step="use a new attempt's name", key=key)
        with self._translated("write", key):
            obstore.put(self._store, key, path, use_multipart=True, max_concurrency=4)
            self._settle(key)
        if self.size(key) != size:
            raise RepositoryUnavailable(
                f"{key} arrived in {self.location} with another size", next_step="write it again under a new name", key=key
            )

    def open(self, key: str) -> BinaryIO:
        """The object as a seekable binary file, read in pieces as it is used. Raises ``NotFound``."""
        with self._translated("open", key):
            size = int(obstore.head(self._store, checked_key(key))["size"])
        return cast("BinaryIO", io.BufferedReader(ObjectFile(self._read_range, key, size), READ_BUFFER))

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[str]:
        """Keys below ``prefix`` (empty, or ending with a slash) in order; with ``after`` only those that sort behind it."""
        return iter(sorted(self.sizes(prefix, after=after)))

    def sizes(self, prefix: str, *, after: str | None = None) -> dict[str, int]:
        """Size by key of everything below ``prefix``, in no particular order."""
        if prefix and not prefix.endswith("/"):
            raise Refused(f"the prefix {prefix[:80]!r} does not end with '/'", next_step="list a folder", prefix=prefix)
        if prefix:
            checked_key(prefix.removesuffix("/"))
        with self._translated("list", prefix):
            found = {str(item["path"]): int(item["size"]) for page in obstore.list(self._store, prefix or None) for item in page}
        return {key: size for key, size in found.items() if after is None or key > after}

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; absent ones are no error. Only expiry deletes: nothing else needs it to be correct."""
        for key in keys:
            with self._translated("delete", key):
                try:
                    obstore.delete(self._store, checked_key(key))
                except FileNotFoundError:
                    continue

    def check_writable(self) -> None:
        """Prove that objects can be created here, and that the store refuses to create one twice. Raises ``Refused`` with the reason.

        Leaves one empty object behind, the same every time, so that no permission to delete is needed.
        """
        try:
            self.create(PROBE_KEY, b"")
            self.create(PROBE_KEY, b"")
        except AlreadyExists:
            return
        raise Refused(
            f"{self.location} creates an object twice: it does not honour If-None-Match, so locks and manifests would not be safe",
            next_step="use a store with conditional writes",
        )

    def _create(self, key: str, data: bytes, ours: Callable[[], bool]) -> None:
        checked_key(key)
        for attempt in range(_CREATE_ATTEMPTS):
            try:
                with self._translated("write", key):
                    obstore.put(self._creating_store, key, data, mode="create", use_multipart=False)
                    self._settle(key)
            except AlreadyExists:
                if attempt and ours():
                    return
                raise
            except RepositoryUnavailable:
                if attempt == _CREATE_ATTEMPTS - 1:
                    raise
                self._sleep(_FIRST_PAUSE * 2**attempt)
            else:
                return

    def _read_range(self, key: str, start: int, end: int) -> bytes:
        with self._translated("read", key):
            return bytes(obstore.get_range(self._store, key, start=start, end=end))

    def _settle(self, key: str) -> None:
        """Make a local file survive a power cut. Object stores have done that when they answer."""
        if self.location.backend == "filesystem" and self.location.path is not None:
            file = Path(self.location.path, key)
            for path in (file, file.parent):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _translated(self, verb: str, key: str) -> Any:
        return translated(verb, str(self.location), key)


def checked_key(key: str) -> str:
    """``key`` itself when it is relative and stays inside. Raises ``Refused``."""
    parts = key.split("/")
    if not all(part and part not in (".", "..") and part.isprintable() and "\\" not in part for part in parts) or len(key) > 1_000:  # noqa: PLR2004
        raise Refused(
            f"{key[:80]!r} is not a key inside the repository", next_step="do not use this manifest or note; verify the repository", key=key
        )
    return key
