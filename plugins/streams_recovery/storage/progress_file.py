"""How far a job is, as its driver leaves it for the submitter on the machine they share: a small file beside the receipt, replaced each time."""

from __future__ import annotations

from pathlib import Path

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.progress import JobProgress

_MOST_BYTES = 65_536


def progress_path(receipt: Path) -> Path:
    """The file beside a job's receipt."""
    return receipt.with_name("progress.json")


def write_progress(path: Path, progress: JobProgress) -> None:
    """Leave it, whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(codec.dumps(progress))
    unfinished.replace(path)


def read_progress(path: Path) -> JobProgress | None:
    """What the driver left last, None before it left anything that can be read."""
    try:
        return codec.loads(JobProgress, path.read_bytes(), where=str(path), most_bytes=_MOST_BYTES)
    except (FileNotFoundError, Damaged):
        return None
