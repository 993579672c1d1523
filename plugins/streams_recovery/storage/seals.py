"""Signing stored objects, and checking their signatures. ``core.repository.seal`` describes a seal."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from streams_recovery.core.errors import ConfigInvalid, Forged
from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.repository.seal import (
    Seal,
    SealKeys,
    Standing,
    StoredObject,
    Weight,
    key_id,
    private_bytes,
    public_bytes,
    public_text,
    signed_message,
    with_seal,
)

Adopted = Callable[[str], Mapping[str, str]]


def new_private_key() -> tuple[str, str]:
    """A new pair of keys: the private one as text, which is a secret, and the public one."""
    key = Ed25519PrivateKey.generate()
    return base64.b64encode(key.private_bytes_raw()).decode(), public_text(key.public_key().public_bytes_raw())


def public_of(private: str) -> str:
    """The public key of a private one. Raises ``ValueError``."""
    return public_text(Ed25519PrivateKey.from_private_bytes(private_bytes(private)).public_key().public_bytes_raw())


class Seals:
    """Signs and verifies with ``keys``. ``adopted`` gives the records without a seal of an application that a person vouched for: hash by key."""

    def __init__(self, keys: SealKeys, adopted: Adopted) -> None:
        remember_secrets([keys.private] if keys.private else [])
        self.keys = keys
        self._adopted = adopted

    def sealed(self, key: str, content: bytes, previous: str | None) -> bytes:
        """The object to store at ``key``. Raises ``ConfigInvalid`` for those who only read, and for a private key that no reader would believe."""
        name, private = self._signer
        signature = base64.b64encode(private.sign(signed_message(key, content, previous))).decode()
        return with_seal(content, Seal(key_id=name, previous=previous, signature=signature))

    def check(self, key: str, found: StoredObject) -> None:
        """Raise ``Forged`` unless the object has a seal by one of the keys, or was adopted as it is. Objects without a seal can be adopted, and those that were
        sealed by a key that is withdrawn by now.
        """
        standing, why = self._standing(key, found)
        if standing is Standing.SEALED:
            return
        if standing.weight is Weight.RESTRICTS and self._adopted(key).get(key) == hashlib.sha256(found.content).hexdigest():
            return
        raise _forged(key, why, standing)

    def _standing(self, key: str, found: StoredObject) -> tuple[Standing, str]:
        """Who vouches for the object, whatever was adopted, and why it is not believed."""
        if found.seal is None:
            return Standing.UNSEALED, "it has no seal"
        name = found.seal.key_id
        public = self._public.get(name) or self._withdrawn.get(name)
        if public is None:
            return Standing.STRANGE, f"it is sealed with the key {name}, which is not one of storage.seal.public_keys"
        try:
            public.verify(base64.b64decode(found.seal.signature), signed_message(key, found.content, found.seal.previous))
        except InvalidSignature:
            return Standing.STRANGE, "its seal is that of another content, of another key or of another place in its log"
        if name in self._public:
            return Standing.SEALED, ""
        return Standing.WITHDRAWN, f"it is sealed with the key {name}, which is one of storage.seal.withdrawn_keys"

    def is_current(self, seal: Seal) -> bool:
        """True for a seal by a key that is believed, False by one that was withdrawn."""
        return seal.key_id in self._public

    @cached_property
    def _public(self) -> dict[str, Ed25519PublicKey]:
        return _by_name(self.keys.public)

    @cached_property
    def _withdrawn(self) -> dict[str, Ed25519PublicKey]:
        return _by_name(self.keys.withdrawn)

    @cached_property
    def _signer(self) -> tuple[str, Ed25519PrivateKey]:
        if self.keys.private is None:
            raise ConfigInvalid(
                f"this repository is sealed, and nothing can be written without the private key: {self.keys.missing}",
                next_step="give the private key to whoever takes savepoints and restores; nothing was written",
            )
        try:
            private = Ed25519PrivateKey.from_private_bytes(private_bytes(self.keys.private))
        except ValueError as error:
            raise ConfigInvalid(
                f"the private key of storage.seal cannot be used: {error}", next_step="make a pair with `streams-recovery seal-key`"
            ) from None
        name = key_id(private.public_key().public_bytes_raw())
        if name not in self._public:
            raise ConfigInvalid(
                f"the private key of storage.seal belongs to {public_text(private.public_key().public_bytes_raw())}, "
                "which is not one of storage.seal.public_keys: nobody would believe what it signs",
                next_step="add that public key to storage.seal.public_keys, everywhere the repository is read; nothing was written",
            )
        return name, private


def _by_name(keys: Iterable[str]) -> dict[str, Ed25519PublicKey]:
    return {key_id(one): Ed25519PublicKey.from_public_bytes(one) for one in map(_read_public, keys)}


def _read_public(text: str) -> bytes:
    try:
        return public_bytes(text)
    except ValueError as error:
        raise ConfigInvalid(
            f"{text[:80]!r} in storage.seal is no public key: {error}", next_step="`streams-recovery seal-key` prints one"
        ) from None


def _forged(key: str, why: str, standing: Standing) -> Forged:
    return Forged(
        f"{key} was not written by anybody who may write here: {why}",
        next_step="it was not used; find out who can write to this repository, and remove it. "
        "If the record is older than the seals, `streams-recovery seal` adopts it",
        key=key,
        why=why,
        standing=standing,
    )
