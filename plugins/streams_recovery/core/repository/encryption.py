"""Encryption with the owner's keys. Records are encrypted with data keys, and these are stored wrapped by a key-encryption key that never is in a repository.

The name of an object says with which data key it is encrypted: names of segments are in range tables, whose hashes are in manifests. So nobody can pass a file
in clear for an encrypted one, and which keys a savepoint needs is known before a file is read. Nothing here encrypts: ``storage.keys`` and ``segments`` do.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Final, Literal, Protocol

from streams_recovery.core.errors import Damaged, KeyUnavailable
from streams_recovery.core.repository.segment_file import SegmentFile, SegmentFiles

# AES-256.
DATA_KEY_BYTES: Final = 32
# The seconds at which it was made, and 32 random bits: ids sort by time.
KEY_ID: Final = re.compile(r"k[0-9a-f]{16}")
# A data key encrypts what is written within a day.
DAY_SECONDS: Final = 86_400
# At the end only: the name of a topic may look like one.
_NAMED: Final = re.compile(rf"\.({KEY_ID.pattern})\.parquet\Z")
_DOMAIN: Final = b"data key 1 of streams-recovery"

Provider = Literal["local", "aws", "google", "azure", "vault"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DataKey:
    """A data key in clear. Never stored, shown or logged."""

    key_id: str
    secret: bytes = field(hash=False)

    def __repr__(self) -> str:
        return f"DataKey({self.key_id})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeyPlace:
    """A key-encryption key: where it is, and what opens it. ``address`` is the provider's name for it, empty for a local key. ``options`` are secrets."""

    provider: Provider
    address: str
    options: Mapping[str, str] = field(hash=False, default_factory=dict)
    # Why the secret of a local key, or that of a service, is missing.
    missing: str = ""
    # It is that of the second place.
    mirror: bool = False

    def __repr__(self) -> str:
        return f"KeyPlace({self.provider}:{self.address})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAccess:
    """The key-encryption keys of a repository: the first one wraps, all of them unwrap. The first one of the other place wraps too, for who reads there."""

    places: tuple[KeyPlace, ...]

    def __reduce__(self) -> tuple[object, ...]:
        # Tasks of Spark get the data keys that they need, and nothing that could open others.
        return partial(KeyAccess, places=()), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """A data key as it is stored: ``wrapped`` (base64) by ``version`` of the key-encryption key ``wrapped_by`` at the moment ``at`` (ms)."""

    format_version: Literal[1]
    application_id: str
    key_id: str
    wrapped_by: str
    version: str
    wrapped: str
    at: int

    def checked(self, application_id: str, key_id: str, where: str) -> WrappedKey:
        """The key itself. Raises ``Damaged`` for that of another application, or of another name: it was copied to where it does not belong."""
        if (self.application_id, self.key_id) != (application_id, key_id):
            raise _foreign(where, f"is the key {self.key_id[:40]} of {self.application_id[:250]}")
        return self


