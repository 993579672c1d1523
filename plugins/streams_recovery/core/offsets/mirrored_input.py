"""Where the inputs go on at another cluster, as a plan holds it: each partition with its place and the proof, and the refusal of any other offset."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.mirrored_log import Doubt, ExactPlace, LogRecord, MirroredLog, UnprovenPlace, Window

# Records in a row that are compared where offsets are said to be the same.
SAMPLE: Final = 50


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
        """What proves it, as a sentence without its subject."""
        return f"{self.compared} records in {self.stretches} places between offsets {self.first} and {self.last} stand at their old offsets"


class KnownFrom(enum.StrEnum):
    """Where the records of the old log were read."""

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
        """What to commit. Without a proof what was found by time, which makes a restore *ahead*; None if nothing may be committed."""
        return self.place.by_time if isinstance(self.place, UnprovenPlace) else self.place.offset

    @property
    def words(self) -> str:
        """The place and why, as one sentence of a plan."""
        where = f"offset {self.committed} of {self.source}"
        if not isinstance(self.place, UnprovenPlace):
            return f"{where} is offset {self.place.offset} of {self.target}: {self.place.proof}"
        by_time = "no offset there is safe" if self.offset is None else f"by time it is offset {self.offset}, and records may come twice"
        return f"{where} has no proven place in {self.target}: {self.place.why}; {by_time}"

    def means(self, offset: int) -> bool:
        """True if this offset is the proven place."""
        if isinstance(self.place, ExactPlace):
            return self.place.lowest <= offset <= self.place.highest
        return isinstance(self.place, SameOffset) and offset == self.place.offset


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


def check_offsets(places: Sequence[InputPlace], given: Mapping[TopicPartition, int | None], *, allow_ahead: bool = False) -> None:
    """Raise ``Refused``, naming all, unless ``given`` has the place of every partition: each offset that is proven, or with ``allow_ahead`` the one by time.
    What ``given`` has besides is refused too.
    """
    check_exact(places, allow_ahead=allow_ahead)
    known = {one.target: one for one in places}
    wrong = [
        f"{tp} has {'no offset' if given.get(tp) is None else f'offset {given[tp]}'}, and {one.words}"
        for tp, one in sorted(known.items())
        if (offset := given.get(tp)) is None or not (one.means(offset) or (not one.exact and offset == one.offset))
    ]
    wrong += [f"{tp} has offset {given[tp]}, and is not among the mirrored inputs" for tp in sorted(given.keys() - known.keys())]
    if wrong:
        raise Refused(
            f"offsets at the target are not where the state ends: {'; '.join(wrong)}",
            next_step="commit the offsets of the plan; any other one counts records twice or leaves them out",
            offsets={str(tp): offset for tp, offset in given.items()},
        )


class Stretch(NamedTuple):
    """The same offsets in both logs: all records that each has there."""

    old: tuple[LogRecord, ...]
    new: tuple[LogRecord, ...]


def sample_starts(first: int, committed: int, *, there_from: int) -> tuple[int, ...]:
    """Where in the archive stretches begin that are compared besides the window: at the first offset that both have, and half way to the committed one."""
    begin = max(first, there_from)
    return () if begin >= committed else tuple(sorted({begin, begin + (committed - begin) // 2}))


def same_offset(window: Window, stretches: Sequence[Stretch], log: MirroredLog) -> SameOffset | UnprovenPlace:
    """Whether ``window.committed`` means the same in the mirrored log, as with Cluster Linking. ``stretches`` have the window and samples of the rest.

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
