"""One librdkafka consumer that reads ranges of logs by hand: no group, no commits.

It hands over librdkafka's messages as rows of a segment. Used for a short time, it also tells the timestamp of the first record at or behind an offset.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from streams_recovery.core.errors import Refused, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.topics import strange_header
from streams_recovery.core.work import OffsetRange, read_groups
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Deadline
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.segments.arrow import without_pandas
from streams_recovery.segments.schema import SEGMENT_SCHEMA, Header, header_array

# One call to the client hands over what it holds (queued.max.messages.kbytes) and what arrives in this time: that bounds a batch also when
# large records follow small ones.
HAND_OVER_SECONDS: Final = 0.005
MAX_BATCH_ROWS: Final = 20_000
STATISTICS_SECONDS: Final = 10.0
LEADER_SECONDS: Final = 10.0
_REASON_POLLS: Final = 20
_REASON_POLL_SECONDS: Final = 0.1
_STATISTICS_MS: Final = 50
_SMALLEST, _LARGEST = 64, 4_096
NUL_IN_NAME: Final = "has a NUL byte, behind which the client cuts it"
_ROWS_AT_ONCE: Final = 1_000


def size_class(offsets: int) -> int:
    """The size class, in offsets, of a range of so many: it bounds how much is fetched ahead, and so also beyond a range's end."""
    found = _SMALLEST
    while found < min(offsets, _LARGEST):
        found *= 4
    return found


class ReadError(NamedTuple):
    """An error that was handed over like a record, and the offset it is about, if it is about one."""

    error: LibrdkafkaError
    offset: int | None


class Arrived(NamedTuple):
    """Records and errors that were handed over of one range. ``batches`` has its records, as rows of a segment. ``handed_over`` counts records of its
    partition, with those at and ``beyond`` its end. ``errors`` are those of the partition and of the client. ``ask_for_names``: the client cannot tell of all
    of them whether the name of a header goes on behind a NUL byte, so the log's own batches must be asked.
    """

    batches: list[pa.RecordBatch]
    handed_over: int
    beyond: bool
    errors: list[ReadError]
    ask_for_names: bool


