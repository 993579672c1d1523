"""Secrets of an object store, kept apart from its address."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import ConfigInvalid, remember_secrets
from streams_recovery.core.escaping import logger
from streams_recovery.core.stored_connection import StoredConnection, ignored_text

LOGGER = logger("streams_recovery.storage.credentials")
_KEY: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# To leave one of these out would be to ask the store as somebody else.
_OTHER_IDENTITY: Final = ("role_arn", "assume_role_method", "assume_role_kwargs", "external_id", "profile_name", "session_kwargs")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StorageCredentials:
    """An access key of an S3 compatible store. Never stored, shown or logged; ``session_token`` is None for long-lived keys."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def __post_init__(self) -> None:
        # A store may answer with what it was sent.
        remember_secrets(secret for secret in (self.secret_access_key, self.session_token) if secret is not None)

    def __repr__(self) -> str:
        return "StorageCredentials(***)"

    @classmethod
    def from_stored(cls, stored: StoredConnection, *, where: str) -> StorageCredentials | None:
        """The key of a connection of type ``aws``: login and password, or the extra. None leaves it to the machine's own role. Anything else in the extra
        is left out, with a warning that names it. Raises ``ConfigInvalid`` for a role or a profile, which this software does not assume.
        """
        extra = {key: value for key, value in stored.extra.items() if value not in (None, "", {})}
        if identity := sorted(key for key in extra if key in _OTHER_IDENTITY):
            raise ConfigInvalid(
                f"{where}: {', '.join(identity)} asks for another identity, which is not supported here",
                next_step="use a connection with an access key, or one without any for the role of the machine",
                keys=identity,
                where=where,
            )
        if ignored := extra.keys() - set(_KEY):
            LOGGER.warning("%s", ignored_text(where, ignored))
        name, secret, token = (extra.get(key) for key in _KEY)
        access_key, secret_key = stored.login or name, stored.password or secret
        if not access_key or not secret_key:
            return None
        return cls(access_key_id=str(access_key), secret_access_key=str(secret_key), session_token=str(token) if token else None)


def key_in_file(path: Path) -> tuple[str | None, str]:
    """The private key in a file that only its owner can read, or None; with why there is none. Raises ``ConfigInvalid`` for one that others can read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigInvalid(
                f"{path} has the private key of the seals, and others can read it", next_step="give it mode 0600", path=str(path)
            )
        return path.read_text().strip(), ""
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror or type(error).__name__}"
