"""Checks addresses of HTTP interfaces: whether they are valid, and whether the network can read the traffic."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit


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
