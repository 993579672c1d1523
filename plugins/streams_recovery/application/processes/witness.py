"""The process that starts an instance and stays with it, so that somebody sees how it ends.

    python -m streams_recovery.application.processes.witness RECORD LOG -- COMMAND [ARGUMENT ...]

An orchestrator's task starts this and is gone long before the instance ends, and only a parent learns an exit status. The witness writes
RECORD twice: when the instance has started, and when it has ended. It passes SIGTERM on. If the witness itself is killed, nobody saw the
end, and the record says so by what it lacks.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from streams_recovery.application.processes.record import InstanceRecord, created_at


def main(arguments: list[str]) -> int:
    """Start, wait, record."""
    record_path, log_path, separator, *command = arguments
    if separator != "--" or not command:
        raise SystemExit("usage: witness RECORD LOG -- COMMAND [ARGUMENT ...]")
    with Path(log_path).open("ab", buffering=0) as log:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        except OSError as error:
            log.write(f"cannot start {command[0]}: {error}\n".encode())
            return 127

    def forward(number: int, _frame: FrameType | None) -> None:
        if child.poll() is None:
            child.send_signal(number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = Path(record_path)
    started = InstanceRecord(
        pid=child.pid,
        pid_created=created_at(child.pid),
        witness=os.getpid(),
        witness_created=created_at(os.getpid()),
        exit_status=None,
        ended_at=None,
    )
    started.write(path)
    status = child.wait()
    started.ended(status, time.time_ns() // 1_000_000).write(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
