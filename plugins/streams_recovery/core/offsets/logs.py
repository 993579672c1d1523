"""The inputs as they are on the cluster when a plan is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """First offsets, last stable offsets, ends, and for a strategy by time the first offset at or after that time, None where there is none."""

    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    at_time: Mapping[TopicPartition, int | None]

    def lag(self, tp: TopicPartition, offset: int) -> Lag:
        """How far a group will be behind that is given this offset."""
        return Lag(committed=offset, start=self.starts[tp], stable=self.stable[tp], end=self.ends[tp])
