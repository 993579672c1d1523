"""Offset strategies: where an application continues in its inputs after a restore. A strategy is one line of text. The syntax is the same in the
configuration, in a run's params and on the command line.

    exact                                 as committed at the savepoint, with its metadata
    earliest, latest                      the first existing offset, or the last stable offset
    timestamp:2026-11-21T12:00:00Z        the first record of that time or later
    duration:P1DT2H30M                    the first record of the moment this long before the plan is made, or later
    shift:-100                            this many offsets before or after exact, within the log
    specific:orders:0=17,orders:1=42      these offsets
    file:offsets.csv                      the offsets in this file

No strategy needs data in the records themselves. Partitions that ``specific`` or ``file`` do not list stay exact.
"""

from __future__ import annotations

import csv
import enum
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streams_recovery.core import codec
from streams_recovery.core.bounded_json import Unusable, document
from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.timestamps import parse_moment

ReadFile = Callable[[str], bytes]
MAX_FILE_BYTES = 16 << 20

_FORMS = (
    "exact, earliest, latest, timestamp:<time>, duration:<ISO 8601>, shift:<n>, specific:<topic>:<partition>=<offset>,... or file:<name>"
)
_GIVEN = re.compile(r"([a-zA-Z0-9._-]{1,249}):(\d{1,10})=(\d{1,18})")
_LARGEST = 2**63 - 1


class StrategyKind(enum.StrEnum):
    """The ways to choose an offset."""

    EXACT = "exact"
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    SHIFT = "shift"
    SPECIFIC = "specific"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOffset:
    """An offset that a person gave."""

    topic: str
    partition: int
    offset: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetStrategy:
    """A parsed strategy. ``at`` is a timestamp in milliseconds, ``back`` a duration in milliseconds, ``by`` a number of offsets, ``given`` the listed
    offsets (already read from the file). ``text`` is the original text.
    """

    kind: StrategyKind
    text: str
    at: int | None
    by: int | None
    given: tuple[GivenOffset, ...]
    back: int | None = None

    def moment(self, now: int) -> int | None:
        """The time that this strategy looks for in the logs when a plan is made at ``now``. None for other strategies."""
        return self.at if self.back is None else max(0, now - self.back)


EXACT = OffsetStrategy(kind=StrategyKind.EXACT, text="exact", at=None, by=None, given=())


def parse(text: str, *, group: str, read: ReadFile) -> OffsetStrategy:
    """Parse ``text``. ``read`` returns the content of a file. Raises ``ConfigInvalid``."""
    kind, argument = split(text)
    at = _moment(argument) if kind is StrategyKind.TIMESTAMP else None
    by = _shift(argument) if kind is StrategyKind.SHIFT else None
    given: tuple[GivenOffset, ...] = ()
    if kind is StrategyKind.SPECIFIC:
        given = _once(_specific(argument), "the offsets named")
    elif kind is StrategyKind.FILE:
        given = parse_file(read(argument), where=argument, group=group)
    back = milliseconds(argument) if kind is StrategyKind.DURATION else None
    return OffsetStrategy(kind=kind, text=text, at=at, by=by, given=given, back=back)


def split(text: str) -> tuple[StrategyKind, str]:
    """The kind of strategy, and its argument. Raises ``ConfigInvalid`` for text that is not a strategy. Files are not read."""
    name, colon, argument = text.partition(":")
    if name not in set(StrategyKind):
        raise ConfigInvalid(f"{text[:80]!r} is no strategy for offsets", next_step=f"use {_FORMS}")
    kind = StrategyKind(name)
    alone = kind in (StrategyKind.EXACT, StrategyKind.EARLIEST, StrategyKind.LATEST)
    if alone == bool(colon) or (not alone and not argument):
        raise ConfigInvalid(f"{text[:80]!r} is not a whole strategy for offsets", next_step=f"use {_FORMS}")
    return kind, argument


