"""Finds the place of a committed offset in a mirrored partition by the content of the records around it. Pure: digests in, a place with its proof out.

A mirror copies records in the order of the old log, under offsets of its own. It may carry some again after a restart, be behind, carry records of aborted
transactions, and lose its first records to retention; on either side the log cleaner may have removed records that later ones of their key replace.

A place is *exact* when everything in front of it was read and nothing behind it was. It is called so only if a run of ``LEAST_RUN`` records around it, or all
records of a shorter log, stands in both logs in the same order, and nothing contradicts it. One thing cannot be seen and is assumed: such a run, with its
timestamps, stands in the old log once. Without timestamps that is not assumed: the run must stand once in the records that were read of both logs, and the
target must have deleted none, as the run may have stood there too. Everything that is not proven has a ``Doubt``, and a place by time if one can be named that
loses nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streams_recovery.core.offsets.mirrored_input import Doubt, ExactPlace, LogRecord, MirroredLog, Place, UnprovenPlace, Window

# Times the records that are looked for: more of them at the target is no place, and would fill the memory.
_MOST_MATCHES: Final = 4
_FREE_MATCHES: Final = 10_000
_OLDEST: Final = 1_000


class _Match(NamedTuple):
    """A record of the mirrored partition that is like one around the offset: ``rank`` counts all that were read there."""

    rank: int
    offset: int
    digest: bytes


class _Doubted(Exception):  # how a decision ends, not an error
    def __init__(self, doubt: Doubt, records: int = 0) -> None:
        super().__init__(doubt)
        self.doubt, self.records = doubt, records


def find_place(window: Window, mirrored: Iterable[LogRecord], log: MirroredLog) -> Place:
    """The place of ``window.committed`` among the records of the mirrored partition: all from ``log.read_from`` to ``log.end``, in order. They are
    read to the end, because a mirror that began again carries old records anew. Needs memory for the window and what is like it.
    """
    search = _Search(window, log)
    try:
        for record in mirrored:
            search.add(record)
        return search.place()
    except _Doubted as found:
        # Before the end of the records nothing is known of those behind: then no place by time either.
        by_time = None if found.doubt.loses or found.doubt is Doubt.TOO_MANY else search.by_time()
        return UnprovenPlace(doubt=found.doubt, records=found.records, by_time=by_time, least=log.least_run)


@dataclass
class _Search:
    window: Window
    log: MirroredLog
    count: int = 0
    matches: list[_Match] = field(default_factory=list)
    # Used for a compacted log only: unmatched records among the matches, the rank of the last record of each key, and records since the last match.
    strangers: list[tuple[int, bytes | None]] = field(default_factory=list)
    newest: dict[bytes, int] = field(default_factory=dict)
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list)
    dropped: bool = False
    timed: int | None = None
    older: bool = False
    # The first records there, where no timestamp tells how old one is; how many old ones came in a row, and the rank at which that were too many.
    oldest: set[bytes] = field(default_factory=set)
    aged: int = 0
    carried_anew: int = -1

    def __post_init__(self) -> None:
        window = self.window
        known = [*window.before, *window.behind]
        times = Counter(record.digest for record in known)
        # In a compacted log the next record may be any later one: what is there twice tells nothing.
        self.wanted = {digest for digest, often in times.items() if often == 1 or not self.log.compacted}
        self.unclear = times.keys() - self.wanted
        self.keys = {record.key for record in known if record.key is not None}
        self.since = window.since or 0
        self.most = _MOST_MATCHES * len(known) + _FREE_MATCHES

    def add(self, record: LogRecord) -> None:
        rank, self.count = self.count, self.count + 1
        since = self.window.unread_since
        if since is not None and self.timed is None:
            if record.timestamp >= since:
                self.timed = record.offset
            else:
                self.older = True
        if self.log.compacted and record.key is not None and (record.key in self.keys or record.key in self.newest):
            self.newest[record.key] = rank
        self._note_age(record, rank)
        if record.digest in self.wanted:
            self.matches.append(_Match(rank, record.offset, record.digest))
            self._settle()
            if len(self.matches) > self.most:
                raise _Doubted(Doubt.TOO_MANY)
        elif self.log.compacted and self.matches and record.digest not in self.unclear:
            self._wait(rank, record.key)

    def _note_age(self, record: LogRecord, rank: int) -> None:
        """A mirror that began again from far back carries records from before all of the window. Late ones come one by one, these in a row."""
        if self.log.timestamps:
            old = record.timestamp < self.since
        elif self.matches:
            old = record.digest in self.oldest
        else:
            old = False
            if len(self.oldest) < _OLDEST:
                self.oldest.add(record.digest)
        self.aged = self.aged + 1 if old else 0
        if self.aged >= self.log.least_run:
            self.carried_anew = rank

    def _wait(self, rank: int, key: bytes | None) -> None:
        if len(self.waiting) >= self.most:
            # Behind the last match all records are new ones, and no memory is spent on them.
            self.dropped = True
        elif not self.dropped:
            self.waiting.append((rank, key))
            if key is not None:
                self.newest[key] = rank

    def _settle(self) -> None:
        if self.dropped or len(self.strangers) + len(self.waiting) > self.most:
            raise _Doubted(Doubt.TOO_MANY)
        self.strangers += self.waiting
        self.waiting.clear()

    def by_time(self) -> int | None:
        """An offset that nothing unread is in front of; None when that cannot be said, because unread records may be gone from the beginning."""
        if self.window.unread_since is None or not (self.older or self.log.start == 0 or not self.log.whole):
            return None
        return self.log.end if self.timed is None else self.timed

    def place(self) -> Place:
        """The place, by everything that was added. Raises ``_Doubted``."""
        window, log = self.window, self.log
        if log.end == 0 and window.first and not window.before:
            return ExactPlace(
                offset=0, lowest=0, highest=0, before=0, behind=0, first=None, last=None, timestamps=log.timestamps, compacted=log.compacted
            )
        if not window.before and not window.behind:
            raise _Doubted(Doubt.NOTHING_KNOWN)
        if not self.matches:
            raise _Doubted(Doubt.NOT_CARRIED, len(window.before)) if log.end == 0 else _Doubted(Doubt.NOT_THERE)
        decision = _Cleaned(self) if log.compacted else _InOrder(self)
        place = decision.place()
        if self.carried_anew > decision.boundary.rank:
            raise _Doubted(Doubt.REPEATED)
        if not log.timestamps:
            if log.compacted or log.start > 0:
                raise _Doubted(Doubt.UNDATED)
            self._check_unique()
        return place

    def _check_unique(self) -> None:
        """Records that repeat, such as heartbeats, look like those that were read when they are new ones."""
        known = [record.digest for record in (*self.window.before, *self.window.behind)]
        there = _places({match.rank: match.digest for match in self.matches}, self.count, self.window, self.log.least_run)
        before = _places(dict(enumerate(known)), len(known), self.window, self.log.least_run)
        if next(itertools.islice(there, 1, None), None) is not None or next(itertools.islice(before, 1, None), None) is not None:
            raise _Doubted(Doubt.SEVERAL)


def _places(digests: Mapping[int, bytes], count: int, window: Window, least: int) -> Iterator[int]:
    """The ranks in a log of ``count`` records before which the committed offset could be: ``least`` records around it, or more, are those around the offset in
    the old log, and all behind it are, up to the end of one side. ``digests`` are the records that are like any of these.
    """
    before = [record.digest for record in reversed(window.before[-least:])]
    behind = [record.digest for record in window.behind]
    ranks = {rank + 1 for rank, digest in digests.items() if before and digest == before[0]}
    ranks |= {rank for rank, digest in digests.items() if behind and digest == behind[0]}
    for place in sorted(ranks):
        follow = min(len(behind), count - place)
        if all(digests.get(place + at) == behind[at] for at in range(follow)):
            back = next((at for at, digest in enumerate(before) if digests.get(place - 1 - at) != digest), len(before))
            if back + follow >= least:
                yield place


class _Decision:
    """Base of both ways to decide. ``split`` is the number of the first match that is like an unread record."""

    def __init__(self, search: _Search) -> None:
        self.search, self.log, self.window = search, search.log, search.window
        self.matches = search.matches
        self.before, self.behind = self.window.before, self.window.behind
        unread = {record.digest for record in self.behind}
        self.split = next((number for number, match in enumerate(self.matches) if match.digest in unread), len(self.matches))

    @property
    def boundary(self) -> _Match:
        """The match next to the place."""
        return self.matches[min(self.split, len(self.matches) - 1)]

    def ends_with(self, match: _Match) -> bool:
        """True if nothing is behind it."""
        return match.rank == self.search.count - 1

    def begins_with(self, match: _Match) -> bool:
        """True if it is the first record of the mirrored partition."""
        return match.rank == 0 and self.log.whole

    def exact(
        self, offset: int, lowest: int, highest: int, ends: tuple[int, int], run: Sequence[_Match], old: Sequence[LogRecord]
    ) -> ExactPlace:
        """A proven place. ``ends`` are the records on each side, ``run`` and ``old`` the same records in both logs."""
        return ExactPlace(
            offset=offset,
            lowest=lowest,
            highest=highest,
            before=ends[0],
            behind=ends[1],
            first=(old[0].offset, run[0].offset),
            last=(old[-1].offset, run[-1].offset),
            timestamps=self.log.timestamps,
            compacted=self.log.compacted,
        )


class _InOrder(_Decision):
    """No cleaner on either side: what was mirrored at once stands there without a hole."""

    def place(self) -> ExactPlace:
        alike = {record.digest for record in self.before} & {record.digest for record in self.behind}
        if alike:
            raise _Doubted(Doubt.ALIKE, len(alike))
        self._check_extra()
        front, tail = self.matches[: self.split], self.matches[self.split :]
        if tail:
            self._check_tail(tail)
            lowest, back = self._front(front, tail[0])
            offset = highest = tail[0].offset
        else:
            last = self._last(front)
            lowest = offset = last.offset + 1
            # Others behind it may be of any time from then on.
            highest = self.log.end if self.ends_with(last) else offset
            back = self._back(front)
        self._check_run(back, len(tail))
        run = [*self.matches[self.split - back : self.split], *tail]
        old = [*self.before[len(self.before) - back :], *self.behind[: len(tail)]]
        return self.exact(offset, lowest, highest, (back, len(tail)), run, old)

    def _check_extra(self) -> None:
        """Two records that follow each other in the old log, and something between them here."""
        follows = {(one.digest, two.digest) for one, two in itertools.pairwise(self.before)}
        for one, two in itertools.pairwise(self.matches[: self.split]):
            if two.rank > one.rank + 1 and (one.digest, two.digest) in follows:
                raise _Doubted(Doubt.EXTRA, two.rank - one.rank - 1)

    def _check_tail(self, tail: Sequence[_Match]) -> None:
        """The records behind the place follow in order, up to the end of the known or of the mirrored ones."""
        missing = next(number for number, record in enumerate(self.behind) if record.digest == tail[0].digest)
        if missing:
            raise _Doubted(Doubt.GONE if self.begins_with(tail[0]) else Doubt.LOST, missing)
        for number, match in enumerate(tail):
            between = match.rank - tail[0].rank - number
            if number < len(self.behind) and self.behind[number].digest == match.digest:
                if between:
                    raise _Doubted(Doubt.EXTRA, between)
                continue
            later = next((at for at, record in enumerate(self.behind[number:]) if record.digest == match.digest), None)
            raise _Doubted(Doubt.REPEATED) if later is None else _Doubted(Doubt.LOST, later)
        if len(tail) < len(self.behind) and not self.ends_with(tail[-1]):
            raise _Doubted(Doubt.LOST, len(self.behind) - len(tail))

    def _front(self, front: Sequence[_Match], unread: _Match) -> tuple[int, int]:
        """The lowest offset of the place, and how many records in front of it stand there as in the old log."""
        if self.begins_with(unread):
            return self.log.start, 0
        if not self.before:
            return unread.offset, 0
        back = self._back(front)
        if not back or front[-1].rank != unread.rank - 1:
            of_last = bool(back)
            between = unread.rank - (front[-1].rank if front else -1) - 1
            raise _Doubted(Doubt.EXTRA if of_last else Doubt.BETWEEN, between)
        return front[-1].offset + 1, back

    def _last(self, front: Sequence[_Match]) -> _Match:
        """The last record that was read, where nothing unread is known here."""
        last = front[-1]
        others = self.search.count - 1 - last.rank
        if not self.before or last.digest != self.before[-1].digest:
            if others:
                raise _Doubted(Doubt.BETWEEN, others)
            left = next(number for number, record in enumerate(reversed(self.before)) if record.digest == last.digest)
            raise _Doubted(Doubt.NOT_CARRIED, left)
        if others and self.behind:
            raise _Doubted(Doubt.LOST, len(self.behind))
        for one, two in itertools.pairwise(front):
            # What came behind it the first time was unread, and would now be in front of the place.
            if one.digest == last.digest and two.rank != one.rank + 1:
                raise _Doubted(Doubt.REPEATED)
        if others and self.window.unseen and not self.log.committed_only:
            raise _Doubted(Doubt.BETWEEN, others)
        return last

    def _back(self, front: Sequence[_Match]) -> int:
        """Number of matches up to the last one in front that stand there as in the old log. Between two of them is nothing: see ``_check_extra``."""
        count = 0
        for match, record in zip(reversed(front), reversed(self.before), strict=False):
            if match.digest != record.digest:
                break
            count += 1
        return count

    def _check_run(self, back: int, behind: int) -> None:
        run = back + behind
        window = self.window
        # What stands in front of so few records may have come later and been carried before: a mirror that begins again repeats old records behind new ones.
        from_begin = not run or self.begins_with(self.matches[self.split - back])
        # Behind the place it is all there is already, as far as it was mirrored.
        all_there_are = window.first and window.last and self.log.timestamps and from_begin
        if run < self.log.least_run and not all_there_are:
            raise _Doubted(Doubt.SHORT, run)


class _Cleaned(_Decision):
    """A log cleaner on either side: the order stays, but on each side records are missing that the other one may have."""

    def __init__(self, search: _Search) -> None:
        super().__init__(search)
        self.numbers = {record.digest: number for number, record in enumerate((*self.before, *self.behind))}
        self.deleted = {record.key: number for number, record in enumerate((*self.before, *self.behind)) if record.tombstone}

    def place(self) -> ExactPlace:
        front, tail = self.matches[: self.split], self.matches[self.split :]
        numbers = [self.numbers[match.digest] for match in tail]
        if any(one >= two for one, two in itertools.pairwise(numbers)):
            raise _Doubted(Doubt.REPEATED)
        if len({match.digest for match in front[-1:]} & {match.digest for match in front[:-1]}):
            raise _Doubted(Doubt.REPEATED)
        offset, lowest, highest = self._split(front, tail)
        self._check_missing(tail)
        back = self._back(front)
        run = [*front[len(front) - back :], *tail]
        self._check_strangers(run)
        self._check_run(run, back)
        known = (*self.before, *self.behind)
        return self.exact(offset, lowest, highest, (back, len(tail)), run, [known[self.numbers[match.digest]] for match in run])

    def _split(self, front: Sequence[_Match], tail: Sequence[_Match]) -> tuple[int, int, int]:
        """The offset to commit, and the lowest and the highest that mean the same."""
        last = front[-1] if front else None
        of_last = last is not None and last.digest == self.before[-1].digest
        after = last.offset + 1 if last is not None else self.log.start
        # Nothing can be between it and the committed offset.
        adjoins = of_last and not self.window.unseen
        if not tail:
            return self._at_end(front[-1], of_last=of_last, adjoins=adjoins)
        between = tail[0].rank - (last.rank if last is not None else -1) - 1
        if last is None and not self.log.whole:
            between += 1
        if not between:
            return tail[0].offset, after, tail[0].offset
        if adjoins:
            return after, after, after
        if self._known(tail[0]).offset == self.window.committed:
            return tail[0].offset, tail[0].offset, tail[0].offset
        raise _Doubted(Doubt.BETWEEN, between)

    def _at_end(self, last: _Match, *, of_last: bool, adjoins: bool) -> tuple[int, int, int]:
        others = self.search.count - 1 - last.rank
        after = last.offset + 1
        if not of_last:
            left = len(self.before) - 1 - self.numbers[last.digest]
            raise _Doubted(Doubt.BETWEEN, others) if others else _Doubted(Doubt.NOT_CARRIED, left)
        if others and not adjoins:
            raise _Doubted(Doubt.BETWEEN, others)
        return after, after, after if others else self.log.end

    def _known(self, match: _Match) -> LogRecord:
        return (*self.before, *self.behind)[self.numbers[match.digest]]

    def _check_missing(self, tail: Sequence[_Match]) -> None:
        """A record that is unread and not there was replaced by a later one of its key; or it is behind the end of what was mirrored."""
        place = tail[0].rank - 1 if tail else self.matches[-1].rank
        ranks = {self.numbers[match.digest]: match.rank for match in tail}
        # Nothing is known of where the others of one form are.
        unclear = self.search.unclear
        last = tail[-1] if tail else self.matches[-1]
        mirrored = max(ranks, default=len(self.before) - 1) if self.ends_with(last) else len(self.numbers) + len(unclear)
        lost, rank = 0, place
        for number, record in enumerate(self.behind, len(self.before)):
            if number > mirrored:
                break
            rank = ranks.get(number, rank)
            if number not in ranks and record.digest not in unclear and not self._replaced(number, record, rank):
                lost += 1
        if lost:
            gone = bool(tail) and self.begins_with(tail[0]) and self.log.start > 0
            raise _Doubted(Doubt.GONE if gone else Doubt.LOST, lost)

    def _replaced(self, number: int, record: LogRecord, rank: int) -> bool:
        """True if the cleaner may have removed it: its key comes later, or was deleted, which is removed in its turn."""
        if record.key is None:
            return False
        return record.tombstone or self.search.newest.get(record.key, -1) > rank or self.deleted.get(record.key, -1) > number

    def _back(self, front: Sequence[_Match]) -> int:
        """Number of matches up to the last one in front that are in order."""
        count = 0
        bound = len(self.before)
        for match in reversed(front):
            if self.numbers[match.digest] >= bound:
                break
            bound, count = self.numbers[match.digest], count + 1
        return count

    def _check_strangers(self, run: Sequence[_Match]) -> None:
        """A record that the old log no longer has was replaced by a later one of its key."""
        extra = [
            key
            for rank, key in self.search.strangers
            if run and run[0].rank < rank < run[-1].rank and (key is None or self.search.newest[key] <= rank)
        ]
        if extra:
            raise _Doubted(Doubt.EXTRA, len(extra))

    def _check_run(self, run: Sequence[_Match], back: int) -> None:
        if len(run) >= self.log.least_run:
            return
        there = {self.numbers[match.digest] for match in run[:back]}
        all_before = all(number in there or self._replaced(number, record, -1) for number, record in enumerate(self.before)) or (
            bool(run) and self.begins_with(run[0])
        )
        if not (run and self.window.first and self.window.last and self.log.timestamps and all_before and not self.search.unclear):
            raise _Doubted(Doubt.SHORT, len(run))