class SegmentKeys(Protocol):
    """The data keys of a repository, for who reads and writes records."""

    def of(self, key: str) -> DataKey | None:
        """The key of a stored object by its name, None for one in clear. Raises ``KeyUnavailable``, and ``Damaged`` for a wrapped key that is none."""

    def writing(self, application_id: str) -> DataKey | None:
        """The key for what is written now, None where nothing is encrypted. Raises ``KeyUnavailable``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKeys:
    """``SegmentKeys`` that were unwrapped before, by application and id, with the reasons for those ``missing``. ``writes`` is for what is written."""

    keys: Mapping[tuple[str, str], DataKey] = field(hash=False, default_factory=dict)
    missing: Mapping[tuple[str, str], str] = field(hash=False, default_factory=dict)
    writes: DataKey | None = None

    def of(self, key: str) -> DataKey | None:
        named = named_key(key)
        if named is None:
            return None
        if named not in self.keys:
            raise unavailable(named[1], self.missing.get(named, "this process was given no key: storage.encryption has none"))
        return self.keys[named]

    def writing(self, application_id: str) -> DataKey | None:  # noqa: ARG002  # they are for one
        return self.writes


NO_KEYS: Final = DataKeys()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionState:
    """The ``keys`` of an application at this moment, and what wraps them. ``problems`` say which records cannot be read or written. ``second`` is the key
    of the second place, where it has one of its own, and ``second_problem`` why that would not open all that is there.
    """

    keys: int
    wrapped_by: tuple[str, ...]
    problems: tuple[str, ...]
    second: str = ""
    second_problem: str = ""

    def __str__(self) -> str:
        if self.problems:
            more = f"; {len(self.problems) - 1} more cannot be used" if len(self.problems) > 1 else ""
            return f"{self.problems[0]}{more}"
        if not self.keys:
            return "records will be encrypted, there are none yet"
        several = "1 data key" if self.keys == 1 else f"{self.keys:,} data keys"
        second = f", and by {self.second} for the second place" if self.second else ""
        return f"records are encrypted with {several}, wrapped by {', '.join(self.wrapped_by)}{second}{self.second_problem and f': {self.second_problem}'}"


def named_key(key: str) -> tuple[str, str] | None:
    """The application and the id of the data key that the name of an object has, None for one in clear."""
    found = _NAMED.search(key)
    return (key.partition("/")[0], found[1]) if found is not None else None


def attempt_with(attempt: str, key: DataKey | None) -> str:
    """The name of an attempt that writes with this key."""
    return attempt if key is None else f"{attempt}.{key.key_id}"


def new_key_id(seconds: int) -> str:
    """An id for a key that is made now."""
    return f"k{seconds:08x}{secrets.token_hex(4)}"


def made_at(key_id: str) -> int:
    """The second at which a key was made, by its id."""
    return int(key_id[1:9], 16)


def bound(secret: bytes, application_id: str, key_id: str) -> bytes:
    """What is wrapped: the data key, and what it is for. Not every service can bind a wrapped key to something, so it is inside."""
    return secret + _purpose(application_id, key_id)


def unbound(plain: bytes, application_id: str, key_id: str, where: str) -> DataKey:
    """The data key out of what was unwrapped. Raises ``Damaged`` for one of another application or of another id."""
    if len(plain) != 2 * DATA_KEY_BYTES or not hmac.compare_digest(plain[DATA_KEY_BYTES:], _purpose(application_id, key_id)):
        raise _foreign(where, "was wrapped for another application or another id")
    return DataKey(key_id=key_id, secret=plain[:DATA_KEY_BYTES])


def local_secret(text: str) -> bytes:
    """The 32 bytes of a local key-encryption key. Raises ``ValueError`` without a word of it."""
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != DATA_KEY_BYTES:
        raise ValueError(f"it is not {DATA_KEY_BYTES} bytes in base64")
    return found


def needed_keys(value: object) -> set[tuple[str, str]]:
    """Application and id of every data key that the files within a value need: a job's specification, the files of a savepoint."""
    if isinstance(value, (SegmentFile, SegmentFiles)):
        names: Iterable[str] = [value.key] if isinstance(value, SegmentFile) else value.keys
        return {named for name in names if (named := named_key(name)) is not None}
    if is_dataclass(value):
        return set[tuple[str, str]]().union(*(needed_keys(getattr(value, one.name)) for one in fields(value)))
    if isinstance(value, (list, tuple)):
        return set[tuple[str, str]]().union(*map(needed_keys, value))
    return set()


def newest_key(names: Iterable[str], held: str | None) -> str | None:
    """The newest data key of files with these names, ``held`` when none of them has one."""
    return max((named[1] for name in names if (named := named_key(name)) is not None), default=held)


def unavailable(key_id: str, why: str) -> KeyUnavailable:
    """The error for records whose key cannot be had."""
    return KeyUnavailable(
        f"the data key {key_id} cannot be unwrapped: {why}",
        next_step="add the key-encryption key that wrapped it to storage.encryption.keys, enable it, or give this user the right to decrypt "
        "with it; without it these records cannot be read",
        key_id=key_id,
        why=why,
    )


def _purpose(application_id: str, key_id: str) -> bytes:
    return hashlib.sha256(b"\n".join((_DOMAIN, application_id.encode(), key_id.encode()))).digest()


def _foreign(where: str, what: str) -> Damaged:
    return Damaged(
        f"{where} {what}: it was not made for this place",
        next_step="put the key back from a copy of this repository, and find out who wrote this one",
        key=where,
    )
