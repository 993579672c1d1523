"""Secrets that this process knows, and texts without them. A peer may repeat in its answer what it was sent, and a library in its own errors and warnings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import quote

# A shorter one is a part of many words: names and addresses could not be read any more.
LEAST_SECRET: Final = 8
_MOST_SECRETS: Final = 1_000
_IN_ADDRESS: Final = re.compile(r"(://[^\s/@:]*:)[^\s/@]+(?=@)")
# By how they may be written. Tokens are renewed every few minutes, and may not push out a password that is never told again.
_LASTING: Final[dict[str, None]] = {}
_RENEWED: Final[dict[str, None]] = {}
_also: Final[list[Callable[[str], object]]] = []


def remember_secrets(secrets: Iterable[object], *, renewed: bool = False) -> None:
    """Show ``***`` in place of these secrets in every error, log and traceback of this process from now on. Those with fewer than ``LEAST_SECRET``
    characters are shown. Of secrets that are ``renewed`` again and again, such as tokens, only the newest are remembered.
    """
    known = _RENEWED if renewed else _LASTING
    for secret in secrets:
        text = str(secret)
        if len(text) < LEAST_SECRET:
            continue
        if text not in known:
            for tell in _also:
                tell(text)
        known.update(dict.fromkeys(_forms(text)))
    while len(known) > _MOST_SECRETS:
        known.pop(next(iter(known)), None)


def tell_secrets(tell: Callable[[str], object]) -> None:
    """Have each secret that comes to be known told to another mask too, such as that of Airflow's logs."""
    _also.append(tell)


def masked(text: str) -> str:
    """``text`` without any secret that is known, and without the passwords of addresses, which nobody has told."""
    # The longest first: one may be a part of another one.
    for secret in sorted({*_LASTING, *_RENEWED}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _IN_ADDRESS.sub(r"\1***", text)


def _forms(text: str) -> tuple[str, ...]:
    in_json = json.dumps(text)[1:-1]
    encoded = base64.b64encode(text.encode()).decode()
    return text, in_json, in_json.replace("/", "\\/"), repr(text)[1:-1], quote(text), quote(text, safe=""), encoded
