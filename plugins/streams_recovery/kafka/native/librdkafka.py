"""librdkafka's public C functions and our own beside them (``gather.c``).

The library comes into the process with the confluent-kafka package. It is called with handles that are created here by its public functions:
the package's own objects are not looked into.
"""

from __future__ import annotations

import ctypes as c
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaException
from confluent_kafka import KafkaError as LibrdkafkaError

from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.native.library import SWITCH, NativeUnusable, ours

# From the first with all of these functions, to before the next that may lay out its structures anew.
VERSIONS: Final = (0x02000000, 0x03000000)

PRODUCER, CONSUMER = 0, 1
EVENTS_OF_A_PRODUCER: Final = 0x1 | 0x8  # delivery reports, errors
EVENT_ERROR: Final = 0x8
PURGE_QUEUE, PURGE_IN_FLIGHT = 0x1, 0x2

_LOGGER = logger("streams_recovery.kafka.native")
_TEXT_BYTES: Final = 512
_POINTER = c.c_void_p
_SECONDS_OF_TEST: Final = 5


class Message(c.Structure):
    """A message of librdkafka (rd_kafka_message_t)."""

    _fields_ = (
        ("err", c.c_int),
        ("topic", _POINTER),
        ("partition", c.c_int32),
        ("payload", _POINTER),
        ("len", c.c_size_t),
        ("key", _POINTER),
        ("key_len", c.c_size_t),
        ("offset", c.c_int64),
        ("opaque", _POINTER),
    )


class ListedPartition(c.Structure):
    """A partition in a list of librdkafka (rd_kafka_topic_partition_t)."""

    _fields_ = (
        ("topic", c.c_char_p),
        ("partition", c.c_int32),
        ("offset", c.c_int64),
        ("metadata", _POINTER),
        ("metadata_size", c.c_size_t),
        ("opaque", _POINTER),
        ("err", c.c_int),
        ("private", _POINTER),
    )


class PartitionList(c.Structure):
    """A list of partitions of librdkafka (rd_kafka_topic_partition_list_t)."""

    _fields_ = (("count", c.c_int), ("size", c.c_int), ("elements", c.POINTER(ListedPartition)))


class GatherRange(c.Structure):
    """Whose records are gathered: those of this partition with offsets below ``end``."""

    _fields_ = (("topic", c.c_char_p), ("partition", c.c_int64), ("end", c.c_int64))


class GatherSizes(c.Structure):
    """Counts of ``sr_measure``."""

    _fields_ = tuple(
        (name, c.c_int64)
        for name in (
            *("messages", "rows", "handed_over", "errors", "beyond"),
            *("key_bytes", "value_bytes", "null_keys", "null_values"),
            *("with_headers", "headers", "header_key_bytes", "header_value_bytes", "null_header_values", "cut", "unsure"),
        )
    )


class Binary(c.Structure):
    """Buffers that a column is gathered into."""

    _fields_ = (("valid", _POINTER), ("ends", _POINTER), ("data", _POINTER))


class Rows(c.Structure):
    """Buffers of all columns of a segment, to be gathered into."""

    _fields_ = (
        *((name, _POINTER) for name in ("offset", "timestamp", "timestamp_type")),
        *((name, Binary) for name in ("key", "value", "headers", "header_key", "header_value")),
    )


class Column(c.Structure):
    """Buffers of a column that is written, of which the element ``first`` is its first one."""

    _fields_ = (("valid", _POINTER), ("ends", _POINTER), ("data", _POINTER), ("first", c.c_int64))


class Batch(c.Structure):
    """Buffers of all columns that are written."""

    _fields_ = (("timestamp", _POINTER), *((name, Column) for name in ("key", "value", "headers", "header_key", "header_value")))


class Failure(c.Structure):
    """An error that a callback was told of; a code of 0 is none."""

    _fields_ = (("code", c.c_int64), ("text", c.c_char * _TEXT_BYTES))


class Heard(c.Structure):
    """Statistics and errors that callbacks were told of since it was looked at."""

    _fields_ = (("statistics", _POINTER), ("statistics_bytes", c.c_int64), ("newest", Failure), ("newest_of_one", Failure))


class Reports(c.Structure):
    """Findings of ``sr_reports``."""

    _fields_ = (("acknowledged", c.c_int64), ("misplaced", c.c_int64), ("error", c.c_int64), ("other", _POINTER))


