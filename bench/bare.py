"""Data for the benchmark, and the limits that librdkafka and zstd set: a producer and a consumer by librdkafka's C functions, with no object for a record.

They go through ctypes to the library that confluent-kafka brings. Where there is no compiled code, a call for each record that was read gives its memory back.
Every function here is for a process of its own, so that its processor time is its own.
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
import confluent_kafka.cimpl
import numpy as np
import zstandard

from streams_recovery.kafka.native.librdkafka import native

BLOCK: Final = 20_000
_COPY = 0x2
# Records that may wait in a producer before another block is given to it: the queue has room for both.
_WAITING: Final = 100_000
_PRODUCER, _CONSUMER = 0, 1
_PATIENCE_MS: Final = 120_000
_NOTHING: Final = 60.0
# rd_kafka_message_t: of a record to be produced only payload and key are read.
_MESSAGE: Final = np.dtype(
    {
        "names": ["err", "payload", "len", "key", "key_len"],
        "formats": [np.int32, np.uintp, np.uintp, np.uintp, np.uintp],
        "offsets": [0, 24, 32, 40, 48],
        "itemsize": 72,
    }
)
_FOR_PRODUCERS: Final = {
    "enable.idempotence": "true",
    "linger.ms": "50",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "400000",
    "queue.buffering.max.kbytes": "262144",
}
_FOR_CONSUMERS: Final = {
    "group.id": "bench",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "queued.min.messages": "200000",
    "queued.max.messages.kbytes": "65536",
    "max.partition.fetch.bytes": "8388608",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Records of one kind. ``value_bytes`` with a key of 16 bytes; ``share`` says how many records there are of those asked for. ``updates`` is of each key.
    In place of every fifth transaction of ``aborts`` one that is aborted goes before it.
    """

    name: str
    text: str
    value_bytes: int
    random: bool = False
    share: float = 1.0
    updates: int = 1
    aborts: bool = False
    headers: bool = False

    def records(self, asked: int, partitions: int) -> int:
        """The number of records, the same in each partition."""
        return int(asked * self.share) // partitions * partitions


