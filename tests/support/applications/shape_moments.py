"""Shapes of state (``Shapes.java``) at full load: records without end, and what a cut at any moment must have, judged by its committed offsets alone.

All that a shape keeps is written in the transaction of the record that it comes from. So of the records below the committed offsets follows what its changelogs
and its output must have, and nothing else may be in them.
"""

from __future__ import annotations

import random
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.cut import NamedCut
from streams_recovery.core.named_transactions.proof import NamedLogCut
from tests.support.applications.shape_inputs import SIDES
from tests.support.applications.shape_oracles import DIFFERENCE, MINUTE, PARTITIONS
from tests.support.beside import beside
from tests.support.kafka.records_below import records_below

KEYS: Final = tuple(f"k{number}" for number in range(60))
# Of so many that most have nothing on the way. None begins with another one. Each record of the right side is joined again with all that name it.
_MANY: Final = tuple(f"k{number:04}".encode() for number in range(2_000))
_FOREIGN: Final = tuple(f"p{number:02}".encode() for number in range(50))
_SELDOM: Final = 50
_KEY: Final = re.compile(rb"k\d{4}")
# Of one side, so far apart are its records by their own time.
STEP: Final = 250
_TICK: Final = 0.02


@dataclass(frozen=True, slots=True)
class Kept:
    """A committed record of a log."""

    offset: int
    key: bytes
    value: bytes | None
    at: int


@contextmanager
def feeding(bootstrap: str, name: str, shapes: Sequence[str], rate: int, zero: int) -> Iterator[None]:
    """While this lasts, so many records a second come into all shapes of an application together."""
    sides = [(shape, side) for shape in shapes for side in SIDES[shape]]

    def feed(stopped: threading.Event) -> None:
        # Keys of a foreign table have to be where Kafka Streams looks for them.
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, "partitioner": "murmur2_random"}
        producer, dice, sent = Producer(settings), random.Random(3), 0
        while not stopped.wait(_TICK):
            for _ in range(max(1, int(rate * _TICK))):
                (shape, side), number = sides[sent % len(sides)], sent // len(sides)
                sent += 1
                if shape == "foreign" and side == "right" and number % _SELDOM:
                    continue
                key, value = _record(shape, side, number, dice)
                producer.produce(f"{name}.{shape}.{side}", value, key, timestamp=zero + number * STEP)
            producer.poll(0)
        producer.flush(30)

    with beside(feed):
        yield


def _record(shape: str, side: str, number: int, dice: random.Random) -> tuple[bytes, bytes | None]:
    if shape == "foreign" and side == "right":
        return dice.choice(_FOREIGN), f"r{number}".encode()
    key = dice.choice(_MANY) if shape == "foreign" else dice.choice(KEYS).encode()
    if shape in ("tables", "foreign") and dice.random() < 0.1:
        return key, None
    if shape == "foreign":
        return key, dice.choice(_FOREIGN) + f":l{number}".encode()
    return key, str(1 + number % 9).encode() if shape == "punctuated" else f"{side[0]}{number}".encode()


@dataclass
class _Log:
    """The records of a log, and its newest ones by key up to where the last cut began."""

    records: list[Kept]
    position: int = 0
    newest: dict[bytes, Kept] = field(default_factory=dict)

    def taken(self, part: NamedLogCut) -> tuple[int, list[Kept]]:
        """How many records lie below the start of the cut, and those of the cut behind it."""
        start = bisect_left(self.records, part.start, key=lambda one: one.offset)
        return start, [one for one in self.between(part.start, part.end) if part.takes(one.offset)]

    def between(self, start: int, end: int) -> list[Kept]:
        """The records of these offsets."""
        first, last = (bisect_left(self.records, edge, key=lambda one: one.offset) for edge in (start, end))
        return self.records[first:last]

    def folded(self, part: NamedLogCut) -> dict[bytes, Kept]:
        """The newest record of each key, without those whose key is gone. Cuts are asked for in their order."""
        start, behind = self.taken(part)
        self.newest.update((one.key, one) for one in self.records[self.position : start])
        self.position = max(self.position, start)
        found = self.newest | {one.key: one for one in behind}
        return {key: one for key, one in found.items() if one.value is not None}


class Moments:
    """The logs of an application at the end, for its cuts in their order."""

    def __init__(self, bootstrap: str, name: str, ends: Mapping[TopicPartition, int]) -> None:
        self.name = name
        # Joins of foreign keys that had nothing on the way and were compared, of all cuts together: where the application lags there are none.
        self.settled = 0
        self.logs = {tp: _Log([]) for tp in ends}
        for tp, message in records_below(bootstrap, ends):
            key, value = message.key(), message.value()
            self.logs[tp].records.append(Kept(message.offset() or 0, _bytes(key) or b"", _bytes(value), message.timestamp()[1]))

    def wrong(self, cut: NamedCut, shapes: Sequence[str]) -> list[str]:
        """What a cut has that its committed offsets do not explain."""
        at = _At(self, cut)
        return [f"{shape}: {wrong}" for shape in shapes for wrong in _CHECKS[shape](at)]


