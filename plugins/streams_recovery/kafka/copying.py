"""Copying one range of a partition into the repository. Used by Spark tasks and, for what cannot wait for Spark, by the cut itself."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path
from typing import Protocol

from streams_recovery.core.jobs import RangeCopied, RangeToCopy
from streams_recovery.core.layout import Layout
from streams_recovery.core.manifest import CopiedRange
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.segments import write_segment


class SegmentStore(Protocol):
    """What a copy needs of a repository."""

    def put_file(self, key: str, path: Path, /) -> None:
        """Store a file under a key that must not exist yet."""


def copy_range(
    connection: KafkaConnection,
    store: SegmentStore,
    layout: Layout,
    wanted: RangeToCopy,
    *,
    compression_level: int,
    attempt: str,
    stall_seconds: float = 60.0,
) -> RangeCopied:
    """Read ``wanted`` and store it as one segment; no object is made of a range without a readable record.

    ``attempt`` must be new for each try, so that a try never meets what another left. Raises what ``RangeReader`` and ``store`` raise.
    Whether the log's start has passed the range meanwhile is reported, not judged.
    """
    key = layout.segment(wanted.tp, wanted.start, wanted.end, attempt)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-recovery-")))
        reader = stack.enter_context(RangeReader(connection, wanted.tp, wanted.start, wanted.end, stall_seconds=stall_seconds))
        segment = write_segment(reader, directory / "segment.parquet", compression_level=compression_level)
        log_start = reader.log_start()
        if segment is not None:
            store.put_file(key, segment.path)
    return RangeCopied(
        topic=wanted.topic,
        partition=wanted.partition,
        copied=CopiedRange(start=wanted.start, end=wanted.end, file=None if segment is None else segment.stored_as(key)),
        fetched=reader.fetched,
        log_start_after=log_start,
        worker=worker_name(),
    )


def worker_name() -> str:
    """Host and parent process. Workers of one Spark executor share their parent, and no two executors do."""
    return f"{socket.gethostname()}:{os.getppid()}"
