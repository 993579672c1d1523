"""Connections as Airflow stores them, and addresses of HTTP interfaces.

A connection is written as JSON or as a URI. It is read here without Airflow, for when Airflow is lost. An address is checked for being valid, and for
whether the network can read the traffic.
"""

from __future__ import annotations

import email.message
import ipaddress
import json
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

# What Airflow writes into the query of a URI when the extra is not flat.
_WHOLE_EXTRA: Final = "__extra__"
# scheme://host, or scheme://protocol://host
_MOST_SCHEMES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoredConnection:
    """The fields of one connection. Its text form shows none of them: each may be a secret in the wrong place."""

    conn_type: str | None = None
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"StoredConnection({self.conn_type})"

    @classmethod
    def parse(cls, text: str) -> StoredConnection:
        """JSON or URI, told apart as Airflow does. Raises ``ValueError`` with a reason that repeats nothing of ``text``."""
        written = text.strip()
        return _from_json(written) if written.startswith("{") else _from_uri(written)


def ignored_text(where: str, keys: Iterable[str]) -> str:
    """The warning that names what a connection has and nothing here uses. Never a value: it may be a secret."""
    return f"{where}: ignored {', '.join(sorted(key[:80] for key in keys))}: this software does not use them"


def _from_json(text: str) -> StoredConnection:
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError("it is not JSON") from None
    return StoredConnection(
        conn_type=_text(found.get("conn_type")),
        host=_text(found.get("host")),
        port=_port(found.get("port")),
        login=_text(found.get("login")),
        password=_text(found.get("password")),
        extra=_extra(found.get("extra")),
    )


def _from_uri(text: str) -> StoredConnection:
    scheme, separator, _ = text.partition("://")
    if not separator or text.count("://") > _MOST_SCHEMES:
        raise ValueError("it is neither a JSON object nor a URI such as kafka://host:9092")
    nested = text.count("://") == _MOST_SCHEMES
    rest = text[len(scheme) + len("://") :]
    try:
        parts = urlsplit(rest if nested else f"//{rest}")
        number = parts.port
    except ValueError:
        raise ValueError("the host or the port of the URI cannot be read: special characters must be percent-encoded") from None
    host = _host(parts)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return StoredConnection(
        conn_type=scheme.replace("-", "_"),
        host=f"{parts.scheme}://{host}" if nested and host else host or None,
        port=number,
        login=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        extra=_extra(query.get(_WHOLE_EXTRA)) if _WHOLE_EXTRA in query else query,
    )


def _host(parts: SplitResult) -> str:
    # As Airflow reads it: in lower case, unless it is a path.
    host = unquote(parts.hostname or "")
    return unquote(parts.netloc.rpartition("@")[2].partition(":")[0]) if "/" in host else host


def _extra(value: object) -> Mapping[str, Any]:
    """A JSON object, or the text of one, which Airflow accepts as well."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("its extra is not JSON") from None
    if not value:
        return {}
    if not isinstance(value, dict):
        raise ValueError("its extra is not a JSON object")  # noqa: TRY004  # one type for all that can be wrong with a text
    return value


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise ValueError("a field that has to be a text is something else")


def _port(value: object) -> int | None:
    try:
        return int(str(value)) if value else None
    except ValueError:
        raise ValueError("its port is not a number") from None


def web_address(text: str) -> SplitResult:
    """The parts of an http or https address. Raises ``ValueError`` for anything else, and for an address with a user name or password."""
    # An address that may contain a password is not shown, so that the password is not logged.
    shown = "the address" if "@" in text else repr(text[:80])
    parts = _parts(text)
    if parts is not None and (parts.username or parts.password):
        raise ValueError("an address must not carry a user name or password; put them into a connection")
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not _port_exists(parts):
        raise ValueError(f"{shown} is not an http or https address")
    return parts


def _parts(text: str) -> SplitResult | None:
    try:
        return urlsplit(text)
    except ValueError:
        return None


def _port_exists(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other that is none: followed, it would take secrets wherever it says."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: email.message.Message, newurl: str
    ) -> None:
        """None is urllib's word for: do not follow, the answer is an error."""


def direct_opener(url: str) -> urllib.request.OpenerDirector:
    """Opens requests to ``url`` that carry secrets."""
    # A proxy reads plain requests. It only passes encrypted ones on.
    proxies = urllib.request.ProxyHandler(None if url.lower().startswith("https:") else {})
    return urllib.request.build_opener(_NoRedirects, proxies)


def unencrypted(text: str) -> bool:
    """True for plain http to another machine: others on the network can read the traffic and answer in its place. Raises like ``web_address``."""
    parts = web_address(text)
    return parts.scheme == "http" and not _is_loopback(parts.hostname or "")


def require_encrypted(text: str, *, allowed: bool, setting: str) -> None:
    """Raise ``ValueError`` for plain http to another machine, unless ``allowed``. ``setting`` is the configuration key that allows it."""
    if unencrypted(text) and not allowed:
        raise ValueError(
            f"{text} is plain http to another machine: anyone on the network path can read what is sent and answer in its place; use https, or set {setting}: "
            "true where the network is trusted"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
