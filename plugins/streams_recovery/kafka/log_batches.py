"""Proof that the log cleaner has removed nothing from a part of a log, by the batches of the log.

A batch of a log has a record for each offset that it spans when it is written, and begins where the one before it ends, markers of transactions included.
The cleaner keeps the offsets of the records that it leaves (``MemoryRecords#filterTo`` of Kafka). A batch with removed records spans more offsets than it has
records, and a removed batch leaves a hole. A consumer cannot tell such a hole from a marker. So the batches are fetched once more, and only their headers are
read.

Their records are looked at where a client cuts the names of their headers at a NUL byte, and gives no length.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from kafka.protocol.consumer import FetchRequest

from streams_recovery.core.errors import TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients, Deadline
from streams_recovery.kafka.logs import by_leader

# Base offset, length behind these two, leader epoch, magic, checksum, attributes, last offset delta, two times, producer id, epoch and sequence, records.
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
BEFORE_LENGTH: Final = 12
MAGIC: Final = 2
# In the attributes of a batch: how its records are packed, and whether it is a transaction's marker.
CODEC, CONTROL = 0x07, 0x20
_CODECS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_SNAPPY_STREAM, _SNAPPY_HEADER = b"\x82SNAPPY\0", 16
_AT_ONCE, _EACH = 16 << 20, 1 << 20
_WAIT_MS: Final = 500
# The last one that names topics, and not their ids.
_NAMES_TOPICS: Final = 12
_TOPIC: Final = FetchRequest.FetchTopic
_PARTITION: Final = _TOPIC.FetchPartition


class Walked(NamedTuple):
    """How far the batches go, and whether something is missing before there."""

    position: int
    whole: bool


def walk(data: bytes, position: int, end: int) -> Walked:
    """Go through the batches in ``data`` from ``position`` on, as far as they are all there or to ``end``. A last batch that is cut off is left out."""
    at = 0
    while position < end and len(data) - at >= HEADER.size:
        base, length, _, magic, _, _, delta, _, _, _, _, _, count = HEADER.unpack_from(data, at)
        if len(data) - at < BEFORE_LENGTH + length:
            break
        at += BEFORE_LENGTH + length
        last = base + delta
        if last < position:
            continue
        if base > position or count != delta + 1 or magic != MAGIC:
            return Walked(position, whole=False)
        position = last + 1
    return Walked(position, whole=True)


def whole_logs(clients: Clients, ranges: Mapping[TopicPartition, tuple[int, int]]) -> frozenset[TopicPartition]:
    """The partitions of which each offset ``[start, end)`` is in the log as it was written. All of them must be below the high watermark. Raises
    ``TransientError`` where nothing comes for the clients' timeout, ``NotFound`` for a partition that does not exist.
    """
    whole = set(ranges)

    def go_on(tp: TopicPartition, position: int, data: bytes) -> int:
        walked = walk(data, position, ranges[tp][1])
        if walked.whole:
            return walked.position
        whole.discard(tp)
        return ranges[tp][1]

    _go_through(clients, ranges, go_on)
    return frozenset(whole)


def names_with_nul(clients: Clients, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, list[int]]:
    """The offsets in ``[start, end)`` of records with a header whose name has a NUL byte. Raises as ``whole_logs``."""
    found: dict[TopicPartition, list[int]] = {tp: [] for tp in ranges}

    def go_on(tp: TopicPartition, position: int, data: bytes) -> int:
        for next_offset, bad in nul_names(data):
            found[tp] += [offset for offset in bad if ranges[tp][0] <= offset < ranges[tp][1]]
            position = max(position, next_offset)
        return position

    _go_through(clients, ranges, go_on)
    return found


def _go_through(
    clients: Clients, ranges: Mapping[TopicPartition, tuple[int, int]], go_on: Callable[[TopicPartition, int, bytes], int]
) -> None:
    """Fetch each range. ``go_on`` is given a partition, a position and the batches from there on, and returns the position behind what it has taken of them. As
    long as one of them moves there is no limit: a quota may let a range through that slowly.
    """
    positions = {tp: start for tp, (start, end) in ranges.items() if start < end}
    deadline = Deadline(clients.timeout)
    while positions:
        for tp, data in fetch_batches(clients, positions).items():
            before, positions[tp] = positions[tp], go_on(tp, positions[tp], data)
            if positions[tp] > before:
                deadline = Deadline(clients.timeout)
            if positions[tp] >= ranges[tp][1]:
                del positions[tp]
        if positions and not deadline.pause(0.0):
            raise TransientError(
                f"the broker did not give the batches of {', '.join(map(str, sorted(positions)[:5]))} within {clients.timeout:.0f} s",
                next_step="run again",
                partitions=sorted(map(str, positions)),
            )


def nul_names(data: bytes) -> Iterator[tuple[int, list[int]]]:
    """For each whole batch the offset behind it, and the offsets of records with a header whose name has a NUL byte. A batch that is cut off is left out."""
    at = 0
    while len(data) - at >= HEADER.size:
        base, length, _, magic, _, attributes, delta, _, _, _, _, _, count = HEADER.unpack_from(data, at)
        if len(data) - at < BEFORE_LENGTH + length:
            return
        packed = data[at + HEADER.size : at + BEFORE_LENGTH + length]
        at += BEFORE_LENGTH + length
        bad = (
            []
            if magic != MAGIC or attributes & CONTROL
            else [base + one for one in _bad_records(unpacked(packed, attributes & CODEC), count)]
        )
        yield base + delta + 1, bad


def _bad_records(records: bytes, count: int) -> Iterator[int]:
    """The offset deltas of records that have such a header."""
    at = 0
    for _ in range(count):
        size, at = varint(records, at)
        end = at + size
        _, at = varint(records, at + 1)
        delta, at = varint(records, at)
        for _ in range(2):
            size, at = varint(records, at)
            at += max(0, size)
        headers, at = varint(records, at)
        bad = False
        for _ in range(headers):
            size, at = varint(records, at)
            bad, at = bad or b"\0" in records[at : at + size], at + size
            size, at = varint(records, at)
            at += max(0, size)
        if bad:
            yield delta
        at = end


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset of the data, in the encoding of records, and the offset behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at


def unpacked(data: bytes, codec: int) -> bytes:
    """The records of a batch that are packed by this codec."""
    name = _CODECS.get(codec)
    if name is None:
        return data
    if name == "snappy":
        return _snappy(data)
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        return bytes(stream.read())


def _snappy(data: bytes) -> bytes:
    """Either one block, or those of Java's stream, each behind its length."""
    if not data.startswith(_SNAPPY_STREAM):
        return _snappy_block(data)
    at, found = _SNAPPY_HEADER, []
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        found.append(_snappy_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(found)


def _snappy_block(data: bytes) -> bytes:
    size = shift = at = 0
    while True:
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return bytes(pa.Codec("snappy").decompress(data, size))


def fetch_batches(clients: Clients, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, bytes]:
    """The batches of each log from its position on, as they lie in it, as many as one answer has. The last one may be cut off."""

    def ask() -> dict[TopicPartition, bytes]:
        found: dict[TopicPartition, bytes] = {}
        for leader, partitions in by_leader(clients, positions).items():
            found |= dict(_batches(clients.send(_request({tp: positions[tp] for tp in partitions}), leader)))
        return found

    return clients.patiently("reading the batches of logs", ask)


def _request(positions: Mapping[TopicPartition, int]) -> Any:
    topics = [
        _TOPIC(
            topic=name,
            partitions=[
                # No leader epoch to compare, and no start of a log: those are a follower's.
                _PARTITION(
                    partition=tp.partition,
                    current_leader_epoch=-1,
                    fetch_offset=positions[tp],
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=_EACH,
                )
                for tp in group
            ],
        )
        for name, group in itertools.groupby(sorted(positions), key=lambda tp: tp.topic)
    ]
    # Uncommitted records too: what was aborted is in the log as well. Session 0 with epoch -1 is a fetch without a session.
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_AT_ONCE,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
        max_version=_NAMES_TOPICS,
    )


def _batches(answer: Any) -> list[tuple[TopicPartition, bytes]]:
    found = []
    for topic in answer.responses:
        for part in topic.partitions:
            tp = TopicPartition(topic.topic, part.partition_index)
            if part.error_code:
                raise errors.by_code(part.error_code, f"reading the batches of {tp} failed: {errors.name_of(part.error_code)}")
            found.append((tp, bytes(part.records or b"")))
    return found
