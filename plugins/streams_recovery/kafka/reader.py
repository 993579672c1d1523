"""Reading a range of one partition, from the first offset to the last, as Arrow."""

# ruff: noqa: SLF001  # librdkafka's own error codes are public in spite of their underscore

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from confluent_kafka import KafkaError as LibrdkafkaError

from streams_recovery.core.errors import Damaged, NotFound, RecoveryError, Refused, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.read_ahead import OffsetRange
from streams_recovery.kafka.batch_reader import ReadRange
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.consumers import Consumers
from streams_recovery.kafka.range_consumer import MAX_BATCH_ROWS, RangeClient, ReadError
from streams_recovery.kafka.stalls import gone, why_nothing_comes

BATCH_BYTES: Final = 8 << 20
ASK_SECONDS: Final = 10.0
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

        What was fetched ahead, beyond ``end``, is counted, and so is a transaction marker; an aborted record is not. Before the end it is what
        was handed over. Raises ``TransientError``.
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
            raise gone(self._tp, self._wanted.start, first)
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
                raise self._why_nothing_comes()

    def _next_batches(self, rows: int) -> list[pa.RecordBatch]:
        self._note_all()
        found = self._own_client.arrived(self._wanted, rows)
        self._unnoted = found.errors
        self._handed_over += found.handed_over
        self.position = max(self.position, self._own_client.positions([self._tp])[self._tp])
        if not found.handed_over:
            self._note_all()  # else after these records were handed on: what ended the log under them came behind them
        if found.beyond:
            self.position = self._wanted.end
        return found.batches

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

    def _out_of_range(self) -> RecoveryError:
        low, high = self._watermarks()
        if low > self.position:
            return gone(self._tp, self.position, low)
        return self._fact(
            Damaged,
            f"{self._tp} ends at {high}, before {self.position}: the topic was truncated, or deleted and created again",
            "take a full savepoint of this topic",
        )

    def _why_nothing_comes(self) -> RecoveryError:
        last_error, end = self._own_client.last_error, self._wanted.end
        return why_nothing_comes(self._shared.connection, self._tp, self.position, end, last_error, self._stall_seconds)

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


def _rows_for(batch: pa.RecordBatch) -> int:
    """How many records to ask for next, so that they make about ``BATCH_BYTES`` if they are like these."""
    return max(16, min(MAX_BATCH_ROWS, BATCH_BYTES * len(batch) // max(1, int(batch.nbytes))))
