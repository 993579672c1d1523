"""What is known of one started instance, kept in a file beside its log."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from streams_recovery.core import codec


def created_at(pid: int) -> float | None:
    """When a live process started, None when there is none of this pid. Together with the pid it names a process for good: pids are reused."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """An instance and its witness. ``exit_status`` is the witness' word: negative for a signal, None while it lives or if nobody saw it end."""

    pid: int
    pid_created: float | None
    witness: int
    witness_created: float | None
    exit_status: int | None
    ended_at: int | None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record, None when the instance was never started here. Raises ``Damaged``."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return codec.loads(cls, data, where=str(path))

    def write(self, path: Path) -> None:
        """Replace the file in one step, so that no reader sees half of it."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_bytes(codec.dumps(self))
        beside.replace(path)

    def ended(self, status: int, at: int) -> Self:
        """The same with the end that was seen."""
        return dataclasses.replace(self, exit_status=status, ended_at=at)

    @property
    def alive(self) -> bool:
        """True while the very process that was started lives."""
        return self.pid_created is not None and created_at(self.pid) == self.pid_created
