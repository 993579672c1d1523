"""Signing what is stored, and checking who signed it. What a seal is made of stands in ``core.repository.seal``."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from streams_recovery.core.errors import ConfigInvalid, Forged
from streams_recovery.core.repository.seal import (
    Seal,
    SealKeys,
    StoredObject,
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
        self.keys = keys
        self._adopted = adopted

    def sealed(self, key: str, content: bytes, previous: str | None) -> bytes:
        """The object to store at ``key``. Raises ``ConfigInvalid`` for those who only read, and for a private key that no reader would believe."""
        name, private = self._signer
        signature = base64.b64encode(private.sign(signed_message(key, content, previous))).decode()
        return with_seal(content, Seal(key_id=name, previous=previous, signature=signature))

    def check(self, key: str, found: StoredObject) -> None:
        """Raise ``Forged`` unless the object has a seal by one of the keys, or was adopted as it is."""
        if found.seal is None:
            if self._adopted(key).get(key) != hashlib.sha256(found.content).hexdigest():
                raise _forged(key, "it has no seal")
            return
        public = self._public.get(found.seal.key_id)
        if public is None:
            raise _forged(key, f"it is sealed with the key {found.seal.key_id}, which is not one of storage.seal.public_keys")
        try:
            public.verify(base64.b64decode(found.seal.signature), signed_message(key, found.content, found.seal.previous))
        except InvalidSignature:
            raise _forged(key, "its seal is that of another content, of another key or of another place in its log") from None

    @cached_property
    def _public(self) -> dict[str, Ed25519PublicKey]:
        keys = map(_read_public, self.keys.public)
        return {key_id(one): Ed25519PublicKey.from_public_bytes(one) for one in keys}

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


def _read_public(text: str) -> bytes:
    try:
        return public_bytes(text)
    except ValueError as error:
        raise ConfigInvalid(
            f"{text[:80]!r} in storage.seal.public_keys is no public key: {error}", next_step="`streams-recovery seal-key` prints one"
        ) from None


def _forged(key: str, why: str) -> Forged:
    return Forged(
        f"{key} was not written by anybody who may write here: {why}",
        next_step="it was not used; find out who can write to this repository, and remove it. "
        "If the record is older than the seals, `streams-recovery seal` adopts it",
        key=key,
        why=why,
    )
