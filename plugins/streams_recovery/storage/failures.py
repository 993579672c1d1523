"""What an object store's errors mean to us. The one place that reads their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore import exceptions

from streams_recovery.core.errors import NotFound, RecoveryError, Refused, RepositoryUnavailable

_NO_BUCKET = re.compile(r"NoSuchBucket")
# Busy (429) and timed out (408) pass; the other answers of this class would be the same next time.
_REFUSING_STATUS = re.compile(r"status 4(?!08|29)\d\d|response status code 4(?!08|29)\d\d")
_FOREVER = re.compile(r"Read-only file system|Not a directory|File name too long|not supported", re.IGNORECASE)


class AlreadyExists(Refused):
    """Raised when an object is to be created under a key that is taken. What is there was not touched."""


@contextmanager
def translated(verb: str, where: str, key: str) -> Iterator[None]:
    """Errors of the block as ours. ``where`` names the repository, ``key`` the object."""
    try:
        yield
    except (exceptions.BaseError, OSError, ValueError) as error:
        raise _translate(error, verb, where, key) from error


def _translate(error: Exception, verb: str, where: str, key: str) -> RecoveryError:
    reason = str(error).split("\n", 1)[0].strip()
    facts = {"repository": where, "key": key}
    if isinstance(error, (exceptions.AlreadyExistsError, exceptions.PreconditionError)):
        return AlreadyExists(f"{key} already exists in {where}", next_step="read what is there; stored objects are never replaced", **facts)
    if _NO_BUCKET.search(str(error)):
        return NotFound(
            f"cannot {verb} {key}: the bucket of {where} does not exist", next_step="create the bucket or correct storage.bucket", **facts
        )
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{key} does not exist in {where}", next_step="check the name; list what is there", **facts)
    if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)):
        return Refused(
            f"cannot {verb} {key} in {where}: {reason}",
            next_step="give this user or key that permission, or correct the credentials",
            **facts,
        )
    if isinstance(error, ValueError) or _REFUSING_STATUS.search(reason) or _FOREVER.search(reason):
        return Refused(f"cannot {verb} {key} in {where}: {reason}", next_step="correct the storage section of the configuration", **facts)
    return RepositoryUnavailable(
        f"cannot {verb} {key} in {where}: {reason}", next_step="check that the store is up and has space, then run this again", **facts
    )
