"""Offsets that a person names, in one line or in a file, and offsets as such a file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core import codec
from streams_recovery.core.codec import Unusable, document
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import TopicPartition

MAX_FILE_BYTES = 16 << 20
_GIVEN = re.compile(r"([a-zA-Z0-9._-]{1,249}):(\d{1,10})=(\d{1,18})")
_LINE = re.compile(r".*,\d+,\d+\s*$", re.ASCII | re.MULTILINE)
_LARGEST = 2**63 - 1
_LOOKED_AT = 24
ReadFile = Callable[[str], bytes]
Given = dict[TopicPartition, int]


def parse_list(argument: str) -> Given:
    """Offsets as they are written in one line: ``orders:0=17,orders:1=42``. Raises ``ConfigInvalid``."""
    return _once(_parts(argument), "the offsets named")


def parse_file(content: bytes, *, where: str, group: str, several: bool = False) -> Given:
    """Offsets as ``kafka-consumer-groups --export`` writes them, ``topic,partition,offset`` a line (with the group before them when it was asked
    for several; lines of other groups are passed over), or as a JSON list of objects with these keys. For ``several`` groups each line must have its
    group, and there may be none for this one. Raises ``ConfigInvalid``.
    """
    if len(content) > MAX_FILE_BYTES:
        raise ConfigInvalid(f"{where} is larger than {MAX_FILE_BYTES} bytes", next_step="name a file of offsets")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(where, "it is not text") from error
    # The id of a group may begin so, too.
    listed = text.lstrip().startswith("[") and not _LINE.match(text.lstrip())
    if listed and several:
        raise _unreadable(where, "it is for one group, and several are named")
    found = _once(_json(text, where) if listed else _csv(text, where, group, several=several), where)
    if not found and not several:
        raise _unreadable(where, f"it names no offset of group {group}")
    return found


def csv_text(offsets: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    """The offsets of groups as ``kafka-consumer-groups --export`` writes them, a line each, ordered."""
    return "".join(
        f"{_cell(group) + ',' if with_group else ''}{_cell(tp.topic)},{tp.partition},{offset}\n"
        for group, known in sorted(offsets.items())
        for tp, offset in sorted(known.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    topic: str
    partition: int
    offset: int


def _json(text: str, where: str) -> Iterable[tuple[TopicPartition, int]]:
    try:
        found: tuple[_Item, ...] = codec.decode(tuple[_Item, ...], document(text), where=where)
    except Unusable as error:
        raise _unreadable(where, "it is not JSON") from error
    except Damaged as error:
        raise _unreadable(where, error.reason) from error
    for item in found:
        if item.partition < 0 or not 0 <= item.offset <= _LARGEST:
            raise _unreadable(where, f"{item.topic}-{item.partition} at {item.offset} cannot be")
        yield TopicPartition(item.topic, item.partition), item.offset


def _csv(text: str, where: str, group: str, *, several: bool) -> Iterable[tuple[TopicPartition, int]]:
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
            elif several:
                raise _unreadable(line, "it names no group, and several are named")
            if len(cells) != len(("topic", "partition", "offset")):
                raise _unreadable(line, f"expected topic,partition,offset and found {len(row)} values")
            topic, partition, offset = cells
            named = _GIVEN.fullmatch(f"{topic}:{partition}={offset}")
            if named is None:
                raise _unreadable(line, f"{','.join(cells)[:80]!r} is not topic,partition,offset")
            yield _given(named)
    except csv.Error as error:
        raise _unreadable(where, str(error)) from error


def _cell(text: str) -> str:
    # As Kafka's writer of CSV decides it: it looks for what needs quotes in short texts only.
    plain = len(text) <= _LOOKED_AT and all(one >= "-" for one in text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _parts(argument: str) -> Iterable[tuple[TopicPartition, int]]:
    for part in argument.split(","):
        named = _GIVEN.fullmatch(part.strip())
        if named is None:
            raise ConfigInvalid(f"{part[:80]!r} is not <topic>:<partition>=<offset>", next_step="name offsets like orders:0=17,orders:1=42")
        yield _given(named)


def _given(named: re.Match[str]) -> tuple[TopicPartition, int]:
    return TopicPartition(named[1], int(named[2])), int(named[3])


def _once(found: Iterable[tuple[TopicPartition, int]], where: str) -> Given:
    given: Given = {}
    for tp, offset in found:
        if tp in given:
            raise _unreadable(where, f"{tp} is named twice")
        given[tp] = offset
    return given


def _unreadable(where: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{where} cannot be used: {why}",
        next_step="give each partition one line topic,partition,offset, as `streams-recovery groups export` does",
    )
