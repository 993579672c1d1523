"""The logs of an application and its group's partition of ``__consumer_offsets``, batch by batch with the names of transactions: ``core.named_transactions``.

A consumer is given neither producer ids nor markers. So batches are fetched as they lie in the log, from a given offset on, and only their headers are read; of
the group's partition also the records of this group. Formats are those of Kafka's own schemas (OffsetCommitKey, OffsetCommitValue); the key of every
other record of a group begins with its id too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from streams_recovery.core.errors import Damaged, NotFound, PermanentError, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.cut import (
    NEEDED_VERSION,
    LookAgain,
    NamedCut,
    RecordsRemoved,
    VersionTooLow,
    cut_with_outputs,
    look_again,
    unnamed,
)
from streams_recovery.core.named_transactions.readings import GroupRecord, NamedBatch, NamedReadings, Offsets, WrittenLogs, read_named
from streams_recovery.core.named_transactions.way import NamesFacts, RecentTransactions
from streams_recovery.core.remedies.transactions import OFFSETS_TOPIC
from streams_recovery.core.savepoint.writers import LoadedEntry
from streams_recovery.core.words import first_names
from streams_recovery.kafka import errors
from streams_recovery.kafka.application_logs import ApplicationLogs, impatient_logs
from streams_recovery.kafka.clients import ClusterVerbs, Deadline
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import Connecting, KafkaConnection
from streams_recovery.kafka.log_batches import BEFORE_LENGTH, CODEC, CONTROL, HEADER, MAGIC, fetch_batches, unpacked, varint
from streams_recovery.kafka.permissions import principal

LOGGER = logger("streams_recovery.kafka.named_transactions")
FEATURE: Final = "transaction.version"
# Most bytes to read of all logs together: the log of a hanging transaction would be read from where that began.
MOST_BYTES: Final = 256 << 20
# Most batches of all logs together. Each is an object: so many take about 200 MB.
MOST_BATCHES: Final = 500_000
# So many offsets of the group's partition show what the application did last.
_RECENT: Final = 5_000
_TRANSACTIONAL: Final = 0x10
_OFFSET_OUT_OF_RANGE: Final = 1
_COMMIT_MARKER: Final = 1
# The last version of a key that is about an offset, and of a value that is known.
_OFFSET_KEY, _LAST_VALUE, _FLEXIBLE, _WITH_EPOCH = 1, 4, 4, 3


class RawBatch(NamedTuple):
    """A batch with its records, packed by ``codec``."""

    batch: NamedBatch
    codec: int
    packed: bytes

    def records(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of each."""
        data, at = unpacked(self.packed, self.codec), 0
        for _ in range(self.batch.records):
            size, at = varint(data, at)
            end = at + size
            _, at = varint(data, at + 1)
            delta, at = varint(data, at)
            key, at = _sized(data, at)
            value, _ = _sized(data, at)
            yield self.batch.base + delta, key, value
            at = end


def raw_batches(data: bytes) -> Iterator[RawBatch]:
    """The batches in what a broker has sent. One that is cut off at the end is left out."""
    at = 0
    while len(data) - at >= HEADER.size:
        base, length, _, magic, _, attributes, delta, _, _, producer_id, epoch, _, count = HEADER.unpack_from(data, at)
        if len(data) - at < BEFORE_LENGTH + length:
            return
        if magic != MAGIC:
            raise Damaged(f"a batch at offset {base} is of format {magic}", next_step="let its log's retention delete it", offset=base)
        packed = data[at + HEADER.size : at + BEFORE_LENGTH + length]
        at += BEFORE_LENGTH + length
        batch = NamedBatch(base, base + delta, producer_id, epoch, bool(attributes & _TRANSACTIONAL), None, count)
        raw = RawBatch(batch, attributes & CODEC, packed)
        if attributes & CONTROL:
            raw = raw._replace(batch=batch._replace(marker=any(_commits(key) for _, key, _ in raw.records())))
        yield raw


