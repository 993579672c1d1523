"""One broker for all processes of a test run: the first that needs it starts it, the process that started the run stops it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest

_PLACE = "STREAMS_RECOVERY_TEST_SHARED"


class Shared:
    """A directory that all processes of a run know, made before the first of them starts and cleared when all have ended."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="streams-recovery-tests-"))
        os.environ[_PLACE] = str(self._directory)

    def pytest_unconfigure(self) -> None:
        """End what is there."""
        from embedded.processes import Processes

        Processes(self._directory).stop_all()
        shutil.rmtree(self._directory, ignore_errors=True)
        os.environ.pop(_PLACE, None)


def register(config: pytest.Config) -> None:
    """Take part in a run: as the process that starts it, unless this is one of its workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Shared())


def address() -> str:
    """The broker's address. Starts it when nobody has."""
    from embedded.broker import start_broker
    from embedded.ports import free_ports
    from embedded.processes import Processes

    directory = Path(os.environ[_PLACE])
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        noted = directory / "address"
        if not noted.exists():
            port, controller = free_ports(2)
            # Not as a context: it outlives the process that starts it.
            noted.write_text(start_broker(Processes(directory), directory / "broker", port=port, controller_port=controller))
        return noted.read_text()
