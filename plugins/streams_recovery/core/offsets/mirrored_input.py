"""Places at which the inputs go on at another cluster: each partition with its place and the proof, and the refusal of any other offset.

The values of ``by_content`` are here: a mirrored log, the records of the old one that are looked for in it, and a place that was found or not. A place at
the same offset needs no search: see ``same_offset``.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition

Rows = TypeVar("Rows")
LEAST_RUN: Final = 50
# Records in a row that are compared where offsets are said to be the same.
SAMPLE: Final = 50


class LogRecord(NamedTuple):
    """A record by its digests. ``key`` is a digest of the key alone, None for a record without one. ``timestamp`` in milliseconds."""

    offset: int
    timestamp: int
    digest: bytes
    key: bytes | None = None
    tombstone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOf(Generic[Rows]):
    """The records of the old log around a committed offset, without a hole but those of the log itself: ``before`` it, so read already, and ``behind`` it.
    With ``first`` the old log had no other before them, with ``last`` none is known behind them.
    """

    committed: int
    before: tuple[Rows, ...]
    behind: tuple[Rows, ...]
    first: bool
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(WindowOf[LogRecord]):
    """The records of a window by their digests."""

    @property
    def since(self) -> int | None:
        """The oldest timestamp, None without a record."""
        return min((record.timestamp for record in (*self.before, *self.behind)), default=None)

    @property
    def unread_since(self) -> int | None:
        """The oldest timestamp of what was not read. Where none of it is known that of the last record that was."""
        return min((record.timestamp for record in self.behind or self.before[-1:]), default=None)

    @property
    def unseen(self) -> int:
        """Number of offsets between the last record that was read and the committed offset."""
        return self.committed - self.before[-1].offset - 1 if self.before else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredLog:
    """A mirrored partition without its records: its first offset, its last stable one, and from where on it is read. ``compacted`` if the cleaner works on
    either side. ``committed_only`` if a person vouches that the mirror reads committed records only. ``timestamps`` is False where the target's broker sets
    its own, so that digests are without them.
    """

    start: int
    end: int
    read_from: int
    compacted: bool
    committed_only: bool = False
    timestamps: bool = True
    least_run: int = LEAST_RUN

    @property
    def whole(self) -> bool:
        """True when it is read from its first record on."""
        return self.read_from <= self.start


class Doubt(enum.StrEnum):
    """The reason why no place was proven."""

    NOTHING_KNOWN = "nothing_known"
    NOT_THERE = "not_there"
    NOT_CARRIED = "not_carried"
    GONE = "gone"
    LOST = "lost"
    REPEATED = "repeated"
    EXTRA = "extra"
    BETWEEN = "between"
    ALIKE = "alike"
    SHORT = "short"
    TOO_MANY = "too_many"
    SEVERAL = "several"
    UNDATED = "undated"
    DIFFERENT = "different"

    @property
    def loses(self) -> bool:
        """True if the target lacks records that are still to be read, or may lack them: no offset there is right."""
        return self in (Doubt.GONE, Doubt.LOST, Doubt.NOTHING_KNOWN)


_WORDS: Final = {
    Doubt.NOTHING_KNOWN: "no record of the old log around the committed offset is known",
    Doubt.NOT_THERE: "none of the records around the committed offset is there",
    Doubt.NOT_CARRIED: "{records} records that were read already have not been mirrored yet, and would be read again when they are",
    Doubt.GONE: "{records} records that were not read yet are gone from its beginning",
    Doubt.LOST: "{records} records that were not read yet are missing there",
    Doubt.REPEATED: "it has records around the committed offset twice, or in another order",
    Doubt.EXTRA: "among the records around the committed offset it has {records} that the old log does not have: of aborted transactions, "
    "or of another producer",
    Doubt.BETWEEN: "it has {records} records right at the place of which it is not known whether they were read",
    Doubt.ALIKE: "{records} records stand on both sides of the committed offset in the same form, timestamp included",
    Doubt.SHORT: "only {records} records around the committed offset are there in the same order, and {least} are needed",
    Doubt.DIFFERENT: "{records} of the compared offsets have another record there, or only one of both logs has one",
    Doubt.SEVERAL: "the records around the committed offset stand there, or in the old log, at more than one place in the same order, and without timestamps "
    "nothing tells these places apart",
    Doubt.UNDATED: "records were deleted there, from its beginning or by its log cleaner, and without timestamps nothing tells whether the same records stood "
    "there before, in front of others that were not read yet",
    Doubt.TOO_MANY: "records like those around the committed offset come there too often",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPlace:
    """A place that is proven. Each offset from ``lowest`` to ``highest`` means it, ``offset`` is to be committed. ``before`` and ``behind`` are how many
    records on each side stand in both logs in the same order; ``first`` and ``last`` are the old and the new offset of the outermost two, None without any.
    """

    KIND: ClassVar = "content"

    offset: int
    lowest: int
    highest: int
    before: int
    behind: int
    first: tuple[int, int] | None
    last: tuple[int, int] | None
    timestamps: bool
    compacted: bool

    @property
    def proof(self) -> str:
        """The proof as a sentence without its subject."""
        if self.first is None or self.last is None:
            return "nothing was ever written there, and the old log has nothing that was read"
        counted = f"{self.before} records in front of it and {self.behind} behind it"
        edges = f"old offsets {self.first[0]} to {self.last[0]} are {self.first[1]} to {self.last[1]}"
        by = (
            "key, value, headers and timestamp"
            if self.timestamps
            else "key, value and headers, without timestamps, which the target sets itself"
        )
        holes = ", but for those that the log cleaner took" if self.compacted else ""
        return f"{counted} stand in both logs in the same order by {by}{holes}: {edges}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenPlace:
    """No place is proven. ``records`` belongs to the ``doubt``. ``by_time`` is an offset with no record in front of it that is known to be unread; behind it,
    records that were read may come again. None if records could be lost there.
    """

    KIND: ClassVar = "unproven"

    doubt: Doubt
    records: int
    by_time: int | None
    least: int = LEAST_RUN

    @property
    def why(self) -> str:
        """The doubt as a sentence without its subject."""
        return _WORDS[self.doubt].format(records=self.records, least=self.least)


Place = ExactPlace | UnprovenPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class SameOffset:
    """The committed offset itself is the place: ``compared`` records, in so many ``stretches`` between the old offsets ``first`` and ``last``, stand at
    their old offsets.
    """

    KIND: ClassVar = "same_offset"

    offset: int
    compared: int
    stretches: int
    first: int
    last: int

    @property
    def proof(self) -> str:
        """The proof as a sentence without its subject."""
        return f"{self.compared} records in {self.stretches} places between offsets {self.first} and {self.last} stand at their old offsets"


class KnownFrom(enum.StrEnum):
    """The source of the records of the old log."""

    SAVEPOINT = "savepoint"
    OLD_CLUSTER = "old_cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlace:
    """One partition of an input: the ``committed`` offset in ``source``, and its place in ``target``, where so many offsets were ``read``."""

    source: TopicPartition
    target: TopicPartition
    committed: int
    known_from: KnownFrom
    read: int
    place: ExactPlace | SameOffset | UnprovenPlace

    @property
    def exact(self) -> bool:
        """True if it is proven that everything in front of the offset was read, and nothing behind it."""
        return not isinstance(self.place, UnprovenPlace)

    @property
    def offset(self) -> int | None:
        """The offset to commit. Without a proof the one by time, which makes a restore *ahead*; None if nothing may be committed."""
        return self.place.by_time if isinstance(self.place, UnprovenPlace) else self.place.offset

    @property
    def words(self) -> str:
        """The place and why, as one sentence of a plan."""
        where = f"offset {self.committed} of {self.source}"
        if not isinstance(self.place, UnprovenPlace):
            return f"{where} is offset {self.place.offset} of {self.target}: {self.place.proof}"
        by_time = "no offset there is safe" if self.offset is None else f"by time it is offset {self.offset}, and records may come twice"
        return f"{where} has no proven place in {self.target}: {self.place.why}; {by_time}"


def check_exact(places: Sequence[InputPlace], *, allow_ahead: bool) -> None:
    """Raise ``Refused`` unless each place is proven; with ``allow_ahead`` a place by time will do. Names all that are not, and refuses when there is none."""
    if not places:
        raise Refused("no input was looked for at the target", next_step="check which inputs are said to be mirrored")
    wrong = [one for one in places if one.offset is None or not (one.exact or allow_ahead)]
    if wrong:
        lost = any(one.offset is None for one in wrong)
        raise Refused(
            "; ".join(one.words for one in wrong),
            next_step="let the mirror catch up or mend it, or load these inputs from the savepoint"
            if lost
            else "let the mirror catch up or mend it, or allow the restore to be ahead: then records may be counted twice",
            partitions=[str(one.target) for one in wrong],
        )


class Stretch(NamedTuple):
    """All records that the old and the new log have at the same offsets."""

    old: tuple[LogRecord, ...]
    new: tuple[LogRecord, ...]


def sample_starts(first: int, committed: int, *, there_from: int) -> tuple[int, ...]:
    """Offsets at which the stretches begin that are compared besides the window: the first that both have, and half way to the committed one."""
    begin = max(first, there_from)
    return () if begin >= committed else tuple(sorted({begin, begin + (committed - begin) // 2}))


def same_offset(window: Window, stretches: Sequence[Stretch], log: MirroredLog) -> SameOffset | UnprovenPlace:
    """The proof that ``window.committed`` means the same in the mirrored log, as with Cluster Linking. ``stretches`` have the window and samples of the rest.

    Every record that is compared must be equal in everything, and none may be there that the old log does not have at that offset; the log cleaner may have
    taken one of two. ``SAMPLE`` of them are needed, or all that there are, and never none. There must be some of those in front of the offset, or behind it
    where none is in front.
    """
    unread = [record for record in window.behind if record.offset < log.start]
    if log.start > window.committed and (unread or not window.behind):
        return _unproven(Doubt.GONE, len(unread), log)
    if log.end < window.committed:
        return _unproven(Doubt.NOT_CARRIED, sum(record.offset >= log.end for record in window.before), log)
    old = {record.offset: record for stretch in stretches for record in stretch.old if log.start <= record.offset < log.end}
    new = {record.offset: record for stretch in stretches for record in stretch.new}
    both = old.keys() & new.keys()
    different = sum(old[offset].digest != new[offset].digest for offset in both)
    if not log.compacted:
        different += len(old.keys() ^ new.keys())
    if different:
        return _unproven(Doubt.DIFFERENT, different, log)
    beside = {record.offset for record in window.before or window.behind}
    known = {record.offset for record in (*window.before, *window.behind) if log.start <= record.offset < log.end}
    all_there_are = window.first and window.last and log.timestamps and known <= both
    if not both & beside or (len(both) < log.least_run and not all_there_are):
        return _unproven(Doubt.SHORT, len(both), log)
    return SameOffset(offset=window.committed, compared=len(both), stretches=len(stretches), first=min(both), last=max(both))


def _unproven(doubt: Doubt, records: int, log: MirroredLog) -> UnprovenPlace:
    return UnprovenPlace(doubt=doubt, records=records, by_time=None, least=log.least_run)
