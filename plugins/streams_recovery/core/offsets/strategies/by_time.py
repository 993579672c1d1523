"""A moment, or a length of time before the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies.base import ReadOffsets, Strategy
from streams_recovery.core.timestamps import parse_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByTime(Strategy):
    FROM_LOG: ClassVar = True

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The first offset at that time or later, the end where there is none."""
        found = logs.at_time[tp]
        return (logs.stable[tp] if found is None else found), False

    def check_made(self, topics: Sequence[str]) -> None:
        """Raise ``Refused`` for inputs whose records are not there yet."""
        if topics:
            raise Refused(
                f"an offset by time cannot be found in inputs that are created from the savepoint: {', '.join(topics)}",
                next_step="restore with exact offsets, or name offsets",
                topics=topics,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timestamp(_ByTime):
    """``at`` in milliseconds."""

    KIND: ClassVar = "timestamp"
    FORM: ClassVar = "timestamp:2026-11-21T12:00:00Z"
    PATTERN: ClassVar = "timestamp:.{1,80}"
    HELP: ClassVar = "at the first record of that time or later"
    REBUILD_HELP: ClassVar = HELP

    at: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """A time with its time zone."""
        at = parse_moment(argument)
        if at < 0:
            raise ConfigInvalid(f"{argument[:80]!r} is before 1970", next_step="use earliest for the beginning of the log")
        return cls(text=text, at=at)

    def moment(self, now: int) -> int:
        """The time itself."""
        return self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(_ByTime):
    """``back`` in milliseconds."""

    KIND: ClassVar = "duration"
    FORM: ClassVar = "duration:P1DT2H30M"
    PATTERN: ClassVar = "duration:P[0-9DTHMS]{1,40}"
    HELP: ClassVar = "at the first record of that moment or later, this long before the plan is made"
    REBUILD_HELP: ClassVar = HELP

    back: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """A duration of ISO 8601."""
        return cls(text=text, back=milliseconds(argument))

    def moment(self, now: int) -> int:
        """The time so long before ``now``."""
        return max(0, now - self.back)