def checked(text: str) -> str:
    """Return ``text`` if it is a valid strategy. Does not read its file. Raises ``ConfigInvalid``."""
    kind, _ = split(text)
    if kind is not StrategyKind.FILE:
        parse(text, group="", read=lambda _: b"")
    return text


def parse_file(content: bytes, *, where: str, group: str) -> tuple[GivenOffset, ...]:
    """Parse offsets in the format of ``kafka-consumer-groups --export``: lines ``topic,partition,offset``. If several groups were exported, each line
    begins with the group, and lines of other groups are ignored. A JSON list of objects with these keys is also accepted. Raises ``ConfigInvalid``.
    """
    if len(content) > MAX_FILE_BYTES:
        raise ConfigInvalid(f"{where} is larger than {MAX_FILE_BYTES} bytes", next_step="name a file of offsets")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(where, "it is not text") from error
    found = _once(_json(text, where) if text.lstrip().startswith("[") else _csv(text, where, group), where)
    if not found:
        raise _unreadable(where, f"it names no offset of group {group}")
    return found


def _json(text: str, where: str) -> Iterable[GivenOffset]:
    try:
        found: tuple[GivenOffset, ...] = codec.decode(tuple[GivenOffset, ...], document(text), where=where)
    except Unusable as error:
        raise _unreadable(where, "it is not JSON") from error
    except Damaged as error:
        raise _unreadable(where, error.reason) from error
    for item in found:
        if item.partition < 0 or not 0 <= item.offset <= _LARGEST:
            raise _unreadable(where, f"{item.topic}-{item.partition} at {item.offset} cannot be")
    return found


def _csv(text: str, where: str, group: str) -> Iterable[GivenOffset]:
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in rows:
            line = f"{where}:{rows.line_num}"
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells in (["topic", "partition", "offset"], ["group", "topic", "partition", "offset"]):
                continue
            if len(cells) == len(("group", "topic", "partition", "offset")):
                if cells[0] != group:
                    continue
                del cells[0]
            if len(cells) != len(("topic", "partition", "offset")):
                raise _unreadable(line, f"expected topic,partition,offset and found {len(row)} values")
            topic, partition, offset = cells
            named = _GIVEN.fullmatch(f"{topic}:{partition}={offset}")
            if named is None:
                raise _unreadable(line, f"{','.join(cells)[:80]!r} is not topic,partition,offset")
            yield _given(named)
    except csv.Error as error:
        raise _unreadable(where, str(error)) from error


def _specific(argument: str) -> Iterable[GivenOffset]:
    for part in argument.split(","):
        named = _GIVEN.fullmatch(part.strip())
        if named is None:
            raise ConfigInvalid(f"{part[:80]!r} is not <topic>:<partition>=<offset>", next_step="name offsets like orders:0=17,orders:1=42")
        yield _given(named)


def _given(named: re.Match[str]) -> GivenOffset:
    return GivenOffset(topic=named[1], partition=int(named[2]), offset=int(named[3]))


def _once(found: Iterable[GivenOffset], where: str) -> tuple[GivenOffset, ...]:
    by_partition: dict[TopicPartition, GivenOffset] = {}
    for item in found:
        if by_partition.setdefault(item.tp, item) is not item:
            raise _unreadable(where, f"{item.tp} is named twice")
    return tuple(by_partition.values())


def _moment(argument: str) -> int:
    moment = parse_moment(argument)
    if moment < 0:
        raise ConfigInvalid(f"{argument[:80]!r} is before 1970", next_step="use earliest for the beginning of the log")
    return moment


def _shift(argument: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", argument):
        raise ConfigInvalid(f"{argument[:80]!r} is not a number of offsets", next_step="write it like shift:-100 or shift:100")
    return int(argument)


def _unreadable(where: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{where} cannot be used: {why}",
        next_step="give each partition one line topic,partition,offset, as kafka-consumer-groups --export does",
    )