def _commits(key: bytes | None) -> bool:
    return key is not None and len(key) >= 4 and struct.unpack_from(">hh", key)[1] == _COMMIT_MARKER  # noqa: PLR2004  # two numbers of 16 bits


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def group_record(group: str, at: int, batch: NamedBatch, key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """A record of ``__consumer_offsets``. None for one of another group. Raises ``Damaged`` for a format that is not known."""
    if key is None:
        return None
    name, rest = _text(key, 2)
    if name != group:
        return None
    found = GroupRecord(at, batch.producer_id, batch.epoch, batch.transactional)
    if struct.unpack_from(">h", key)[0] > _OFFSET_KEY:
        return found
    topic, rest = _text(key, rest)
    tp = TopicPartition(topic, struct.unpack_from(">i", key, rest)[0])
    return found._replace(tp=tp, committed=None if value is None else _committed(tp, value))


def of_group(group: str, raw: RawBatch) -> Iterator[GroupRecord]:
    """What a batch of the group's partition has of the group: its records, or a marker, of whichever group that is."""
    batch = raw.batch
    if batch.marker is not None:
        yield GroupRecord(batch.base, batch.producer_id, batch.epoch, transactional=True, marker=batch.marker)
    elif raw.codec or group.encode() in raw.packed:
        records = (group_record(group, at, batch, key, value) for at, key, value in raw.records())
        yield from (record for record in records if record is not None)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size


def _committed(tp: TopicPartition, value: bytes) -> CommittedOffset:
    version, offset = struct.unpack_from(">hq", value)
    if version > _LAST_VALUE:
        raise Damaged(f"the offset of {tp} is written in format {version}", next_step="update this software", version=version)
    epoch, at = -1, 10
    if version >= _WITH_EPOCH:
        (epoch,), at = struct.unpack_from(">i", value, at), at + 4
    if version < _FLEXIBLE:
        metadata, _ = _text(value, at)
    else:
        size = shift = 0
        while True:
            size, shift, at = size | (value[at] & 0x7F) << shift, shift + 7, at + 1
            if not value[at - 1] & 0x80:
                break
        metadata = value[at : at + size - 1].decode()
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=None if epoch < 0 else epoch)


