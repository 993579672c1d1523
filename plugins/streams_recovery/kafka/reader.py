"""Reading a range of one partition, from the first offset to the last, as Arrow."""

# ruff: noqa: SLF001  # librdkafka's own error codes are public in spite of their underscore

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from streams_recovery.core.errors import Damaged, NotFound, RecoveryError, Refused, TransientError
from streams_recovery.core.model import TopicPartition
from streams_recovery.kafka import failures
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.records import SEGMENT_SCHEMA, header_array
from streams_recovery.kafka.stalls import gone, why_nothing_comes

BATCH_BYTES: Final = 8 << 20
MAX_BATCH_ROWS: Final = 20_000
# One call to the client hands over what it holds (queued.max.messages.kbytes) and what arrives in this time: that bounds a batch also when
# large records follow small ones.
HAND_OVER_SECONDS: Final = 0.005
_REASON_POLLS: Final = 20
ASK_SECONDS: Final = 10.0
_STATISTICS_MS: Final = 50

_OUT_OF_RANGE: Final = (LibrdkafkaError._AUTO_OFFSET_RESET, LibrdkafkaError.OFFSET_OUT_OF_RANGE)
_NO_TOPIC: Final = (LibrdkafkaError.UNKNOWN_TOPIC_OR_PART, LibrdkafkaError._UNKNOWN_TOPIC, LibrdkafkaError._UNKNOWN_PARTITION)


