"""What a service that keeps key-encryption keys has to do."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, NamedTuple, Protocol

from streams_recovery.core.connection import direct_opener, unencrypted
from streams_recovery.core.errors import ConfigInvalid, KeyServiceUnavailable, KeyUnavailable
from streams_recovery.core.masking import masked, remember_secrets

_TIMEOUT_SECONDS: Final = 10.0
_ATTEMPTS: Final = 3
_MOST_ANSWER: Final = 1 << 20
_BUSY: Final = frozenset({408, 425, 429})
_STEP: Final = "enable the key, or give this user the right to encrypt and decrypt with it; nothing was changed"


class Wrapped(NamedTuple):
    """A data key that was wrapped by a ``version`` of a key, as the service calls that; empty where it is in the ``data``."""

    version: str
    data: bytes


class KeyEncryption(Protocol):
    """A key-encryption key. Both methods raise ``KeyUnavailable`` for one that is missing, disabled or may not be used, and ``KeyServiceUnavailable``."""

    # As it is stored beside what it has wrapped.
    name: str
    # True where whoever has the public key can wrap.
    public: bool

    def wrap(self, plain: bytes) -> Wrapped:
        """``plain``, at most 64 bytes, encrypted by the newest version."""

    def unwrap(self, wrapped: Wrapped) -> bytes:
        """The inverse. ``wrapped`` comes out of a bucket. Raises ``KeyUnavailable`` too for what this key has not wrapped."""


def unusable(name: str, why: str) -> KeyUnavailable:
    """The error for a key-encryption key that cannot be used."""
    return KeyUnavailable(f"the key-encryption key {name} cannot be used: {why}", next_step=_STEP, name=name, why=why)


def no_answer(name: str, why: str) -> KeyServiceUnavailable:
    """The error for a service that does not answer."""
    return KeyServiceUnavailable(
        f"the service of the key-encryption key {name} does not answer: {why}", next_step="try again when it does", name=name
    )


def require_private(name: str, url: str) -> None:
    """Raise ``ConfigInvalid`` for an address to which data keys would travel in clear."""
    if unencrypted(url):
        raise ConfigInvalid(f"{name} is not encrypted: data keys would cross the network in clear", next_step="use https", name=name)


def ask(name: str, url: str, body: Mapping[str, Any] | bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
    """The answer of a service to a JSON ``body``, or to a form as bytes; without one it is only read. Redirects are not followed: they would carry the token
    elsewhere.
    """
    form = isinstance(body, bytes)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded" if form else "application/json"} if data is not None else {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            request = urllib.request.Request(url, data=data, headers={**kind, **headers})  # noqa: S310  # its scheme was checked
            with direct_opener(url).open(request, timeout=_TIMEOUT_SECONDS) as answer:
                found = json.loads(answer.read(_MOST_ANSWER))
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code} {_words_of(error)}"
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _BUSY:
                raise unusable(name, why) from None
        except (OSError, HTTPException) as error:
            why = str(getattr(error, "reason", error))
        except ValueError:
            why = "its answer is no JSON"
        else:
            if isinstance(found, dict):
                return found
            why = "its answer is no JSON object"
        if attempt < _ATTEMPTS:
            time.sleep(attempt / 4)
    raise no_answer(name, why)


def text_in(name: str, answer: Mapping[str, Any], field: str) -> str:
    """A text of an answer. Raises ``KeyServiceUnavailable`` without it."""
    found = answer.get(field)
    if not isinstance(found, str):
        raise no_answer(name, f"its answer has no {field}")
    return found


def token_in(name: str, answer: Mapping[str, Any]) -> str:
    """The access token of an answer, which no text shows from now on."""
    token = text_in(name, answer, "access_token")
    remember_secrets([token], renewed=True)
    return token


def _words_of(error: urllib.error.HTTPError) -> str:
    try:
        # Before it is cut: a half of a secret is not known to be one.
        return masked(error.read(_MOST_ANSWER).decode("utf-8", "replace"))[:300]
    except (OSError, HTTPException):
        return ""
