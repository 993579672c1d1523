"""Rows of logs that are placed anew: where each lies, the order of several logs, and values that name partitions. Without Spark, and column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import KeyForm
from streams_recovery.core.rescale.moved import TopicToPlace
from streams_recovery.core.rescale.placement import AROUND, MOST_KEYS, PARTITIONERS
from streams_recovery.core.rescale.values import Unreadable, buffered_moved, without_partition, wrapper_moved
from streams_recovery.core.state.edit import murmur2
from streams_recovery.kafka.native.library import row_hashes

Numbers = npt.NDArray[np.int64]
NOWHERE: Final = -1
"""The partition of a record without a key, or with one that has not the form."""

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_INT: Final = 4
# The higher half of a moment in milliseconds.
_MOMENTS: Final = (10**12 >> 32, 1 << 43 - 32)
# Of a longer key one row at a time is faster.
_LONG: Final = 1_024
_VERSION: Final = "v"
_BUFFERED: Final = b"\x03"
_OLD_BUFFER: Final = "it is of a buffer of Kafka Streams before version 2.6"
_REFUSED: Final = {
    b"\x00": "it has a position in its inputs, as for consistent queries",
    b"\x01": _OLD_BUFFER,
    b"\x02": _OLD_BUFFER,
}


def places(topic: TopicToPlace, form: KeyForm, batch: pa.RecordBatch, partitions: int) -> Numbers:
    """The partition of each row in a topic with so many partitions, ``NOWHERE`` for one without a key of this form."""
    keys = batch.column("key")
    if form is KeyForm.OWN:
        own = _own(topic.topic.own or "")
        rows = zip(keys.to_pylist(), batch.column("value").to_pylist(), strict=True)
        return np.array([NOWHERE if key is None else own(key, value, partitions) for key, value in rows], np.int64)
    data, starts, lengths = bytes_of(keys)
    if form is KeyForm.FOREIGN_KEY:
        given, starts = _big_endian(data, starts, lengths), starts + _INT
        fits = (lengths >= _INT) & (given >= 0) & (given <= lengths - _INT)
        lengths = np.where(fits, given, 0)
    else:
        before, behind = AROUND[form]
        starts, lengths = starts + before, lengths - before - behind
        fits = lengths >= 0
        lengths = np.maximum(lengths, 0)
    fits &= keys.is_valid().to_numpy(zero_copy_only=False)
    hashed = _murmur2(data, starts[fits], lengths[fits])
    found = np.full(len(keys), NOWHERE, np.int64)
    found[fits] = (hashed & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
    return found


def check_own(topic: TopicToPlace, batch: pa.RecordBatch, old: Numbers, known: dict[bytes, int]) -> None:
    """Raise ``Refused`` where one's own partitioner names a new partition that there is not, or several for one key: then no value of it is the newest. The
    first keys are ``known`` from one batch to the next.
    """
    into = places(topic, KeyForm.OWN, batch, topic.topic.new).tolist()
    for row, key in enumerate(batch.column("key").to_pylist()):
        if key is None:
            continue
        before = known.get(key, into[row]) if len(known) >= MOST_KEYS else known.setdefault(key, into[row])
        if not 0 <= into[row] < topic.topic.new:
            raise _refused(topic, batch, old, row, f"{topic.topic.own} puts it into partition {into[row]} of {topic.topic.new}")
        if before != into[row]:
            raise _refused(
                topic, batch, old, row, f"{topic.topic.own} puts one key into partitions {before} and {into[row]} of {topic.topic.new}"
            )


def timed(batch: pa.RecordBatch) -> bool:
    """True if each key ends in what may be a moment (ms) from 2001 to 2248, as windowed keys do: no text ends so, and no usual number."""
    data, starts, lengths = bytes_of(batch.column("key").drop_null())
    fits = lengths >= 2 * _INT
    high = _big_endian(data, starts + lengths - 2 * _INT, np.where(fits, lengths, 0))
    return bool((fits & (high >= _MOMENTS[0]) & (high < _MOMENTS[1])).all())


@cache
def _own(name: str) -> Callable[[bytes, bytes | None, int], int]:
    found = list(entry_points(group=PARTITIONERS, name=name))
    if len(found) != 1:
        raise ConfigInvalid(
            f"{len(found)} packages have a partitioner {name!r}",
            next_step=f"install one package with an entry point of that name in the group {PARTITIONERS} where Spark's tasks run",
            name=name,
        )
    own: Callable[[bytes, bytes | None, int], int] = found[0].load()
    return own


def bytes_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Numbers, Numbers]:
    """The bytes of all rows, and where each row begins and how long it is."""
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return np.frombuffer(data or b"", np.uint8)[edges[0] : edges[-1]], edges[:-1] - edges[0], np.diff(edges)


def _big_endian(data: npt.NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> Numbers:
    """The four bytes that begin at each place, a number below 0 where there are fewer."""
    found, there = np.full(len(starts), -1, np.int64), lengths >= _INT
    found[there] = _fours(data, ">i4")[starts[there]]
    return found


def _murmur2(data: npt.NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> npt.NDArray[np.uint32]:
    """As ``core.state.edit.murmur2``, of many."""
    if (compiled := row_hashes()) is not None:
        found = np.empty(len(starts), np.uint32)
        compiled.murmur2(data, starts, lengths, found)
        return found
    value = _SEED ^ lengths.astype(np.uint32)
    short = np.flatnonzero(lengths <= _LONG)
    active, block = short[lengths[short] >= _INT], 0
    while len(active):
        k = _fours(data, "<u4")[starts[active] + 4 * block] * _M
        value[active] = value[active] * _M ^ (k ^ k >> np.uint32(24)) * _M
        block += 1
        active = active[lengths[active] >= 4 * (block + 1)]
    for rest in (1, 2, 3):
        those = short[lengths[short] % 4 == rest]
        value[those] = (value[those] ^ _little_endian(data, starts[those] + lengths[those] - rest, rest)) * _M
    value = (value ^ value >> np.uint32(13)) * _M
    value ^= value >> np.uint32(15)
    for row in np.flatnonzero(lengths > _LONG):
        value[row] = murmur2(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return value


def _fours(data: npt.NDArray[np.uint8], kind: str) -> npt.NDArray[Any]:
    """The four bytes from each place on."""
    return np.ndarray((max(0, len(data) - 3),), kind, data, 0, (1,))


def _little_endian(data: npt.NDArray[np.uint8], at: Numbers, count: int) -> npt.NDArray[np.uint32]:
    found = np.zeros(len(at), np.uint32)
    for byte in range(count):
        found |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return found


class _Head(NamedTuple):
    """The next rows of a log, and the stream time that it has at each of them."""

    batch: pa.RecordBatch
    times: Numbers


def in_stream_time(logs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """All rows of several logs as one, each with the number of its log. A log keeps its order, and its rows come when the others have reached the stream time
    that it has there: so none comes later in stream time than it was.
    """
    if len(logs) == 1:
        yield from ((batch, np.zeros(len(batch), np.int64)) for batch in logs[0])
        return
    heads = {number: head for number, log in enumerate(logs) if (head := _next_head(log, None)) is not None}
    while heads:
        limit = min(head.times[-1] for head in heads.values())
        taken: list[tuple[int, _Head]] = []
        for number, head in list(heads.items()):
            upto = int(np.searchsorted(head.times, limit, side="right"))
            taken.append((number, _Head(head.batch.slice(0, upto), head.times[:upto])))
            rest = _Head(head.batch.slice(upto), head.times[upto:]) if upto < len(head.batch) else _next_head(logs[number], limit)
            if rest is None:
                del heads[number]
            else:
                heads[number] = rest
        order = np.argsort(np.concatenate([head.times for _, head in taken]), kind="stable")
        numbers = np.repeat(np.array([number for number, _ in taken]), [len(head.batch) for _, head in taken])
        yield pa.concat_batches([head.batch for _, head in taken]).take(pa.array(order)), numbers[order]


def _next_head(log: Iterator[pa.RecordBatch], before: np.int64 | None) -> _Head | None:
    batch = next((one for one in log if len(one)), None)
    if batch is None:
        return None
    times = np.maximum.accumulate(batch.column("timestamp").to_numpy())
    return _Head(batch, times if before is None else np.maximum(times, before))


def has_partitions(topic: TopicToPlace, form: KeyForm | None, batch: pa.RecordBatch, old: Numbers) -> bool:
    """True if values among these rows name partitions. Needs no values."""
    return topic.primary is not None or bool(_in_buffer(topic, form, batch, old))


def values_moved(topic: TopicToPlace, form: KeyForm | None, batch: pa.RecordBatch, old: Numbers, new: Numbers) -> pa.Array:
    """The values of rows that go from partitions ``old`` to ``new``. Raises ``Refused`` for one that names other partitions than where it lay."""
    values, side, buffered = batch.column("value"), topic.primary, _in_buffer(topic, form, batch, old)
    if side is None and not buffered:
        return values
    found = values.to_pylist()
    for row in range(len(batch)) if side is not None else buffered:
        try:
            if found[row] is not None:
                found[row] = buffered_moved(found[row], int(old[row]), int(new[row])) if side is None else wrapper_moved(found[row], side)
        except Unreadable as error:
            raise _refused(topic, batch, old, row, str(error)) from None
    return pa.array(found, pa.binary())


def without_partitions(topic: TopicToPlace, form: KeyForm | None, batch: pa.RecordBatch) -> pa.Array:
    """The values without the partitions that they name: what is the same before and after."""
    buffered = _in_buffer(topic, form, batch, np.full(len(batch), NOWHERE))
    if topic.primary is None and not buffered:
        return batch.column("value")
    values: list[bytes | None] = batch.column("value").to_pylist()
    for row in range(len(batch)) if topic.primary is not None else buffered:
        value = values[row]
        values[row] = None if value is None else without_partition(value, buffered=topic.primary is None)
    return pa.array(values, pa.binary())


def _in_buffer(topic: TopicToPlace, form: KeyForm | None, batch: pa.RecordBatch, old: Numbers) -> Sequence[int]:
    """The rows whose values are records of a buffer. Those of suppress buffers say so in a header. Raises ``Refused`` for those of an old version, and for
    records that have positions in their inputs.
    """
    headers = batch.column("headers")
    if form is KeyForm.TIME_FIRST:
        return range(len(batch))
    if topic.kind is None or headers.null_count == len(headers):
        return ()
    flat = headers.flatten()
    named = pc.equal(flat.field("key"), _VERSION)
    rows = pc.list_parent_indices(headers).filter(named).to_pylist()
    versions = dict(zip(rows, flat.field("value").filter(named).to_pylist(), strict=True))
    for row, version in versions.items():
        if version in _REFUSED:
            raise _refused(topic, batch, old, row, _REFUSED[version])
    return [row for row, version in versions.items() if version == _BUFFERED]


def _refused(topic: TopicToPlace, batch: pa.RecordBatch, old: Numbers, row: int, why: str) -> Refused:
    offset: Any = batch.column("offset")[row].as_py()
    return Refused(
        f"offset {offset} of partition {old[row]} of {topic.topic.name} cannot be placed anew: {why}",
        next_step="rebuild the application with the new number of partitions",
        topic=topic.topic.name,
        partition=int(old[row]),
        offset=offset,
    )
