"""Loopback ports for servers that another process starts.

A port that is free now may be anybody's a moment later: the kernel gives outgoing connections ports of its ephemeral range, and a second stack
looks for free ports as this one does. So ports come from below that range, and each process has a slice of them to itself.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import Refused

HOST = "127.0.0.1"
SLICE: Final = 250
_USUAL: Final = range(20_000, 32_000)
_LOWEST: Final = 2_000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def pool(ephemeral: str) -> range:
    """The ports to choose from. ``ephemeral`` is the kernel's text, its first and last port; empty where there is none."""
    first = int(ephemeral.split(maxsplit=1)[0]) if ephemeral.strip() else _USUAL.stop
    stop = min(first, _USUAL.stop)
    start = stop - len(_USUAL)
    return range(start, stop) if start >= _LOWEST else _USUAL


def slices_in_order(ports: range, environment: Mapping[str, str], pid: int) -> list[range]:
    """Every slice of ``ports``, the one to try first at the front: a test worker's by its number, any other process's by its id."""
    slices = [ports[at : at + SLICE] for at in range(0, len(ports) - SLICE + 1, SLICE)]
    worker = re.fullmatch(r"gw(\d+)", environment.get("PYTEST_XDIST_WORKER", ""))
    first = (int(worker[1]) if worker else pid) % len(slices)
    return slices[first:] + slices[:first]


class PortSlice:
    """Ports of this process alone: its first one stays bound as long as the process lives, which tells every other process to go elsewhere."""

    def __init__(self, ports: range) -> None:
        """Raises ``OSError`` when another process has the slice."""
        self._ports = ports[1:]
        self._next = 0
        self._lock = threading.Lock()
        self._claim = socket.socket()
        try:
            self._claim.bind((HOST, ports[0]))
        except OSError:
            self._claim.close()
            raise

    def take(self, count: int) -> list[int]:
        """Free ports, those first that were not given out for the longest time. Raises ``Refused`` when there are too few."""
        found: list[int] = []
        with self._lock:
            for _ in self._ports:
                if len(found) == count:
                    break
                port = self._ports[self._next]
                self._next = (self._next + 1) % len(self._ports)
                if _is_free(port):
                    found.append(port)
        if len(found) < count:
            raise Refused(
                f"only {len(found)} of {count} ports are free from {self._ports[0]} to {self._ports[-1]}",
                next_step="stop servers that earlier runs left behind",
                free=len(found),
                wanted=count,
            )
        return found

    def close(self) -> None:
        """Let another process have it."""
        self._claim.close()


def claim_slice(slices: list[range]) -> PortSlice:
    """The first of ``slices`` that no other process has. Raises ``Refused`` when all are taken."""
    for ports in slices:
        try:
            return PortSlice(ports)
        except OSError:
            continue
    raise Refused(
        f"all {len(slices)} slices of ports are taken",
        next_step="end some of the stacks and tests that run on this machine",
        slices=len(slices),
    )


@cache
def _own() -> PortSlice:
    ephemeral = _EPHEMERAL.read_text() if _EPHEMERAL.exists() else ""
    return claim_slice(slices_in_order(pool(ephemeral), os.environ, os.getpid()))


def free_ports(count: int) -> list[int]:
    """Different ports that nothing listens on, and that neither outgoing connections nor other processes that ask here are given."""
    return _own().take(count)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


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
