"""The transit engine of HashiCorp Vault, and of OpenBao."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.encryption import KeyPlace
from streams_recovery.storage.keys.port import Wrapped, ask, no_answer, require_private, text_in, unusable

_ADDRESS: Final = re.compile(r"(https?://[^?#@]+/v1/[^?#@]+)/keys/([A-Za-z0-9_.-]+)")
_WRAPPED: Final = re.compile(rb"vault:(v[0-9]{1,9}):[A-Za-z0-9+/=]{1,1000}")


class VaultKey:
    """See ``KeyEncryption``. The address is that of the key: ``https://vault:8200/v1/transit/keys/NAME``; the password of its connection is the token."""

    public = False

    def __init__(self, place: KeyPlace) -> None:
        self.name = f"vault:{place.address}"
        found = _ADDRESS.fullmatch(place.address)
        if found is None:
            raise ConfigInvalid(
                f"{place.address} is no address of a key in Vault", next_step="write vault:https://HOST:8200/v1/transit/keys/NAME"
            )
        require_private(self.name, place.address)
        self._mount, self._key = found[1], found[2]
        self._headers = {"X-Vault-Token": place.options["secret"], "X-Vault-Request": "true"}

    def wrap(self, plain: bytes) -> Wrapped:
        data = self._do("encrypt", {"plaintext": base64.b64encode(plain).decode()}, "ciphertext").encode()
        version = _WRAPPED.fullmatch(data)
        if version is None:
            raise no_answer(self.name, "its answer is no ciphertext")
        return Wrapped(version[1].decode(), data)

    def unwrap(self, wrapped: Wrapped) -> bytes:
        if _WRAPPED.fullmatch(wrapped.data) is None:
            raise unusable(self.name, "it has not wrapped this")
        try:
            return base64.b64decode(self._do("decrypt", {"ciphertext": wrapped.data.decode()}, "plaintext"), validate=True)
        except ValueError:
            raise no_answer(self.name, "its answer is no plaintext") from None

    def _do(self, what: str, body: dict[str, Any], field: str) -> str:
        answer = ask(self.name, f"{self._mount}/{what}/{self._key}", body, self._headers)
        data = answer.get("data")
        return text_in(self.name, data if isinstance(data, dict) else {}, field)