@dataclass
class _At:
    moments: Moments
    cut: NamedCut

    def read(self, shape: str, side: str, partition: int) -> list[Kept]:
        """The records of an input below the committed offset."""
        tp = TopicPartition(f"{self.moments.name}.{shape}.{side}", partition)
        records = self.moments.logs[tp].records
        return records[: bisect_left(records, self.offset(tp), key=lambda one: one.offset)]

    def newest(self, shape: str, side: str, partition: int) -> dict[bytes, bytes]:
        """The table that these are."""
        tp = TopicPartition(f"{self.moments.name}.{shape}.{side}", partition)
        edge = self.offset(tp)
        found = self.moments.logs[tp].folded(NamedLogCut(start=edge, end=edge, records=0, excluded=()))
        return {key: one.value or b"" for key, one in found.items()}

    def offset(self, tp: TopicPartition) -> int:
        return self.cut.committed[tp].offset if tp in self.cut.committed else 0

    def store(self, store: str, partition: int) -> dict[bytes, bytes]:
        """A store by its changelog."""
        tp = TopicPartition(f"{self.moments.name}-{store}-changelog", partition)
        return {key: one.value or b"" for key, one in self.moments.logs[tp].folded(self.cut.logs[tp]).items()}

    def written(self, store: str, partition: int) -> int:
        """How many records the changelog of a store has."""
        tp = TopicPartition(f"{self.moments.name}-{store}-changelog", partition)
        before, behind = self.moments.logs[tp].taken(self.cut.logs[tp])
        return before + len(behind)

    def out(self, shape: str) -> list[Kept]:
        """All results."""
        found: list[Kept] = []
        for number in range(PARTITIONS):
            tp = TopicPartition(f"{self.moments.name}.{shape}.out", number)
            before, behind = self.moments.logs[tp].taken(self.cut.logs[tp])
            found += [*self.moments.logs[tp].records[:before], *behind]
        return found

    def on_the_way(self, shape: str) -> set[bytes]:
        """Keys of the left side with records between two parts of a shape that are not read yet: the key of an answer, and in the value of a question."""
        found: set[bytes] = set()
        for tp, part in self.cut.logs.items():
            if tp.topic.startswith(f"{self.moments.name}-{shape}-") and not tp.topic.endswith("-changelog"):
                for one in self.moments.logs[tp].between(self.offset(tp), part.end):
                    found |= {one.key, *_KEY.findall(one.value or b"")} if part.takes(one.offset) else set()
        return found


def _bytes(found: object) -> bytes | None:
    return found if isinstance(found, bytes) else None


def _long(value: bytes) -> int:
    return int.from_bytes(value, "big")


def _unlike(what: str, found: object, wanted: object) -> Iterator[str]:
    if found == wanted:
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
        found, wanted = ({key: some.get(key) for key in keys[:5]} for some in (found, wanted))
    yield f"{what} has {str(found)[:200]} and not {str(wanted)[:200]}"


def _by_key(windows: Mapping[bytes, bytes], suffix: int) -> Counter[bytes]:
    """The sums of counts of windows, whose keys end with so many bytes about the window."""
    found: Counter[bytes] = Counter()
    for key, value in windows.items():
        found[key[:-suffix]] += _long(value)
    return found


def _count_of(records: Sequence[Kept]) -> Counter[bytes]:
    return Counter(one.key for one in records)


def _tables(at: _At) -> Iterator[str]:
    for number in range(PARTITIONS):
        left, right = at.newest("tables", "left", number), at.newest("tables", "right", number)
        both = {key: left.get(key, b"null") + b"|" + right.get(key, b"null") for key in left.keys() | right.keys()}
        for store, keys in (("inner", left.keys() & right.keys()), ("joined-left", left.keys()), ("outer", both.keys())):
            yield from _unlike(f"{store} {number}", at.store(f"tables-{store}", number), {key: both[key] for key in keys})
        yield from _unlike(f"left {number}", at.store("tables-left", number), left)
        yield from _unlike(f"right {number}", at.store("tables-right", number), right)


