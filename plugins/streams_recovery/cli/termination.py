"""How SIGTERM ends a command: as Ctrl-C does, through every teardown."""

from __future__ import annotations

import signal
from types import FrameType


def end_by_teardown() -> None:
    """Let SIGTERM end this process by ``SystemExit`` (143), so that what a run has held comes back first.

    Without a handler it would end a process at once, and not at all the first process of a container. A second SIGTERM does not disturb the teardown.
    """
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
