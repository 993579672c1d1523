"""Proof that the log cleaner has taken nothing out of a part of a log: its batches, as they lie there.

A batch of a log has a record for each offset that it spans when it is written, and begins where the one before it ends, markers of transactions included.
The cleaner keeps the offsets of what it leaves (``MemoryRecords#filterTo`` of Kafka): a batch of which it has removed records spans more
offsets than it has records, and of a batch that it has removed a hole is left. A consumer cannot tell such a hole from a marker. So the batches are fetched
once more, and only their headers are read.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import FetchRequest

from streams_recovery.core.errors import TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients, Deadline
from streams_recovery.kafka.logs import by_leader

# Base offset, length behind these two, leader epoch, magic, checksum, attributes, last offset delta, two times, producer id, epoch and sequence, records.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH: Final = 12
_MAGIC: Final = 2
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
    while position < end and len(data) - at >= _HEADER.size:
        base, length, _, magic, _, _, delta, _, _, _, _, _, count = _HEADER.unpack_from(data, at)
        if len(data) - at < _BEFORE_LENGTH + length:
            break
        at += _BEFORE_LENGTH + length
        last = base + delta
        if last < position:
            continue
        if base > position or count != delta + 1 or magic != _MAGIC:
            return Walked(position, whole=False)
        position = last + 1
    return Walked(position, whole=True)


def whole_logs(clients: Clients, ranges: Mapping[TopicPartition, tuple[int, int]]) -> frozenset[TopicPartition]:
    """The partitions of which each offset ``[start, end)`` is in the log as it was written. All of them must be below the high watermark. Raises
    ``TransientError`` where that cannot be told within the clients' timeout, ``NotFound`` for a partition that does not exist.
    """
    positions = {tp: start for tp, (start, end) in ranges.items() if start < end}
    ends = {tp: ranges[tp][1] for tp in positions}
    whole = set(ranges)
    deadline = Deadline(clients.timeout)
    while positions:
        for tp, walked in _fetched(clients, positions, ends).items():
            positions[tp] = walked.position
            if not walked.whole:
                whole.discard(tp)
            if not walked.whole or walked.position >= ends[tp]:
                del positions[tp]
        if positions and not deadline.pause(0.0):
            raise TransientError(
                f"the broker did not give the batches of {', '.join(map(str, sorted(positions)[:5]))} within {clients.timeout:.0f} s",
                next_step="run again",
                partitions=sorted(map(str, positions)),
            )
    return frozenset(whole)


def _fetched(clients: Clients, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Walked]:
    def ask() -> dict[TopicPartition, Walked]:
        found: dict[TopicPartition, Walked] = {}
        for leader, partitions in by_leader(clients, positions).items():
            for tp, data in _batches(clients.send(_request({tp: positions[tp] for tp in partitions}), leader)):
                found[tp] = walk(data, positions[tp], ends[tp])
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
