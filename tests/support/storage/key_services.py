"""What services of key-encryption keys answer: AWS KMS, Google Cloud KMS, Azure Key Vault, and Vault's transit engine, on this machine.

They speak the interfaces of the real ones as their documentation lays them down, check what these check (names, tokens, signatures, states, versions), and
keep their keys to themselves.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ARN = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
GOOGLE = "projects/p/locations/europe/keyRings/r/cryptoKeys/k"
TOKEN = "a token of a test"
CLIENT_SECRET = "a client's secret of a test"
OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, body: object) -> None:
        self.status, self.body = status, body


@cache
def pair(_number: int) -> rsa.RSAPrivateKey:
    """One of a few pairs of keys: making one takes long."""
    return rsa.generate_private_key(65537, 2048)


@dataclass
class KeyServices:
    """One key in each service. ``refuses`` is what every call is answered with, None while the keys are in order."""

    url: str = ""
    refuses: str | None = None
    token: str = TOKEN
    fails: int = 0
    calls: list[str] = field(default_factory=list)
    # Paths of no service here, such as those of a store, with what they were asked with.
    elsewhere: list[tuple[str, str]] = field(default_factory=list)
    client: str | None = None
    pod: str = "what Kubernetes says of a pod"
    versions: list[bytes] = field(default_factory=lambda: [os.urandom(32)])
    pairs: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    account: rsa.RSAPrivateKey = field(default_factory=lambda: pair(0))

    def __post_init__(self) -> None:
        self.rotate_azure()

    def rotate(self) -> None:
        self.versions.append(os.urandom(32))

    def rotate_azure(self) -> None:
        self.pairs[os.urandom(16).hex()] = pair(1 + len(self.pairs))

    @property
    def account_json(self) -> str:
        pem = self.account.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        found = {"type": "service_account", "client_email": "me@p", "private_key": pem, "token_uri": f"{self.url}/google-token"}
        return json.dumps(found)

    def wrapped(self, plain: bytes, about: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + AESGCM(self.versions[-1]).encrypt(nonce, plain, about)

    def opened(self, data: bytes, about: bytes) -> bytes | None:
        for version in reversed(self.versions):
            try:
                return AESGCM(version).decrypt(data[:12], data[12:], about)
            except (InvalidTag, ValueError):
                continue
        return None

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> object:
        """The answer to a request. Raises ``Refusal``."""
        self.calls.append(path)
        if self.fails:
            self.fails -= 1
            raise Refusal(503, {"message": "busy"})
        routes: dict[str, Callable[[str, dict[str, str], bytes], object]] = {
            r"/": self._aws,
            r"/v1/transit/(encrypt|decrypt)/orders": self._vault,
            r"/google-token": self._google_token,
            r"/computeMetadata/v1/instance/service-accounts/default/token(\?.*)?": self._google_machine,
            r"/msi/token\?.*": self._azure_machine,
            rf"/v1/{GOOGLE}:(encrypt|decrypt)": self._google,
            r"/tenant/oauth2/v2\.0/token": self._azure_token,
            r"/keys/orders(/[0-9a-f]{32})?/(wrapkey|unwrapkey)\?api-version=[0-9.]+": self._azure,
        }
        for pattern, route in routes.items():
            if re.fullmatch(pattern, path):
                return route(path, headers, body)
        self.elsewhere.append((path, headers.get("authorization", "")))
        raise Refusal(404, {"errors": ["no such path"]})

    def _aws(self, _path: str, headers: dict[str, str], body: bytes) -> object:
        asked, what = json.loads(body), headers["x-amz-target"]
        if not headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 Credential=AKIATEST/"):
            raise Refusal(400, {"__type": "UnrecognizedClientException", "message": "The security token is invalid"})
        if asked["KeyId"] != ARN:
            raise Refusal(400, {"__type": "NotFoundException", "message": "there is no such key"})
        if self.refuses:
            raise Refusal(400, {"__type": self.refuses, "message": f"{ARN} is so"})
        if what == "TrentService.Encrypt":
            data = self.wrapped(base64.b64decode(asked["Plaintext"]), ARN.encode())
            return {"CiphertextBlob": base64.b64encode(data).decode(), "KeyId": ARN, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}
        assert what == "TrentService.Decrypt"
        plain = self.opened(base64.b64decode(asked["CiphertextBlob"]), ARN.encode())
        if plain is None:
            raise Refusal(400, {"__type": "InvalidCiphertextException", "message": None})
        return {"Plaintext": base64.b64encode(plain).decode(), "KeyId": ARN, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}

    def _vault(self, path: str, headers: dict[str, str], body: bytes) -> object:
        if headers.get("x-vault-token") != self.token or self.refuses:
            raise Refusal(403, {"errors": [self.refuses or "permission denied"]})
        asked = json.loads(body)
        if "/encrypt/" in path:
            data = base64.b64encode(self.wrapped(base64.b64decode(asked["plaintext"]), b"vault")).decode()
            return {"data": {"ciphertext": f"vault:v{len(self.versions)}:{data}", "key_version": len(self.versions)}}
        version, _, data = asked["ciphertext"].removeprefix("vault:v").partition(":")
        plain = self.opened(base64.b64decode(data), b"vault") if int(version) <= len(self.versions) else None
        if plain is None:
            raise Refusal(400, {"errors": ["cipher: message authentication failed"]})
        return {"data": {"plaintext": base64.b64encode(plain).decode()}}

    def _google_token(self, _path: str, _headers: dict[str, str], body: bytes) -> object:
        form = dict(urllib.parse.parse_qsl(body.decode()))
        head, claims, signature = form["assertion"].split(".")
        try:
            self.account.public_key().verify(_from_url_base64(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise Refusal(400, {"error": "invalid_grant"}) from None
        said = json.loads(_from_url_base64(claims))
        assert said["iss"] == "me@p"
        assert said["aud"] == f"{self.url}/google-token"
        assert said["scope"].endswith("/auth/cloudkms")
        assert abs(said["iat"] - time.time()) < 60 < said["exp"] - said["iat"] <= 3600
        return {"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"}

    def _google(self, path: str, headers: dict[str, str], body: bytes) -> object:
        if headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(401, {"error": {"status": "UNAUTHENTICATED"}})
        if self.refuses:
            raise Refusal(400, {"error": {"status": "FAILED_PRECONDITION", "message": self.refuses}})
        asked = json.loads(body)
        if path.endswith(":encrypt"):
            data = self.wrapped(base64.b64decode(asked["plaintext"]), b"google")
            return {"name": f"{GOOGLE}/cryptoKeyVersions/{len(self.versions)}", "ciphertext": base64.b64encode(data).decode()}
        plain = self.opened(base64.b64decode(asked["ciphertext"]), b"google")
        if plain is None:
            raise Refusal(400, {"error": {"status": "INVALID_ARGUMENT", "message": "Decryption failed: the ciphertext is invalid."}})
        return {"plaintext": base64.b64encode(plain).decode()}

    def _azure_token(self, _path: str, _headers: dict[str, str], body: bytes) -> object:
        form = dict(urllib.parse.parse_qsl(body.decode()))
        assert form["grant_type"] == "client_credentials"
        assert form["scope"] in ("https://vault.azure.net/.default", "https://storage.azure.com/.default")
        assertion = (form.get("client_assertion"), form.get("client_assertion_type"))
        by_pod = assertion == (self.pod, "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        if form["client_id"] != "me" or not (by_pod or form.get("client_secret") == CLIENT_SECRET):
            raise Refusal(401, {"error": "invalid_client"})
        return {"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"}

    def _google_machine(self, _path: str, headers: dict[str, str], _body: bytes) -> object:
        if headers.get("metadata-flavor") != "Google":
            raise Refusal(403, {"error": "missing Metadata-Flavor"})
        return {"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"}

    def _azure_machine(self, path: str, headers: dict[str, str], _body: bytes) -> object:
        """As App Service and Container Apps lay it down: learn.microsoft.com/azure/app-service/overview-managed-identity."""
        asked = dict(urllib.parse.parse_qsl(path.partition("?")[2]))
        if headers.get("x-identity-header") != "a header of a test":
            raise Refusal(401, {"error": "unauthorized"})
        assert asked["api-version"] == "2019-08-01"
        assert asked["resource"].rstrip("/") in ("https://vault.azure.net", "https://storage.azure.com")
        if asked.get("client_id") != self.client:
            raise Refusal(400, {"error": "invalid_client"})
        return {
            "access_token": self.token,
            "expires_on": str(int(time.time()) + 3599),
            "resource": asked["resource"],
            "token_type": "Bearer",
        }

    def _azure(self, path: str, headers: dict[str, str], body: bytes) -> object:
        if headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(401, {"error": {"code": "Unauthorized"}})
        if self.refuses:
            raise Refusal(403, {"error": {"code": "Forbidden", "message": self.refuses}})
        asked = json.loads(body)
        assert asked["alg"] == "RSA-OAEP-256"
        _, _, name, *rest = path.partition("?")[0].split("/")
        version = rest[0] if len(rest) > 1 else list(self.pairs)[-1]
        if version not in self.pairs:
            raise Refusal(404, {"error": {"code": "KeyNotFound"}})
        value = _from_url_base64(asked["value"])
        try:
            done = (
                self.pairs[version].public_key().encrypt(value, OAEP) if rest[-1] == "wrapkey" else self.pairs[version].decrypt(value, OAEP)
            )
        except ValueError:
            raise Refusal(400, {"error": {"code": "BadParameter"}}) from None
        return {"kid": f"{self.url}/keys/{name}/{version}", "value": base64.urlsafe_b64encode(done).rstrip(b"=").decode()}


def _from_url_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@contextmanager
def key_services() -> Iterator[KeyServices]:
    """All of them at one port of this machine."""
    found = KeyServices()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_HEAD(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", "0")))
            status, answer = 200, None
            try:
                answer = found.answer(self.path, headers, body)
            except Refusal as refusal:
                status, answer = refusal.status, refusal.body
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1" if self.path == "/" else "application/json")
            if status // 100 == 3:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else data)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
