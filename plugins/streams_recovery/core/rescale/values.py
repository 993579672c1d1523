"""What is written in values and offsets of Kafka Streams about partitions, and has to change when records are placed anew.

- The wrapper of a subscription of a foreign-key join names, from its version 1 on, the partition of the primary key: answers are sent there. Its bytes: version
  (the highest bit: no hash), instruction, hash (16 bytes, if any), primary key, partition (4 bytes).
- A buffer (suppress, and joins with a table that wait) keeps the place of each record: timestamp (8 bytes), offset (8), length of the topic's name (4), the
  name, partition (4). What goes on from there is given it, and a foreign-key join behind a buffer writes it into its subscriptions.
- The metadata of a committed offset: base64 of a version, the partition's stream time (8 bytes), and from version 2 on when processors last emitted windows.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.errors import Refused
from streams_recovery.core.rescale.placement import RescaledTopic
from streams_recovery.core.state.edit import default_partition

REGISTRATION: Final = re.compile(
    r"(?P<join>.*)(KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-(?P<number>\d+)|(?<=-)subscription-registration)-topic"
)
SUBSCRIPTIONS: Final = re.compile(
    r"(?P<join>.*)(KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-(?P<number>\d+)|(?<=-)subscription-store)-changelog"
)
_RESPONSE: Final = re.compile(r"(?P<join>.*)(KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-(?P<number>\d+)|(?<=-)subscription-response)-topic")
_NO_HASH: Final = 0x80
_HASH: Final = 16
_NEWEST: Final = 1
_INT: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">Bq")
_LONG: Final = struct.Struct(">q")
# Of a record that a punctuator has made.
_NOWHERE: Final = -1
_BEFORE_TOPIC: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimarySide:
    """The partitions of the primary side of a foreign-key join: how many there were, and how many there are to be."""

    old: int
    new: int


class Unreadable(ValueError):
    """Raised for a value that Kafka Streams does not write; the message says why, for the end of a sentence."""


def primary_sides(topics: Mapping[str, int], rescaled: Iterable[RescaledTopic]) -> dict[str, PrimarySide]:
    """For each topic with subscriptions of a foreign-key join the partitions of its primary side, which its responses have too. ``topics`` are all of the
    application with their old numbers. Of joins without a name the responses of one have the next number behind its subscriptions.
    """
    new = {one.name: one.new for one in rescaled}
    responses = {name: found for name in topics if (found := _RESPONSE.fullmatch(name))}
    sides = {}
    for name in topics:
        found = REGISTRATION.fullmatch(name) or SUBSCRIPTIONS.fullmatch(name)
        if found is None:
            continue
        fits = [(int(other["number"] or 0), of) for of, other in responses.items() if _same_join(found, other)]
        if fits:
            answer = min(fits)[1]
            sides[name] = PrimarySide(old=topics[answer], new=new.get(answer, topics[answer]))
    return sides


def _same_join(one: re.Match[str], response: re.Match[str]) -> bool:
    if one["join"] != response["join"] or (one["number"] is None) != (response["number"] is None):
        return False
    return one["number"] is None or int(one["number"]) < int(response["number"])


def wrapper_moved(value: bytes, side: PrimarySide) -> bytes:
    """A subscription with the partition that its primary key has now. Raises ``Unreadable``, also where the partition is not the one of the key before."""
    key = _primary_key(value)
    if key is None:
        return value
    named, placed = _INT.unpack(value[-4:])[0], default_partition(key, side.old)
    if named != placed:
        raise Unreadable(f"it names partition {named} of the primary side, and its primary key lies in {placed} of {side.old}")
    return value[:-4] + _INT.pack(default_partition(key, side.new))


def _primary_key(value: bytes) -> bytes | None:
    """The primary key of a subscription that names a partition, None for one of the version that does not."""
    if not value:
        raise Unreadable("it is no subscription of a foreign-key join")
    version, begin = value[0] & ~_NO_HASH, 2 if value[0] & _NO_HASH else 2 + _HASH
    if version == 0:
        return None
    if version > _NEWEST or len(value) < begin + 4:
        raise Unreadable(f"it is no subscription of a version up to {_NEWEST}")
    return value[begin:-4]


def buffered_moved(value: bytes, old: int, new: int) -> bytes:
    """A buffered record whose place has the partition ``new`` for ``old``. Raises ``Unreadable`` where it has another one."""
    at = _place_of_partition(value)
    named = _INT.unpack_from(value, at)[0]
    if named == _NOWHERE:
        return value
    if named != old:
        raise Unreadable(f"it was buffered from partition {named}, and lies in {old}")
    return value[:at] + _INT.pack(new) + value[at + 4 :]


def _place_of_partition(value: bytes) -> int:
    length = _INT.unpack_from(value, 16)[0] if len(value) >= _BEFORE_TOPIC else -1
    if not 0 <= length <= len(value) - _BEFORE_TOPIC - 4:
        raise Unreadable("it is no record of a buffer")
    return _BEFORE_TOPIC + length


def without_partition(value: bytes, *, buffered: bool) -> bytes:
    """A subscription, or a buffered record, without the partition that it names: what is the same before and after."""
    if buffered:
        at = _place_of_partition(value)
        return value[:at] + value[at + 4 :]
    return value if _primary_key(value) is None else value[:-4]


def stream_time(metadata: str) -> int | None:
    """The stream time (ms) that the metadata of a committed offset has, None for metadata without one."""
    data = _decoded(metadata)
    return None if data is None or (time := _TIME.unpack_from(data)[1]) < 0 else time


def merged_metadata(several: Sequence[str]) -> str:
    """The metadata of a new partition, of that of the old ones whose keys it gets: the latest of their stream times, so that no window that was closed opens
    again, and of each processor the earliest time up to which it has emitted: it emits windows again rather than none. Raises ``Refused`` for metadata of
    another kind that differs.
    """
    if len(set(several)) <= 1:
        return next(iter(several), "")
    decoded = [_decoded(one) for one in several if one]
    found = [one for one in decoded if one is not None]
    if len(found) < len(decoded):
        raise Refused(
            f"offsets of several partitions have metadata that is not Kafka Streams' and cannot be joined: {several[0]!r:.80}, {several[1]!r:.80}",
            next_step="rebuild the application with the new number of partitions",
        )
    if not found:
        return ""
    times = [_TIME.unpack_from(one)[1] for one in found]
    emitted = [_emitted(one) for one, time in zip(found, times, strict=True) if time >= 0]
    known = set.intersection(*map(set, emitted)) if emitted else set()
    processors = {name: min(one[name] for one in emitted) for name in sorted(known)}
    body = b"".join(_INT.pack(len(name)) + name + _LONG.pack(time) for name, time in processors.items())
    whole = _TIME.pack(max(one[0] for one in found), max(times)) + (_INT.pack(len(processors)) + body if processors else b"")
    return base64.b64encode(whole).decode()


def _decoded(metadata: str) -> bytes | None:
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) >= _TIME.size and data[0] in (1, 2) else None


def _emitted(data: bytes) -> dict[bytes, int]:
    """When each processor last emitted windows. Nothing for bytes that end early: Kafka Streams takes them for nothing too."""
    found: dict[bytes, int] = {}
    try:
        count, at = (_INT.unpack_from(data, _TIME.size)[0], _TIME.size + 4) if len(data) > _TIME.size else (0, 0)
        for _ in range(count):
            length = _INT.unpack_from(data, at)[0]
            if length < 0:
                return {}
            found[data[at + 4 : at + 4 + length]] = _LONG.unpack_from(data, at + 4 + length)[0]
            at += 12 + length
    except struct.error:
        return {}
    return found
