"""Where the processes of a stack listen, watched while it runs."""

from __future__ import annotations

import ipaddress
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from embedded.processes import Processes

_EVERY_SECONDS = 1.0


class Listening:
    """The ports on which ``processes``, their descendants and the instances of an application listened, as far as a look every second sees them: each
    with address and process. Instances are known by the ``directory`` in their command line.
    """

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes = processes
        self._directory = str(directory)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.ports: dict[int, set[str]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def elsewhere(self) -> dict[int, list[str]]:
        """Those that are not of the loopback network."""
        outside = {port: sorted(one for one in found if not _loopback(one.split()[0])) for port, found in self.ports.copy().items()}
        return {port: found for port, found in outside.items() if found}

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            started = {pid for pid, _ in self._processes.recorded().values()}
            for connection in psutil.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.pid and (name := self._ours(connection.pid, started)):
                    self.ports.setdefault(connection.laddr.port, set()).add(f"{connection.laddr.ip} {name}")

    def _ours(self, pid: int, started: set[int]) -> str | None:
        try:
            process = psutil.Process(pid)
            family = {pid, *(parent.pid for parent in process.parents())}
            return process.name() if family & started or self._directory in " ".join(process.cmdline()) else None
        except psutil.Error:
            return None


def _loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
