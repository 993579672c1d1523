"""What a kind of bucket has to say. The repository does the rest, alike for all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials


class BucketKind(Protocol):
    """One kind of bucket. A new kind is a file with this, a line in the table of kinds, and a rig for the contract's tests."""

    # The type of connections in Airflow that have its credentials.
    connection_type: str
    # How a person brings back what was deleted; None where this software does.
    undeleted_by: str | None

    def open(self, location: StorageLocation, credentials: StorageCredentials | None, http: Mapping[str, Any]) -> Any:
        """A store of the library. ``http`` has its options for requests: client, retries. Without ``credentials`` it asks as this machine."""

    def credentials(self, stored: StoredConnection, *, where: str) -> StorageCredentials | None:
        """The credentials in a connection, None where it leaves them to this machine. Raises ``ConfigInvalid`` for an identity that is not supported."""
