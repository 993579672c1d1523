"""A mirror in small: an old log with transactions and a cleaner, what an archive has of it, and a mirrored log whose records are copies of known ones.

The mirror works in stretches. Each copies the old log in order from somewhere at or below where the ones before it had come, as after a restart. It may read
aborted records, drop records, be behind, and lose the beginning of what it has written; where the cleaner works, it works on both sides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from streams_recovery.core.offsets.mirrored_input import LogRecord, MirroredLog, Window

LEAST = 3
# Digests that several records have; any other record's is its own.
ALIKE = tuple(b"alike %d" % number for number in range(3))
KEYS = (b"a", b"b", b"c")


@dataclass(frozen=True)
class Copy:
    """A record of the mirrored log, with the old offset of what it is a copy of."""

    record: LogRecord
    old: int
    aborted: bool


@dataclass(frozen=True)
class Mirror:
    """What the finder is given, and the truth: ``copies`` are all records of the mirrored log."""

    window: Window
    log: MirroredLog
    copies: tuple[Copy, ...]

    @property
    def records(self) -> list[LogRecord]:
        return [copy.record for copy in self.copies]

    @property
    def begun_anew(self) -> bool:
        """True if the mirror has just begun to carry old records anew, and has come to so few of them, or with such timestamps, that nobody can see it: none
        of them is around the offset.
        """
        known = {record.offset for record in (*self.window.before, *self.window.behind)}
        newest = list(itertools.takewhile(lambda copy: copy.old not in known, reversed(self.copies)))
        anew = any(copy.old < self.window.committed for copy in newest)
        return anew and _most_in_a_row(copy.record.timestamp < (self.window.since or 0) for copy in newest) < LEAST

    def right(self, offset: int) -> bool:
        """True if whoever reads from this offset on gets nothing that was read, and nothing unread is left out: unless the mirror is on
        its way to it again, or in a log with a cleaner a later record replaces it.
        """
        committed = self.window.committed
        got = [copy for copy in self.copies if copy.record.offset >= offset]
        left = [copy for copy in self.copies if copy.record.offset < offset and copy.old >= committed and not copy.aborted]
        replaced = {copy.record.key: copy.old for copy in got} if self.log.compacted else {}
        same = {copy.old for copy in got}
        reached = self.copies[-1].old if self.copies else 0
        return all(copy.old >= committed for copy in got) and all(
            copy.old in same or copy.old > reached or replaced.get(copy.record.key, -1) > copy.old for copy in left
        )

    def follows(self, offset: int) -> bool:
        """True if the records behind it are those that are known to be unread, in their order, each once, up to the end of either."""
        got = [copy.record.digest for copy in self.copies if copy.record.offset >= offset]
        known = [record.digest for record in self.window.behind]
        return all(one == two for one, two in zip(got, known, strict=False))


def _most_in_a_row(flags: Iterable[bool]) -> int:
    return max((len(list(run)) for flag, run in itertools.groupby(flags) if flag), default=0)


@dataclass(frozen=True)
class _Old:
    offset: int
    digest: bytes
    key: bytes
    tombstone: bool
    aborted: bool
    timestamp: int

    def at(self, offset: int) -> LogRecord:
        return LogRecord(offset, self.timestamp, self.digest, self.key, self.tombstone)


@st.composite
def mirrors(draw: st.DrawFn, *, compacted: bool) -> Mirror:
    """Any old log, archive, offset and mirror."""
    count = draw(st.integers(0, 22))
    begin = draw(st.integers(0, count))
    end = draw(st.integers(begin, count))
    old, offset = list[_Old](), 0
    committed_only = draw(st.booleans())
    for number in range(count):
        # A marker, or what was deleted, takes an offset.
        offset += draw(st.sampled_from((0, 0, 0, 1)))
        aborted = draw(st.sampled_from((False,) * 5 + (True,)))
        alike = draw(st.sampled_from(ALIKE)) if begin <= number < end and draw(st.sampled_from((False,) * 3 + (True,))) else None
        old.append(
            _Old(
                offset=offset,
                digest=alike or b"%d" % number,
                # Records with one digest are the same in everything.
                key=KEYS[ALIKE.index(alike)] if alike else draw(st.sampled_from(KEYS)),
                tombstone=compacted and not alike and draw(st.integers(0, 5)) == 0,
                aborted=aborted,
                timestamp=begin if alike else number,
            )
        )
        offset += 1
    offset += draw(st.integers(0, 2))
    archive = [one for one in old[begin:end] if not one.aborted]
    if compacted:
        archive = _cleaned(draw, archive, [one for one in old if not one.aborted])
    committed = draw(st.integers(old[begin].offset if begin < count else offset, old[end].offset if end < count else offset))
    before, behind = [[one for one in archive if (one.offset < committed) is read] for read in (True, False)]
    most_before, most_behind = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    window = Window(
        committed=committed,
        before=tuple(one.at(one.offset) for one in before[max(0, len(before) - most_before) :]),
        behind=tuple(one.at(one.offset) for one in behind[:most_behind]),
        first=len(before) <= most_before,
        last=len(behind) <= most_behind,
    )
    return _mirrored(draw, old, window, compacted=compacted, committed_only=committed_only)


def _mirrored(draw: st.DrawFn, old: list[_Old], window: Window, *, compacted: bool, committed_only: bool) -> Mirror:
    readable = [one for one in old if not (one.aborted and committed_only)]
    mirrored, reached = list[_Old](), 0
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        begin = draw(st.integers(0, reached)) if mirrored else 0
        end = draw(st.sampled_from((len(readable), draw(st.integers(begin, len(readable))))))
        # It reads what the cleaner has left by then.
        stretch = readable[begin:end]
        mirrored += _cleaned(draw, stretch, old) if compacted and draw(st.booleans()) else stretch
        reached = max(reached, end)
    if draw(st.integers(0, 4)) == 0 and mirrored and not compacted:
        at = draw(st.integers(0, len(mirrored) - 1))
        del mirrored[at : at + draw(st.integers(1, 2))]
    copies, offset = list[Copy](), draw(st.sampled_from((0, 0, 7)))
    start = offset
    for one in mirrored:
        offset += draw(st.sampled_from((0, 0, 0, 1)))
        copies.append(Copy(one.at(offset), one.offset, one.aborted))
        offset += 1
    end = offset + draw(st.sampled_from((0, 0, 1)))
    if compacted:
        later = [{other.record.key for other in copies[at + 1 :]} for at in range(len(copies))]
        copies = [copy for copy, keys in zip(copies, later, strict=True) if copy.record.key not in keys or draw(st.booleans())]
    gone = draw(st.sampled_from((0, 0, draw(st.integers(0, len(copies))))))
    if gone:
        start = copies[gone - 1].record.offset + 1
    copies = copies[gone:]
    log = MirroredLog(
        start=start if copies or gone else end,
        end=end,
        read_from=start,
        compacted=compacted,
        committed_only=committed_only,
        least_run=LEAST,
    )
    return Mirror(window, log, tuple(copies))


def _cleaned(draw: st.DrawFn, records: list[_Old], all_of_it: list[_Old]) -> list[_Old]:
    """Some that a later record of their key replaces are gone."""
    newest = {one.key: one.offset for one in all_of_it if not one.aborted}
    return [one for one in records if newest.get(one.key, -1) <= one.offset or draw(st.booleans())]
