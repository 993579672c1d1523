"""Waiting for the server of a store."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

from streams_recovery.core.errors import TransientError


def wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until a server takes connections on a loopback port."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TransientError(f"the server of the store did not start:\n{log.read_text()}", next_step="see what it says")
