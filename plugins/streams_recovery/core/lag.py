"""The lag of a group in a log: the one definition that everything which tells or waits uses. Pure.

Offsets alone do not show whether records are left. Transaction markers, aborted records and compacted records take offsets, but no consumer receives them,
and an application commits nothing for a partition in which it receives nothing. So a partition whose committed offset does not change is read to find its
next record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """One partition: what its group has ``committed``, None without a commit, the ``start`` of the log, its last stable offset, and the ``end`` that is
    asked about: the high watermark, or where the log ended at an earlier moment. All words for a lag count offsets of these.
    """

    committed: int | None
    start: int
    stable: int
    end: int

    @property
    def position(self) -> int:
        """The offset at which the group reads on: its commit, but not before the log begins. Without a commit the start of the log."""
        return self.start if self.committed is None else max(self.start, self.committed)

    @property
    def behind(self) -> int:
        """Offsets that are unread and there, up to the last stable one: what the group can be given now."""
        return max(0, min(self.stable, self.end) - self.position)

    @property
    def undecided(self) -> int:
        """Offsets that are unread and there, from the last stable one on: open transactions hold them back."""
        return max(0, self.end - max(self.stable, self.position))

    @property
    def left(self) -> int:
        """Offsets that are unread and there, decided or not: what waiting for ``end`` waits for."""
        return self.behind + self.undecided

    @property
    def gone(self) -> int:
        """Offsets that were deleted unread. Without a commit nothing counts as gone, because nothing says that the group was to read it."""
        return 0 if self.committed is None else max(0, min(self.start, self.end) - self.committed)

    def __str__(self) -> str:
        more = [f"{self.undecided} more in open transactions"] if self.undecided else []
        more += [f"{self.gone} deleted unread"] if self.gone else []
        return f"{self.behind} ({', '.join(more)})" if more else str(self.behind)


def lags(
    committed: Mapping[TopicPartition, CommittedOffset | None],
    starts: Mapping[TopicPartition, int],
    stable: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Lag]:
    """The lag of each partition that has an end."""
    return {
        tp: Lag(committed=None if (known := committed.get(tp)) is None else known.offset, start=starts[tp], stable=stable[tp], end=end)
        for tp, end in sorted(ends.items())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A partition with offsets left. There is no record from where the group reads on to ``upto``, the part that was read. ``record`` is True if there is
    a record at ``upto``. ``looks`` counts the checks in a row that found the same position.
    """

    lag: Lag
    upto: int
    record: bool
    looks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRecord:
    """The result of reading a range: there is no record below ``upto``. ``record`` is True if there is one at it."""

    upto: int
    record: bool


Known = Mapping[TopicPartition, Unread]


def follow(before: Known, now: Mapping[TopicPartition, Lag]) -> dict[TopicPartition, Unread]:
    """Partitions with offsets left. Results of the previous check ``before`` are kept for partitions that have not moved since."""
    found = {}
    for tp, lag in sorted(now.items()):
        if not lag.left:
            continue
        last = before.get(tp)
        if last is None or last.lag.position != lag.position:
            found[tp] = Unread(lag=lag, upto=lag.position, record=False, looks=1)
        else:
            found[tp] = replace(last, lag=lag, looks=last.looks + 1)
    return found


def to_read(found: Known, *, looks: int, most: int) -> dict[TopicPartition, tuple[int, int]]:
    """The ranges to read for the next record: the unread part of partitions that did not move for ``looks`` checks, at most ``most`` ranges, the
    shortest first.
    """
    unsure = {tp: (one.upto, one.lag.end) for tp, one in found.items() if one.looks >= looks and not one.record and one.upto < one.lag.end}
    return dict(sorted(unsure.items(), key=lambda item: item[1][1] - item[1][0])[:most])


def read(found: Known, results: Mapping[TopicPartition, NextRecord]) -> dict[TopicPartition, Unread]:
    """``found``, updated with the results of reading."""
    return {tp: replace(one, upto=results[tp].upto, record=results[tp].record) if tp in results else one for tp, one in found.items()}


def unread(found: Known, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Lag]:
    """Partitions with records left below these ends, and their lag up to there. No end is above that of the last check."""
    upto = {tp: replace(found[tp].lag, end=end) for tp, end in sorted(ends.items()) if tp in found and found[tp].upto < end}
    return {tp: lag for tp, lag in upto.items() if lag.left}
