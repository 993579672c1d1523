"""Starting an instance under its supervisor, with an environment in which nothing of the caller's is left."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from streams_recovery.application.instance_record import InstanceFiles
from streams_recovery.application.supervisor import Order
from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid

# What a program needs to find its way on the machine. An orchestrator's own environment holds connections, keys and passwords.
_INHERITED = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR")
_LOG_BYTES = 64 * 1024 * 1024


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """The configured environment over the few variables that are passed on from this process."""
    return {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **environment}


def launch(files: InstanceFiles, command: Sequence[str], environment: Mapping[str, str], working_directory: str | None, lock: int) -> None:
    """Start an instance; returns when it is on record. ``working_directory`` None is that of this process. ``lock`` is held until it is on record, even
    should this process be killed.

    Raises ``ConfigInvalid`` when the program cannot be started, ``ApplicationNotReady`` when its supervisor cannot. A program that starts and
    ends at once is a start: see the status.
    """
    _keep_log_small(files.log)
    order = Order(
        run=uuid.uuid4().hex,
        name=files.name,
        directory=str(files.directory),
        command=tuple(command),
        working_directory=working_directory or str(Path.cwd()),
        environment=scrubbed(environment),
        lock=lock,
    )
    supervisor = subprocess.run(
        # -P: without it Python would look for modules in the directory of the instance first.
        [sys.executable, "-P", "-m", "streams_recovery.application.supervisor"],
        input=codec.dumps(order),
        capture_output=True,
        cwd=files.home,
        env=scrubbed({"PYTHONPATH": str(Path(__file__).resolve().parents[2])}),
        pass_fds=(lock,),
        start_new_session=True,
        check=False,
    )
    if supervisor.returncode == 0:
        return
    if supervisor.stdout:
        raise ConfigInvalid(
            f"instance {files.name} cannot be started: {supervisor.stdout.decode(errors='replace')}",
            next_step="check the command and the working directory in the configuration, and that the program is installed",
            instance=files.name,
            command=order.command,
        )
    raise ApplicationNotReady(
        f"the supervisor of instance {files.name} failed: {supervisor.stderr.decode(errors='replace').strip()[-300:]}",
        next_step=f"see {files.supervisor_log}, then try again",
        instance=files.name,
    )


def _keep_log_small(log: Path) -> None:
    # Only between runs: the program holds the file open while it lives.
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
