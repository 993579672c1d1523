"""Opening the store behind a location."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from obstore import exceptions
from obstore.store import LocalStore, MemoryStore, S3Store

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.directory import make_root

_RETRY_SECONDS = 60


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
    return S3Store(
        location.bucket,
        prefix=location.prefix or None,
        client_options={"allow_http": location.allow_http, "timeout": timedelta(seconds=timeout_seconds)},
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
        **_options(location, credentials),
    )


def _options(location: StorageLocation, credentials: StorageCredentials | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "region": location.region or "us-east-1",
        "virtual_hosted_style_request": not location.path_style,
        # The server compares what arrived with what was sent; a bucket with object lock accepts nothing without it.
        "checksum_algorithm": "SHA256",
        # One answer for each object: a refusal inside the answer to a bulk request would be lost.
        "disable_bulk_delete": True,
    }
    if location.endpoint:
        options["endpoint"] = location.endpoint
    if location.sse:
        options["server_side_encryption"] = location.sse
    if location.kms_key_id:
        options["sse_kms_key_id"] = location.kms_key_id
    if credentials:
        options |= {"access_key_id": credentials.access_key_id, "secret_access_key": credentials.secret_access_key}
        options |= {"session_token": credentials.session_token} if credentials.session_token else {}
    return options
