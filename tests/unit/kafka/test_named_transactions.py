"""Batches with the names of their transactions, and the records of a group in ``__consumer_offsets``, as brokers write them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.readings import GroupRecord, NamedBatch
from streams_recovery.kafka.named_transactions import group_record, partition_of, raw_batches

HEADER = struct.Struct(">qiibIhiqqqhii")
TP = TopicPartition("in", 3)
OF = NamedBatch(7, 9, 4, 5, transactional=True, marker=None, records=3)


def batch(
    base: int, *records: tuple[bytes | None, bytes | None], producer: int = 4, epoch: int = 5, codec: int = 0, more: int = 0
) -> bytes:
    """A batch as a client writes it, at the offset ``base`` that a broker gives it. ``more`` are attributes: 0x10 of a transaction, 0x20 a marker."""
    builder = DefaultRecordBatchBuilder(
        2, codec, is_transactional=0, producer_id=producer, producer_epoch=epoch, base_sequence=0, batch_size=1 << 20
    )
    for number, (key, value) in enumerate(records):
        builder.append(number, 1, key, value, [("name", b"value")])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">h", data, 21, struct.unpack_from(">h", data, 21)[0] | more)
    return bytes(data)


def marker(base: int, kind: int, epoch: int = 6) -> bytes:
    return batch(base, (struct.pack(">hh", 0, kind), b"\0\0\0\0\0\0"), epoch=epoch, more=0x30)


@pytest.mark.parametrize("codec", [0, 1])
def test_batches_have_their_names_their_records_and_their_markers(codec: int) -> None:
    records = ((b"key", b"value" * 50), (None, b"v"), (b"deleted", None))
    data = batch(10, *records, codec=codec, more=0x10) + marker(13, 1) + batch(14, (b"x", b"y"), producer=-1, epoch=-1) + marker(15, 0)
    found = list(raw_batches(data))
    assert [one.batch for one in found] == [
        NamedBatch(10, 12, 4, 5, transactional=True, marker=None, records=3),
        NamedBatch(13, 13, 4, 6, transactional=True, marker=True, records=1),
        NamedBatch(14, 14, -1, -1, transactional=False, marker=None, records=1),
        NamedBatch(15, 15, 4, 6, transactional=True, marker=False, records=1),
    ]
    assert list(found[0].records()) == [(10 + number, *pair) for number, pair in enumerate(records)]


@given(cut=st.integers(0, 400))
def test_a_batch_that_is_cut_off_is_left_out(cut: int) -> None:
    first, second = batch(0, (b"a", b"b")), batch(1, (b"c", b"d"))
    found = list(raw_batches((first + second)[:cut]))
    assert len(found) == (cut >= len(first)) + (cut >= len(first) + len(second))


def test_an_older_format_is_told() -> None:
    with pytest.raises(Damaged, match="format 1"):
        list(raw_batches(HEADER.pack(3, HEADER.size - 12, 0, 1, 0, 0, 0, 0, 0, -1, -1, -1, 1)))


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def key(group: str = "app", version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text(TP.topic) + struct.pack(">i", TP.partition)


def value(version: int, metadata: str = "AbC=") -> bytes:
    head = struct.pack(">hq", version, 42) + (struct.pack(">i", 8) if version >= 3 else b"")
    if version < 4:
        return head + text(metadata) + struct.pack(">q", 1)
    size, length = len(metadata) + 1, b""
    while True:
        more = size > 0x7F
        length += bytes([size & 0x7F | (0x80 if more else 0)])
        size >>= 7
        if not more:
            return head + length + metadata.encode() + struct.pack(">q", 1) + b"\0"


@pytest.mark.parametrize("metadata", ["AbC=", "", "m" * 300])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_an_offset_is_read_in_every_format(version: int, metadata: str) -> None:
    expected = CommittedOffset(offset=42, metadata=metadata, leader_epoch=8 if version >= 3 else None)
    found = group_record("app", 8, OF, key(version=min(version, 1)), value(version, metadata))
    assert found == GroupRecord(8, 4, 5, transactional=True, tp=TP, committed=expected)


def test_a_deleted_offset_and_records_about_members_are_told_apart_and_others_are_not_ours() -> None:
    assert group_record("app", 8, OF, key(), None) == GroupRecord(8, 4, 5, transactional=True, tp=TP)
    for version in (2, 3, 8, 17):
        about = struct.pack(">h", version) + text("app") + text("member")
        assert group_record("app", 8, OF, about, b"whatever") == GroupRecord(8, 4, 5, transactional=True)
    assert group_record("app", 8, OF, key("apps"), value(3)) is None
    assert group_record("app", 8, OF, None, b"") is None
    with pytest.raises(Damaged, match="format 5"):
        group_record("app", 8, OF, key(), value(5))
    unknown = value(3).replace(struct.pack(">i", 8), struct.pack(">i", -1))
    found = group_record("app", 8, OF, key(), unknown)
    assert found is not None
    assert found.committed == CommittedOffset(offset=42, metadata="AbC=")


@pytest.mark.parametrize(
    ("group", "code"), [("", 0), ("wc", 3_788), ("polygenelubricants", 0), ("zzzzzz", 685_785_664), ("\U0001d11e", 1_772_394)]
)
def test_the_partition_of_a_group_is_by_javas_hash_without_its_sign(group: str, code: int) -> None:
    """Of zzzzzz it is -685785664, and of polygenelubricants the least number there is."""
    assert partition_of(group, 7) == code % 7
