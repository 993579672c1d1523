"""Scenarios for new offsets of a group, as Kafka's own group tools name them: one for each option of ``kafka-consumer-groups --reset-offsets``.

The offsets are those that Kafka's tools set, so that a command can be taken over as it is. A restore has strategies of its own for its inputs: they know
a savepoint, and stop before transactions that are open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.given_offsets import Given, parse_file
from streams_recovery.core.offsets.strategies import Logs
from streams_recovery.core.words import milliseconds, moment, parse_moment

_HAS_ZONE = re.compile(r"(Z|[+-]\d{2}(:?\d{2})?| +\S+)$", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResetScenario:
    """One way to choose new offsets. ``OPTION`` is its name on the command line. ``FROM_LOG`` tells that the offset comes from the log and changes with it:
    then the rule is approved, and not the number. ``BOUNDED`` tells that an offset outside the log becomes its nearest end.
    """

    OPTION: ClassVar[str]
    FROM_LOG: ClassVar[bool] = False
    BOUNDED: ClassVar[bool] = False

    @property
    def text(self) -> str:
        """The option as it was given."""
        return self.OPTION

    def moment(self, now: int) -> int | None:
        """The time in milliseconds that is looked for in the logs, None for a scenario that looks for none."""
        return None

    def of_group(self, group_id: str, *, several: bool) -> ResetScenario:
        """The scenario for one group, of ``several`` that were named."""
        return self

    @property
    def partitions(self) -> Mapping[TopicPartition, int] | None:
        """The partitions that the scenario itself names, None if they are given beside the scenario."""
        return None

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int | None:
        """The new offset, None if the scenario has nothing to count from. ``committed`` is the present offset, None if there is none."""


@dataclass(frozen=True, slots=True)
class ToEarliest(ResetScenario):
    """The first offset that is still there."""

    OPTION: ClassVar = "--to-earliest"
    FROM_LOG: ClassVar = True

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int:
        return logs.starts[tp]


@dataclass(frozen=True, slots=True)
class ToLatest(ResetScenario):
    """The end of the log, behind transactions that are open, as Kafka's tools have it."""

    OPTION: ClassVar = "--to-latest"
    FROM_LOG: ClassVar = True

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int:
        return logs.ends[tp]


@dataclass(frozen=True, slots=True)
class ToCurrent(ResetScenario):
    """The present offset, also one outside the log; the end of the log where there is none."""

    OPTION: ClassVar = "--to-current"

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int:
        return logs.ends[tp] if committed is None else committed


@dataclass(frozen=True, slots=True)
class ToOffset(ResetScenario):
    """One number for every partition."""

    OPTION: ClassVar = "--to-offset"
    BOUNDED: ClassVar = True

    offset: int

    @property
    def text(self) -> str:
        return f"{self.OPTION} {self.offset}"

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int:
        return self.offset


@dataclass(frozen=True, slots=True)
class ShiftBy(ResetScenario):
    """So many offsets after the present one, before it if negative."""

    OPTION: ClassVar = "--shift-by"
    BOUNDED: ClassVar = True

    by: int

    @property
    def text(self) -> str:
        return f"{self.OPTION} {self.by}"

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int | None:
        return None if committed is None else committed + self.by


@dataclass(frozen=True, slots=True)
class _AtTime(ResetScenario):
    FROM_LOG: ClassVar = True

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int:
        """The first offset at that time or later, the end of the log where there is none."""
        found = logs.at_time[tp]
        return logs.ends[tp] if found is None else found


@dataclass(frozen=True, slots=True)
class ToDatetime(_AtTime):
    """``at`` in milliseconds."""

    OPTION: ClassVar = "--to-datetime"

    at: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """A time; one without a zone is in UTC, as Kafka's tools read it. Raises ``ConfigInvalid``."""
        _, with_time, time = text.partition("T")
        return cls(parse_moment(f"{text}Z" if with_time and not _HAS_ZONE.search(time) else text))

    @property
    def text(self) -> str:
        return f"{self.OPTION} {self.at} ({moment(self.at)})"

    def moment(self, now: int) -> int:
        return self.at


@dataclass(frozen=True, slots=True)
class ByDuration(_AtTime):
    """``back`` in milliseconds before now."""

    OPTION: ClassVar = "--by-duration"

    back: int
    given: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """A duration of ISO 8601. Raises ``ConfigInvalid``."""
        return cls(milliseconds(text), text)

    @property
    def text(self) -> str:
        return f"{self.OPTION} {self.given}"

    def moment(self, now: int) -> int:
        return max(0, now - self.back)


@dataclass(frozen=True, slots=True)
class FromFile(ResetScenario):
    """Offsets in a file, which names the partitions too. ``content`` is the file's."""

    OPTION: ClassVar = "--from-file"
    BOUNDED: ClassVar = True

    name: str
    content: bytes
    given: Given | None = None

    @property
    def text(self) -> str:
        return f"{self.OPTION} {self.name}"

    def of_group(self, group_id: str, *, several: bool) -> FromFile:
        """The file's lines for this group. With ``several`` groups each line must name its group. Raises ``ConfigInvalid``."""
        return replace(self, given=parse_file(self.content, where=self.name, group=group_id, several=several))

    @property
    def partitions(self) -> Mapping[TopicPartition, int]:
        return self.given or {}

    def wanted(self, tp: TopicPartition, committed: int | None, logs: Logs) -> int:
        return self.partitions[tp]
