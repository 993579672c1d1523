"""How far a group is behind, by records. Pure.

Offsets alone do not tell: the markers of transactions, aborted records and those that were compacted away take offsets that nobody is ever given, and a
partition of which an application is given nothing is one it never commits. So a partition that does not move is read for its next record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A partition that is behind ``end``. ``committed`` is where the group stands, 0 without a commit. No record is in ``[committed, upto)``, as far as
    it was read, and ``record`` tells that there is one at ``upto``. ``looks`` counts those that have found it at ``committed``.
    """

    committed: int
    end: int
    upto: int
    record: bool
    looks: int

    def offsets(self, end: int) -> int:
        """Offsets it is behind ``end``, 0 when there is no record up to there."""
        return 0 if self.upto >= end else end - self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What reading a range has found: no record below ``upto``, and whether there is one at it."""

    upto: int
    record: bool


Lags = Mapping[TopicPartition, Lag]


def lags(
    before: Lags, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, CommittedOffset | None]
) -> dict[TopicPartition, Lag]:
    """Partitions whose committed offset is below their end, with what the look ``before`` knew of those that have not moved since."""
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
    """The ranges in which the next record is to be looked for: of partitions that ``looks`` looks have found in one place, what was not read yet, and of
    these ranges the ``most`` that are shortest.
    """
    unsure = {tp: (lag.upto, lag.end) for tp, lag in found.items() if lag.looks >= looks and not lag.record and lag.upto < lag.end}
    return dict(sorted(unsure.items(), key=lambda item: item[1][1] - item[1][0])[:most])


def read(found: Lags, results: Mapping[TopicPartition, Found]) -> dict[TopicPartition, Lag]:
    """The same after ranges were read."""
    return {tp: replace(lag, upto=results[tp].upto, record=results[tp].record) if tp in results else lag for tp, lag in found.items()}


def behind(found: Lags, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Partitions with records below these ends that are not read, and how many offsets they are behind. No end is above that of the look."""
    return {tp: count for tp, end in sorted(ends.items()) if (lag := found.get(tp)) is not None and (count := lag.offsets(end)) > 0}
