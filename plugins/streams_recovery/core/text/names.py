"""A list of names as people read it. Every text that could be long uses this."""

from __future__ import annotations

from collections.abc import Collection

from streams_recovery.core.kafka_types import TopicPartition


def first_names(names: Collection[str] | Collection[TopicPartition], most: int = 5) -> str:
    """The first ``most`` in their order, and how many more there are."""
    shown = ", ".join(map(str, sorted(names)[:most]))
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown
