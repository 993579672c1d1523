"""Reading a range of one partition, from the first offset to the last, as Arrow.

The readers of a task share its consumers: one for ranges that are read one after the other, and a passing one for each group of small ranges.
A small range that cannot be read with its group is left out, without an error. Its own reader then finds out what is wrong with it.
"""
# ruff: noqa: SLF001  # librdkafka's own error codes are public in spite of their underscore

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import Message

from streams_recovery.core.errors import (
    BrokerUnavailable,
    Damaged,
    NotFound,
    OffsetsGone,
    OffsetsUnstable,
    PermanentError,
    RecoveryError,
    Refused,
    TransientError,
)
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.remedy import Remedy
from streams_recovery.core.remedies.topics import save_again
from streams_recovery.core.work import OffsetRange, read_groups
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.kafka.native.reading import NativeReadingClient
from streams_recovery.kafka.range_consumer import (
    MAX_BATCH_ROWS,
    NUL_IN_NAME,
    RangeClient,
    ReadError,
    ReadingClient,
    headers_of,
    partition_of,
    size_class,
    size_of,
    to_batch,
    unreadable_header,
)
from streams_recovery.kafka.transactions import Transactions

ASK_SECONDS: Final = 10.0

# What all ranges of a group may hold in memory. Those that are not read by then are read by themselves, as streams.
MOST_BYTES: Final = 32 << 20
QUIET_SECONDS: Final = 1.0
_ROWS_AT_ONCE: Final = 1_000
_BATCH_BYTES: Final = 8 << 20
_ASKS: Final = 3

_OUT_OF_RANGE: Final = (LibrdkafkaError._AUTO_OFFSET_RESET, LibrdkafkaError.OFFSET_OUT_OF_RANGE)
_NO_TOPIC: Final = (LibrdkafkaError.UNKNOWN_TOPIC_OR_PART, LibrdkafkaError._UNKNOWN_TOPIC, LibrdkafkaError._UNKNOWN_PARTITION)


class RangeReader:
    """The committed records with offsets in ``[start, end)``, as batches of bounded size. A context manager; iterate it once.

    ``source`` is a connection, then it has a consumer of its own, or the ``Consumers`` it shares, which have one reader at a time.

    The range ends when the consumer's *position* reaches ``end``: transaction markers, aborted and compacted-away records take offsets but
    are never handed over, so no record with offset ``end - 1`` need exist. It joins no group and commits nothing.

    Raises ``Damaged`` when offsets of the range are gone or the log ends before ``end``, ``OffsetsUnstable`` when an open transaction keeps
    the last stable offset below ``end``, ``BrokerUnavailable`` when nothing arrives for another reason; the last three after
    ``stall_seconds`` without progress. It does not look again at the log's start after the last record: see ``log_start``.
    """

    def __init__(
        self,
        source: KafkaConnection | Consumers,
        tp: TopicPartition,
        start: int,
        end: int,
        *,
        stall_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._tp = tp
        self._wanted = OffsetRange(tp, start, end)
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._stack = ExitStack()
        self._consumers: Consumers | None = None
        self._client: RangeClient | None = None
        self._ahead: ReadRange | None = None
        self._reading = False
        self._handed_over = 0
        self._unnoted: list[ReadError] = []
        self._fetched: int | None = None
        self.position = start

    def __enter__(self) -> Self:
        source = self._source
        self._consumers = source if isinstance(source, Consumers) else self._stack.enter_context(Consumers(source))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumers = self._client = None
        self._stack.close()

    @property
    def fetched(self) -> int:
        """Records the consumer received from the broker up to the end of the range, by librdkafka's own count (``rxmsgs``). Ask inside the with block;
        the first answer at the end takes until the next statistics, some hundredths of a second.

        Records that were fetched ahead, beyond ``end``, are counted, and so is a transaction marker; an aborted record is not. Before the end it is the count
        of records that were handed over. Raises ``TransientError``.
        """
        if self._fetched is None and self.position >= self._wanted.end and self._reading:
            self._fetched = self._own_client.received({self._tp: self._handed_over})[self._tp]
        return self._handed_over if self._fetched is None else self._fetched

    def log_start(self) -> int:
        """The log's first offset, asked of the broker now, or after the last record where the range was read ahead. Raises ``BrokerUnavailable``."""
        return self._ahead.log_start if self._ahead is not None else self._watermarks()[0]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._wanted.start >= self._wanted.end:
            return
        self._ahead = self._shared.read_ahead(self._wanted)
        if self._ahead is None:
            yield from self._read()
            return
        self.position, self._fetched = self._wanted.end, self._ahead.received
        yield from self._ahead.batches()

    def _read(self) -> Iterator[pa.RecordBatch]:
        first = self.log_start()
        if first > self._wanted.start:
            raise _gone(self._tp, self._wanted.start, first)
        self._own_client.assign([self._wanted])
        self._reading = True
        rows, moved_at = 256, self._clock()
        while self.position < self._wanted.end:
            before = self.position
            for batch in self._next_batches(rows):
                rows = _rows_for(batch)
                yield batch
                moved_at = self._clock()  # the caller's time is not the broker's
            if self.position > before:
                moved_at = self._clock()
            elif self._clock() - moved_at > self._stall_seconds:
                raise _why_nothing_comes(
                    self._shared.connection, self._wanted, self.position, self._own_client.last_error, self._stall_seconds
                )

    def _next_batches(self, rows: int) -> list[pa.RecordBatch]:
        self._note_all()
        before = self.position
        found = self._own_client.arrived(self._wanted, rows)
        self._unnoted = found.errors
        self._handed_over += found.handed_over
        self.position = max(self.position, self._own_client.positions([self._tp])[self._tp])
        if not found.handed_over:
            self._note_all()  # else after these records were handed on: what ended the log under them came behind them
        if found.beyond:
            self.position = self._wanted.end
        if found.ask_for_names:
            self._check_names(found.batches, before)
        return found.batches

    def _check_names(self, batches: Sequence[pa.RecordBatch], before: int) -> None:
        try:
            self._shared.check_names(self._tp, batches)
        except PermanentError as error:
            if error.facts.get("code") != LibrdkafkaError.OFFSET_OUT_OF_RANGE:
                raise
            # The records were handed over, and are gone from the log since. Records that cannot be looked up any more are not taken, so nothing of them was
            # read.
            raise self._out_of_range(before) from error

    def _note_all(self) -> None:
        unnoted, self._unnoted = self._unnoted, []
        for error, offset in unnoted:
            self._note(error, offset)

    def _note(self, error: LibrdkafkaError, offset: int | None) -> None:
        code = error.code()
        if code == LibrdkafkaError._PARTITION_EOF:
            # The next offset to fetch: the only sign of a position past records that were compacted away or aborted.
            self.position = max(self.position, offset or 0)
        elif code in _OUT_OF_RANGE:
            raise self._out_of_range()
        elif code == LibrdkafkaError._BAD_MSG:
            raise self._fact(
                Damaged, f"{self._tp} has a record at or after {self.position} that fails its checksum: {error.str()}", "check disks"
            )
        elif code in _NO_TOPIC:
            raise self._fact(NotFound, f"{self._tp} does not exist", "check the name and that the connection leads to the right cluster")
        elif code == LibrdkafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise self._fact(Refused, f"reading {self._tp} is not allowed", "give the user of the Kafka connection the right to read it")
        else:
            self._own_client.last_error = error.str()

    def _out_of_range(self, first: int | None = None) -> RecoveryError:
        """``first`` is the first offset that was not read, if it is not the position."""
        low, high = self._watermarks()
        first = self.position if first is None else first
        if low > first:
            return _gone(self._tp, first, low)
        return self._fact(
            Damaged,
            f"{self._tp} ends at {high}, before {self.position}: the topic was truncated, or deleted and created again",
            str(save_again(self._tp)),
        )

    def _fact(self, kind: type[RecoveryError], reason: str, next_step: str) -> RecoveryError:
        return kind(reason, next_step=next_step, topic=self._tp.topic, partition=self._tp.partition, position=self.position)

    def _watermarks(self) -> tuple[int, int]:
        """The log's first offset and its end. While the partition's leader changes it is asked for again."""
        give_up = self._clock() + ASK_SECONDS
        requested = 0
        while True:
            requested += 1
            try:
                return self._own_client.watermarks(self._tp, timeout=ASK_SECONDS)
            except TransientError:
                # One question may take all of the time: it was sent to a leader that was gone.
                if requested >= _ASKS and self._clock() >= give_up:
                    raise
            self._own_client.look_for_leader(self._tp)

    @property
    def _shared(self) -> Consumers:
        if self._consumers is None:
            raise RuntimeError("a RangeReader is read inside its with block")
        return self._consumers

    @property
    def _own_client(self) -> RangeClient:
        """The consumer that reads this range, until the with block ends."""
        if self._client is None:
            self._client = self._shared.client(self._wanted)
        return self._client


class Consumers:
    """Clients that the readers of a task share: one consumer for the ranges that are read by themselves, a passing one for each group of small ranges, and
    one admin client. Each is made when first needed. A context manager.

    A new consumer connects, asks for metadata and waits for its first statistics: a fifth of a second, in which hundreds of small ranges can be read.
    For one reader at a time.
    """

    def __init__(self, connection: KafkaConnection, *, cluster: KafkaCluster | None = None) -> None:
        """``cluster`` is one that may be asked too, and stays open; without it there is one of its own."""
        self.connection = connection
        self._own_cluster = KafkaCluster(connection, timeout=ASK_SECONDS)
        self._cluster = cluster or self._own_cluster
        self._client: RangeClient | None = None
        self._groups: dict[OffsetRange, list[OffsetRange]] = {}
        self._ahead: dict[OffsetRange, ReadRange] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._groups.clear()
        self._ahead.clear()
        self._end_client()
        self._own_cluster.close()

    def announce(self, ranges: Iterable[OffsetRange]) -> None:
        """These will be read, in this order. When the first of a group of small ones is asked for, the whole group is read."""
        self._groups = {each: group for group in read_groups(ranges) if len(group) > 1 for each in group}

    def read_ahead(self, wanted: OffsetRange) -> ReadRange | None:
        """All of ``wanted``, once, if it was announced as one of several small ranges and could be read with them. None else: a reading of the range by itself
        finds out, and names, what may be wrong with it.
        """
        group = self._groups.get(wanted)
        if group is not None:
            for each in group:
                del self._groups[each]
            # What is left of another group was not asked for in the order announced. Memory is for one.
            self._ahead = {}
            self._ahead = self._read_group(group)
        return self._ahead.pop(wanted, None)

    def client(self, wanted: OffsetRange) -> RangeClient:
        """One that can read ``wanted`` now, whatever it did before."""
        size = size_class(wanted.end - wanted.start)
        if self._client is None or self._client.size != size or self._client.knows(wanted.tp):
            self._end_client()
            self._client = (ReadingClient if native() is None else NativeReadingClient)(self.connection, size)
        return self._client

    def check_names(self, tp: TopicPartition, batches: Sequence[pa.RecordBatch]) -> None:
        """Ask for the log's own batches of records with headers: the client has names as C strings. Raises ``Refused`` for one that it cuts."""
        offsets = [
            offset for batch in batches for offset in pc.filter(batch.column("offset"), pc.is_valid(batch.column("headers"))).to_pylist()
        ]
        if offsets:
            bad = set(self._cluster.names_with_nul({tp: (offsets[0], offsets[-1] + 1)})[tp]).intersection(offsets)
            if bad:
                raise unreadable_header(tp, min(bad), NUL_IN_NAME)

    def _read_group(self, group: Collection[OffsetRange]) -> dict[OffsetRange, ReadRange]:
        # Not kept: until it is asked again it would go on making statistics, half a megabyte each for hundreds of partitions.
        client = ReadingClient(self.connection, size_class(max(each.end - each.start for each in group)))
        try:
            return read_at_once(client, self._cluster, group)
        finally:
            client.close()

    def _end_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """A range that was read to its end. ``received`` is librdkafka's count of its records, ``log_start`` was asked after the last of them."""

    messages: list[Message]
    received: int
    log_start: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its records, if there are any."""
        if self.messages:
            yield to_batch(self.messages)


@dataclass(slots=True)
class _Going:
    """A range that is being read."""

    wanted: OffsetRange
    position: int
    handed_over: int = 0
    kept: list[Message] = field(default_factory=list)

    def add(self, message: Message) -> int:
        """Take a message without error; returns what it adds to memory."""
        self.handed_over += 1
        offset = message.offset() or 0
        if offset >= self.wanted.end:
            self.position = self.wanted.end
            return 0
        self.kept.append(message)
        return size_of(message)

    @property
    def done(self) -> bool:
        return self.position >= self.wanted.end

    @property
    def with_headers(self) -> tuple[int, int] | None:
        """The offsets of its records that have headers, None when none has."""
        offsets = [message.offset() or 0 for message, headers in zip(self.kept, headers_of(self.kept), strict=True) if headers]
        return (offsets[0], offsets[-1] + 1) if offsets else None


def read_at_once(
    client: ReadingClient,
    cluster: KafkaCluster,
    ranges: Collection[OffsetRange],
    *,
    quiet_seconds: float = QUIET_SECONDS,
) -> dict[OffsetRange, ReadRange]:
    """Read ``ranges``, each of another log. Returns those that came to their ends without an error, before ``MOST_BYTES`` were read in all, and without
    a pause of ``quiet_seconds``. Raises nothing: a later reading of one of the others meets its error.
    """
    try:
        client.assign(ranges)
        done = _read(client, ranges, quiet_seconds)
        received = client.received({each.wanted.tp: each.handed_over for each in done}) if done else {}
        with_headers = {each.wanted.tp: found for each in done if (found := each.with_headers) is not None}
        bad = cluster.names_with_nul(with_headers) if with_headers else {}
        done = [each for each in done if not bad.get(each.wanted.tp)]
        # After the last record of all of them.
        starts = cluster.log_starts([each.wanted.tp for each in done]) if done else {}
    except RecoveryError:
        return {}
    return {
        each.wanted: ReadRange(messages=each.kept, received=received[each.wanted.tp], log_start=starts[each.wanted.tp]) for each in done
    }


def _read(client: ReadingClient, ranges: Collection[OffsetRange], quiet_seconds: float) -> list[_Going]:
    going = {each.tp: _Going(each, each.start) for each in ranges}
    done: list[_Going] = []
    held, moved_at = 0, time.monotonic()
    while going and held < MOST_BYTES and time.monotonic() - moved_at < quiet_seconds:
        before = {tp: each.position for tp, each in going.items()}
        messages = client.consume(_ROWS_AT_ONCE, f"reading {len(going)} partitions")
        for message in messages:
            held += _take(going, message)
        for tp, position in client.positions(going.keys()).items():
            going[tp].position = max(going[tp].position, position)
        _note_ends(going, messages)
        if messages or any(each.position > before[tp] for tp, each in going.items()):
            moved_at = time.monotonic()
        if finished := [each for each in going.values() if each.done]:
            client.pause([each.wanted.tp for each in finished])
            done += finished
            for each in finished:
                del going[each.wanted.tp]
    return done


def _take(going: dict[TopicPartition, _Going], message: Message) -> int:
    tp = partition_of(message)
    if tp is None or tp not in going:
        return 0  # of a range that ended already, or was given up
    error = message.error()
    if error is None:
        return going[tp].add(message)
    if error.code() != LibrdkafkaError._PARTITION_EOF:
        del going[tp]
    return 0


def _note_ends(going: dict[TopicPartition, _Going], messages: Collection[Message]) -> None:
    """The end of a log is the only sign of a position past records that were compacted away or aborted."""
    for message in messages:
        error, tp = message.error(), partition_of(message)
        if error is not None and tp in going and error.code() == LibrdkafkaError._PARTITION_EOF:
            going[tp].position = max(going[tp].position, message.offset() or 0)


def _rows_for(batch: pa.RecordBatch) -> int:
    """Records to ask for next, so that they make about ``_BATCH_BYTES`` if they are like these."""
    return max(16, min(MAX_BATCH_ROWS, _BATCH_BYTES * len(batch) // max(1, int(batch.nbytes))))


def _gone(tp: TopicPartition, first: int, log_start: int) -> OffsetsGone:
    """Offsets from ``first`` on that the log does not have any more."""
    return OffsetsGone(
        f"offsets {first}..{log_start - 1} of {tp} are gone: its log now starts at {log_start}",
        next_step="take a savepoint that records the gap, and give the topic more retention",
        topic=tp.topic,
        partition=tp.partition,
        gone_start=first,
        gone_end=log_start,
    )


def _ends_it(connection: KafkaConnection, tp: TopicPartition) -> Remedy:
    """What ends the transactions that hold back ``tp``."""
    with Transactions(connection, timeout=ASK_SECONDS) as transactions:
        return transactions.remedy([tp], transactions.seen([tp]))


def _why_nothing_comes(connection: KafkaConnection, wanted: OffsetRange, position: int, last_error: str, seconds: float) -> RecoveryError:
    """The error for a reader that has stood at ``position``, short of the range's end, for ``seconds``, by what the broker says about the log."""
    tp, end = wanted.tp, wanted.end
    facts = {"topic": tp.topic, "partition": tp.partition, "position": position, "end": end, "seconds": seconds}
    silent = f"{tp} stands at {position}, short of {end}, for {seconds:g} s"
    try:
        with KafkaCluster(connection, timeout=ASK_SECONDS) as cluster:
            log_start, last = cluster.log_starts([tp])[tp], cluster.high_watermarks([tp])[tp]
            stable = cluster.last_stable_offsets([tp])[tp]
        remedy = _ends_it(connection, tp) if log_start <= position and stable < end <= last else None
    except TransientError as error:
        return BrokerUnavailable(f"{silent}: {error.reason} {last_error}".strip(), next_step=error.next_step, **facts)
    except RecoveryError as error:
        return error
    if log_start > position:
        return _gone(tp, position, log_start)
    if last < end:
        return Damaged(
            f"{tp} ends at {last}, before {end}: the topic was truncated, or deleted and created again",
            next_step=str(save_again(tp)),
            log_end=last,
            **facts,
        )
    if remedy is not None:
        return OffsetsUnstable(
            f"{silent}: an open transaction keeps its last stable offset at {stable}",
            next_step=f"{remedy}. Then try again",
            last_stable=stable,
            **facts,
        ).then(*remedy.commands)
    return BrokerUnavailable(
        f"{silent} although the broker has the records {last_error}".strip(),
        next_step="check the brokers' health and quotas, then try again",
        brokers=connection.bootstrap_servers,
        **facts,
    )
