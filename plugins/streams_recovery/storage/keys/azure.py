"""Azure Key Vault."""

from __future__ import annotations

import base64
import os
import re
import time
import urllib.parse
from pathlib import Path
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.repository.encryption import KeyPlace
from streams_recovery.storage.keys.port import Wrapped, ask, no_answer, require_private, text_in, token_in, unusable

_ADDRESS: Final = re.compile(r"https?://[^/?#@]+/keys/[A-Za-z0-9-]{1,127}")
_VERSION: Final = re.compile(r"[0-9a-fA-F]{32}")
_API: Final = "api-version=7.4"
_RESOURCE: Final = "https://vault.azure.net"
# The variable of Azure's own libraries for another cloud.
_AUTHORITY: Final = "AZURE_AUTHORITY_HOST"
# As the library that asks the stores takes them: who this machine or pod is.
_IDENTITY: Final = ("tenant_id", "client_id", "client_secret", "federated_token_file")
_OF_MACHINE: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TOKEN_SECONDS: Final = 300


class AzureKey:
    """See ``KeyEncryption``. The address is ``https://VAULT.vault.azure.net/keys/NAME``, of an RSA key. Without an application of Entra ID the machine's
    or the pod's is used. Whoever has the public key can wrap: only a seal says who did.
    """

    public = True

    def __init__(self, place: KeyPlace) -> None:
        self.name = f"azure:{place.address}"
        if _ADDRESS.fullmatch(place.address) is None:
            raise ConfigInvalid(
                f"{place.address} is no address of a key in Key Vault", next_step="write azure:https://VAULT.vault.azure.net/keys/NAME"
            )
        require_private(self.name, place.address)
        self._url = place.address
        self._options = {name: found for name in _IDENTITY if (found := os.environ.get(f"AZURE_{name.upper()}"))} | dict(place.options)
        # A service may answer with what it was sent.
        remember_secrets(filter(None, (self._options.get("client_secret"), os.environ.get("IDENTITY_HEADER"))))
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
        given = self._options
        if not {"tenant_id", "client_id"} <= given.keys() or not {"client_secret", "federated_token_file"} & given.keys():
            return self._token_of_machine()
        authority = os.environ.get(_AUTHORITY, "https://login.microsoftonline.com").rstrip("/")
        require_private(self.name, authority)
        form = {"grant_type": "client_credentials", "client_id": given["client_id"], "scope": f"{_RESOURCE}/.default"}
        if "client_secret" in given:
            form["client_secret"] = given["client_secret"]
        else:
            form |= {"client_assertion_type": _ASSERTION, "client_assertion": self._token_of_pod(given["federated_token_file"])}
        tenant = urllib.parse.quote(given["tenant_id"], safe="")
        return ask(self.name, f"{authority}/{tenant}/oauth2/v2.0/token", urllib.parse.urlencode(form).encode(), {})

    def _token_of_machine(self) -> dict[str, Any]:
        """By the service of virtual machines, or that of hosted applications, which the environment names."""
        asked = {"api-version": "2019-08-01", "resource": _RESOURCE}
        asked |= {"client_id": self._options["client_id"]} if "client_id" in self._options else {}
        headers = {"Metadata": "true"} | ({"X-IDENTITY-HEADER": secret} if (secret := os.environ.get("IDENTITY_HEADER")) else {})
        return ask(self.name, f"{os.environ.get('IDENTITY_ENDPOINT', _OF_MACHINE)}?{urllib.parse.urlencode(asked)}", None, headers)

    def _token_of_pod(self, path: str) -> str:
        """What Kubernetes says of this pod. The file is written anew from time to time."""
        try:
            token = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise unusable(self.name, f"{path} of AZURE_FEDERATED_TOKEN_FILE cannot be read: {error}") from None
        remember_secrets([token], renewed=True)
        return token
