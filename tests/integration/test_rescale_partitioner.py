"""Kafka's own partitioner, and the bytes that Kafka Streams' own classes make of a key, against what a rescale believes of both: many pairs in one JVM."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pytest

from spark_jobs.transforms.rescale_rows import places
from streams_recovery.core.kafka_types import KeyForm
from streams_recovery.core.rescale.moved import TopicToPlace
from streams_recovery.core.rescale.placement import RescaledTopic, deciding, partition_of
from tests.support.programs.java import STREAMS, command_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]
# As Placing.java writes them.
FORMS: Final = (
    KeyForm.WHOLE,
    KeyForm.WINDOWED,
    KeyForm.WINDOW,
    KeyForm.SESSION,
    KeyForm.SESSION,
    KeyForm.FOREIGN_KEY,
    KeyForm.TIME_ORDERED,
    KeyForm.TIME_FIRST,
)
MOST: Final = 1_000
TOPIC: Final = TopicToPlace(topic=RescaledTopic(name="t", old=1, new=2), kind=None, partitions=(), primary=None)
TEXTS: Final = ("", "a", "\u00fcber", "\u65e5\u672c\u8a9e", "\U0001f600" * 5, "\x00", "x" * 200, "\u00e9" * 700)


def cases() -> Iterator[tuple[int, int, bytes]]:
    """Number of partitions, time, key: each number once with random bytes, and texts with numbers by chance. A failure comes again: the seed is fixed."""
    chance = random.Random(4_400)
    for partitions in range(1, MOST + 1):
        yield partitions, chance.randrange(1 << 43), chance.randbytes(chance.choice((0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 40)))
    for at in range(2_000):
        text = TEXTS[at % len(TEXTS)] + chance.choice(("", "ab", str(at)))
        yield chance.randint(1, MOST), chance.randrange(1 << 43), text.encode()
    for length in (1_024, 1_025, 5_000, 100_000):
        yield chance.randint(1, MOST), 0, chance.randbytes(length)


def answered(given: Sequence[tuple[int, int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """What the program says of each case: the partition, and the bytes of every form."""
    asked = b"".join(struct.pack(">iqi", partitions, time, len(key)) + key for partitions, time, key in given)
    said = subprocess.run(command_of(STREAMS / "Placing.java"), input=asked, capture_output=True, timeout=100, check=True).stdout
    at = 0
    while at < len(said):
        [partition], at = struct.unpack_from(">i", said, at), at + 4
        keys = []
        for _ in FORMS:
            [length] = struct.unpack_from(">i", said, at)
            keys.append(said[at + 4 : at + 4 + length])
            at += 4 + length
        yield partition, keys


def test_every_key_lies_where_kafkas_partitioner_puts_it_whatever_a_store_makes_of_it() -> None:
    given = list(cases())
    found = list(answered(given))
    assert len(found) == len(given) > 3_000
    for (partitions, _, key), (partition, keys) in zip(given, found, strict=True):
        for form, whole in zip(FORMS, keys, strict=True):
            assert deciding(form, whole) == key, (form, key[:40], whole[:60])
            assert partition_of(form, whole, partitions) == partition, (form, key[:40], partitions)
    # As tasks do it, column by column: numbers with all keys, the long ones last.
    some = [*found[:500], *found[-8:]]
    for at, form in enumerate(FORMS):
        batch = pa.record_batch({"key": pa.array([keys[at] for _, keys in some], pa.binary())})
        for partitions in (7, MOST):
            assert places(TOPIC, form, batch, partitions).tolist() == [partition_of(form, keys[at], partitions) for _, keys in some]
