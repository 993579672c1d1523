"""The readings of one attempt at a cut, in the order that makes them evidence; ``core/cut.py`` says why this order."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.savepoint.cut import Committed, Offsets, Readings


class LogReader(Protocol):
    """What is asked about one application. Each partition of an answer may have been read at a time of its own; committed offsets all at one moment."""

    def clock(self) -> int:
        """The time in ms."""

    def committed(self) -> Committed:
        """The application's committed offsets, at a moment at which no transaction could change one of them any more."""

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The ends, records of open transactions included."""

    def await_decided(self, ends: Offsets) -> Offsets:
        """Wait until every last stable offset has reached its end, and return them."""


def read_cut(logs: LogReader, internal: Collection[TopicPartition]) -> Readings:
    """Read a cut through these partitions. As little as possible is asked between the two readings of their ends: nothing may be written meanwhile."""
    committed_before = logs.committed()
    captured_at = logs.clock()
    ends = logs.high_watermarks(internal)
    last_stable = logs.await_decided(ends)
    committed_after = logs.committed()
    return Readings(
        committed_before=committed_before,
        captured_at=captured_at,
        ends=ends,
        last_stable=last_stable,
        committed_after=committed_after,
        ends_after=logs.high_watermarks(internal),
    )