CASES: Final = (
    Case(name="150b", text="150 bytes, like JSON", value_bytes=134),
    Case(name="150b-random", text="150 bytes that cannot be compressed", value_bytes=134, random=True),
    Case(name="1kb", text="1 KB, like JSON", value_bytes=1008, share=0.3),
    Case(name="1kb-random", text="1 KB that cannot be compressed", value_bytes=1008, random=True, share=0.3),
    Case(name="updates", text="150 bytes, ten updates a key", value_bytes=134, updates=10),
    Case(name="aborts", text="150 bytes in transactions, every fifth one aborted", value_bytes=134, aborts=True),
    Case(name="headers", text="150 bytes with three headers", value_bytes=134, headers=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of one process: so many records of each of these partitions."""

    bootstrap: str
    topic: str
    partitions: tuple[int, ...]
    each: int
    case: Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """The times at which it began and ended, by the machine's own clock, and its processor seconds."""

    began: float
    ended: float
    cpu: float


def values(case: Case, first: int, count: int) -> bytes:
    """The values of these records, one behind the other, each ``case.value_bytes`` long."""
    if case.random:
        return os.urandom(case.value_bytes * count)
    dice = np.random.default_rng(first).integers(0, 1 << 20, size=(count, 4 + case.value_bytes // 20)).tolist()
    return b"".join(_like_json(first + at, case.value_bytes, row) for at, row in enumerate(dice))


def _like_json(number: int, size: int, dice: list[int]) -> bytes:
    state = (b"new", b"paid", b"shipped", b"returned")[dice[0] % 4]
    text = b'{"order":%d,"customer":"c-%06d","state":"%s","lines":[' % (number, dice[1] % 500_000, state)
    at = 2
    while len(text) < size - 48:
        text += b'{"product":"p-%05x","pieces":%d,"price":%d},' % (dice[at], dice[at + 1] % 9, dice[at + 1] % 977)
        at += 2
    return (text + b'"' + b"-" * size)[: size - 3] + b'"]}'


def keys(case: Case, first: int, count: int, each: int) -> list[bytes]:
    """The keys of these records of a partition that has ``each``."""
    distinct = max(1, each // case.updates)
    return [b"key-%012d" % (number % distinct) for number in range(first, first + count)]


def blocks(each: int) -> Iterator[tuple[int, int]]:
    """The records of a partition in steps: the first one's number, and how many."""
    yield from ((first, min(BLOCK, each - first)) for first in range(0, each, BLOCK))


def generate(work: Work) -> Worked:
    """Write the records of a case. What is aborted comes on top of them."""
    if work.case.headers:
        return _with_headers(work)
    began, used = time.monotonic(), _cpu()
    settings = {**_FOR_PRODUCERS, "compression.type": "zstd"}
    if work.case.aborts:
        settings |= {"transactional.id": f"{work.topic}-{work.partitions[0]}"}
    with _Handle(work.bootstrap, _PRODUCER, settings) as producer:
        if work.case.aborts:
            producer.transaction("init_transactions", _PATIENCE_MS)
        for number, (first, count) in enumerate(blocks(work.each)):
            for partition in work.partitions:
                block = _Block(keys(work.case, first, count, work.each), values(work.case, first * 64 + partition, count))
                for aborted in [True, False] if work.case.aborts and number % 5 == 0 else [False]:
                    _write(producer, work, partition, block, aborted=aborted)
        producer.flush()
    return Worked(began=began, ended=time.monotonic(), cpu=_cpu() - used)


def _write(producer: _Handle, work: Work, partition: int, block: _Block, *, aborted: bool) -> None:
    if not work.case.aborts:
        producer.produce(work.topic, partition, block)
        return
    producer.transaction("begin_transaction")
    producer.produce(work.topic, partition, block)
    if aborted:
        producer.flush()
    producer.transaction("abort_transaction" if aborted else "commit_transaction", _PATIENCE_MS)


def _with_headers(work: Work) -> Worked:
    # librdkafka's call for many records at once takes no headers.
    began, used = time.monotonic(), _cpu()
    producer = confluent_kafka.Producer({"bootstrap.servers": work.bootstrap, **_FOR_PRODUCERS, "compression.type": "zstd"})
    size = work.case.value_bytes
    for first, count in blocks(work.each):
        for partition in work.partitions:
            data = values(work.case, first * 64 + partition, count)
            for at, key in enumerate(keys(work.case, first, count, work.each)):
                headers = [("trace", b"%032d" % (first + at)), ("source", b"bench"), ("version", b"7")]
                _put(producer, work.topic, data[at * size : (at + 1) * size], key, partition, headers)
    if producer.flush(_PATIENCE_MS / 1000):
        raise SystemExit("the broker took too long")
    return Worked(began=began, ended=time.monotonic(), cpu=_cpu() - used)


def _put(producer: confluent_kafka.Producer, *record: Any) -> None:
    topic, value, key, partition, headers = record
    while True:
        try:
            producer.produce(topic, value, key, partition, headers=headers)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def produce(work: Work) -> Worked:
    """The limit of a restore: one block of records, written again and again, so that nothing but librdkafka and the broker takes time."""
    count = min(BLOCK, work.each)
    block = _Block(keys(work.case, 0, count, work.each), values(work.case, 0, count))
    with _Handle(work.bootstrap, _PRODUCER, _FOR_PRODUCERS) as producer:
        began, used = time.monotonic(), _cpu()
        for _, wanted in blocks(work.each):
            for partition in work.partitions:
                producer.produce(work.topic, partition, block, wanted)
        producer.flush()
        return Worked(began=began, ended=time.monotonic(), cpu=_cpu() - used)


def consume(work: Work) -> Worked:
    """The limit of a backup: a consumer that counts records and does nothing else with them."""
    with _Handle(work.bootstrap, _CONSUMER, _FOR_CONSUMERS) as consumer:
        began, used = time.monotonic(), _cpu()
        consumer.count(work.topic, work.partitions, work.each * len(work.partitions))
        return Worked(began=began, ended=time.monotonic(), cpu=_cpu() - used)


def compress(work: Work) -> Worked:
    """The other limit: keys and values of as many records through zstd at level 3, on one core; the data is made before the clock starts."""
    count = min(BLOCK, work.each)
    data = b"".join(keys(work.case, 0, count, work.each)) + values(work.case, 0, count)
    compressor = zstandard.ZstdCompressor(level=3)
    began, used = time.monotonic(), _cpu()
    for _ in range(max(1, work.each * len(work.partitions) // count)):
        compressor.compress(data)
    return Worked(began=began, ended=time.monotonic(), cpu=_cpu() - used)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class _Block:
    """Records in memory as librdkafka takes them."""

    def __init__(self, keys: list[bytes], data: bytes) -> None:
        self._held = (np.frombuffer(b"".join(keys), np.uint8), np.frombuffer(data, np.uint8))
        self.messages = np.zeros(len(keys), _MESSAGE)
        for field, length, held in (("key", "key_len", self._held[0]), ("payload", "len", self._held[1])):
            stride = len(held) // len(keys)
            self.messages[field] = held.ctypes.data + stride * np.arange(len(keys), dtype=np.uintp)
            self.messages[length] = stride


class _Handle:
    """A client of librdkafka's."""

    def __init__(self, bootstrap: str, kind: int, settings: Mapping[str, str]) -> None:
        self._library = _library()
        self._topics: dict[str, int] = {}
        self._reason = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        for name, value in {"bootstrap.servers": bootstrap, **settings}.items():
            if self._library.rd_kafka_conf_set(conf, name.encode(), value.encode(), self._reason, 512):
                raise SystemExit(self._reason.value.decode())
        self._client = self._library.rd_kafka_new(kind, conf, self._reason, 512)
        if not self._client:
            raise SystemExit(self._reason.value.decode())

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        for topic in self._topics.values():
            self._library.rd_kafka_topic_destroy(topic)
        self._library.rd_kafka_destroy(self._client)

    def produce(self, topic: str, partition: int, block: _Block, count: int | None = None) -> None:
        """Hand over the first ``count`` records, all without it."""
        if topic not in self._topics:
            self._topics[topic] = self._library.rd_kafka_topic_new(self._client, topic.encode(), None)
        wanted = len(block.messages) if count is None else count
        # Not by librdkafka's own waiting for room: a batch that waits holds the lock of its topic, and a topic that is news needs it to be learned of.
        while self._library.rd_kafka_outq_len(self._client) > _WAITING:
            self._library.rd_kafka_poll(self._client, 10)
        if self._library.rd_kafka_produce_batch(self._topics[topic], partition, _COPY, block.messages.ctypes.data, wanted) != wanted:
            raise SystemExit(f"librdkafka did not take all records: error {block.messages['err'].min()}")

    def flush(self) -> None:
        """Wait until the broker has all of them."""
        if self._library.rd_kafka_flush(self._client, _PATIENCE_MS):
            raise SystemExit("the broker took too long")

    def transaction(self, call: str, *arguments: int) -> None:
        """One of librdkafka's functions for transactions."""
        error = getattr(self._library, f"rd_kafka_{call}")(self._client, *arguments)
        if error:
            raise SystemExit(f"{call}: {self._library.rd_kafka_error_string(error).decode()}")

    def count(self, topic: str, partitions: tuple[int, ...], wanted: int) -> None:
        """Read so many records from the beginning of these partitions."""
        library = self._library
        assigned = library.rd_kafka_topic_partition_list_new(len(partitions))
        for partition in partitions:
            library.rd_kafka_topic_partition_list_add(assigned, topic.encode(), partition)
            library.rd_kafka_topic_partition_list_set_offset(assigned, topic.encode(), partition, 0)
        library.rd_kafka_assign(self._client, assigned)
        library.rd_kafka_topic_partition_list_destroy(assigned)
        queue, messages = library.rd_kafka_queue_get_consumer(self._client), (ctypes.c_void_p * BLOCK)()
        counted, last, compiled = 0, time.monotonic(), native()
        while counted < wanted:
            taken = library.rd_kafka_consume_batch_queue(queue, 100, messages, BLOCK)
            if compiled is None:
                deque(map(library.rd_kafka_message_destroy, messages[: max(0, taken)]), maxlen=0)
            else:
                compiled.sr_destroy(messages, ctypes.c_int64(max(0, taken)))
            counted += max(0, taken)
            last = time.monotonic() if taken > 0 else last
            if time.monotonic() > last + _NOTHING:
                raise SystemExit(f"only {counted} of {wanted} records came")
        library.rd_kafka_queue_destroy(queue)
        library.rd_kafka_consumer_close(self._client)


def _library() -> Any:
    """Load librdkafka, with the types of the functions used here. The symbols are those that confluent-kafka's own module is linked with."""
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "conf_new": (pointer, ()),
        "conf_set": (number, (pointer, text, text, text, size)),
        "new": (pointer, (number, pointer, text, size)),
        "destroy": (None, (pointer,)),
        "topic_new": (pointer, (pointer, text, pointer)),
        "topic_destroy": (None, (pointer,)),
        "produce_batch": (number, (pointer, ctypes.c_int32, number, pointer, number)),
        "flush": (number, (pointer, number)),
        "outq_len": (number, (pointer,)),
        "poll": (number, (pointer, number)),
        "init_transactions": (pointer, (pointer, number)),
        "begin_transaction": (pointer, (pointer,)),
        "commit_transaction": (pointer, (pointer, number)),
        "abort_transaction": (pointer, (pointer, number)),
        "error_string": (text, (pointer,)),
        "topic_partition_list_new": (pointer, (number,)),
        "topic_partition_list_add": (pointer, (pointer, text, ctypes.c_int32)),
        "topic_partition_list_set_offset": (number, (pointer, text, ctypes.c_int32, ctypes.c_int64)),
        "topic_partition_list_destroy": (None, (pointer,)),
        "assign": (number, (pointer, pointer)),
        "queue_get_consumer": (pointer, (pointer,)),
        "queue_destroy": (None, (pointer,)),
        "consume_batch_queue": (ctypes.c_ssize_t, (pointer, number, pointer, size)),
        "message_destroy": (None, (pointer,)),
        "consumer_close": (number, (pointer,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, list(arguments)
    return library