def _foreign(at: _At) -> Iterator[str]:
    """What is on the way between the two sides says which results are not there yet."""
    left, right = ({} for _ in range(2))
    joined: dict[str, dict[bytes, bytes]] = {"inner": {}, "joined-left": {}}
    for number in range(PARTITIONS):
        for side, table in (("left", left), ("right", right)):
            here = at.newest("foreign", side, number)
            yield from _unlike(f"{side} {number}", at.store(f"foreign-{side}", number), here)
            table.update(here)
        for store, found in joined.items():
            found.update(at.store(f"foreign-{store}", number))
    waits = at.on_the_way("foreign")
    for store, found in joined.items():
        answers = {key: value + b"|" + right.get(value.split(b":")[0], b"null") for key, value in left.items()}
        wanted = {key: value for key, value in answers.items() if store != "inner" or not value.endswith(b"|null")}
        # A key that was deleted and is there again with a foreign key that has no record keeps its old result in an inner join of Kafka Streams, should that
        # have come in between.
        alone = {key for key, value in left.items() if value.split(b":")[0] not in right} if store == "inner" else set()
        still = (left.keys() | found.keys()) - waits - alone
        yield from _unlike(store, {key: found.get(key) for key in still}, {key: wanted.get(key) for key in still})
        at.moments.settled += len(still)


def _memory(at: _At) -> Iterator[str]:
    for number in range(PARTITIONS):
        counts = _count_of(at.read("memory", "in", number))
        yield from _unlike("counts", {key: _long(value) for key, value in at.store("memory-counts", number).items()}, dict(counts))
        # Time and number of a window; end and start of a session.
        yield from _unlike("minutes", _by_key(at.store("memory-minutes", number), 12), counts)
        yield from _unlike("sessions", _by_key(at.store("memory-sessions", number), 16), counts)


def _unlogged(at: _At) -> Iterator[str]:
    for number in range(PARTITIONS):
        counts = _count_of(at.read("unlogged", "in", number))
        yield from _unlike("with", {key: _long(value) for key, value in at.store("unlogged-with", number).items()}, dict(counts))


def _suppressed(at: _At) -> Iterator[str]:
    over: set[str] = set()
    for number in range(PARTITIONS):
        records = at.read("suppressed", "in", number)
        yield from _unlike("minutes", _by_key(at.store("suppressed-minutes", number), 12), _count_of(records))
        newest = max((one.at for one in records), default=0)
        windows = {(one.key.decode(), one.at // MINUTE * MINUTE) for one in records}
        ended = {(key, start) for key, start in windows if start + MINUTE <= newest}
        yield from _unlike("waiting windows", len(at.store("suppressed-store", number)), len(windows - ended))
        over |= {f"{key}@{start}" for key, start in ended}
    yield from _unlike("results", sorted(one.key.decode() for one in at.out("suppressed")), sorted(over))


def _stream_join(shape: str) -> Callable[[_At], Iterator[str]]:
    def check(at: _At) -> Iterator[str]:
        wanted: Counter[bytes] = Counter()
        for number in range(PARTITIONS):
            left, right = at.read(shape, "left", number), at.read(shape, "right", number)
            by_key: dict[bytes, list[Kept]] = {}
            for one in right:
                by_key.setdefault(one.key, []).append(one)
            for one in left:
                others = by_key.get(one.key, [])
                begin = bisect_left(others, one.at - DIFFERENCE, key=lambda other: other.at)
                for other in others[begin:]:
                    if other.at > one.at + DIFFERENCE:
                        break
                    wanted[(one.value or b"") + b"|" + (other.value or b"")] += 1
        found = Counter(one.value or b"" for one in at.out(shape) if b"null" not in (one.value or b""))
        missing, more = wanted - found, found - wanted
        yield from _unlike("pairs that are missing or too many", (missing.total(), more.total()), (0, 0))

    return check


def _punctuated(at: _At) -> Iterator[str]:
    for number in range(PARTITIONS):
        wanted: Counter[bytes] = Counter()
        for one in at.read("punctuated", "in", number):
            wanted[one.key] += int(one.value or 0)
        found = Counter({key: _long(value) for key, value in at.store("punctuated-sums", number).items()})
        for key, value in at.store("punctuated-waiting", number).items():
            if key != b"newest":
                found[key.split(b"@")[0]] += int(value)
        yield from _unlike("sums and what waits", found, wanted)


def _one_result_each(shape: str) -> Callable[[_At], Iterator[str]]:
    def check(at: _At) -> Iterator[str]:
        read = Counter(one.value for number in range(PARTITIONS) for one in at.read(shape, "in", number))
        yield from _unlike("results", Counter((one.value or b"").split(b"|")[0] for one in at.out(shape)), read)

    return check


def _versioned(at: _At) -> Iterator[str]:
    for number in range(PARTITIONS):
        yield from _unlike("versions", at.written("versioned-table", number), len(at.read("versioned", "table", number)))
    yield from _one_result_each("versioned")(at)


_CHECKS: Final[Mapping[str, Callable[[_At], Iterator[str]]]] = {
    "tables": _tables,
    "foreign": _foreign,
    "memory": _memory,
    "unlogged": _unlogged,
    "suppressed": _suppressed,
    "punctuated": _punctuated,
    "versioned": _versioned,
    **{shape: _stream_join(shape) for shape in ("inner", "left", "outer")},
    **{shape: _one_result_each(shape) for shape in ("optimized", "globals")},
}