class RangeReader:
    """The committed records with offsets in ``[start, end)``, as batches of bounded size. A context manager; iterate it once.

    The range ends when the consumer's *position* reaches ``end``: transaction markers, aborted and compacted-away records take offsets but
    are never handed over, so no record with offset ``end - 1`` need exist. It joins no group and commits nothing.

    Raises ``Damaged`` when offsets of the range are gone or the log ends before ``end``, ``OffsetsUnstable`` when an open transaction keeps
    the last stable offset below ``end``, ``BrokerUnavailable`` when nothing arrives for another reason; the last three after
    ``stall_seconds`` without progress. It does not look again at the log's start after the last record: see ``log_start``.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        tp: TopicPartition,
        start: int,
        end: int,
        *,
        stall_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._tp = tp
        self._start = start
        self._end = end
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._consumer: Consumer | None = None
        self._statistics = ""
        self._last_error = ""
        self._last_failure: LibrdkafkaError | None = None
        self._handed_over = 0
        self._unnoted: list[Message] = []
        self._fetched: int | None = None
        self.position = start

    def __enter__(self) -> Self:
        try:
            self._consumer = Consumer(self._client_config())
        except KafkaException as error:
            raise failures.translated(error, self._connection, f"reading {self._tp}", timeout=ASK_SECONDS) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    @property
    def fetched(self) -> int:
        """Records the consumer received from the broker up to the end of the range, by librdkafka's own count (``rxmsgs``).

        What was fetched ahead, beyond ``end``, is counted, and so is a transaction marker; an aborted record is not. Before the end it is what
        was handed over.
        """
        return self._handed_over if self._fetched is None else self._fetched

    def log_start(self) -> int:
        """The log's first offset, asked of the broker now. Raises ``BrokerUnavailable``."""
        return self._watermarks()[0]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._start >= self._end:
            return
        first = self.log_start()
        if first > self._start:
            raise gone(self._tp, self._start, first)
        self._client.assign([LibrdkafkaPartition(self._tp.topic, self._tp.partition, self._start)])
        rows, moved_at = 256, self._clock()
        while self.position < self._end:
            before = self.position
            batch = self._next_batch(rows)
            if batch is not None:
                rows = _rows_for(batch)
                yield batch
                moved_at = self._clock()  # the caller's time is not the broker's
            if self.position > before:
                moved_at = self._clock()
            elif self._clock() - moved_at > self._stall_seconds:
                raise why_nothing_comes(self._connection, self._tp, self.position, self._end, self._last_error, self._stall_seconds)
        self._fetched = self._count_fetched()

    def _next_batch(self, rows: int) -> pa.RecordBatch | None:
        self._note_all()
        try:
            messages = self._client.consume(rows, HAND_OVER_SECONDS)
        except KafkaException as error:
            raise failures.translated(error, self._connection, f"reading {self._tp}", timeout=HAND_OVER_SECONDS) from error
        wanted = [message for message in messages if message.error() is None]
        self._unnoted = [message for message in messages if message.error() is not None]
        self._handed_over += len(wanted)
        self._advance()
        if not wanted:
            self._note_all()  # else after these records were handed on: what ended the log under them came behind them
        if wanted and (wanted[-1].offset() or 0) >= self._end:
            self.position = self._end
            wanted = [message for message in wanted if (message.offset() or 0) < self._end]
        return to_batch(wanted) if wanted else None

    def _advance(self) -> None:
        # librdkafka moves its position past transaction markers too; it is -1001 until something was handed over.
        found = self._client.position([LibrdkafkaPartition(self._tp.topic, self._tp.partition)])[0].offset
        self.position = max(self.position, found)

    def _note_all(self) -> None:
        unnoted, self._unnoted = self._unnoted, []
        for message in unnoted:
            self._note(message)

    def _note(self, message: Message) -> None:
        error = message.error()
        if error is None:
            return
        code = error.code()
        if code == LibrdkafkaError._PARTITION_EOF:
            # The next offset to fetch: the only sign of a position past records that were compacted away or aborted.
            self.position = max(self.position, message.offset() or 0)
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
            self._last_error = error.str()

    def _out_of_range(self) -> RecoveryError:
        low, high = self._watermarks()
        if low > self.position:
            return gone(self._tp, self.position, low)
        return self._fact(
            Damaged,
            f"{self._tp} ends at {high}, before {self.position}: the topic was truncated, or deleted and created again",
            "take a full savepoint of this topic",
        )

    def _fact(self, kind: type[RecoveryError], reason: str, next_step: str) -> RecoveryError:
        return kind(reason, next_step=next_step, topic=self._tp.topic, partition=self._tp.partition, position=self.position)

    def _watermarks(self) -> tuple[int, int]:
        try:
            low, high = self._client.get_watermark_offsets(LibrdkafkaPartition(*self._tp), timeout=ASK_SECONDS, cached=False)
        except KafkaException as error:
            doing = f"asking for the offsets of {self._tp}"
            for _ in range(_REASON_POLLS + 1):  # what went wrong with each broker can be delivered after the answer
                if self._last_failure is not None and failures.turned_away(self._last_failure):
                    # Not the newest error: that may only be that all brokers are down.
                    raise failures.rejected(self._connection, self._last_failure.str()) from error
                self._client.poll(0.1)
            raise failures.translated(error, self._connection, doing, timeout=ASK_SECONDS) from error
        return int(low), int(high)

    def _count_fetched(self) -> int:
        """Wait for statistics that are newer than the last record. They come from the client itself, so a dead broker cannot hold them up.

        The partition is paused first, and what the pause still lets through is dropped: it lies beyond the end.
        """
        self._client.pause([LibrdkafkaPartition(*self._tp)])
        self._statistics = ""
        give_up = self._clock() + ASK_SECONDS
        while self._clock() < give_up:
            self._handed_over += sum(message.error() is None for message in self._client.consume(MAX_BATCH_ROWS, HAND_OVER_SECONDS))
            received = _received(self._statistics, self._tp)
            # A report that was under way when the last record was handed over may count less.
            if received is not None and received >= self._handed_over:
                return received
        raise self._fact(TransientError, f"the client gave no statistics for {self._tp}", "try again")

    @property
    def _client(self) -> Consumer:
        if self._consumer is None:
            raise RuntimeError("a RangeReader is read inside its with block")
        return self._consumer

    def _keep_statistics(self, text: str) -> None:
        self._statistics = text

    def _keep_error(self, error: LibrdkafkaError) -> None:
        self._last_error = error.str()
        if error.code() != failures.ALL_BROKERS_DOWN:
            self._last_failure = error

    def _client_config(self) -> dict[str, object]:
        return self._connection.client_config(
            **{
                "group.id": "streams-recovery-reader",  # the client wants one; nothing is ever joined or committed
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # The default, latest, would skip a range that retention takes away under the reader, and call it complete.
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
                # What may be fetched ahead, so also what may be fetched beyond the end: one response and never more records than asked for.
                "queued.min.messages": max(1, min(self._end - self._start, 100_000)),
                "queued.max.messages.kbytes": 16 << 10,
                "max.partition.fetch.bytes": max(64 << 10, min(4 << 20, (self._end - self._start) * 1024)),
                "fetch.wait.max.ms": 100,
                "fetch.queue.backoff.ms": 5,  # the default is a second of silence each time the queue is full
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._keep_statistics,
                "error_cb": self._keep_error,
            }
        )


def to_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages without errors as rows of a segment."""
    stamps = [message.timestamp() for message in messages]
    return pa.record_batch(
        [
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([stamp for _, stamp in stamps], pa.int64()),
            pa.array([kind - 1 for kind, _ in stamps], pa.int8()),  # the client counts from 0, not available, to 2, log append
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            header_array([message.headers() for message in messages]),  # type: ignore[misc]  # the stubs allow text in them
        ],
        schema=SEGMENT_SCHEMA,
    )


def _rows_for(batch: pa.RecordBatch) -> int:
    """How many records to ask for next, so that they make about ``BATCH_BYTES`` if they are like these."""
    return max(16, min(MAX_BATCH_ROWS, BATCH_BYTES * len(batch) // max(1, int(batch.nbytes))))


def _received(statistics: str, tp: TopicPartition) -> int | None:
    if not statistics:
        return None
    topics: dict[str, dict[str, dict[str, dict[str, int]]]] = json.loads(statistics)["topics"]
    return topics.get(tp.topic, {}).get("partitions", {}).get(str(tp.partition), {}).get("rxmsgs")
