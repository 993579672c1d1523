"""Strategies as Kafka's own group tools name them: one for each option of ``kafka-consumer-groups --reset-offsets``.

With ``Logs.behind_open`` the offsets are those that Kafka's tools set, so that a command can be taken over as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.given_offsets import parse_file
from streams_recovery.core.offsets.strategies import Duration, Earliest, Exact, File, Latest, OneOffset, Shift, Timestamp
from streams_recovery.core.words import milliseconds, moment, parse_moment

OPTIONS: Final = (
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset",
    "--to-datetime",
    "--by-duration",
    "--shift-by",
    "--from-file",
)
_HAS_ZONE = re.compile(r"(Z|[+-]\d{2}(:?\d{2})?| +\S+)$", re.ASCII)


def to_earliest() -> Earliest:
    """The first offset that is still there."""
    return Earliest(text="--to-earliest")


def to_latest() -> Latest:
    """The end of the log."""
    return Latest(text="--to-latest")


def to_current() -> Exact:
    """The present offset, the end of the log where there is none."""
    return Exact(text="--to-current")


def to_offset(offset: int) -> OneOffset:
    """One number for every partition."""
    return OneOffset(text=f"--to-offset {offset}", at=offset)


def shift_by(offsets: int) -> Shift:
    """So many offsets after the present one, before it if negative."""
    return Shift(text=f"--shift-by {offsets}", by=offsets)


def to_datetime(text: str) -> Timestamp:
    """The first record of a time or later; one without a zone is in UTC, as Kafka's tools read it. Raises ``ConfigInvalid``."""
    _, with_time, time = text.partition("T")
    at = parse_moment(f"{text}Z" if with_time and not _HAS_ZONE.search(time) else text)
    return Timestamp(text=f"--to-datetime {at} ({moment(at)})", at=at)


def by_duration(text: str) -> Duration:
    """The first record of so long ago or later, as ISO 8601 writes it. Raises ``ConfigInvalid``."""
    return Duration(text=f"--by-duration {text}", back=milliseconds(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile(File):
    """Offsets in a file with this ``content``, which names the partitions too."""

    BOUNDED: ClassVar = True

    text: str = field(init=False)
    given: dict[TopicPartition, int] = field(default_factory=dict)
    name: str
    content: bytes

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"--from-file {self.name}")

    def of_group(self, group_id: str, *, several: bool) -> FromFile:
        """The file's lines for this group. With ``several`` groups each line must name its group. Raises ``ConfigInvalid``."""
        return replace(self, given=parse_file(self.content, where=self.name, group=group_id, several=several))
