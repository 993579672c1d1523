"""A key-encryption key in a connection's password or in a file of the machine."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.encryption import KeyPlace, local_secret
from streams_recovery.storage.keys.port import Wrapped, unusable

_NONCE: Final = 12
_DOMAIN: Final = b"streams-recovery local key 1"


class LocalKey:
    """See ``KeyEncryption``. AES-256 in GCM: 12 bytes of nonce, then what is encrypted with its tag."""

    public = False

    def __init__(self, place: KeyPlace) -> None:
        try:
            secret = local_secret(place.options["secret"])
        except ValueError as error:
            raise ConfigInvalid(
                f"the local key of storage.encryption cannot be used: {error}", next_step="make one with `openssl rand -base64 32`"
            ) from None
        self._cipher = AESGCM(secret)
        # It says which key it is, and nothing of the key.
        self.name = f"local:{hashlib.sha256(_DOMAIN + secret).hexdigest()[:16]}"

    def wrap(self, plain: bytes) -> Wrapped:
        nonce = os.urandom(_NONCE)
        return Wrapped("", nonce + self._cipher.encrypt(nonce, plain, None))

    def unwrap(self, wrapped: Wrapped) -> bytes:
        try:
            return self._cipher.decrypt(wrapped.data[:_NONCE], wrapped.data[_NONCE:], None)
        except (InvalidTag, ValueError):
            raise unusable(self.name, "it has not wrapped this, or the wrapped key was changed") from None
