"""The inputs as they are on the cluster when a plan is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """First offsets, last stable offsets, ends, and for a strategy by time the first offset at or after that time, None where there is none."""

    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    at_time: Mapping[TopicPartition, int | None]
