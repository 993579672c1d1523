"""A range table gives back what was put into it, and nothing else is one."""

from __future__ import annotations

import contextlib
import json
import random
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository import range_table
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, SegmentFile
from streams_recovery.core.repository.ranges import MOST_TABLES, ArchiveFacts, RangeColumns, TableRef, kept_tables
from streams_recovery.core.repository.segment_file import joined

TOPIC = "orders-t-changelog"
STAMP = st.integers(-(2**61), 2**61)


@st.composite
def logs(draw: st.DrawFn, partition: int = 0) -> list[CopiedRange]:
    """Ranges of one partition in order, with gaps and idle ones among them."""
    start, found = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(0, 6))):
        start += draw(st.sampled_from([0, 0, 0, 7]))
        end = start + draw(st.integers(1, 2**33))
        compacted = draw(st.sampled_from([None, None, Compaction.LATEST_PER_KEY]))
        file = draw(files(partition, start, end)) if draw(st.booleans()) else None
        found.append(CopiedRange(start=start, end=end, file=file, compacted=compacted))
        start = end
    return list(joined(found))


@st.composite
def files(draw: st.DrawFn, partition: int, start: int, end: int) -> SegmentFile:
    first = draw(st.integers(start, end - 1))
    last = draw(st.integers(first, end - 1))
    oldest, newest = sorted((draw(STAMP), draw(STAMP)))
    attempt = draw(st.from_regex(r"[a-z0-9][a-z0-9.-]{0,40}", fullmatch=True))
    return SegmentFile(
        key=Layout("orders").segment(TopicPartition(TOPIC, partition), start, end, attempt),
        bytes=draw(st.integers(0, 2**40)),
        sha256=draw(st.binary(min_size=32, max_size=32)).hex(),
        rows=draw(st.integers(1, last - first + 1)),
        first_offset=first,
        last_offset=last,
        min_timestamp=oldest,
        max_timestamp=newest,
        payload_bytes=draw(st.integers(0, 2**40)),
        largest_record=draw(st.integers(0, 2**40)),
    )


def columns(pieces: list[CopiedRange], partition: int = 0) -> RangeColumns:
    return RangeColumns.of("orders", TopicPartition(TOPIC, partition), pieces)


def read(data: bytes, ranges: int) -> dict[int, RangeColumns]:
    return range_table.decode(data, "orders", TOPIC, ranges, where="here")


@given(first=logs(0), second=logs(3))
def test_what_is_put_into_a_table_comes_out(first: list[CopiedRange], second: list[CopiedRange]) -> None:
    parts = {number: columns(pieces, number) for number, pieces in ((0, first), (3, second)) if pieces}
    count = len(first) + len(second)
    if not count:
        return
    found = read(range_table.encode("orders", TOPIC, parts), count)
    assert {number: list(one) for number, one in found.items()} == {number: list(one) for number, one in parts.items()}
    assert [list(one) for one in found.values()] == [pieces for pieces in (first, second) if pieces]
    for one in found.values():
        assert one.possible
        assert one.facts(1 if one.attempts else 0) == ArchiveFacts.of(one)
        assert list(one.sizes()) == [(piece.file.key, piece.file.bytes) for piece in one if piece.file]
        assert all(left[1] < right[0] for left, right in pairwise(one.runs()))


@given(pieces=logs(), at=st.integers(0, 6))
def test_columns_behind_columns_are_those_of_both(pieces: list[CopiedRange], at: int) -> None:
    before, behind = columns(pieces[:at]), columns(pieces[at:])
    before.extend(behind)
    whole = columns(pieces)
    assert list(before) == list(whole) == pieces
    assert list(before.at_file) == list(whole.at_file)
    cut = [CopiedRange(start=0, end=5, file=None), CopiedRange(start=5, end=9, file=None)]
    idle = columns(cut[:1])
    idle.extend(columns(cut[1:]))
    assert list(idle) == [CopiedRange(start=0, end=9, file=None)]


@given(first=st.tuples(*[st.integers(0, 9)] * 8), sizes=st.lists(st.integers(1, 1 << 20), max_size=60))
def test_tables_are_few_and_no_range_is_written_often(first: tuple[int, ...], sizes: list[int]) -> None:
    tables: list[tuple[TableRef, int]] = []
    for size in [*(1 << one for one in first), *sizes]:
        kept = kept_tables([ref for ref, _ in tables], size)
        absorbed = tables[kept:]
        total = size + sum(ref.ranges for ref, _ in absorbed)
        forced = max((written for _, written in absorbed), default=0) + 1 if absorbed else 1
        tables = [*tables[:kept], (TableRef(sha256="0" * 64, bytes=1, ranges=total), forced)]
        assert len(tables) <= MOST_TABLES
        assert all(left.ranges > right.ranges for (left, _), (right, _) in pairwise(tables))


@given(count=st.integers(1, 400))
def test_of_savepoints_that_are_alike_each_range_is_written_a_logarithm_of_times(count: int) -> None:
    tables, written = list[TableRef](), 0
    for _ in range(count):
        kept = kept_tables(tables, 10)
        size = 10 + sum(ref.ranges for ref in tables[kept:])
        written += size
        tables = [*tables[:kept], TableRef(sha256="0" * 64, bytes=1, ranges=size)]
    assert sum(ref.ranges for ref in tables) == 10 * count
    assert written <= 10 * count * (1 + count.bit_length())


