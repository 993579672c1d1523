"""A few records of a topic, as it is on the cluster now or in a savepoint; and a key of a store asked of the running application, beside what a savepoint has
for it.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused
from streams_recovery.core.kafka_types import WINDOWED, TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile
from streams_recovery.core.state.inspection import PeekRecord, PeekRequest, first_offset
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, SavedValue, agrees
from streams_recovery.core.state.table import StoreFormat
from streams_recovery.core.words import LIVE
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.read import StoreSide, batches_in, chosen, matching_rows, open_side
from streams_recovery.serdes.rows import Row
from streams_recovery.storage.repository import Repository

_WIDER: Final = 10
# By whether the running application has the key, and whether that is what the savepoint has.
LIVE_WORDS: Final = {
    (True, True): "the same for it",
    (True, False): "something else for it",
    (True, None): "the key, and what it has cannot be compared",
    (False, True): "no such key either",
    (False, False): "no such key",
    (False, None): "no such key, and that cannot be compared",
}
# Versions and windows of one key that are held. With more present rows it is not told whether they are equal.
MOST_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The answer of the running application for a key, and the rows that a savepoint has, at most ``MOST_ROWS``. ``savepoint_id`` is None if only the
    application was asked. ``equal`` is None if that cannot be told. ``more``: the savepoint has more than these rows.
    """

    live: KeyAnswer
    savepoint_id: str | None
    form: StoreFormat | None
    rows: tuple[Row, ...]
    equal: bool | None
    more: bool = False


def peek(recovery: RecoveryContext, request: PeekRequest) -> list[PeekRecord]:
    """The records that are wanted, partition after partition, in the order of offsets. Live ones are committed ones.

    Raises ``NotFound`` without such a savepoint, topic or partition, ``Refused`` for a topic whose records the savepoint does not have.
    """
    return _live(recovery, request) if request.savepoint == LIVE else _archived(recovery, request)


def _live(recovery: RecoveryContext, request: PeekRequest) -> list[PeekRecord]:
    connection = recovery.connection
    found = recovery.cluster.describe_topics([request.topic]).get(request.topic)
    if found is None:
        raise NotFound(f"there is no topic {request.topic} on the cluster", next_step="check its name", topic=request.topic)
    logs = [TopicPartition(request.topic, number) for number in _wanted(request, list(range(found.partitions)))]
    starts, ends = recovery.cluster.log_starts(logs), recovery.cluster.last_stable_offsets(logs)
    return [record for tp in logs for record in _committed(connection, request, tp, starts[tp], ends[tp])]


def _committed(connection: KafkaConnection, request: PeekRequest, tp: TopicPartition, start: int, end: int) -> list[PeekRecord]:
    """Offsets need not hold records, so the newest ones are looked for in a larger and larger part of the log."""
    span = request.count
    while True:
        begin = first_offset(start, end, request.offset, span)
        if begin >= end:
            return []
        with RangeReader(connection, tp, begin, end) as reader:
            records = _records(reader, tp, begin)
            if request.offset is not None:
                return list(itertools.islice(records, request.count))
            found = list(deque(records, request.count))
        if len(found) == request.count or begin == start:
            return found
        span *= _WIDER


def _archived(recovery: RecoveryContext, request: PeekRequest) -> list[PeekRecord]:
    manifest = chosen(recovery, request.savepoint)
    topic = manifest.topic(request.topic)
    if topic is None:
        raise NotFound(
            f"savepoint {manifest.savepoint_id} has no topic {request.topic}; it has {', '.join(one.name for one in manifest.topics)}",
            next_step="choose one of those",
            topic=request.topic,
        )
    if not topic.archived:
        raise Refused(
            f"savepoint {manifest.savepoint_id} has no records of {topic.name}",
            next_step=f"look at the topic on the cluster with --savepoint {LIVE}",
            topic=topic.name,
        )
    images = {image.partition: image for image in topic.partitions}
    return [record for number in _wanted(request, sorted(images)) for record in _in_files(recovery.repository, request, images[number])]


def _in_files(repository: Repository, request: PeekRequest, image: PartitionImage) -> list[PeekRecord]:
    tp, first = TopicPartition(request.topic, image.partition), request.offset
    files = list(image.files())
    files = _newest(files, request.count) if first is None else [file for file in files if file.last_offset >= first]
    records = _records(batches_in(repository, files), tp, first or 0)
    return list(deque(records, request.count)) if first is None else list(itertools.islice(records, request.count))