def partition_of(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that has a group's records: Java's hash of its id (``GroupCoordinatorService#partitionFor``)."""
    found = 0
    encoded = group.encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", encoded):
        found = (found * 31 + unit) & 0xFFFFFFFF
    found = found - (1 << 32) if found >= 1 << 31 else found
    # The least number has no positive counterpart, and becomes 0 (``Utils#abs``).
    return (0 if found == -(1 << 31) else abs(found)) % partitions


class NamedLogs(ClusterVerbs):
    """The ``NamedReader`` of an application, with its ``logs``. Verbs raise as those of ``KafkaCluster``, ``Refused`` without the right to read
    ``__consumer_offsets`` among them, and ``LookAgain`` for what changed meanwhile, or is too much.
    """

    def __init__(self, connection: Connecting, logs: ApplicationLogs, *, timeout: float = 30.0) -> None:
        super().__init__(connection, timeout=timeout)
        self.logs = logs
        self._group: TopicPartition | None = None

    def check_version(self) -> None:
        """Raises ``VersionTooLow`` where producers of this cluster keep their epoch."""
        version = self.version()
        if version < NEEDED_VERSION:
            raise unnamed(VersionTooLow, f"the cluster's {FEATURE} is {version}", version=version)

    def version(self) -> int:
        """The cluster's finalized ``transaction.version``, 0 without one."""

        def ask() -> Mapping[str, Any]:
            found: Mapping[str, Any] = self._clients.pure.describe_features()
            return found

        levels = self._clients.patiently("asking for the cluster's features", ask).get(FEATURE, {}).get("finalized") or (0, 0)
        return int(levels[1])

    def facts(self) -> NamesFacts:
        """What is known about the conditions of a cut by names. Reads no more than the end of the group's partition."""
        connection = self._clients.connection
        try:
            version = self.version()
        except PermanentError:
            # A cluster that does not tell its features is none that is known to have this one.
            version = 0
        found = NamesFacts(tools=connection.tools, principal=principal(connection), version=version)
        if found.version < NEEDED_VERSION:
            return found
        try:
            return replace(found, recent=self.recent())
        except NotFound:
            return replace(found, unreadable="the cluster does not show it")
        except Refused as error:
            return replace(found, unreadable=error.reason, refused=True)
        except LookAgain:
            # Busy, or cleaned while it was read: the cut asks again.
            return found
        except PermanentError as error:
            # As records of a later release, which another way of a savepoint has no need to read.
            return replace(found, unreadable=error.reason)

    def group_partition(self) -> TopicPartition:
        """See ``NamedReader``."""
        if self._group is None:
            (topic,) = self._clients.patiently("describing topics", lambda: self._clients.pure.describe_topics([OFFSETS_TOPIC]))
            if code := topic["error_code"]:
                raise errors.by_code(code, f"describing {OFFSETS_TOPIC} failed: {errors.name_of(code)}")
            self._group = TopicPartition(OFFSETS_TOPIC, partition_of(self.logs.application_id, len(topic["partitions"])))
        return self._group

    def look(self, logs: WrittenLogs, attempt: int, attempts: int) -> tuple[NamedReadings, NamedCut]:
        """The readings and the cut of look number ``attempt``, with what it has of outputs. Outputs that others write to are not waited for, and the last
        one of several looks has none: an output is no reason against the state. Raises as ``read_named`` and ``cut_at_names``.
        """
        last = attempt == attempts
        wanted = logs.outputs if not last or attempt == 1 else ()
        shared = self.logs.shared(wanted, logs.internal)
        outputs = tuple(tp for tp in wanted if tp.topic not in shared)
        readings = read_named(self, (*logs.internal, *outputs), patience=self.logs.patience)
        # Again, behind the readings: who came meanwhile is seen now.
        named, why = cut_with_outputs(readings, logs, self.logs.shared(outputs, logs.internal), last=last)
        if shared or why:
            LOGGER.info("outputs are not told apart by names: %s", why or f"others write to {first_names(sorted(shared))}")
        return readings, named

    def clock(self) -> int:
        """See ``NamedReader``."""
        return self.logs.clock()

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """See ``NamedReader``."""
        return self.logs.high_watermarks(partitions)

    def last_stable_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """See ``NamedReader``."""
        return self.logs.cluster.last_stable_offsets(partitions)

    def await_decided(self, ends: Offsets) -> Offsets:
        """See ``NamedReader``."""
        return self.logs.await_decided(ends)

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        """See ``NamedReader``."""
        return self.logs.cluster.log_starts(partitions)

    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """See ``NamedReader``."""
        return self.logs.groups.last_committed(self.logs.application_id)

    def batches(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[NamedBatch, ...]]:
        """See ``NamedReader``."""
        first = self.log_starts(tuple(ranges))
        still = {tp: (max(start, first[tp]), end) for tp, (start, end) in ranges.items()}
        found: dict[TopicPartition, list[NamedBatch]] = {tp: [] for tp in ranges}
        for tp, raw in self._fetched(still):
            found[tp].append(raw.batch)
        return {tp: tuple(batches) for tp, batches in found.items()}

    def group_records(self, start: int, end: int) -> tuple[GroupRecord, ...]:
        """See ``NamedReader``."""
        tp, position, found = self.group_partition(), start, list[GroupRecord]()
        for _, raw in self._fetched({tp: (start, end)}):
            batch = raw.batch
            if batch.base > position or batch.records != batch.last - batch.base + 1:
                raise look_again(f"the cleaner has removed records of {tp} at {position}", RecordsRemoved, tp=tp, offset=position)
            position = batch.last + 1
            found += of_group(self.logs.application_id, raw)
        return tuple(found)

    def recent(self) -> RecentTransactions:
        """What the last records of the group's partition show. Reads no more than a fetch or two."""
        tp = self.group_partition()
        end = self.high_watermarks([tp])[tp]
        start = max(self.log_starts([tp])[tp], end - _RECENT)
        return RecentTransactions.of(
            record for _, raw in self._fetched({tp: (start, end)}) for record in of_group(self.logs.application_id, raw)
        )

    def _fetched(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[tuple[TopicPartition, RawBatch]]:
        """The batches of each range, in order. Those that begin behind its end are left out."""
        positions = {tp: start for tp, (start, end) in ranges.items() if start < end}
        deadline, left, batches = Deadline(self._clients.timeout), MOST_BYTES, MOST_BATCHES
        while positions:
            try:
                arrived = fetch_batches(self._clients, positions)
            except PermanentError as error:
                if error.facts.get("code") == _OFFSET_OUT_OF_RANGE:
                    raise look_again("records were deleted meanwhile") from error
                raise
            for tp, data in arrived.items():
                left -= len(data)
                for raw in raw_batches(data):
                    batches -= 1
                    if raw.batch.base < ranges[tp][1] and raw.batch.last >= positions[tp]:
                        yield tp, raw
                    positions[tp] = max(positions[tp], raw.batch.last + 1)
                    deadline = Deadline(self._clients.timeout)
                if positions[tp] >= ranges[tp][1]:
                    del positions[tp]
            too_much = min(left, batches) < 0
            if positions and (too_much or not deadline.pause(0.0)):
                why = (
                    f"there are more than {MOST_BYTES >> 20} MB, or {MOST_BATCHES} of them"
                    if too_much
                    else f"the broker did not give them within {self._clients.timeout:.0f} s"
                )
                raise look_again(f"the batches of {', '.join(map(str, sorted(positions)[:5]))} were not read: {why}")


@contextmanager
def impatient_named_logs(
    application_id: str,
    connection: KafkaConnection,
    cluster: KafkaCluster,
    clock: Callable[[], int],
    loads: Callable[[], Iterable[LoadedEntry]],
) -> Iterator[NamedLogs]:
    """The same for a caller with other things to do: see ``impatient_logs``."""
    with impatient_logs(application_id, connection, cluster, clock, loads) as logs, NamedLogs(connection, logs) as names:
        yield names