HONEST = [
    CopiedRange(start=0, end=10, file=None),
    *(
        CopiedRange(
            start=at,
            end=at + 10,
            file=SegmentFile(
                key=Layout("orders").segment(TopicPartition(TOPIC, 0), at, at + 10, f"{at}-a"),
                bytes=100,
                sha256="ab" * 32,
                rows=3,
                first_offset=at,
                last_offset=at + 8,
                min_timestamp=5,
                max_timestamp=9,
                payload_bytes=7,
                largest_record=1,
            ),
        )
        for at in (10, 20)
    ),
]


def forged(name: str, at: int, value: int) -> bytes:
    made = columns(HONEST)
    made.numbers[name][at] = value
    return range_table.encode("orders", TOPIC, {0: made})


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("start", 1, 9),
        ("start", 0, -1),
        ("end", 2, 20),
        ("end", 0, 11),
        ("first", 1, 9),
        ("last", 1, 20),
        ("rows", 1, 0),
        ("rows", 1, 10),
        ("rows", 0, 1),
        ("bytes", 1, -1),
        ("payload_bytes", 2, -1),
        ("largest_record", 2, -1),
        ("max_timestamp", 1, 4),
    ],
)
def test_ranges_that_cannot_be_are_damage(name: str, at: int, value: int) -> None:
    assert list(read(range_table.encode("orders", TOPIC, {0: columns(HONEST)}), 3)[0]) == HONEST
    with pytest.raises(Damaged, match="cannot be"):
        read(forged(name, at, value), 3)


def _header(**change: object) -> bytes:
    line, _, rest = range_table.encode("orders", TOPIC, {0: columns(HONEST)}).partition(b"\n")
    return json.dumps(json.loads(line) | change, sort_keys=True, separators=(",", ":")).encode() + b"\n" + rest


def _named(*attempts: str) -> bytes:
    made = columns(HONEST)
    made.attempts = list(attempts)
    return range_table.encode("orders", TOPIC, {0: made})


def _flagged(flag: int) -> bytes:
    made = columns(HONEST)
    made.flags[0] = flag
    return range_table.encode("orders", TOPIC, {0: made})


WHOLE = range_table.encode("orders", TOPIC, {0: columns(HONEST)})
ODD = {
    "nothing": b"",
    "no line": WHOLE.replace(b"\n", b" "),
    "no json": b"x\n",
    "another topic": _header(topic="other"),
    "another application": _header(application_id="other"),
    "a partition twice": _header(partitions=[0, 0], ranges=[1, 2]),
    "partitions in another order": _header(partitions=[1, 0], ranges=[1, 2]),
    "a partition below 0": _header(partitions=[-1]),
    "more partitions than counts": _header(partitions=[0, 1]),
    "a partition without ranges": _header(partitions=[0, 1], ranges=[3, 0]),
    "more ranges than there are": _header(ranges=[4]),
    "fewer ranges": _header(ranges=[2]),
    "fewer bytes of attempts": _header(attempts=3),
    "attempts before the beginning": _header(attempts=-1),
    "more than 64 bits": _header(attempts=2**70),
    "an unknown key": _header(more=1),
    "cut off": WHOLE[:-1],
    "longer": WHOLE + b"x",
    "a way out": _named("../../etc/passwd", "b"),
    "a name with a line": _named("a\nb", "c"),
    "no name": _named("", "b"),
    "an option": _named("-a", "b"),
    "one name": _named("ab"),
    "a flag that is none": _flagged(4),
    "a file that has no hash": _flagged(1),
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("odd", list(ODD))
def test_anything_else_is_damage(odd: str) -> None:
    with pytest.raises(Damaged, match=r"^here"):
        read(ODD[odd], 3)


@pytest.mark.fault("F63")
def test_numbers_that_run_over_are_damage() -> None:
    class Over(RangeColumns):
        def steps(self) -> dict[str, array[int]]:
            found = super().steps()
            found["skip"][2] = found["span"][2] = 2**62
            return found

    made = Over.of("orders", TopicPartition(TOPIC, 0), HONEST)
    with pytest.raises(Damaged, match="cannot be"):
        read(range_table.encode("orders", TOPIC, {0: made}), 3)


@pytest.mark.fault("F63")
def test_a_table_that_was_changed_anywhere_is_read_or_is_damage() -> None:
    dice = random.Random(7)
    for _ in range(3_000):
        data = bytearray(WHOLE)
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        with contextlib.suppress(Damaged):
            assert all(one.possible and list(one) for one in read(bytes(data), 3).values())


def test_a_file_whose_key_does_not_follow_from_its_range_is_not_written() -> None:
    for key in ("orders/segments/x/0/a.parquet", HONEST[1].file.key.replace("-a.", "/a."), "../x", HONEST[2].file.key):  # type: ignore[union-attr]
        forged = CopiedRange(
            start=10, end=20, file=SegmentFile(**{**{name: getattr(HONEST[1].file, name) for name in SegmentFile.__slots__}, "key": key})
        )
        with pytest.raises(Damaged, match="is no file of"):
            columns([forged])
