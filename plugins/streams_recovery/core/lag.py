"""How many records a group is behind. Pure.

Offsets alone do not show that. Transaction markers, aborted records and compacted records take offsets, but no consumer receives them, and an
application commits nothing for a partition in which it receives nothing. So a partition whose committed offset does not change is read to find its
next record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A partition whose committed offset is below ``end``. ``committed`` is the group's offset, 0 without a commit. There is no record in
    ``[committed, upto)``, the part that was read. ``record`` is True if there is a record at ``upto``. ``looks`` counts the checks in a row that
    found the same ``committed``.
    """

    committed: int
    end: int
    upto: int
    record: bool
    looks: int

    def offsets(self, end: int) -> int:
        """Number of offsets behind ``end``, 0 if there is no record below it."""
        return 0 if self.upto >= end else end - self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of reading a range: there is no record below ``upto``. ``record`` is True if there is one at it."""

    upto: int
    record: bool


Lags = Mapping[TopicPartition, Lag]


def lags(
    before: Lags, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, CommittedOffset | None]
) -> dict[TopicPartition, Lag]:
    """Partitions whose committed offset is below their end. Results of the previous check ``before`` are kept for partitions that have not moved
    since.
    """
    found = {}
    for tp, end in sorted(ends.items()):
        known, last = committed.get(tp), before.get(tp)
        at = 0 if known is None else known.offset
        if at >= end:
            continue
        if last is None or last.committed != at:
            found[tp] = Lag(committed=at, end=end, upto=at, record=False, looks=1)
        else:
            found[tp] = replace(last, end=end, looks=last.looks + 1)
    return found


def to_read(found: Lags, *, looks: int, most: int) -> dict[TopicPartition, tuple[int, int]]:
    """The ranges to read for the next record: the unread part of partitions that did not move for ``looks`` checks, at most ``most`` ranges, the
    shortest first.
    """
    unsure = {tp: (lag.upto, lag.end) for tp, lag in found.items() if lag.looks >= looks and not lag.record and lag.upto < lag.end}
    return dict(sorted(unsure.items(), key=lambda item: item[1][1] - item[1][0])[:most])


def read(found: Lags, results: Mapping[TopicPartition, Found]) -> dict[TopicPartition, Lag]:
    """The lags, updated with the results of reading."""
    return {tp: replace(lag, upto=results[tp].upto, record=results[tp].record) if tp in results else lag for tp, lag in found.items()}


def behind(found: Lags, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Partitions with unread records below these ends, and how many offsets they are behind. No end is above that of the last check."""
    return {tp: count for tp, end in sorted(ends.items()) if (lag := found.get(tp)) is not None and (count := lag.offsets(end)) > 0}