# Functions by what they return, with their arguments. The first group is called by gather.c, in the order of its table.
_CALLED_BY_GATHER: Final = (
    *("rd_kafka_topic_name", "rd_kafka_message_timestamp", "rd_kafka_message_headers", "rd_kafka_header_get_all"),
    *("rd_kafka_message_destroy", "rd_kafka_produceva", "rd_kafka_error_code", "rd_kafka_error_destroy", "rd_kafka_headers_new"),
    *("rd_kafka_header_add", "rd_kafka_headers_destroy", "rd_kafka_queue_poll", "rd_kafka_event_type", "rd_kafka_event_message_array"),
    *("rd_kafka_event_destroy", "rd_kafka_consume_batch_queue", "rd_kafka_mem_free"),
    "rd_kafka_header_get",
)
_FUNCTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "version": (c.c_int,),
    "conf_new": (_POINTER,),
    "conf_set": (c.c_int, _POINTER, c.c_char_p, c.c_char_p, c.c_char_p, c.c_size_t),
    "conf_destroy": (None, _POINTER),
    "conf_set_opaque": (None, _POINTER, _POINTER),
    "conf_set_log_cb": (None, _POINTER, _POINTER),
    "conf_set_stats_cb": (None, _POINTER, _POINTER),
    "conf_set_error_cb": (None, _POINTER, _POINTER),
    "conf_set_events": (None, _POINTER, c.c_int),
    "new": (_POINTER, c.c_int, _POINTER, c.c_char_p, c.c_size_t),
    "destroy": (None, _POINTER),
    "poll_set_consumer": (c.c_int, _POINTER),
    "consumer_close": (c.c_int, _POINTER),
    "queue_get_consumer": (_POINTER, _POINTER),
    "queue_get_main": (_POINTER, _POINTER),
    "queue_destroy": (None, _POINTER),
    "mem_free": (None, _POINTER, _POINTER),
    "message_errstr": (c.c_char_p, _POINTER),
    "err2str": (c.c_char_p, c.c_int),
    "assign": (c.c_int, _POINTER, _POINTER),
    "pause_partitions": (c.c_int, _POINTER, _POINTER),
    "position": (c.c_int, _POINTER, _POINTER),
    "topic_partition_list_new": (c.POINTER(PartitionList), c.c_int),
    "topic_partition_list_add": (c.POINTER(ListedPartition), c.POINTER(PartitionList), c.c_char_p, c.c_int32),
    "topic_partition_list_destroy": (None, c.POINTER(PartitionList)),
    "query_watermark_offsets": (c.c_int, _POINTER, c.c_char_p, c.c_int32, c.POINTER(c.c_int64), c.POINTER(c.c_int64), c.c_int),
    "topic_new": (_POINTER, _POINTER, c.c_char_p, _POINTER),
    "topic_name": (c.c_char_p, _POINTER),
    "topic_destroy": (None, _POINTER),
    "metadata": (c.c_int, _POINTER, c.c_int, _POINTER, c.POINTER(_POINTER), c.c_int),
    "metadata_destroy": (None, _POINTER),
    "purge": (c.c_int, _POINTER, c.c_int),
    "event_type": (c.c_int, _POINTER),
    "event_error": (c.c_int, _POINTER),
    "event_error_string": (c.c_char_p, _POINTER),
    "event_error_is_fatal": (c.c_int, _POINTER),
    "event_message_next": (c.POINTER(Message), _POINTER),
    "event_destroy": (None, _POINTER),
    "queue_poll": (_POINTER, _POINTER, c.c_int),
    "fatal_error": (c.c_int, _POINTER, c.c_char_p, c.c_size_t),
}
_GATHER: Final[Mapping[str, tuple[Any, ...]]] = {
    "functions": (None, _POINTER),
    "measure": (None, _POINTER, c.c_int64, c.POINTER(GatherRange), c.c_int64, c.POINTER(GatherSizes)),
    "gather": (None, _POINTER, c.POINTER(GatherRange), c.POINTER(GatherSizes), c.POINTER(Rows)),
    "next_error": (c.c_int64, _POINTER, c.c_int64, c.c_int64),
    "destroy": (None, _POINTER, c.POINTER(c.c_int64)),
    "consume": (None, _POINTER, c.c_int, _POINTER, c.c_size_t, c.POINTER(c.c_int64)),
    "statistics": (c.c_int, _POINTER, _POINTER, c.c_size_t, _POINTER),
    "error": (None, _POINTER, c.c_int, c.c_char_p, _POINTER),
    "produce": (c.c_int64, _POINTER, _POINTER, c.c_int64, c.POINTER(Batch), c.c_int64, c.c_int64, c.POINTER(c.c_int)),
    "reports": (None, _POINTER, c.c_int, c.c_int64, c.POINTER(Reports)),
}


