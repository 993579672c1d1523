"""Receipts: files on the submitter's machine, in which a job's driver tells what became of the job."""

from __future__ import annotations

from pathlib import Path

from streams_recovery.core import codec
from streams_recovery.core.bounded_json import MOST_BYTES_OF_ENTRY
from streams_recovery.core.jobs.spec import JobReceipt


def write_receipt(path: Path, receipt: JobReceipt) -> None:
    """Leave a receipt for the submitter, whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(codec.dumps(receipt))
    unfinished.replace(path)


def read_receipt(path: Path) -> JobReceipt | None:
    """The receipt that a job has left, None when it left none."""
    try:
        return codec.loads(JobReceipt, path.read_bytes(), where=str(path), most_bytes=MOST_BYTES_OF_ENTRY)
    except FileNotFoundError:
        return None
