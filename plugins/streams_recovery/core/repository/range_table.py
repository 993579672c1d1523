"""A range table as bytes: a line of JSON, then columns. docs/format.md lays it down.

The first line says how many bytes there must be. It is checked against what the manifest says before anything is made of the rest.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.ranges import ATTEMPT, COMPACTED, FILE, RangeColumns
from streams_recovery.core.repository.segment_file import HASH

MOST_RANGES: Final = 1 << 22
STEPS: Final = ("skip", "span", "lead", "tail", "rows", "bytes", "payload_bytes", "largest_record", "min_timestamp", "time_span")
_WIDTH: Final = 8
_MOST_HEADER: Final = 16 << 20
_ATTEMPTS: Final = re.compile(rf"{ATTEMPT.pattern}(\n{ATTEMPT.pattern})*".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHeader:
    """``ranges`` has the number of ranges of each of ``partitions``, ``attempts`` is how many bytes their names take."""

    application_id: str
    topic: str
    partitions: tuple[int, ...]
    ranges: tuple[int, ...]
    attempts: int


def encode(application_id: str, topic: str, partitions: Mapping[int, RangeColumns]) -> bytes:
    """The table of these partitions."""
    several = [partitions[number] for number in sorted(partitions)]
    names = "\n".join(name for one in several for name in one.attempts).encode()
    header = TableHeader(
        application_id=application_id,
        topic=topic,
        partitions=tuple(sorted(partitions)),
        ranges=tuple(len(one) for one in several),
        attempts=len(names),
    )
    steps = [one.steps() for one in several]
    columns = (b"".join(_little(one[name]) for one in steps) for name in STEPS)
    flags, hashes = (b"".join(getattr(one, name) for one in several) for name in ("flags", "hashes"))
    return b"".join((codec.dumps(header), b"\n", *(_planes(column) for column in columns), flags, hashes, names))


def decode(data: bytes, application_id: str, topic: str, ranges: int, *, where: str) -> dict[int, RangeColumns]:
    """The partitions of a table that is to hold so many ``ranges`` of this topic. Raises ``Damaged``."""
    end = data.find(b"\n", 0, _MOST_HEADER)
    header = codec.loads(TableHeader, data[: max(end, 0)], where=where, most_bytes=_MOST_HEADER)
    _expect(
        (header.application_id, header.topic) == (application_id, topic),
        f"is of topic {header.topic:.250} of {header.application_id:.250}",
        where,
    )
    ordered = list(header.partitions) == sorted({number for number in header.partitions if number >= 0})
    counted = len(header.partitions) == len(header.ranges) and min(header.ranges, default=1) > 0 and sum(header.ranges) == ranges
    _expect(ordered and counted and 0 < ranges <= MOST_RANGES, f"does not hold {ranges} ranges", where)
    at, columns = end + 1, {}
    fixed = at + ranges * (_WIDTH * len(STEPS) + 1)
    for name in STEPS:
        columns[name] = _column(data, at, ranges)
        at += _WIDTH * ranges
    flags = data[at : at + ranges]
    files = sum(flag & FILE for flag in flags)
    right = fixed <= len(data) == fixed + files * HASH + header.attempts and not flags.translate(None, bytes(range((FILE | COMPACTED) + 1)))
    _expect(right, "has not as many bytes as its ranges have", where)
    names = data[len(data) - header.attempts :] if header.attempts else b""
    _expect(not files if not names else _ATTEMPTS.fullmatch(names) is not None, "has names of attempts that are none", where)
    attempts = names.decode("ascii").split("\n") if names else []
    _expect(len(attempts) == files, f"has {len(attempts)} attempts for {files} files", where)
    return _split(header, columns, flags, data[fixed : fixed + files * HASH], attempts, where)


def _split(
    header: TableHeader, columns: Mapping[str, array[int]], flags: bytes, hashes: bytes, attempts: list[str], where: str
) -> dict[int, RangeColumns]:
    found, at, file = {}, 0, 0
    for number, count in zip(header.partitions, header.ranges, strict=True):
        made = RangeColumns(header.application_id, TopicPartition(header.topic, number))
        mine = flags[at : at + count]
        files = sum(flag & FILE for flag in mine)
        steps = {name: column[at : at + count] for name, column in columns.items()}
        try:
            made.take(steps, mine, hashes[HASH * file : HASH * (file + files)], attempts[file : file + files])
            fits = made.possible
        except OverflowError:
            fits = False
        _expect(fits, f"has ranges of partition {number} that cannot be", where)
        found[number] = made
        at, file = at + count, file + files
    return found


def _little(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array("q", numbers)
    swapped.byteswap()
    return swapped.tobytes()


def _planes(column: bytes) -> bytes:
    """All first bytes, then all second ones and so on: most of these are 0, and zstd sees it."""
    return b"".join(column[at::_WIDTH] for at in range(_WIDTH))


def _column(data: bytes, at: int, count: int) -> array[int]:
    column, whole = bytearray(_WIDTH * count), data[at : at + _WIDTH * count].ljust(_WIDTH * count, b"\0")
    for plane in range(_WIDTH):
        column[plane::_WIDTH] = whole[plane * count : (plane + 1) * count]
    numbers = array("q", bytes(column))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _expect(holds: bool, problem: str, where: str) -> None:
    if not holds:
        raise Damaged(
            f"{where} {problem}",
            next_step="do not use savepoints that name it: this software writes no such thing; choose another one, and find out who wrote it",
            where=where,
        )
