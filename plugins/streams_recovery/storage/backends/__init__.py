"""The kinds of buckets: one file each, and this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.layout import Backend
from streams_recovery.storage.backends.azure import AzureContainer
from streams_recovery.storage.backends.google import GoogleBucket
from streams_recovery.storage.backends.port import BucketKind
from streams_recovery.storage.backends.s3 import S3Bucket
from streams_recovery.storage.credentials import StorageCredentials

BUCKETS: Final[Mapping[Backend, BucketKind]] = {"s3": S3Bucket(), "gcs": GoogleBucket(), "azure": AzureContainer()}


def credentials_in(stored: StoredConnection, backend: Backend, *, where: str) -> StorageCredentials | None:
    """The credentials for ``backend`` in a connection, None where it has none. Raises ``ConfigInvalid`` for a connection of another cloud, and
    for an identity that is not supported.
    """
    kind = BUCKETS[backend]
    # Nothing of another cloud's connection would be found, and the machine's own identity asked instead.
    if stored.conn_type != kind.connection_type and stored.conn_type in {one.connection_type for one in BUCKETS.values()}:
        raise ConfigInvalid(
            f"{where} has type {stored.conn_type}, and storage.backend is {backend}",
            next_step=f"name a connection of type {kind.connection_type}, or correct the backend",
            where=where,
        )
    return kind.credentials(stored, where=where)
