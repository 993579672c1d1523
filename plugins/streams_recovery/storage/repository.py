"""The object store as this project uses it: create if absent, read, list. Nothing is ever overwritten."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import obstore
from obstore import exceptions
from obstore.store import LocalStore, MemoryStore, S3Store

from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused, RepositoryUnavailable
from streams_recovery.core.location import StorageLocation
from streams_recovery.core.retention import StoredFile
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.object_file import ObjectFile

T = TypeVar("T")

_CHUNK = 8 << 20


class AlreadyExists(Refused):
    """Raised when an object of this key is there already. It was not touched."""


class Repository:
    """One repository. Keys are relative, with forward slashes; keys that would leave the prefix are refused.

    Raises ``RepositoryUnavailable`` when the store does not answer after its own retries, ``ConfigInvalid`` when it does not let us in.
    """

    def __init__(self, location: StorageLocation, credentials: StorageCredentials | None = None) -> None:
        self.location = location
        self._credentials = credentials
        self._opened: Any = None

    def get(self, key: str) -> bytes:
        """The whole object. For small ones: manifests, notes, locks. Raises ``NotFound``."""
        return self._do("reading", key, lambda: bytes(obstore.get(self._store, _checked(key)).bytes()))

    def open(self, key: str) -> BinaryIO:
        """The object as a buffered, seekable file that reads ranges as they are asked for. Raises ``NotFound``."""
        size = self.size(key)
        if size is None:
            raise _missing(key, self.location)
        return cast("BinaryIO", io.BufferedReader(ObjectFile(self._range, key, size), buffer_size=_CHUNK))

    def _range(self, key: str, start: int, end: int) -> bytes:
        return self._do("reading", key, lambda: bytes(obstore.get_range(self._store, _checked(key), start=start, end=end)))

    def size(self, key: str) -> int | None:
        """Bytes of the object, None when it does not exist."""
        try:
            return self._do("looking at", key, lambda: int(obstore.head(self._store, _checked(key))["size"]))
        except NotFound:
            return None

    def create(self, key: str, data: bytes) -> None:
        """Write an object that does not exist yet. Raises ``AlreadyExists``; the one that is there stays as it is."""
        self._do("creating", key, lambda: obstore.put(self._store, _checked(key), data, mode="create"))

    def put_file(self, key: str, path: Path) -> None:
        """Upload a local file as a new object. Raises ``AlreadyExists``."""
        # Conditional creation and multipart upload exclude each other in S3; a segment is far below the 5 GiB of one request.
        with path.open("rb") as file:
            self._do("uploading", key, lambda: obstore.put(self._store, _checked(key), file, mode="create", use_multipart=False))

    def keys(self, prefix: str) -> Iterator[str]:
        """Keys below ``prefix`` in order. Every page is read before the first key is given, so the order is over all of them."""

        def read() -> list[str]:
            return sorted(str(item["path"]) for page in obstore.list(self._store, prefix=prefix, chunk_size=1000) for item in page)

        return iter(self._do("listing", prefix, read))

    def listed(self, prefix: str) -> list[StoredFile]:
        """Objects below ``prefix`` with size and time of their last change, in the order of their keys."""

        def read() -> list[StoredFile]:
            items = (item for page in obstore.list(self._store, prefix=prefix, chunk_size=1000) for item in page)
            return [
                StoredFile(key=str(item["path"]), bytes=int(item["size"]), modified=int(item["last_modified"].timestamp() * 1000))
                for item in items
            ]

        return sorted(self._do("listing", prefix, read), key=lambda file: file.key)

    def delete(self, keys: list[str]) -> None:
        """Delete objects; those that do not exist are passed over. Only expiry calls this: nothing else needs the right to."""
        for key in keys:
            try:
                self._do("deleting", key, lambda key=key: obstore.delete(self._store, _checked(key)))  # type: ignore[misc]
            except NotFound:
                continue

    @property
    def _store(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Any:
        where = self.location
        if where.backend == "memory":
            return MemoryStore()
        if where.backend == "filesystem":
            try:
                return LocalStore(where.path, mkdir=True)
            except (exceptions.BaseError, OSError, ValueError) as error:
                raise ConfigInvalid(
                    f"the repository directory {where.path} cannot be used: {error}",
                    next_step="create it and give this user the right to write there",
                    path=where.path,
                ) from error
        return self._open_s3()

    def _open_s3(self) -> Any:
        where, keys = self.location, self._credentials
        options: dict[str, Any] = {"region": where.region or "us-east-1", "virtual_hosted_style_request": not where.path_style}
        if where.endpoint:
            options["endpoint"] = where.endpoint
        if keys:
            options |= {"access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key}
            options |= {"session_token": keys.session_token} if keys.session_token else {}
        return S3Store(
            where.bucket,
            prefix=where.prefix or None,
            client_options={"allow_http": where.allow_http, "timeout": timedelta(seconds=60)},
            retry_config={"max_retries": 6, "retry_timeout": timedelta(seconds=60)},
            **options,
        )

    def _do(self, doing: str, key: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            raise _missing(key, self.location) from error
        except exceptions.AlreadyExistsError as error:
            raise AlreadyExists(f"{key} exists already in {self.location}", next_step="nothing was overwritten", key=key) from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError) as error:
            raise ConfigInvalid(
                f"{doing} {key} in {self.location} is not allowed: {_first_line(error)}",
                next_step="correct the rights or the credentials",
                key=key,
            ) from error
        except exceptions.InvalidPathError as error:
            raise ConfigInvalid(f"{key!r:.200} is no valid key", next_step="use names from the allow-list", key=key) from error
        except (exceptions.BaseError, OSError) as error:
            raise RepositoryUnavailable(
                f"{doing} {key} in {self.location} failed: {_first_line(error)}", next_step="check that the store can be reached", key=key
            ) from error


def _missing(key: str, location: StorageLocation) -> NotFound:
    return NotFound(f"{key} does not exist in {location}", next_step="check the name and the repository", key=key)


def _checked(key: str) -> str:
    if not key or key.startswith("/") or "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise ConfigInvalid(f"{key!r:.200} is no valid key", next_step="keys are relative and stay below the repository", key=key)
    return key


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
