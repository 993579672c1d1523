"""Object stores made from locations. Retries are part of how a store is opened."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from obstore.store import LocalStore, MemoryStore, S3Store

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.location import StorageLocation
from streams_recovery.storage.location import StorageCredentials

Store: TypeAlias = LocalStore | MemoryStore | S3Store

_RETRIES = 6
_RETRY_WINDOW = timedelta(seconds=60)
_REQUEST_TIMEOUT = timedelta(seconds=30)


def open_store(location: StorageLocation, credentials: StorageCredentials | None, *, retrying: bool) -> Store:
    """The store at ``location``. Without credentials, S3 uses those of the environment or the machine. Raises ``ConfigInvalid``.

    A store that is not retrying reports the first failure: a create must know whether an earlier attempt of its own may have succeeded.
    """
    if location.backend == "memory":
        return MemoryStore()
    if location.backend == "filesystem":
        return LocalStore(_directory(location))
    return _open_s3(location, credentials, _RETRIES if retrying else 0)


def _open_s3(location: StorageLocation, credentials: StorageCredentials | None, retries: int) -> Store:
    if not location.bucket:
        raise ConfigInvalid("the storage location names no bucket", next_step="set storage.bucket")
    keys: dict[str, str] = {}
    if credentials is not None:
        keys = {"access_key_id": credentials.access_key_id, "secret_access_key": credentials.secret_access_key}
        if credentials.session_token is not None:
            keys["session_token"] = credentials.session_token
    if location.endpoint is not None:
        keys["endpoint"] = location.endpoint
    if location.region is not None:
        keys["region"] = location.region
    return S3Store(
        location.bucket,
        prefix=location.prefix or None,
        client_options={"allow_http": location.allow_http, "timeout": _REQUEST_TIMEOUT},
        retry_config={"max_retries": retries, "retry_timeout": _RETRY_WINDOW},
        virtual_hosted_style_request=not (location.path_style or location.endpoint),
        **keys,  # type: ignore[arg-type]
    )


def _directory(location: StorageLocation) -> Path:
    if location.path is None:
        raise ConfigInvalid("the storage location names no path", next_step="set storage.path")
    path = Path(location.path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigInvalid(
            f"the repository directory {path} cannot be used: {error.strerror}",
            next_step=f"create {path.parent} or correct storage.path, and let this user write there",
            path=str(path),
        ) from error
    return path
