"""Azure Key Vault."""

from __future__ import annotations

import base64
import os
import re
import time
import urllib.parse
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.encryption import KeyPlace
from streams_recovery.storage.keys.port import Wrapped, ask, no_answer, require_private, text_in, token_in, unusable

_ADDRESS: Final = re.compile(r"https?://[^/?#@]+/keys/[A-Za-z0-9-]{1,127}")
_VERSION: Final = re.compile(r"[0-9a-fA-F]{32}")
_API: Final = "api-version=7.4"
_RESOURCE: Final = "https://vault.azure.net"
# The variable of Azure's own libraries for another cloud.
_AUTHORITY: Final = "AZURE_AUTHORITY_HOST"
_OF_MACHINE: Final = "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
_TOKEN_SECONDS: Final = 300


class AzureKey:
    """See ``KeyEncryption``. The address is ``https://VAULT.vault.azure.net/keys/NAME``, of an RSA key. Without an application of Entra ID the machine's
    is used. Whoever has the public key can wrap: only a seal says who did.
    """

    public = True

    def __init__(self, place: KeyPlace) -> None:
        self.name = f"azure:{place.address}"
        if _ADDRESS.fullmatch(place.address) is None:
            raise ConfigInvalid(
                f"{place.address} is no address of a key in Key Vault", next_step="write azure:https://VAULT.vault.azure.net/keys/NAME"
            )
        require_private(self.name, place.address)
        self._url, self._options = place.address, place.options
        self._token, self._until = "", 0.0

    def wrap(self, plain: bytes) -> Wrapped:
        answer = self._do("", "wrapkey", plain)
        version = text_in(self.name, answer, "kid").rpartition("/")[2]
        if _VERSION.fullmatch(version) is None:
            raise no_answer(self.name, "its answer has no version of the key")
        return Wrapped(version, self._bytes(answer))

    def unwrap(self, wrapped: Wrapped) -> bytes:
        # It becomes a part of an address.
        if _VERSION.fullmatch(wrapped.version) is None:
            raise unusable(self.name, "it has not wrapped this: there is no such version")
        return self._bytes(self._do(f"/{wrapped.version}", "unwrapkey", wrapped.data))

    def _do(self, version: str, what: str, data: bytes) -> dict[str, Any]:
        if time.monotonic() >= self._until:
            self._token, self._until = token_in(self.name, self._new_token()), time.monotonic() + _TOKEN_SECONDS
        body = {"alg": "RSA-OAEP-256", "value": base64.urlsafe_b64encode(data).rstrip(b"=").decode()}
        return ask(self.name, f"{self._url}{version}/{what}?{_API}", body, {"Authorization": f"Bearer {self._token}"})

    def _bytes(self, answer: dict[str, Any]) -> bytes:
        text = text_in(self.name, answer, "value")
        try:
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise no_answer(self.name, "its value is not base64") from None

    def _new_token(self) -> dict[str, Any]:
        if "client_secret" not in self._options:
            client = self._options.get("client_id")
            more = f"&client_id={urllib.parse.quote(client, safe='')}" if client else ""
            return ask(self.name, _OF_MACHINE + urllib.parse.quote(_RESOURCE, safe="") + more, None, {"Metadata": "true"})
        authority = os.environ.get(_AUTHORITY, "https://login.microsoftonline.com").rstrip("/")
        require_private(self.name, authority)
        form = {
            "grant_type": "client_credentials",
            "client_id": self._options["client_id"],
            "client_secret": self._options["client_secret"],
            "scope": f"{_RESOURCE}/.default",
        }
        tenant = urllib.parse.quote(self._options["tenant_id"], safe="")
        return ask(self.name, f"{authority}/{tenant}/oauth2/v2.0/token", urllib.parse.urlencode(form).encode(), {})