class Native:
    """The functions of both libraries: ``rd_<name>`` is librdkafka's ``rd_kafka_<name>``, ``sr_<name>`` is ours. None of them holds Python's lock."""

    def __init__(self, librdkafka: c.CDLL, ours: c.CDLL) -> None:
        """Raises ``NativeUnusable`` when librdkafka is of a version that was not examined."""
        try:
            for library, prefix, mine, functions in ((librdkafka, "rd_kafka_", "rd_", _FUNCTIONS), (ours, "sr_", "sr_", _GATHER)):
                for name, (result, *arguments) in functions.items():
                    function = library[prefix + name]
                    function.restype, function.argtypes = result, arguments
                    setattr(self, mine + name, function)
            table = (_POINTER * len(_CALLED_BY_GATHER))(*(c.cast(librdkafka[name], _POINTER) for name in _CALLED_BY_GATHER))
        except AttributeError as error:
            raise NativeUnusable(f"a function is missing: {error}") from error
        version = self.rd_version()
        if not VERSIONS[0] <= version < VERSIONS[1]:
            raise NativeUnusable(f"librdkafka's version {version:#010x} was never tried")
        self.sr_functions(table)

    def __getattr__(self, name: str) -> Any:
        # Only for the type checker: what is not there was not set above.
        raise AttributeError(name)

    def conf(self, settings: Mapping[str, object]) -> int:
        """A new configuration. Python's own callbacks and loggers are left out, and nothing is written to stderr. Raises ``KafkaException``."""
        conf, text = self.rd_conf_new(), c.create_string_buffer(_TEXT_BYTES)
        for name, value in settings.items():
            if callable(value) or name == "logger":
                continue
            plain = str(value).lower() if isinstance(value, bool) else str(value)
            if self.rd_conf_set(conf, name.encode(), plain.encode(), text, _TEXT_BYTES):
                self.rd_conf_destroy(conf)
                raise KafkaException(LibrdkafkaError(LibrdkafkaError._INVALID_ARG, _text(text.value)))  # noqa: SLF001
        self.rd_conf_set_log_cb(conf, None)
        return int(conf)

    def listen(self, conf: int, heard: Heard) -> None:
        """Have ``heard``, which must live as long as the client, told of statistics and errors."""
        self.rd_conf_set_opaque(conf, c.byref(heard))
        self.rd_conf_set_stats_cb(conf, c.cast(self.sr_statistics, _POINTER))
        self.rd_conf_set_error_cb(conf, c.cast(self.sr_error, _POINTER))

    def client(self, kind: int, conf: int) -> int:
        """A new client of this kind, which takes ``conf`` over. Raises ``KafkaException``."""
        text = c.create_string_buffer(_TEXT_BYTES)
        client = self.rd_new(kind, conf, text, _TEXT_BYTES)
        if not client:
            self.rd_conf_destroy(conf)
            raise KafkaException(LibrdkafkaError(LibrdkafkaError._INVALID_ARG, _text(text.value)))  # noqa: SLF001
        return int(client)

    @contextmanager
    def partitions(self, wanted: Mapping[TopicPartition, int | None]) -> Iterator[Any]:
        """Partitions with offsets, or without, as librdkafka takes them: a pointer to a ``PartitionList``."""
        made = self.rd_topic_partition_list_new(len(wanted))
        try:
            for tp, offset in wanted.items():
                element = self.rd_topic_partition_list_add(made, tp.topic.encode(), tp.partition)
                if offset is not None:
                    element.contents.offset = offset
            yield made
        finally:
            self.rd_topic_partition_list_destroy(made)

    def error(self, code: int, text: bytes | None = None) -> LibrdkafkaError:
        """The error that confluent-kafka makes of this code."""
        return LibrdkafkaError(code, _text(self.rd_err2str(code) if text is None else text))

    def checked(self, code: int) -> None:
        """Raises ``KafkaException`` for a code that is an error."""
        if code:
            raise KafkaException(self.error(code))


def native() -> Native | None:
    """Both libraries, tried out; None if records must go by Python objects: one line in the log gives the reason."""
    return None if os.environ.get(SWITCH) == "off" else _tried_out()


@functools.cache
def _tried_out() -> Native | None:
    try:
        found = Native(_librdkafka(), ours())
        _try_out(found)
    except (NativeUnusable, OSError, KafkaException) as error:
        _LOGGER.warning("records are read and written without compiled code, which takes about twice as long: %s", error)
        return None
    return found


