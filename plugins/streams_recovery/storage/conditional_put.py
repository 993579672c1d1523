"""Creating an object exactly once over a connection that loses replies.

A request whose reply is lost may have succeeded; sent again, it is refused because the object exists. To tell an own object from another writer's, every
creation carries a token of its own, and only a refusal after a lost reply is looked into: the first answer is believed.

A failure of an object store is worth another try, a matter of rights and settings, or tells of an object that is not there.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from obstore import exceptions

from streams_recovery.core.errors import (
    ConfigInvalid,
    NoRoom,
    NotFound,
    RecoveryError,
    RepositoryUnavailable,
    StoreUnsuitable,
    lasting,
)
from streams_recovery.core.masking import masked
from streams_recovery.core.repository.layout import StorageLocation

# The library has no fields for these; its messages are the only place where they are.
# The second form is that of an answer inside the answer to a bulk request, by which the library deletes on Azure.
_STATUS = re.compile(r"(?:status code: |\(code: )(\d{3})")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_RETRIES = re.compile(r"after (\d+) retries")
# The cause is only in the library's account of its own inside, behind the first line.
_TLS = re.compile(r"InvalidCertificate|invalid peer certificate|certificate verify failed|UnknownIssuer", re.IGNORECASE)
_CODE, _MESSAGE = re.compile(r"<Code>([^<]{1,100})</Code>"), re.compile(r"<Message>([^<]{1,300})</Message>")

# Of the errors that a server blames on the client only these pass: too slow, in conflict with another, too early, too many.
_PASSING_4XX = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
# What a server lacks stays lacking: the verb, or room.
_LASTING_5XX = frozenset({HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.INSUFFICIENT_STORAGE})
# Azure says with a conflict, too, what stays as it is: there is such an object, or a policy keeps it for a time.
_DECIDED = frozenset({"BlobAlreadyExists", "BlobImmutableDueToPolicy"})
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
# Codes for a session token whose time is over, Amazon's and others'.
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_FORBIDDEN = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)
# What a server writes that does not know a header of every creation: a status of its own, or a bad request and its name.
_UNKNOWN_HEADER = re.compile(r"NotImplemented|not implemented|checksum|if-none-match|conditional", re.IGNORECASE)
NEEDED = (
    "put the repository on a store that creates an object only where there is none (If-None-Match: *) and, on S3, takes a SHA-256 checksum with it, as "
    "Amazon S3, MinIO, Google Cloud Storage and Azure do; see docs/storage.md"
)
# Of these ``explained`` knows that they need what not every server does.
CREATIONS = ("creating", "uploading")

_LONGEST_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The number of times that a request is sent, and how long each may take. The pause before the next one doubles from ``first_seconds`` on, and is never the
    same for two writers.
    """

    attempts: int = 7
    first_seconds: float = 0.2
    request_seconds: float = 60.0

    def pause(self, failed: int) -> float:
        """Seconds to wait after so many failures."""
        longest = min(_LONGEST_SECONDS, self.first_seconds * 2 ** (failed - 1))
        return secrets.SystemRandom().uniform(longest / 2, longest)


def create_once(put: Callable[[str], object], is_mine: Callable[[str], bool | None], retries: Retries) -> bool:
    """Call ``put`` with a new token until it is known how it ended. True: the object is there, and it is this call's. False: another one's is.

    ``is_mine`` looks whether the object carries the token, None when there is no object. Raises what ``put`` raised last when every attempt
    failed and no object can be seen, and at once what no other attempt can change.
    """
    token, unanswered = uuid.uuid4().hex, False
    for failed in range(1, retries.attempts + 1):
        try:
            put(token)
        except exceptions.AlreadyExistsError as error:
            # A conflict says that another writer is at work there at this moment, not that anything exists.
            if status_of(error) != HTTPStatus.CONFLICT or _is_decided(error):
                return unanswered and is_mine(token) is True
            last: Exception = error
        except _FORBIDDEN as error:
            # A user who may create and nothing else is refused so where there is one.
            return _looked(is_mine, token, error) and unanswered
        except (exceptions.BaseError, OSError) as error:
            if not passes(error):
                raise
            unanswered, last = True, error
        else:
            return True
        if failed < retries.attempts:
            time.sleep(retries.pause(failed))
    return _looked(is_mine, token, last)


def _looked(is_mine: Callable[[str], bool | None], token: str, error: Exception) -> bool:
    """``is_mine``. Raises ``error`` where no object can be seen."""
    with contextlib.suppress(exceptions.BaseError, OSError):
        if (found := is_mine(token)) is not None:
            return found
    raise error


class NoBucket(ConfigInvalid):
    """Raised when the store itself says that the bucket does not exist."""


class CredentialsExpired(RepositoryUnavailable):
    """Raised when the store answers, and lets nobody in with a session token whose time is over."""


def status_of(error: BaseException) -> int | None:
    """The HTTP status the server answered with, None when it did not answer."""
    found = _STATUS.search(_first_line(error))
    return int(found[1]) if found else None


def passes(error: BaseException) -> bool:
    """True when the same request may succeed later."""
    if isinstance(error, (*_FORBIDDEN, FileNotFoundError, exceptions.InvalidPathError, exceptions.NotSupportedError)):
        return False
    if lasting(_os_error(error)) is not None or "configured region" in str(error) or _TLS.search(str(error)):
        return False
    status = status_of(error)
    if status == HTTPStatus.CONFLICT and _is_decided(error):
        return False
    return status is None or status in _PASSING_4XX or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LASTING_5XX)


