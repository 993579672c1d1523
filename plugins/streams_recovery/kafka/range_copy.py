"""Copying one range of a partition into the repository. Used by Spark tasks and, for what cannot wait for Spark, by the cut itself."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from streams_recovery.core.errors import Damaged, OffsetsGone
from streams_recovery.core.jobs.spec import RangeCopied, RangeLost, RangeOutcome, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.cut import look_again
from streams_recovery.core.named_transactions.proof import NamedLogCut
from streams_recovery.core.repository.encryption import DataKey, attempt_with
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import Consumers, RangeReader
from streams_recovery.segments.files import encode_segment, workspace

Seen = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Work = Callable[[], RangeCopied]
Storing = Callable[[Work], Work]
"""Takes the work that stores a segment that was written. Returns a function for its result: the work was done at once, or goes on beside what comes next."""


def at_once(work: Work) -> Work:
    """Do the work now: see ``Storing``."""
    done = work()
    return lambda: done


@contextlib.contextmanager
def one_behind() -> Iterator[Storing]:
    """Segments are hashed and stored by a thread while the next one is read and encoded. Only one waits: local space is needed for two."""
    last: list[Future[RangeCopied]] = []

    def storing(work: Work) -> Work:
        wait(last)
        last[:] = [pool.submit(work)]
        return last[0].result

    with ThreadPoolExecutor(1, thread_name_prefix="storing") as pool:
        yield storing


class SegmentStore(Protocol):
    """The part of a repository that a copy needs."""

    def put_file(self, key: str, path: Path, /) -> None:
        """Store a file under a key that must not exist yet."""


def copy_range(
    source: KafkaConnection | Consumers,
    store: SegmentStore,
    layout: Layout,
    wanted: RangeToCopy,
    *,
    compression_level: int,
    attempt: str,
    key: DataKey | None = None,
) -> RangeCopied:
    """Read ``wanted`` and store it as one segment, encrypted with ``key``; no object is made of a range without a readable record. ``source`` is as for
    ``RangeReader``.

    ``attempt`` must be new for each try, so that a try never meets what another left. Raises what ``RangeReader``, ``store`` and ``workspace`` raise.
    Whether the log's start has passed the range meanwhile is reported, not judged. Raises ``LookAgain`` too for one whose records are not those of its names.
    """
    how = _How(source, store, layout, compression_level, attempt, key, iter, at_once)
    _, piece, gone = _copy_piece(how, replace(wanted, may_lose=False), wanted.start)
    if piece is None:
        raise gone or Damaged(f"{wanted.tp}: [{wanted.start}, {wanted.end}) is no range", next_step="plan the copy again")
    return piece()


@dataclass
class WithoutExcluded:
    """Batches of a log without the records that are not in its cut by names: see ``Seen``. ``kept`` and ``left_out`` count what there was from the ``start`` of
    ``log`` on. Whether that is what the names say is told by ``check``.
    """

    log: NamedLogCut
    kept: int = 0
    left_out: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            offsets = batch.column("offset").to_pylist()
            mine = [self.log.takes(offset) for offset in offsets]
            self.kept += sum(keep and offset >= self.log.start for keep, offset in zip(mine, offsets, strict=True))
            self.left_out += len(mine) - sum(mine)
            if any(mine):
                yield batch if all(mine) else batch.filter(pa.array(mine))

    def check(self, tp: TopicPartition) -> None:
        """Raise ``LookAgain`` where a consumer was given others than the batches had."""
        if (self.kept, self.left_out) != (self.log.records, self.log.left_out):
            raise look_again(
                f"from {self.log.start} to {self.log.end} {tp} has {self.log.records} records of the cut and {self.log.left_out} others by their names, "
                f"{self.kept} and {self.left_out} by their offsets",
                tp=tp,
            )


def announce(consumers: Consumers, wanted: Iterable[RangeToCopy]) -> None:
    """These ranges will be copied, in this order."""
    consumers.announce(OffsetRange(each.tp, each.start, each.end) for each in wanted)


def copy_what_is_left(  # noqa: PLR0913  # each is of one range
    source: KafkaConnection | Consumers,
    store: SegmentStore,
    layout: Layout,
    wanted: RangeToCopy,
    *,
    compression_level: int,
    attempt: str,
    key: DataKey | None = None,
    seen: Seen = iter,
    storing: Storing = at_once,
) -> Callable[[], RangeOutcome]:
    """Like ``copy_range``, but of a range that may lose some of its offsets what is still there becomes one segment before and one behind each hole.
    With ``key`` they are encrypted. Batches go through ``seen`` on their way, which counts them. ``storing`` is given what is left to do when a segment is
    written: the outcome that is returned waits for it, and raises its error.
    """
    how = _How(source, store, layout, compression_level, attempt, key, seen, storing)
    copied: list[Work] = []
    lost: list[RangeLost] = []
    start = wanted.start
    while start < wanted.end:
        reached, piece, gone = _copy_piece(how, wanted, start)
        copied += [piece] if piece is not None else []
        start = wanted.end if gone is None else min(_offset(gone, "gone_end"), wanted.end)
        if reached < start:
            lost.append(RangeLost(tp=wanted.tp, start=reached, end=start))
    return lambda: RangeOutcome(copied=tuple(piece() for piece in copied), lost=tuple(lost))


def worker_name() -> str:
    """Host and parent process. Workers of one Spark executor share their parent, and no two executors do."""
    return f"{socket.gethostname()}:{os.getppid()}"


class _How(NamedTuple):
    source: KafkaConnection | Consumers
    store: SegmentStore
    layout: Layout
    compression_level: int
    attempt: str
    data_key: DataKey | None
    seen: Seen
    storing: Storing


def _copy_piece(how: _How, wanted: RangeToCopy, start: int) -> tuple[int, Work | None, OffsetsGone | None]:
    """Copy from ``start`` to the end or to where offsets are gone. Returns how far it came, what it stores, and why it went no further."""
    with contextlib.ExitStack() as kept:
        directory = kept.enter_context(workspace(f"{wanted.tp}, offsets {start} to {wanted.end - 1}, is copied"))
        with RangeReader(how.source, wanted.tp, start, wanted.end) as reader:
            readable = _Readable(reader, wanted.may_lose)
            path = directory / "segment.parquet"
            named = None if wanted.names is None else WithoutExcluded(wanted.names)
            taken = iter(readable) if named is None else named(iter(readable))
            facts = encode_segment(how.seen(taken), path, compression_level=how.compression_level, key=how.data_key)
            if named is not None and readable.gone is None:
                named.check(wanted.tp)
            end = wanted.end if readable.gone is None else _offset(readable.gone, "gone_start")
            if start == end:
                return end, None, readable.gone
            # After the last row: a log start inside the range then tells that records were deleted under the reader.
            fetched, log_start = reader.fetched, reader.log_start()
        place, key = kept.pop_all(), how.layout.segment(wanted.tp, start, end, attempt_with(how.attempt, how.data_key))

    def store() -> RangeCopied:
        with place:
            file = None if facts is None else facts.of(path, key)
            if file is not None:
                how.store.put_file(key, path)
        copied = CopiedRange(start=start, end=end, file=file)
        return RangeCopied(tp=wanted.tp, copied=copied, fetched=fetched, log_start_after=log_start, worker=worker_name())

    return end, how.storing(store), readable.gone


@dataclass
class _Readable:
    """A reader's batches up to where the log was deleted under it; without ``may_lose`` that is the error it was."""

    reader: RangeReader
    may_lose: bool
    gone: OffsetsGone | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.reader
        except OffsetsGone as error:
            if not self.may_lose:
                raise
            self.gone = error


def _offset(gone: OffsetsGone, name: str) -> int:
    return int(str(gone.facts[name]))
