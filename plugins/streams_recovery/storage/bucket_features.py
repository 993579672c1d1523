"""What a bucket does to keep objects: object lock and versions. Asked for by expiry only.

A bucket with object lock or versions answers a deletion with success and keeps the bytes under a delete marker. What the object-store library
cannot ask for is asked here with Amazon's own client.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from http import HTTPStatus
from typing import Any

from botocore import exceptions

from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.repository.retention import ObjectLock
from streams_recovery.storage.amazon import amazon_client, unavailable
from streams_recovery.storage.credentials import StorageCredentials

_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_NO_LOCK = frozenset({"ObjectLockConfigurationNotFoundError", "NotImplemented", "MethodNotAllowed", "501", "405"})


class BucketProtection:
    """Asks one bucket. What the server does not tell, or not to us, counts as no protection: a removal it forbids fails by itself."""

    def __init__(self, location: StorageLocation, credentials: StorageCredentials | None) -> None:
        self._location = location
        self._credentials = credentials

    def lock_of(self, key: str) -> ObjectLock | None:
        """The lock on an object, None when the bucket has none or the object does not exist. Raises ``RepositoryUnavailable``."""
        if not self._has_locks:
            return None
        found = self._asked("head_object", Key=f"{self._location.prefix}/{key}".lstrip("/"))
        if found is None:
            return None
        until = found.get("ObjectLockRetainUntilDate") or self._by_default(found["LastModified"])
        return ObjectLock(
            mode=found.get("ObjectLockMode") or self._default.get("Mode", ""),
            until=None if until is None else int(until.timestamp() * 1000),
            legal_hold=found.get("ObjectLockLegalHoldStatus") == "ON",
        )

    @cached_property
    def keeps_versions(self) -> bool:
        """Whether what is removed stays as an older version, until the bucket's own rules let it go."""
        return bool((self._asked("get_bucket_versioning") or {}).get("Status") == "Enabled")

    @cached_property
    def _has_locks(self) -> bool:
        return self._configuration is not None

    @cached_property
    def _configuration(self) -> dict[str, Any] | None:
        return self._asked("get_object_lock_configuration")

    @property
    def _default(self) -> dict[str, Any]:
        rule = ((self._configuration or {}).get("ObjectLockConfiguration") or {}).get("Rule") or {}
        return dict(rule.get("DefaultRetention") or {})

    def _by_default(self, created: datetime) -> datetime | None:
        # Some servers hold an object by the bucket's rule without writing that on the object.
        days = self._default.get("Days") or 365 * self._default.get("Years", 0)
        return created + timedelta(days=days) if days else None

    def _asked(self, question: str, **more: str) -> dict[str, Any] | None:
        try:
            return dict(getattr(self._client, question)(Bucket=self._location.bucket, **more))
        except exceptions.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in _ABSENT | _NO_LOCK:
                return None
            if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                # Not ours to know. An empty answer: nothing is told, but objects may be locked all the same.
                return {} if question == "get_object_lock_configuration" else None
            raise unavailable(self._location, question, error) from error
        except exceptions.NoCredentialsError:
            return None
        except exceptions.BotoCoreError as error:
            raise unavailable(self._location, question, error) from error

    @cached_property
    def _client(self) -> Any:
        return amazon_client(self._location, self._credentials)