def _is_decided(error: BaseException) -> bool:
    found = _CODE.search(str(error))
    # The answer to a deletion has no code: a lock, a policy or a lease keeps the object.
    return (found is not None and found[1] in _DECIDED) or "Bulk delete request failed" in _first_line(error)


def about_names(error: BaseException) -> bool:
    """True when a listing met a name that the library has no key for, or a link that it cannot follow."""
    return isinstance(error, exceptions.InvalidPathError) or "Unable to walk dir" in _first_line(error)


def explained(error: Exception, *, doing: str, key: str, location: StorageLocation, attempts: int | None = None) -> RecoveryError:
    """The error to raise for one of the library's. ``attempts`` is how often the request was sent; None leaves it to what the library says."""
    message = _message(error)
    if any(code in message for code in _NO_BUCKET):
        return NoBucket(f"there is no bucket for {location}", next_step="create it, or correct the storage section", key=key)
    if isinstance(error, FileNotFoundError):
        return missing(key, location)
    if isinstance(error, exceptions.InvalidPathError):
        return ConfigInvalid(f"{key!r:.200} is no valid key", next_step="use names from the allow-list", key=key)
    if (code := _CODE.search(str(error))) and code[1] in _EXPIRED:
        # The next attempt reads the connection again, and may find a new one there.
        return CredentialsExpired(
            f"{doing} {key} in {location} failed: the session token of the credentials has expired ({code[1]})",
            next_step="renew the session token in the storage connection, or use long-lived keys or the machine's own role; then run again",
            key=key,
            attempts=attempts or 1,
        )
    if lasting(_os_error(error)) is NoRoom or status_of(error) == HTTPStatus.INSUFFICIENT_STORAGE:
        return NoRoom(f"{doing} {key} in {location} failed: {message}", next_step="make room there; nothing half written was left", key=key)
    if isinstance(error, _FORBIDDEN) or status_of(error) == HTTPStatus.FORBIDDEN or lasting(_os_error(error)) is ConfigInvalid:
        return ConfigInvalid(
            f"{doing} {key} in {location} is not allowed: {message}", next_step="correct the rights or the credentials", key=key
        )
    if cause := _TLS.search(str(error)):
        line = str(error)[cause.start() :].splitlines()[0][:200].strip(' ",')
        return untrusted(location, f"{doing} {key} in {location}", line, key=key)
    if doing in CREATIONS and _lacks_a_header(error):
        return StoreUnsuitable(f"{location} cannot hold a repository: {doing} {key} was answered with {message}", next_step=NEEDED, key=key)
    if not passes(error):
        return ConfigInvalid(
            f"{doing} {key} in {location} was refused: {message}", next_step="correct the storage section of the configuration", key=key
        )
    sent = attempts or 1 + int(found[1] if (found := _RETRIES.search(message)) else 0)
    return RepositoryUnavailable(
        f"{doing} {key} in {location} failed after {sent} attempt{'s' if sent > 1 else ''}: {message}",
        next_step="check that the store can be reached, then run again",
        key=key,
        attempts=sent,
    )


def untrusted(location: StorageLocation, doing: str, cause: str, **facts: str) -> ConfigInvalid:
    """The error for a server whose certificate is not trusted."""
    known = f"no authority in storage.ca_file ({location.ca_file})" if location.ca_file else "no authority that this machine knows"
    return ConfigInvalid(
        f"{doing} failed: the certificate of the server is not trusted, {known} vouches for it, or it is another server's ({cause})",
        next_step="set storage.ca_file to the certificate of the authority that signed it, as PEM; or correct the endpoint",
        **facts,
    )


def overwritten(key: str, location: StorageLocation) -> StoreUnsuitable:
    """The error for a store that creates what there is."""
    return StoreUnsuitable(
        f"{location} cannot hold a repository: {key} was created twice, each time only where there is none, and the second one was not refused. "
        "Two runs would hold one lock, and overwrite what the other one has saved",
        next_step=NEEDED,
        key=key,
    )


def unreadable(key: str, location: StorageLocation, why: str) -> StoreUnsuitable:
    """The error for a store that does not give back what it was given."""
    return StoreUnsuitable(
        f"{location} cannot hold a repository: {key} was written, and {why}",
        next_step="put the repository on a store whose reads and listings show each write at once, without a cache before it; see docs/storage.md",
        key=key,
    )


def _lacks_a_header(error: Exception) -> bool:
    status = status_of(error)
    if status == HTTPStatus.BAD_REQUEST:
        return _UNKNOWN_HEADER.search(str(error)) is not None
    return status == HTTPStatus.NOT_IMPLEMENTED or isinstance(error, exceptions.NotSupportedError)


def missing(key: str, location: StorageLocation) -> NotFound:
    """The error for an object that is not there."""
    return NotFound(f"{key} does not exist in {location}", next_step="check the name and the repository", key=key)


def _os_error(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _OS_ERROR.search(_first_line(error))
    return int(found[1]) if found else None


def _message(error: BaseException) -> str:
    # The server's own words are XML, which begins a line of its own after the declaration.
    parts = [found[1] for pattern in (_CODE, _MESSAGE) if (found := pattern.search(masked(str(error))))]
    line = _first_line(error).partition(": <?xml")[0].partition(": <Error>")[0]
    return f"{line} ({': '.join(parts)})" if parts else line


def _first_line(error: BaseException) -> str:
    return (masked(str(error)).strip().splitlines() or [type(error).__name__])[0][:600]