def _newest(files: list[SegmentFile], count: int) -> list[SegmentFile]:
    """The last files that have so many rows together."""
    rows, first = 0, len(files)
    while first and rows < count:
        first -= 1
        rows += files[first].rows
    return files[first:]


def _wanted(request: PeekRequest, partitions: list[int]) -> list[int]:
    if request.partition is None:
        return partitions
    if request.partition not in partitions:
        raise NotFound(
            f"{request.topic} has no partition {request.partition}; it has {len(partitions)}",
            next_step="choose one of those",
            partition=request.partition,
        )
    return [request.partition]


def _records(batches: Iterator[pa.RecordBatch] | RangeReader, tp: TopicPartition, first: int) -> Iterator[PeekRecord]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers")]
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            if offset >= first:
                yield PeekRecord(
                    topic=tp.topic,
                    partition=tp.partition,
                    offset=offset,
                    timestamp=timestamp,
                    key=key,
                    value=value,
                    headers=tuple((header["key"], header["value"]) for header in headers or ()),
                )


def ask_key(recovery: RecoveryContext, question: KeyQuestion, savepoint: str) -> Asked:
    """Ask the running application for a key, and compare with a savepoint: an id, or ``latest``; with ``live`` nothing is compared.

    Raises what ``open_side`` and asking raise, and ``ConfigInvalid`` for a time where the store has no windows.
    """
    if savepoint == LIVE:
        [live] = recovery.application.query_keys([question])
        return Asked(live=live, savepoint_id=None, form=None, rows=(), equal=None)
    side = open_side(recovery, question.store, savepoint)
    if question.bounds and side.form.kind not in WINDOWED:
        raise ConfigInvalid(
            f"store {question.store} has no windows: its kind is {side.form.kind}", next_step="leave the time out", store=question.store
        )
    [live] = recovery.application.query_keys([question])
    return _compared(live, side, (row for row in matching_rows(side, question.key, deleted=True) if _within(row, question)))


def answered_or_why(recovery: RecoveryContext, side: StoreSide, key: str, *, seconds: float) -> Asked | str:
    """Ask for a key and compare with a side that is open; returns the reason where the application cannot be asked."""
    try:
        [live] = recovery.application.query_keys([KeyQuestion(store=side.store, key=key)], seconds=seconds)
    except RecoveryError as error:
        return error.reason
    return _compared(live, side, matching_rows(side, key, deleted=True))


def live_cells(key: str, live: KeyAnswer) -> list[dict[str, str]]:
    """The rows of an answer, below the names that the columns of a store's table have."""
    if live.windows is not None:
        ends = [{} if one.end is None else {"window_end": str(one.end)} for one in live.windows]
        return [
            {"key": key, "window_start": str(one.start), **end, "value": _shown(one.value)}
            for one, end in zip(live.windows, ends, strict=True)
        ]
    return [{"key": key, "value": _shown(live.value)}] if live.found else []


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _compared(live: KeyAnswer, side: StoreSide, rows: Iterable[Row]) -> Asked:
    """Compare the answer with all rows; only so many of them are held at once."""
    held, newest, more, many = list[Row](), list[SavedValue](), False, False
    for row in rows:
        if len(held) < MOST_ROWS:
            held.append(row)
        else:
            more = True
        # In a versioned store the present value is the version that no later one has ended.
        if row.get("valid_to") is None and row["value"] is not None:
            many = len(newest) == MOST_ROWS
            newest += [] if many else [SavedValue(value=row["value"], start=row.get("window_start"), end=row.get("window_end"))]
    equal = None if many else agrees(side.form.kind, side.form.value, newest, live)
    return Asked(live=live, savepoint_id=side.name, form=side.form, rows=tuple(held), equal=equal, more=more)


def _within(row: Row, question: KeyQuestion) -> bool:
    """True if a window or a session is in the time that was asked for: a window by its start, a session if it has a part of it."""
    start: int | None = row.get("window_start")
    if start is None:
        return True
    last: int = row.get("window_end", start)
    return (question.start is None or last >= question.start) and (question.end is None or start <= question.end)
