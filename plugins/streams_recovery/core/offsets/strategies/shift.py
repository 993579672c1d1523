"""Offsets that are reckoned, and limited to the log: a distance from where the state ends, and one number for all inputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies.base import ReadOffsets, Strategy
from streams_recovery.core.words import first_names


def _within(tp: TopicPartition, wanted: int, logs: Logs) -> tuple[int, bool]:
    """The offset, or the end of the log on the side where it is outside; and whether it is the one that was wanted."""
    bounded = max(logs.starts[tp], min(wanted, logs.stable[tp]))
    return bounded, bounded == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Strategy):
    """``by`` counts offsets, and is negative for those before."""

    KIND: ClassVar = "shift"
    FORM: ClassVar = "shift:-100"
    PATTERN: ClassVar = r"shift:[+-]?\d{1,18}"
    HELP: ClassVar = "this many offsets before or after the exact one, within the log"
    REBUILD_HELP: ClassVar = "this many offsets before or after the committed one, within the log"

    by: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """A number of offsets with its sign."""
        if not re.fullmatch(r"[+-]?\d{1,18}", argument):
            raise ConfigInvalid(f"{argument[:80]!r} is not a number of offsets", next_step="write it like shift:-100 or shift:100")
        return cls(text=text, by=int(argument))

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The shifted offset. Where it is outside the log, the end of the log on that side."""
        return _within(tp, exact + self.by, logs)

    def cut_off(self, moved: Collection[TopicPartition]) -> tuple[str, ...]:
        """Say where the log ended the shift."""
        return (f"the shift is limited to the start and end of the logs: {first_names(moved)}",) if moved else ()

    def check_rebuild(
        self, begun: Collection[TopicPartition], inputs: Collection[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Raise ``Refused`` where no offset is committed to shift from."""
        if without := set(begun) - set(committed):
            raise Refused(
                f"no committed offset to shift from: {first_names(without)}",
                next_step="choose earliest, a time, or specific offsets",
                strategy=self.text,
                partitions=sorted(map(str, without)),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOffset(Strategy):
    """``at`` is the offset of every input partition."""

    KIND: ClassVar = "offset"
    FORM: ClassVar = "offset:1000"
    PATTERN: ClassVar = r"offset:\d{1,18}"
    HELP: ClassVar = "at this offset in every partition, within the log"
    REBUILD_HELP: ClassVar = HELP

    at: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """An offset."""
        if not re.fullmatch(r"\d{1,18}", argument):
            raise ConfigInvalid(f"{argument[:80]!r} is not an offset", next_step="write it like offset:1000, or shift:-100 for a distance")
        return cls(text=text, at=int(argument))

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The offset. Where it is outside the log, the end of the log on that side."""
        return _within(tp, self.at, logs)

    def cut_off(self, moved: Collection[TopicPartition]) -> tuple[str, ...]:
        """Say where it is not that offset."""
        return (f"offset {self.at} is limited to the start and end of the logs: {first_names(moved)}",) if moved else ()
