"""Seals: signatures on stored objects. Without the private key no object that a decision is made from can be added, changed or moved.

A seal stands in the object itself, behind its content: as one more line of JSON, or as a skippable frame behind a zstd frame, which every decoder of
zstd passes over. It signs the object's key, the hash of its content, and in a log the seal of the entry before. Nothing here signs: ``storage.seals`` does.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from streams_recovery.core.errors import Forged
from streams_recovery.core.words import is_id

# Ed25519: bytes of a public key, and of the seed of a private one.
KEY_BYTES: Final = 32
# The log of adopted records, below an application.
ADOPTED: Final = "adopted/"
PLACES: Final = "places"
PUBLIC_PREFIX: Final = "ed25519:"
# At most so many bytes come on top of the content.
MOST_SEAL_BYTES: Final = 512

SEALED: Final = "Sealed: only records are used that whoever may write here has signed, or a person has adopted."
NOT_SEALED: Final = "Not sealed: whoever can create objects in the repository can forge savepoints and records."
# So many forged records are named: a stranger who can create objects can create any number.
MOST_FORGED: Final = 50

_DOMAIN: Final = b"streams-recovery seal 1"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_FRAME: Final = struct.Struct("<II")
# One of the sixteen magic numbers (0x184D2A50 to 5F) of frames that every decoder of zstd passes over.
_SKIPPABLE: Final = 0x184D2A5A
_SIGNATURE: Final = r"[A-Za-z0-9+/]{86}=="
_LINE: Final = re.compile(
    rf'\{{"key_id":"([0-9a-f]{{16}})","previous":(null|"{_SIGNATURE}"),"seal":1,"signature":"({_SIGNATURE})"\}}'.encode()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """The seal of one object. ``key_id`` names the public key that verifies it. ``previous`` is the signature of the sealed entry before, in a log."""

    key_id: str
    previous: str | None
    signature: str

    def line(self) -> bytes:
        """The seal as it is stored: JSON with sorted keys, without white space."""
        previous = "null" if self.previous is None else f'"{self.previous}"'
        return f'{{"key_id":"{self.key_id}","previous":{previous},"seal":1,"signature":"{self.signature}"}}'.encode()


class Weight(enum.StrEnum):
    """The use of a record: anything may follow from it, or only that something stays or is refused, or nothing at all."""

    PERMITS = "permits"
    RESTRICTS = "restricts"
    NOTHING = "nothing"


class Standing(enum.StrEnum):
    """The proof of a record of a sealed repository: ``sealed`` by a key that is believed, or adopted; ``unsealed``; sealed by a key that was ``withdrawn``; or
    with a seal of a ``strange`` key, of another content or of another place.
    """

    SEALED = "sealed"
    UNSEALED = "unsealed"
    WITHDRAWN = "withdrawn"
    STRANGE = "strange"

    @property
    def weight(self) -> Weight:
        return _WEIGHTS[self]

    @property
    def in_chain(self) -> bool:
        """True for an entry of a log that the seal of the next one names."""
        return self in (Standing.SEALED, Standing.WITHDRAWN)


_WEIGHTS: Final = {
    Standing.SEALED: Weight.PERMITS,
    # The record may be older than the seals, or of the owner of a key that was stolen later. What it keeps stays, and what it holds up waits for a person.
    Standing.UNSEALED: Weight.RESTRICTS,
    Standing.WITHDRAWN: Weight.RESTRICTS,
    Standing.STRANGE: Weight.NOTHING,
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SealKeys:
    """The keys of one repository. ``public``: whose records are believed, as texts. ``withdrawn``: whose were, until their private key was stolen. ``private``:
    the base64 text that this process signs with, None for those who only read; ``missing`` then says where one was looked for.
    """

    public: tuple[str, ...]
    withdrawn: tuple[str, ...] = ()
    private: str | None = None
    missing: str = "no private key is configured"

    def __repr__(self) -> str:
        return f"SealKeys({', '.join(self.public)})"

    def __reduce__(self) -> tuple[object, ...]:
        # Tasks of Spark believe what is sealed, and seal nothing: who takes over a worker can sign no record.
        missing = "tasks of Spark are not given it"
        return partial(SealKeys, public=self.public, withdrawn=self.withdrawn, missing=missing), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object without its seal. ``seal`` is None for an object that has none."""

    content: bytes
    seal: Seal | None


def standing_of(error: Forged) -> Standing:
    """Who vouches for the record that this error is about."""
    return Standing(str(error.facts["standing"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgedRecord:
    """A record that was not used, because no writer of the repository has signed it. ``why`` is the reason."""

    key: str
    why: str

    @property
    def savepoint_id(self) -> str | None:
        """The savepoint that it would be the manifest of, None for any other record."""
        match self.key.split("/")[1:]:
            case ["savepoints", savepoint_id, "manifest.json.zst"] if is_id(savepoint_id):
                return savepoint_id
        return None


def forged_records(found: Mapping[str, str]) -> tuple[ForgedRecord, ...]:
    """Records that are named, of the reasons by key: savepoints first, the newest first, because people ask for these."""
    records = sorted((ForgedRecord(key=key, why=why) for key, why in found.items()), key=lambda one: one.key)
    savepoints = [one for one in reversed(records) if one.savepoint_id is not None]
    return (*savepoints, *(one for one in records if one.savepoint_id is None))[:MOST_FORGED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """An entry of ``adopted/``: records without a seal that a person vouches for. ``records`` has the SHA-256 of the content of each, by key."""

    at: int
    requested_by: str
    reason: str
    records: Mapping[str, str]


def forged_text(count: int) -> str:
    """The words for so many forged records, and what that means."""
    are, them = ("1 record is", "it") if count == 1 else (f"{count:,} records are", "them")
    return f"{are} forged: no writer of this repository has signed {them}, and nothing uses {them}"


def unproven_text(count: int) -> str:
    """The words of an expiry for so many records that it cannot judge."""
    records, name, them = ("1 record is", "it names", "it") if count == 1 else (f"{count:,} records are", "they name", "them")
    return (
        f"{records} not believed, and may be true: all that {name} stays. "
        f"Adopt {them} with `streams-recovery seal`, or remove {them} if somebody has forged {them}"
    )


def seal_of_savepoint(*, sealed: bool, adopted: bool) -> str:
    """A word for why a savepoint that is listed is believed: nothing but its place in a repository that is not ``sealed``."""
    return "not sealed" if not sealed else "adopted" if adopted else "sealed"


def carries_seal(key: str) -> bool:
    """True if an object of this key has a seal where seals are in use. All have but those that a sealed object names by their hash (segments, range tables,
    the page of a report), and those that no decision is made from: exported tables, how far a job is, and what a store is tried with; and those that say which
    places hold a repository, because who copies has no private key.
    """
    _, _, below = key.partition("/")
    kind, _, rest = below.partition("/")
    if kind in ("ranges", "segments", "tables", "probe", PLACES):
        return False
    if kind == "restores":
        return not rest.endswith("/report.md")
    return not (kind == "work" and rest.split("/")[1:2] == ["progress"])


def signed_message(key: str, content: bytes, previous: str | None) -> bytes:
    """The bytes that a seal's signature is made over: no two different triples give the same ones."""
    return b"\n".join([_DOMAIN, key.encode(), hashlib.sha256(content).hexdigest().encode(), (previous or "").encode()])


def with_seal(content: bytes, seal: Seal) -> bytes:
    """The object as it is stored."""
    line = seal.line()
    if content.startswith(_ZSTD):
        return content + _FRAME.pack(_SKIPPABLE, len(line)) + line
    return content + b"\n" + line


def split_seal(data: bytes) -> StoredObject:
    """An object without its seal. What does not end with a well-formed seal has none: then all of it is content."""
    if data.startswith(_ZSTD):
        start = data.rfind(b'{"key_id":', max(0, len(data) - MOST_SEAL_BYTES))
        head = start - _FRAME.size
        if head <= 0 or _FRAME.unpack_from(data, head) != (_SKIPPABLE, len(data) - start):
            return StoredObject(content=data, seal=None)
        end = head
    else:
        end = data.rfind(b"\n", max(0, len(data) - MOST_SEAL_BYTES))
        start = end + 1
        if end < 0:
            return StoredObject(content=data, seal=None)
    found = _LINE.fullmatch(data, start)
    if found is None:
        return StoredObject(content=data, seal=None)
    previous = None if found[2] == b"null" else found[2].decode().strip('"')
    return StoredObject(content=data[:end], seal=Seal(key_id=found[1].decode(), previous=previous, signature=found[3].decode()))


# What a seal adds to a manifest, which is no entry of a log.
MANIFEST_SEAL_BYTES: Final = _FRAME.size + len(Seal(key_id="0" * 16, previous=None, signature="A" * 86 + "==").line())


def key_id(public: bytes) -> str:
    """The name of a public key in seals: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:16]


def public_text(public: bytes) -> str:
    """A public key as it is written in a configuration."""
    return PUBLIC_PREFIX + base64.b64encode(public).decode()


def public_bytes(text: str) -> bytes:
    """The public key that ``public_text`` wrote. Raises ``ValueError`` with a reason."""
    if not text.startswith(PUBLIC_PREFIX):
        raise ValueError(f"a public key begins with {PUBLIC_PREFIX}")
    return _decoded(text.removeprefix(PUBLIC_PREFIX), "public")


def private_bytes(text: str) -> bytes:
    """The seed of a private key from its base64 text. Raises ``ValueError`` with a reason that repeats nothing of it."""
    return _decoded(text.strip(), "private")


def _decoded(text: str, what: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != KEY_BYTES:
        raise ValueError(f"a {what} key is {KEY_BYTES} bytes in base64")
    return found