class RangeClient(ABC):
    """A consumer for ranges of one size class. It reads a partition once: asked for a second range of it, it could still name the position of the
    first (librdkafka forgets that some time after the partition was taken away), and the second would end before it began.
    """

    def __init__(self, connection: KafkaConnection, size: int) -> None:
        """``size`` is a ``size_class``. Raises ``ConfigInvalid`` when the client does not take the connection's settings."""
        self.size = size
        self.last_error = ""
        self._connection = connection
        self._statistics: str | bytes = ""
        self._last_failure: LibrdkafkaError | None = None
        self._known: set[TopicPartition] = set()
        try:
            self._open(self._config(size))
        except KafkaException as error:
            raise errors.translated(error, connection, "making a consumer", timeout=0) from error

    @abstractmethod
    def close(self) -> None:
        """Leave the brokers. It cannot be used again."""

    def knows(self, tp: TopicPartition) -> bool:
        """True when it has read this partition."""
        return tp in self._known

    def assign(self, ranges: Collection[OffsetRange]) -> None:
        """Read these partitions from their ranges' starts, and nothing else any more."""
        if again := [each.tp for each in ranges if each.tp in self._known]:
            raise RuntimeError(f"this consumer has read {again[0]} before")
        self.last_error = ""
        self._known |= {each.tp for each in ranges}
        self._assign(ranges)

    def arrived(self, wanted: OffsetRange, rows: int) -> Arrived:
        """The records that have arrived of the one range that is read, ``rows`` at most. Raises ``RecoveryError``."""
        try:
            return self._arrived(wanted, rows)
        except KafkaException as error:
            raise errors.translated(error, self._connection, f"reading {wanted.tp}", timeout=HAND_OVER_SECONDS) from error

    @abstractmethod
    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset of each; below 0 until something of it was handed over. Past transaction markers too, which never are."""

    @abstractmethod
    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch no more of these."""

    def watermarks(self, tp: TopicPartition, *, timeout: float) -> tuple[int, int]:
        """The log's first offset and its end, asked of the broker now. ``timeout`` in seconds."""
        try:
            return self._watermarks(tp, timeout)
        except KafkaException as error:
            for _ in range(_REASON_POLLS + 1):  # what went wrong with each broker can be delivered after the answer
                if self._last_failure is not None and errors.turned_away(self._last_failure):
                    # Not the newest error: that may only be that all brokers are down.
                    raise errors.rejected(self._connection, self._last_failure.str()) from error
                self._poll(_REASON_POLL_SECONDS)
            raise errors.translated(error, self._connection, f"asking for the offsets of {tp}", timeout=timeout) from error

    @abstractmethod
    def look_for_leader(self, tp: TopicPartition) -> None:
        """Ask who leads the partition now. The client goes on asking the leader that it knows, however long that one has been gone."""

    def received(self, handed_over: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Records of each partition that came from the broker, by librdkafka's own count (``rxmsgs``): from statistics that are newer than the last
        record that was ``handed_over``. They come from the client itself, so a dead broker cannot hold them up.

        The partitions are paused first, and what the pause still lets through is dropped. Raises ``TransientError``.
        """
        self.pause(handed_over.keys())
        seen = dict(handed_over)
        self._statistics = ""
        give_up = time.monotonic() + STATISTICS_SECONDS
        while time.monotonic() < give_up:
            self._count_what_comes(seen)
            found = _received(self._statistics, seen.keys())
            # A report that was under way when the last record was handed over may count less.
            if all(found.get(tp, -1) >= count for tp, count in seen.items()):
                return found
        raise TransientError(f"the client gave no statistics for {', '.join(map(str, sorted(seen)[:5]))}", next_step="try again")

    @abstractmethod
    def _open(self, config: dict[str, object]) -> None: ...

    @abstractmethod
    def _assign(self, ranges: Collection[OffsetRange]) -> None: ...

    @abstractmethod
    def _arrived(self, wanted: OffsetRange, rows: int) -> Arrived: ...

    @abstractmethod
    def _watermarks(self, tp: TopicPartition, timeout: float) -> tuple[int, int]: ...

    @abstractmethod
    def _poll(self, seconds: float) -> None:
        """Let the client say what it has to say."""

    @abstractmethod
    def _count_what_comes(self, seen: dict[TopicPartition, int]) -> None:
        """Take what was handed over since, and add it to ``seen``."""

    def _keep_statistics(self, text: str) -> None:
        self._statistics = text

    def _keep_error(self, error: LibrdkafkaError) -> None:
        self.last_error = error.str()
        if error.code() != errors.ALL_BROKERS_DOWN:
            self._last_failure = error

    def _config(self, offsets: int) -> dict[str, object]:
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
                # What may be fetched ahead, so also what may be fetched beyond the end.
                "queued.min.messages": 100_000 if offsets >= _LARGEST else offsets,
                "queued.max.messages.kbytes": 16 << 10,
                "max.partition.fetch.bytes": offsets * 1024,
                "fetch.max.bytes": 16 << 20,  # of all partitions, however many
                # The next range waits for the answer to the last request for this one.
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 5,  # the default is a second of silence each time the queue is full
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._keep_statistics,
                "error_cb": self._keep_error,
            }
        )


class ReadingClient(RangeClient):
    """One whose records are objects of Python: for many small ranges at once, and wherever there is no compiled code."""

    def close(self) -> None:
        self._consumer.close()

    def consume(self, rows: int, doing: str) -> list[Message]:
        """The messages that have arrived of any partition, ``rows`` at most, errors among them."""
        try:
            return self._consumer.consume(rows, HAND_OVER_SECONDS)
        except KafkaException as error:
            raise errors.translated(error, self._connection, doing, timeout=HAND_OVER_SECONDS) from error

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._consumer.position([LibrdkafkaPartition(*tp) for tp in partitions])
        return {TopicPartition(each.topic, each.partition): each.offset for each in found}

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._consumer.pause([LibrdkafkaPartition(*tp) for tp in partitions])

    def look_for_leader(self, tp: TopicPartition) -> None:
        with suppress(KafkaException):
            self._consumer.list_topics(tp.topic, timeout=LEADER_SECONDS)

    def _open(self, config: dict[str, object]) -> None:
        self._consumer = Consumer(config)

    def _assign(self, ranges: Collection[OffsetRange]) -> None:
        self._consumer.assign([LibrdkafkaPartition(each.tp.topic, each.tp.partition, each.start) for each in ranges])

    def _arrived(self, wanted: OffsetRange, rows: int) -> Arrived:
        found = [message for message in self._consumer.consume(rows, HAND_OVER_SECONDS) if partition_of(message) in (wanted.tp, None)]
        failed = [ReadError(error, message.offset()) for message in found if (error := message.error()) is not None]
        records = [message for message in found if message.error() is None]
        inside = [message for message in records if (message.offset() or 0) < wanted.end]
        return Arrived([to_batch(inside)] if inside else [], len(records), len(inside) < len(records), failed, ask_for_names=True)

    def _watermarks(self, tp: TopicPartition, timeout: float) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(LibrdkafkaPartition(*tp), timeout=timeout, cached=False)
        return int(low), int(high)

    def _poll(self, seconds: float) -> None:
        self._consumer.poll(seconds)

    def _count_what_comes(self, seen: dict[TopicPartition, int]) -> None:
        for message in self._consumer.consume(MAX_BATCH_ROWS, HAND_OVER_SECONDS):
            if message.error() is None and (tp := partition_of(message)) in seen:
                seen[tp] += 1


def first_timestamps(connection: KafkaConnection, offsets: Mapping[TopicPartition, int], *, seconds: float) -> dict[TopicPartition, int]:
    """The timestamp (ms) of the first committed record at or behind each offset. Partitions that have none, may not be read, or did not answer within
    ``seconds`` are left out. Raises ``ConfigInvalid`` when the client does not take the connection's settings, ``TransientError`` when it fails.
    """
    found: dict[TopicPartition, int] = {}
    deadline = Deadline(seconds)
    client = ReadingClient(connection, size_class(1))
    try:
        for group in read_groups(OffsetRange(tp, offset, offset + 1) for tp, offset in offsets.items()):
            found |= _first_of(client, group, deadline)
    finally:
        client.close()
    return found


def _first_of(client: ReadingClient, ranges: Collection[OffsetRange], deadline: Deadline) -> dict[TopicPartition, int]:
    pending = {each.tp for each in ranges}
    found: dict[TopicPartition, int] = {}
    client.assign(ranges)
    while pending and deadline.remaining:
        answered: set[TopicPartition] = set()
        for message in client.consume(_ROWS_AT_ONCE, f"reading the first record of {len(pending)} partitions"):
            tp = partition_of(message)
            if tp is None or tp not in pending:
                continue
            pending.remove(tp)
            answered.add(tp)
            kind, timestamp = message.timestamp()
            # An error is the end of the log, or whatever keeps the partition from being read.
            if message.error() is None and kind != TIMESTAMP_NOT_AVAILABLE:
                found[tp] = timestamp
        if answered:
            client.pause(answered)
    return found


def load_libraries() -> None:
    """Load the libraries of the first batch before a caller waits for it, and keep Arrow from loading pandas, which takes up to a second."""
    without_pandas()
    to_batch([])


def to_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages without errors as rows of a segment. Raises ``Refused`` for a header that cannot be kept."""
    stamps = [message.timestamp() for message in messages]
    return pa.record_batch(
        [
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([stamp for _, stamp in stamps], pa.int64()),
            pa.array([kind - 1 for kind, _ in stamps], pa.int8()),  # the client counts from 0, not available, to 2, log append
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            header_array(headers_of(messages)),
        ],
        schema=SEGMENT_SCHEMA,
    )


def headers_of(messages: Sequence[Message]) -> list[list[Header] | None]:
    """The headers of each message. Raises ``Refused`` when the name of one is no UTF-8 text.

    confluent-kafka then returns a list with holes, and leaves an exception beside it. A call in Python does not look for that any more once it was
    specialized, and who takes such a list apart ends the process. ``map`` looks at the result of each call. Ask a message that was refused no second
    time: it hands out the same list without an exception.
    """
    found: list[list[Header] | None] = []
    try:
        found.extend(map(Message.headers, messages))  # type: ignore[arg-type]  # the stubs allow a mapping, and text in it
    except (SystemError, UnicodeDecodeError):
        bad = messages[len(found)]
        raise unreadable_header(TopicPartition(bad.topic() or "", bad.partition() or 0), bad.offset() or 0) from None
    return found


def size_of(message: Message) -> int:
    """Bytes of a message's key, value and headers. Raises as ``headers_of`` does."""
    (headers,) = headers_of([message])
    return len(message.key() or b"") + len(message.value() or b"") + sum(len(key) + len(value or b"") for key, value in headers or ())


def unreadable_header(tp: TopicPartition, offset: int, why: str = "is no UTF-8 text") -> Refused:
    """A header's name that is not UTF-8, as Kafka's own clients write and read it, or that librdkafka cuts."""
    return Refused(
        f"{tp}: the record at offset {offset} has a header whose name {why}: it cannot be kept as it is",
        next_step=str(strange_header(tp.topic, changelog=tp.topic.endswith("-changelog"))),
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
    )


def partition_of(message: Message) -> TopicPartition | None:
    """The partition of a message, or of an error; None for an error of the client."""
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None else TopicPartition(topic, partition)


def _received(statistics: str | bytes, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    if not statistics:
        return {}
    topics: dict[str, dict[str, dict[str, dict[str, int]]]] = json.loads(statistics)["topics"]
    found = {tp: topics.get(tp.topic, {}).get("partitions", {}).get(str(tp.partition), {}).get("rxmsgs") for tp in partitions}
    return {tp: count for tp, count in found.items() if count is not None}
