"""Removing objects, and saying why one stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streams_recovery.core.errors import PermanentError
from streams_recovery.operations.context import RecoveryContext

if TYPE_CHECKING:
    from streams_recovery.storage.bucket_features import BucketProtection


class Remover:
    """Removes objects of one repository. One that is locked is not touched: a server that locks it would hide it, keep it and be paid for it."""

    def __init__(self, recovery: RecoveryContext) -> None:
        self._context = recovery
        self._protection = _protection(recovery)

    @property
    def keeps_versions(self) -> bool:
        """Whether what is removed stays as an older version."""
        return self._protection is not None and self._protection.keeps_versions

    def locked(self, key: str) -> str | None:
        """Until when the store holds an object, None when it does not."""
        lock = None if self._protection is None else self._protection.lock_of(key)
        why = None if lock is None else lock.holds(self._context.clock())
        return f"{key}: {why}" if why else None

    def remove(self, key: str) -> str | None:
        """Why an object could not be removed, None when it is gone."""
        return self.remove_all([key])

    def remove_all(self, keys: Sequence[str], *, emptied: bool = False) -> str | None:
        """Why objects that belong together could not be removed, None when all are gone. While one is locked, all stay. ``emptied`` as for
        ``Repository.delete``.
        """
        if locked := next(filter(None, map(self.locked, keys)), None):
            return locked
        try:
            self._context.repository.delete(list(keys), emptied=emptied)
        except PermanentError as error:
            return f"{keys[0]}: {error.reason}"
        return None


def _protection(recovery: RecoveryContext) -> BucketProtection | None:
    if recovery.repository.location.backend != "s3":
        return None
    # Slow to import, and nothing but expiry in a bucket needs it.
    from streams_recovery.storage.bucket_features import BucketProtection  # noqa: PLC0415

    return BucketProtection(recovery.repository.location, recovery.credentials)