def _librdkafka() -> c.CDLL:
    """The librdkafka of this process: its place in the package depends on how that was built."""
    if sys.platform != "linux":
        raise NativeUnusable(f"there is none for {sys.platform}")
    with Path("/proc/self/maps").open() as maps:
        paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "librdkafka" in line.rpartition("/")[2]}
    if len(paths) != 1:
        raise NativeUnusable(f"{len(paths)} libraries called librdkafka are loaded")
    return c.CDLL(paths.pop())


def _try_out(native: Native) -> None:
    """A record is given to a producer that has no broker, thrown away, and looked at in its report: if any structure had another layout than gather.c and this
    file think, something of it would be different.
    """
    stamp, key, value, header = 1_234_567_890_123, b"\0key", b"value\xff", (b"name", b"header")
    conf = native.conf({"log_level": 0})
    native.rd_conf_set_events(conf, EVENTS_OF_A_PRODUCER)
    client = native.client(PRODUCER, conf)
    topic, queue = native.rd_topic_new(client, b"nowhere", None), native.rd_queue_get_main(client)
    event = None
    try:
        one, stamps = (c.c_int32 * 2)(0, 1), c.c_int64(stamp)
        batch = Batch(timestamp=c.addressof(stamps))
        kept = [one, stamps]
        batch.headers = Column(ends=c.addressof(one))
        for name, data in (("key", key), ("value", value), ("header_key", header[0]), ("header_value", header[1])):
            ends, copy = (c.c_int32 * 2)(0, len(data)), c.create_string_buffer(data, len(data))
            kept += [ends, copy]
            setattr(batch, name, Column(ends=c.addressof(ends), data=c.addressof(copy)))
        error = c.c_int()
        if native.sr_produce(client, topic, 7, batch, 0, 1, error) != 1 or error.value:
            raise NativeUnusable(f"a record was not taken: {error.value}")
        native.rd_purge(client, PURGE_QUEUE)
        event = native.rd_queue_poll(queue, _SECONDS_OF_TEST * 1000)
        message = native.rd_event_message_next(event) if event else None
        if not message:
            raise NativeUnusable("a record came back without a report")
        found = _looked_at(native, message, (stamp, key, value, header))
        if not found:
            raise NativeUnusable("a record did not come back as it was given: librdkafka has other structures here")
    finally:
        if event:
            native.rd_event_destroy(event)
        native.rd_queue_destroy(queue)
        native.rd_topic_destroy(topic)
        native.rd_destroy(client)


def _looked_at(native: Native, message: Any, given: tuple[int, bytes, bytes, tuple[bytes, bytes]]) -> bool:
    """True when the reported record, gathered as if it had been read, equals the given one."""
    stamp, key, value, (name, header) = given
    seen = message.contents
    expected = (LibrdkafkaError._PURGE_QUEUE, 7, len(key), len(value), OFFSET_INVALID)  # noqa: SLF001  # public in spite of its underscore
    if (seen.err, seen.partition, seen.key_len, seen.len, seen.offset) != expected:
        return False
    if native.rd_topic_name(seen.topic) != b"nowhere":
        return False
    # Gathering leaves out what has an error.
    copy = Message.from_buffer_copy(seen)
    offset = seen.offset
    seen.err = 0
    try:
        messages, wanted, sizes = (_POINTER * 1)(c.addressof(seen)), GatherRange(b"nowhere", 7, 2**62), GatherSizes()
        native.sr_measure(messages, 1, wanted, 2**30, sizes)
        counted = (sizes.rows, sizes.key_bytes, sizes.value_bytes, sizes.headers, sizes.header_key_bytes, sizes.header_value_bytes)
        if counted != (1, len(key), len(value), 1, len(name), len(header)):
            return False
        numbers, kind, columns = (c.c_int64 * 2)(), c.c_int8(), {}
        out = Rows(offset=c.addressof(numbers), timestamp=c.addressof(numbers) + 8, timestamp_type=c.addressof(kind))
        texts = {"key": key, "value": value, "headers": b"", "header_key": name, "header_value": header}
        for column, text in texts.items():
            valid, ends, data = columns[column] = c.c_uint8(), (c.c_int32 * 2)(), c.create_string_buffer(len(text))
            setattr(out, column, Binary(c.addressof(valid), c.addressof(ends), c.addressof(data)))
        native.sr_gather(messages, wanted, sizes, out)
        same = all(columns[column][2].raw == text for column, text in texts.items())
        return same and list(numbers) == [offset, stamp] and kind.value == 0
    finally:
        seen.err = copy.err


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")
