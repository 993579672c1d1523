"""Loopback ports."""

from __future__ import annotations

import socket

from streams_recovery.core.errors import Refused

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on. All are held open until the last is found, so they differ."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def require_free(port: int, what: str) -> int:
    """The port itself. Raises ``Refused`` when something listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Refused(
                f"port {port} for {what} is taken", next_step=f"stop what listens on {HOST}:{port}, or choose another port", port=port
            ) from error
    return port


def answers(port: int) -> bool:
    """True when something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
