"""The cut by names as a savepoint has it: T, and what was left out of each log. With it the cut can be proven again while the logs are there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.readings import Name, NamedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """Offsets ``first`` to ``last`` of a log, with so many ``records`` of a transaction that is not in the cut. Nobody is given those of an ``aborted`` one."""

    producer_id: int
    epoch: int
    first: int
    last: int
    records: int
    aborted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLogCut:
    """The cut in one log: what is committed below ``start``, and from there to ``end`` all ``records`` but the ``excluded``."""

    start: int
    end: int
    records: int
    excluded: tuple[Excluded, ...]

    @property
    def left_out(self) -> int:
        """The number of committed records that are not in the cut."""
        return sum(one.records for one in self.excluded if not one.aborted)

    def takes(self, offset: int) -> bool:
        """False for an offset whose record is left out. For one that is not behind the end."""
        at = bisect_right(self.excluded, offset, key=attrgetter("first"))
        return at == 0 or offset > self.excluded[at - 1].last

    def fits(self, first: int, rows: int) -> bool:
        """True if a copy from offset ``first`` to the end that leaves these records out can have so many rows."""
        return self.records <= rows <= self.records + max(0, self.start - first)

    @property
    def possible(self) -> bool:
        """False when no cut can have these numbers."""
        edges = [self.start, *(edge for one in self.excluded for edge in (one.first, one.last + 1)), self.end]
        counted = all(0 < one.records <= one.last - one.first + 1 for one in self.excluded)
        named = all(min(one.producer_id, one.epoch) >= 0 for one in self.excluded)
        return edges[0] >= 0 and edges == sorted(edges) and counted and named and 0 <= self.records <= self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProof:
    """``last`` has, of each producer that was seen, its last transaction in T. ``group`` is the partition of __consumer_offsets whose prefix up to
    ``group_end`` was the first draft of T, and ``taken_back`` are transactions in it that are not in T. ``logs`` are those that were looked at.
    """

    group: TopicPartition
    group_end: int
    last: tuple[Name, ...]
    taken_back: tuple[Name, ...]
    logs: dict[TopicPartition, NamedLogCut]

    @property
    def left_out(self) -> int:
        """The number of committed records that are not in the cut."""
        return sum(log.left_out for log in self.logs.values())

    def differs(self, tp: TopicPartition, batches: Iterable[NamedBatch]) -> str | None:
        """What contradicts it in a log, by the batches from ``start`` to ``end`` as they are now. Empty if nothing does; None if something was removed from
        there since, so that nobody can tell.
        """
        log, last = self.logs[tp], {one.producer_id: one.epoch for one in self.last}
        position, records, out = log.start, 0, dict.fromkeys(log.excluded, 0)
        for batch in batches:
            begin = max(batch.base, log.start)
            if batch.last < log.start or begin >= log.end:
                continue
            if begin > position or batch.records != batch.last - batch.base + 1:
                return None
            position = batch.last + 1
            if batch.marker is not None:
                continue
            left_out = next((one for one in log.excluded if one.first <= begin <= one.last), None)
            if left_out is not None and (left_out.producer_id, left_out.epoch) == (batch.producer_id, batch.epoch):
                out[left_out] += position - begin
            elif left_out is not None or batch.epoch > last.get(batch.producer_id, -1):
                return f"offset {begin} is of transaction {batch.epoch} of producer {batch.producer_id}"
            else:
                records += position - begin
        if position < log.end:
            return None
        wrong = records != log.records or any(count != one.records for one, count in out.items())
        return f"it has {records} records of the cut, and {sum(out.values())} others" if wrong else ""

    def check(self, ends: Mapping[TopicPartition, int], where: str) -> None:
        """Raise ``Damaged`` unless this can be the proof of a cut with these ``ends``."""
        last = {one.producer_id: one.epoch for one in self.last}
        wrong = [tp for tp, log in self.logs.items() if not log.possible or tp not in ends or log.end > ends[tp]]
        wrong += [
            tp
            for tp, log in self.logs.items()
            if any(not one.aborted and one.epoch <= last.get(one.producer_id, one.epoch) for one in log.excluded)
        ]
        if wrong or self.group_end < 0 or len(last) != len(self.last):
            raise Damaged(
                f"{where} is by the names of transactions, and what it says of them cannot be{f': see {wrong[0]}' if wrong else ''}",
                next_step="do not use this savepoint; verify the repository and choose another one",
                partitions=sorted(map(str, wrong)),
            )
