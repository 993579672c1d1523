"""Files on the machine that a job's submitter and its driver share: the order, where the driver was started before there was one, and the receipt, in which
it tells what became of the job.
"""

from __future__ import annotations

from pathlib import Path

from streams_recovery.core import codec
from streams_recovery.core.bounded_json import MOST_BYTES_OF_ENTRY
from streams_recovery.core.jobs.spec import JobOrder, JobReceipt


def write_receipt(path: Path, receipt: JobReceipt) -> None:
    """Leave a receipt for the submitter, whole or not at all."""
    _write(path, receipt)


def read_receipt(path: Path) -> JobReceipt | None:
    """The receipt that a job has left, None when it left none."""
    try:
        return codec.loads(JobReceipt, path.read_bytes(), where=str(path), most_bytes=MOST_BYTES_OF_ENTRY)
    except FileNotFoundError:
        return None


def write_order(path: Path, order: JobOrder) -> None:
    """Leave a driver that waits for it what it is to do, whole or not at all."""
    _write(path, order)


def read_order(path: Path) -> JobOrder | None:
    """The order of a driver that waits for it, None while there is none."""
    try:
        return codec.loads(JobOrder, path.read_bytes(), where=str(path), most_bytes=MOST_BYTES_OF_ENTRY)
    except FileNotFoundError:
        return None


def _write(path: Path, what: JobOrder | JobReceipt) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(codec.dumps(what))
    unfinished.replace(path)
