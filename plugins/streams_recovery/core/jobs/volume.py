"""The volume of a job, and whether one process does it before Spark would have started. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

# One process copies or loads as much in less time than a Spark job needs to start and to stop, whatever the cluster: docs/performance.md.
MOST_RECORDS: Final = 2_000_000
MOST_BYTES: Final = 512_000_000
# Each range is a file to store, or a partition to write and to read back.
MOST_RANGES: Final = 200
# Where no savepoint has records of a log, a record is taken to be as large as this. Most applications have smaller ones.
UNKNOWN_BYTES: Final = 2_500


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVolume:
    """The work of a job that needs tasks and no SQL: ranges of logs, and records and bytes of keys and values in them, as far as that is known before."""

    ranges: int
    records: int
    payload_bytes: int

    @classmethod
    def of(cls, parts: Iterable[tuple[int, int]]) -> Self:
        """The sum of ranges that have so many records and bytes."""
        ranges, records, size = 0, 0, 0
        for of_one, bytes_of_one in parts:
            ranges, records, size = ranges + 1, records + of_one, size + bytes_of_one
        return cls(ranges=ranges, records=records, payload_bytes=size)

    @property
    def small(self) -> bool:
        """True when one process is done with it before Spark could begin."""
        return self.ranges <= MOST_RANGES and self.records <= MOST_RECORDS and self.payload_bytes <= MOST_BYTES
