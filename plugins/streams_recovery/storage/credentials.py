"""Credentials of a store, as they travel from a connection to the library that asks the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.masking import remember_secrets

# Names of options whose values are no secrets: an access log of the store has them too.
_PUBLIC: Final = frozenset({"access_key_id", "client_id", "tenant_id", "federated_token_file"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StorageCredentials:
    """Credentials by the option names of the object-store library (``access_key_id``, ``service_account_key``, ``account_key``, ...). Never stored, shown or
    logged.
    """

    options: Mapping[str, str] = field(hash=False)

    def __post_init__(self) -> None:
        # A store may answer with what it was sent.
        remember_secrets(self.secrets)

    def __reduce__(self) -> tuple[object, ...]:
        # The default makes one without __init__: then a worker would not know what it must not show.
        return partial(type(self), options=dict(self.options)), ()

    def __repr__(self) -> str:
        return "StorageCredentials(***)"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that a log must not have. Of a key that is JSON, as Google's, its private key too."""
        found = [value for name, value in self.options.items() if name not in _PUBLIC]
        return (*found, *(key for value in found if (key := _private_key(value)) is not None))


def access_key(access_key_id: str, secret_access_key: str, session_token: str | None = None) -> StorageCredentials:
    """An access key of an S3 compatible store. ``session_token`` is None for long-lived keys."""
    options = {"access_key_id": access_key_id, "secret_access_key": secret_access_key}
    return StorageCredentials(options=options | ({"session_token": session_token} if session_token else {}))


def given_extra(stored: StoredConnection) -> dict[str, Any]:
    """The fields of a connection's extra that say something: forms of Airflow leave the others there, empty, or as a box that is not ticked."""
    return {key: value for key, value in stored.extra.items() if value not in (None, "", {}, False)}


def refuse_identity(extra: Mapping[str, Any], names: tuple[str, ...], *, where: str, instead: str) -> None:
    """Raise ``ConfigInvalid`` for fields that ask for another identity: to leave one out would be to ask the store as another user."""
    if found := sorted(set(names) & extra.keys()):
        raise ConfigInvalid(
            f"{where}: {', '.join(found)} asks for another identity, which is not supported here",
            next_step=instead,
            keys=found,
            where=where,
        )


def _private_key(text: str) -> str | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    key = found.get("private_key") if isinstance(found, dict) else None
    return key if isinstance(key, str) and key else None
