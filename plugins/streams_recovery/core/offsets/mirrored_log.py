"""A mirrored log, the records of the old one that are looked for in it, and a place that was found or not: the values of ``by_content``."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

LEAST_RUN: Final = 50


class LogRecord(NamedTuple):
    """A record by its digests. ``key`` is a digest of the key alone, None for a record without one. ``timestamp`` in milliseconds."""

    offset: int
    timestamp: int
    digest: bytes
    key: bytes | None = None
    tombstone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The records of the old log around a committed offset, without a hole but those of the log itself: ``before`` it, so read already, and ``behind`` it.
    With ``first`` the old log had no other before them, with ``last`` none is known behind them.
    """

    committed: int
    before: tuple[LogRecord, ...]
    behind: tuple[LogRecord, ...]
    first: bool
    last: bool

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
        """How many offsets lie between the last record that was read and the committed offset."""
        return self.committed - self.before[-1].offset - 1 if self.before else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredLog:
    """What is known of a mirrored partition besides its records: its first offset, its last stable one, and from where on it is read. ``compacted`` if the
    cleaner works on either side. ``committed_only`` if somebody answers for a mirror that reads committed records only. ``timestamps`` is False where the
    target's broker sets its own, so that digests are without them.
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
    """Why no place was proven."""

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
        """What proves it, as a sentence without its subject."""
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
    """No place is proven. ``records`` belongs to the ``doubt``. ``by_time`` is an offset that nothing known to be unread is in front of: records that were
    read may come again behind it. None where records would be lost, or could be.
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
