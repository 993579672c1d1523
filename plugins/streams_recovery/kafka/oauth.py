"""Tokens for kafka-python, which leaves fetching them to its user. librdkafka fetches its own (``sasl.oauthbearer.method=oidc``)."""

from __future__ import annotations

import base64
import email.message
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import IO

from kafka.net.sasl.oauth import AbstractTokenProvider

from streams_recovery.core.errors import BrokerUnavailable, remember_secrets

_PREFIX = "sasl.oauthbearer."
_TIMEOUT_SECONDS = 10.0
# A token is given up this long before its end, so that it does not run out between here and the broker.
_MARGIN_SECONDS = 30.0
_MAX_BYTES = 1 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other that is no token: followed, it would take client id and secret wherever it says."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: email.message.Message, newurl: str
    ) -> None:
        """None is urllib's word for: do not follow, the answer is an error."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """An OAuth 2 client credentials grant (RFC 6749, section 4.4) at the configured endpoint. One token is used until it ends.

    ``properties`` are those of a checked ``KafkaConnection``: its endpoint is on this machine or has TLS.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = {key.removeprefix(_PREFIX): value for key, value in properties.items() if key.startswith(_PREFIX)}
        self._token = ""
        self._ends_at = 0.0

    def token(self) -> str:
        """A token that is still valid. Raises ``BrokerUnavailable`` when the endpoint gives none."""
        if time.monotonic() >= self._ends_at:
            answer = self._ask()
            self._token = str(answer["access_token"])
            remember_secrets([self._token])
            self._ends_at = time.monotonic() + float(str(answer.get("expires_in", 0))) - _MARGIN_SECONDS
        return self._token

    def extensions(self) -> dict[str, str]:
        """``sasl.oauthbearer.extensions``, ``name=value`` pairs with commas between them."""
        pairs = (pair.partition("=") for pair in self._properties.get("extensions", "").split(",") if pair)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _ask(self) -> dict[str, object]:
        url = self._properties["token.endpoint.url"]
        form = {"grant_type": "client_credentials"} | {key: self._properties[key] for key in ("scope",) if key in self._properties}
        request = urllib.request.Request(url, data=urllib.parse.urlencode(form).encode())  # noqa: S310  # its connection is checked
        request.add_header("Authorization", f"Basic {self._basic()}")
        remember_secrets([self._basic(), self._properties["client.secret"]])
        try:
            with _opener(url).open(request, timeout=_TIMEOUT_SECONDS) as response:
                answer = json.loads(_bounded(response))
        except (OSError, ValueError, HTTPException, RecursionError) as error:
            raise BrokerUnavailable(
                f"no token from {url}: {error}",
                next_step="check the endpoint, client id and client secret of the Kafka connection",
                url=url,
            ) from error
        if not isinstance(answer, dict) or "access_token" not in answer:
            raise BrokerUnavailable(f"no token in the answer of {url}", next_step="check that it is an OAuth 2 token endpoint", url=url)
        return answer

    def _basic(self) -> str:
        names = (self._properties["client.id"], self._properties["client.secret"])
        return base64.b64encode(":".join(urllib.parse.quote(name, safe="") for name in names).encode()).decode()


def _opener(url: str) -> urllib.request.OpenerDirector:
    # A proxy reads what is not encrypted. What is encrypted it only passes on.
    proxies = urllib.request.ProxyHandler(None if url.lower().startswith("https:") else {})
    return urllib.request.build_opener(_NoRedirects, proxies)


def _bounded(response: IO[bytes]) -> bytes:
    body = response.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise ValueError(f"the answer has more than {_MAX_BYTES} bytes")
    return body
