"""Google Cloud KMS."""

from __future__ import annotations

import base64
import json
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

_ADDRESS: Final = re.compile(r"projects/[\w.:-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+")
# gcloud's own variable for another endpoint.
_ENDPOINT: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS"
_SCOPE: Final = "https://www.googleapis.com/auth/cloudkms"
# As Google's own libraries, and the one that asks the stores, take them.
_METADATA: Final = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT")
_ACCOUNT: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_TOKEN_SECONDS: Final = 600


class GoogleKey:
    """See ``KeyEncryption``. The address is ``projects/P/locations/L/keyRings/R/cryptoKeys/K``. Without a service account's key, in the
    connection or in ``GOOGLE_APPLICATION_CREDENTIALS``, the machine's is used.
    """

    public = False

    def __init__(self, place: KeyPlace) -> None:
        self.name = f"google:{place.address}"
        if _ADDRESS.fullmatch(place.address) is None:
            raise ConfigInvalid(
                f"{place.address} is no name of a key in Cloud KMS",
                next_step="write google:projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY",
            )
        endpoint = os.environ.get(_ENDPOINT, "https://cloudkms.googleapis.com/").rstrip("/")
        require_private(self.name, endpoint)
        self._url = f"{endpoint}/v1/{place.address}"
        self._account = place.options.get("service_account_key") or self._of_environment()
        self._token, self._until = "", 0.0

    def wrap(self, plain: bytes) -> Wrapped:
        answer = self._do("encrypt", {"plaintext": base64.b64encode(plain).decode()})
        return Wrapped(text_in(self.name, answer, "name").rpartition("/")[2], self._bytes(answer, "ciphertext"))

    def unwrap(self, wrapped: Wrapped) -> bytes:
        return self._bytes(self._do("decrypt", {"ciphertext": base64.b64encode(wrapped.data).decode()}), "plaintext")

    def _do(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        if time.monotonic() >= self._until:
            self._token, self._until = token_in(self.name, self._new_token()), time.monotonic() + _TOKEN_SECONDS / 2
        return ask(self.name, f"{self._url}:{what}", body, {"Authorization": f"Bearer {self._token}"})

    def _bytes(self, answer: dict[str, Any], field: str) -> bytes:
        try:
            return base64.b64decode(text_in(self.name, answer, field), validate=True)
        except ValueError:
            raise no_answer(self.name, f"its {field} is not base64") from None

    def _new_token(self) -> dict[str, Any]:
        if self._account is None:
            host = next((os.environ[name] for name in _METADATA if os.environ.get(name)), "169.254.169.254")
            address = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
            return ask(self.name, address, None, {"Metadata-Flavor": "Google"})
        account = json.loads(self._account)
        address = str(account.get("token_uri", "https://oauth2.googleapis.com/token"))
        require_private(self.name, address)
        now = int(time.time())
        claims = {"iss": account["client_email"], "scope": _SCOPE, "aud": address, "iat": now, "exp": now + _TOKEN_SECONDS}
        text = ".".join(_url_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
        signed = f"{text}.{_url_base64(self._signature(account['private_key'], text.encode()))}"
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": signed}
        return ask(self.name, address, urllib.parse.urlencode(form).encode(), {})

    def _of_environment(self) -> str | None:
        """The key of a service account in the file that the environment names. Raises ``KeyUnavailable`` for a file that has none: others would be asked."""
        path = os.environ.get(_ACCOUNT)
        if not path:
            return None
        try:
            found = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise unusable(self.name, f"{path} of {_ACCOUNT} cannot be read: {type(error).__name__}") from None
        if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("client_email", "private_key")):
            raise unusable(self.name, f"{path} of {_ACCOUNT} is no key of a service account, and nothing else is supported there")
        remember_secrets([found["private_key"]])
        return json.dumps(found)

    def _signature(self, private_key: str, message: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415  # slow to import
        from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415

        try:
            key = serialization.load_pem_private_key(private_key.encode(), password=None)
        except ValueError:
            key = None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise unusable(self.name, "the private key of the service account is no RSA key in PEM")
        return key.sign(message, padding.PKCS1v15(), hashes.SHA256())


def _url_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
