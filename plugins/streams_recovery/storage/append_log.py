"""Append-only logs made of numbered objects: the number is the order, and creating it is the only way to get it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, pairwise
from typing import Generic, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, EntryUnreadable, Forged, NotFound, Refused, RepositoryUnavailable
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.seal import Seal, Standing, Weight, standing_of
from streams_recovery.storage.json_object import create_value
from streams_recovery.storage.repository import AlreadyExists, Repository

T = TypeVar("T")

LOGGER = logger("streams_recovery.storage.append_log")

_RACES = 100
_DIGITS = 12
_ENTRY = re.compile(r"[0-9]{12}\.json")
# Numbers in one look back. A bucket lists as many keys in one request.
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry(Generic[T]):
    """One entry. It ``counts`` if it is believed, or restricts; one that does not has a place in the chain of seals only."""

    key: str
    value: T
    seal: Seal | None
    standing: Standing
    counts: bool


class AppendLog(Generic[T]):
    """Entries ``000000000001.json``, ``000000000002.json`` and so on below a prefix. Two writers of one number cannot both succeed, so the writer of number n
    has seen the entries before it. Needs no right to delete; with that right, ``prune`` shortens a log from its beginning, and its numbers go on. Objects with
    other names are no entries, and are passed over: a check tells of them.

    A look costs a bounded number of requests, however long the log is: the newest number is searched for, and older ones are listed a page at a time,
    when they are asked for. So a number that is missing far before those is not noticed here; a check lists them all.

    With ``begins`` an entry for which it is true needs nothing before it: numbers may be missing right before such an entry, as they are in a second place that
    an archive went on without for a while.

    An entry has at most ``most_bytes``. All that reads raises ``EntryUnreadable`` for one that is no entry, ``Damaged`` for a number that is missing.

    In a sealed repository a forged entry only takes a number: it is logged, and all readers pass over it. The same holds for an entry without a seal, or with
    that of a withdrawn key, unless it ``restricts``: then it is read like the others, because a pin or a hold is respected all the same. The seal of an entry
    has the signature of the one before, so ``Damaged`` is raised when entries between two that are read were removed or put in. Entries by a key that was
    withdrawn stay in that chain.
    """

    def __init__(
        self,
        repository: Repository,
        prefix: str,
        kind: type[T],
        *,
        most_bytes: int = MOST_BYTES_OF_ENTRY,
        restricts: Callable[[T], bool] = lambda _: False,
        begins: Callable[[T], bool] = lambda _: False,
    ) -> None:
        self._repository = repository
        self._prefix = prefix
        self._kind = kind
        self._most_bytes = most_bytes
        self._restricts = restricts
        self._begins = begins
        # A number that exists: the next look begins there.
        self._known: int | None = None

    def read_back(self) -> Iterator[T]:
        """Entries from the newest to the oldest, each read when it is asked for: most questions need only the last few."""
        return (entry.value for entry in self._entries_back(whole=True, readable=False))

    def readable_back(self, *, whole: bool = True, readers: int = 1) -> Iterator[T]:
        """As ``read_back``, without objects that are no entries; each is logged. Only for logs of which any part is enough. With ``whole`` false numbers
        may be missing too. Up to ``readers`` entries are read at once.
        """
        return (entry.value for entry in self._entries_back(whole=whole, readable=True, readers=readers))

    def numbered_back(self, *, readers: int = 1) -> Iterator[tuple[int, T]]:
        """As ``read_back``, each with its number. Up to ``readers`` entries are read at once."""
        entries = self._entries_back(whole=True, readable=False, readers=readers)
        return ((self.number(entry.key), entry.value) for entry in entries)

    def dated_back(self, *, readable: bool = False) -> Iterator[tuple[T, int]]:
        """As ``read_back``, each with the moment (ms) at which the store says that it was stored: the time in an entry is its writer's word. With
        ``readable``, entries that cannot be read are passed over, and numbers may be missing.
        """
        entries = self._entries_back(whole=not readable, readable=readable)
        stored = {file.key: file.modified for file in self._repository.listed(self._prefix)}
        return ((entry.value, stored[entry.key]) for entry in entries if entry.key in stored)

    def _entries_back(self, *, whole: bool, readable: bool, readers: int = 1) -> Iterator[_Entry[T]]:
        """Entries that are not forged, from the newest on. With ``readable`` those that cannot be read are passed over, and no entry is held against the one
        behind it.
        """
        # The newest entry whose predecessor has not come yet.
        behind: _Entry[T] | None = None
        strange = ""
        for key, read in self._reads(map(self._key, self._back(whole=whole)), readers):
            try:
                entry = read()
            except Forged as error:
                _passed_over(key, error)
                strange = f"; {key} between them is not believed: {error.facts['why']}" if _is_strange(error) else strange
                continue
            except EntryUnreadable as error:
                if not readable:
                    raise
                _passed_over(key, error)
                continue
            if not readable:
                behind, strange = self._linked(behind, entry, strange), ""
            if entry.counts:
                yield entry
            else:
                LOGGER.warning("%s is passed over: its key was withdrawn", key)

    def _linked(self, behind: _Entry[T] | None, entry: _Entry[T], strange: str) -> _Entry[T] | None:
        """The entry whose link has to be found further back. Raises ``Damaged`` where it should have been ``entry``."""
        if entry.standing is Standing.UNSEALED:
            # Writers of seals pass over it, so no seal links to it.
            return behind
        signature = entry.seal and entry.seal.signature
        if behind is not None and self._is_gap(self.number(entry.key), self.number(behind.key)):
            return entry
        if behind is not None and behind.seal is not None and behind.seal.previous != signature:
            if not self._believed_by_seal(entry):
                # The key was withdrawn, or the entry was adopted, after the one behind was written: its writer passed over this one.
                return behind
            hint = "if that key was yours, add it to storage.seal.withdrawn_keys; else " if strange else ""
            raise Damaged(
                f"{behind.key} was not written behind {entry.key}: entries between the two were removed, or exchanged{strange}",
                next_step=f"{hint}put the entries back from a copy, and find out who can delete in this repository",
                key=behind.key,
            )
        return entry

    def _believed_by_seal(self, entry: _Entry[T]) -> bool:
        seals = self._repository.seals
        return seals is None or (entry.seal is not None and seals.is_current(entry.seal))

    def _reads(self, keys: Iterator[str], readers: int) -> Iterator[tuple[str, Callable[[], _Entry[T]]]]:
        if readers == 1:
            yield from ((key, partial(self._read, key)) for key in keys)
            return
        with ThreadPoolExecutor(readers) as pool:
            # A caller that needs few has few read: twice as many each time.
            size = 1
            while several := list(islice(keys, size)):
                yield from [(key, pool.submit(self._read, key).result) for key in several]
                size = min(2 * size, readers)

    def first(self) -> T | None:
        """The oldest entry, None when there is none. Whatever was added behind it cannot keep it from being read, and nothing that is forged is it."""
        if self._sealed:
            entries = list(self._entries_back(whole=False, readable=True))
            return entries[-1].value if entries else None
        numbers, _ = self._page(None)
        if numbers and numbers[0] != 1:
            raise Damaged(
                f"{self._prefix} has no entry 1, and has {self._key(numbers[0])}",
                next_step="put the entry that is missing back from a copy",
                key=self._key(numbers[0]),
            )
        return self._read(self._key(1)).value if numbers else None

    def last(self) -> T | None:
        """The newest entry, None when there is none."""
        return next(self.read_back(), None)

    def read_all(self) -> list[T]:
        """All entries in order."""
        return list(reversed(list(self.read_back())))

    def append(self, entry: T, *, whole: bool = True) -> int:
        """Add an entry whatever came before it, also when that cannot be read, and return its number. With ``whole`` false numbers may be missing: only
        in logs of which any part is enough, and for an entry that says that nothing before it matters any more.
        """
        return self._append(lambda _newest, _number: entry, whole=whole, decides=False)

    def append_behind(self, key: str, entry: T) -> bool:
        """Add an entry with the number behind the one at ``key``. False when there is one already; then nothing was added."""
        below = (number for number in self._back(whole=False) if number < self.number(key))
        previous = self._counting(below, decides=False)[2] if self._sealed else None
        try:
            self._create(self.number(key) + 1, entry, previous)
        except AlreadyExists:
            return False
        return True

    def append_after(self, decide: Callable[[T | None, int], T]) -> int:
        """Add the entry that ``decide`` makes of the newest one and the new number; return that number. When another writer was faster,
        ``decide`` is asked again with its entry, so a decision never rests on an outdated view, nor on a listing that is late.
        """
        return self._append(
            lambda newest, number: decide(self._read(self._key(newest)).value if newest else None, number), whole=True, decides=True
        )

    def _append(self, entry_behind: Callable[[int, int], T], *, whole: bool, decides: bool) -> int:
        taken = 0
        for _ in range(_RACES):
            newest, number, previous = self._place(taken, whole=whole, decides=decides)
            entry = entry_behind(newest, number)
            try:
                self._create(number, entry, previous)
            except AlreadyExists:
                self._check_visible(number)
                taken = number
                continue
            self._known = number
            return number
        raise RepositoryUnavailable(
            f"{self._prefix}: lost {_RACES} races for the next number", next_step="try again", prefix=self._prefix, races=_RACES
        )

    def _check_visible(self, number: int) -> None:
        """Raise ``Refused`` where what keeps an entry from being created is not there: some servers create nothing over a delete marker. What another writer
        has created is there at once, and stays for as long as it is the newest.
        """
        key = self._key(number)
        try:
            self._repository.judged(key, most_bytes=self._most_bytes)
        except NotFound:
            if next(self._back(whole=False), 0) > number:
                # Others have added so many behind it that it was removed.
                return
            raise Refused(
                f"{key} was deleted, and this bucket keeps versions and creates nothing where a deleted object was, so nothing can be added to {self._prefix}",
                next_step=f"remove the delete markers below {self._prefix} (aws s3api list-object-versions, then delete-object with the version id of each "
                "marker): its entries are there again, and it goes on behind them",
                key=key,
            ) from None
        except Damaged:
            # It is there, whatever it is.
            return

    def _place(self, taken: int, *, whole: bool, decides: bool) -> tuple[int, int, str | None]:
        """The place of the next entry: the newest number that counts (0: none), the first free one behind it, and the signature of the newest one. ``taken``
        is a number that another writer was faster with, which a listing may not show yet.
        """
        back = self._back(whole=whole)
        first = next(back, 0)
        if not self._sealed:
            newest = max(taken, first)
            return newest, newest + 1, None
        numbers = chain([taken] if taken > first else [], [first] if first else [], back)
        return self._counting(numbers, decides=decides)

    def _counting(self, numbers: Iterator[int], *, decides: bool) -> tuple[int, int, str | None]:
        """The first of ``numbers`` that counts (0: none), the first free number behind the first entry in the chain of seals, and the signature of that entry.
        Entries behind it only take their numbers. The first that counts is looked for only if the caller ``decides`` by it.
        """
        newest, last, previous = 0, 0, None
        others: set[int] = set()
        for number in numbers:
            standing, counts, seal = self._judged(number)
            if counts:
                newest = newest or number
            if not last and standing.in_chain:
                last, previous = number, None if seal is None else seal.signature
            if not last:
                others.add(number)
            if last and (newest or not decides):
                break
        free = last + 1
        while free in others:
            free += 1
        return newest, free, previous

    def _judged(self, number: int) -> tuple[Standing, bool, Seal | None]:
        """Who vouches for the entry of this number, whether it counts, and its seal. One that is believed need not be readable."""
        key = self._key(number)
        found, forged = self._repository.judged(key, most_bytes=self._most_bytes)
        if forged is None:
            return Standing.SEALED, True, found.seal
        _passed_over(key, forged)
        try:
            return standing_of(forged), self._read(key).counts, found.seal
        except Forged:
            return standing_of(forged), False, found.seal

    def _is_forged(self, number: int) -> bool:
        return not self._judged(number)[0].in_chain

    @property
    def _sealed(self) -> bool:
        return self._repository.seals is not None

    def _create(self, number: int, entry: T, previous: str | None) -> None:
        create_value(self._repository, self._key(number), entry, most_bytes=self._most_bytes, previous=previous)

    def prune(self, keep: int, *, whole: bool = True) -> int:
        """Remove all but the newest ``keep`` entries (at least one), oldest first, and return how many went. With ``whole`` false numbers may be missing."""
        # A forged entry must not push out one that counts.
        counting = (number for number in self._back(whole=whole) if not self._sealed or not self._is_forged(number))
        kept = list(islice(counting, max(1, keep)))
        # If fewer count, the others stay: they may be true and older than the seals, such as a lock that is held without one.
        before, gone = None, 0
        while len(kept) == max(1, keep):
            numbers = [number for number in self._page(before)[0] if number < kept[-1]]
            if not numbers:
                break
            if whole:
                self._check([*([] if before is None else [before]), *numbers])
            self._repository.delete([self._key(number) for number in numbers])
            before, gone = numbers[-1], gone + len(numbers)
        return gone

    def _read(self, key: str) -> _Entry[T]:
        forged: Forged | None = None
        try:
            found, forged = self._repository.judged(key, most_bytes=self._most_bytes)
            standing = Standing.SEALED if forged is None else standing_of(forged)
            if forged is not None and standing.weight is not Weight.RESTRICTS:
                raise forged
            value = codec.loads(self._kind, found.content, where=key, most_bytes=self._most_bytes)
        except Forged:
            raise
        except Damaged as error:
            if forged is not None:
                raise forged from None
            raise EntryUnreadable(error.reason, next_step=error.next_step, **(error.facts | {"key": key})) from None
        counts = forged is None or self._restricts(value)
        if forged is not None and not counts and not standing.in_chain:
            raise forged
        return _Entry(key=key, value=value, seal=found.seal, standing=standing, counts=counts)

    def _back(self, *, whole: bool) -> Iterator[int]:
        """Numbers of the log from the newest to the oldest."""
        given: int | None = None
        try:
            for number in self._listed_back(whole=whole):
                yield number
                given = number
        except Damaged as error:
            if not self._sealed:
                raise
            yield from (number for number in self._before_hole(error) if given is None or number < given)

    def _listed_back(self, *, whole: bool) -> Iterator[int]:
        numbers = self._newest(whole=whole)
        while numbers:
            yield from reversed(numbers)
            numbers = self._before(numbers[0], whole=whole)

    def _before_hole(self, error: Damaged) -> list[int]:
        """All numbers before the first that is missing, newest first. Raises ``error`` unless everything behind that one is forged."""
        numbers = self._between(0, 10**_DIGITS)
        whole = next((at for at, pair in enumerate(pairwise(numbers), 1) if self._is_hole(*pair)), len(numbers))
        if not all(map(self._is_forged, numbers[whole:])):
            raise error
        return numbers[:whole][::-1]

    def _newest(self, *, whole: bool) -> list[int]:
        """The newest numbers, at least one unless there is none. Whether anything is behind a number is asked with steps that double, then that halve."""
        numbers, last = self._page(None if self._known is None else self._known - 1)
        if self._known is not None and numbers[:1] != [self._known]:
            numbers, last = self._page(None)
        step, nothing_behind = _PAGE, None
        while True:
            if whole:
                self._check(numbers)
            if last or numbers[-1] == nothing_behind:
                break
            far = numbers[-1] + step if nothing_behind is None else (numbers[-1] + nothing_behind) // 2
            at = min(far, 10**_DIGITS - 1) if far - numbers[-1] >= _PAGE else numbers[-1]
            found, last = self._page(at)
            if found and whole:
                self._check([at, *found])
            if found:
                numbers, step = found, step * 2
            elif at == numbers[-1]:
                break
            else:
                nothing_behind, last = at, False
        self._known = numbers[-1] if numbers else None
        return numbers

    def _before(self, first: int, *, whole: bool) -> list[int]:
        """The newest numbers below ``first``, none when it is the oldest."""
        start = max(first - _PAGE, 0)
        numbers = self._between(start, first)
        if whole and numbers:
            self._check([*numbers, first])
        if numbers or start == 0:
            return numbers
        if not self._is_any(0, first):
            return []
        if whole and self._is_hole(start, first):
            raise self._hole(first - 1, first)
        # Something is below ``start``, and above or at ``low``.
        low = 0
        while start - low > _PAGE:
            middle = (low + start) // 2
            low, start = (middle, start) if self._is_any(middle, first) else (low, middle)
        return self._between(low, first)

    def _is_any(self, start: int, end: int) -> bool:
        return any(number < end for number in self._page(start - 1)[0][:1])

    def _between(self, start: int, end: int) -> list[int]:
        """Numbers from ``start`` on and below ``end``."""
        found: list[int] = []
        last = False
        while not last:
            numbers, last = self._page(found[-1] if found else start - 1)
            found += [number for number in numbers if number < end]
            last = last or numbers[-1] >= end - 1
        return found

    def _page(self, after: int | None) -> tuple[list[int], bool]:
        """Some numbers behind ``after`` in order, at least one when there are any, and whether these are all."""
        behind = "" if after is None or after < 0 else f"{self._prefix}{after:0{_DIGITS}}.json"
        end = f"{self._prefix}{10**_DIGITS - 1}.json"
        while True:
            keys, last = self._repository.page(self._prefix, after=behind)
            numbers = [self.number(key) for key in keys if _ENTRY.fullmatch(key.removeprefix(self._prefix))]
            # Whatever comes behind the last number that there is, is no entry.
            last = last or keys[-1] >= end
            if numbers or last:
                return numbers, last
            behind = keys[-1]

    def _check(self, numbers: list[int]) -> None:
        for before, number in pairwise(numbers):
            if self._is_hole(before, number):
                raise self._hole(before + 1, number)

    def _is_hole(self, before: int, number: int) -> bool:
        return number != before + 1 and not self._is_gap(before, number)

    def _is_gap(self, before: int, number: int) -> bool:
        """True where numbers are missing before one that needs none of them."""
        if number == before + 1:
            return False
        try:
            return self._begins(self._read(self._key(number)).value)
        except Damaged:
            return False

    def _hole(self, missing: int, there: int) -> Damaged:
        return Damaged(
            f"{self._prefix} has no entry {missing}, and has {self._key(there)}",
            next_step="put the entries that are missing back from a copy; when none is missing, remove that one: this software did not write it",
            key=self._key(there),
        )

    def number(self, key: str) -> int:
        """The number of the entry at ``key``."""
        return int(key.removeprefix(self._prefix).removesuffix(".json"))

    def _key(self, number: int) -> str:
        if number >= 10**_DIGITS:
            raise Damaged(
                f"{self._prefix} has an entry {number - 1}, and no number is left behind it",
                next_step="remove that entry: this software did not write it",
                key=f"{self._prefix}{number - 1}.json",
            )
        return f"{self._prefix}{number:0{_DIGITS}}.json"


def _is_strange(error: Forged) -> bool:
    return standing_of(error) is Standing.STRANGE


def _passed_over(key: str, error: Damaged) -> None:
    LOGGER.warning("%s is passed over: %s", key, error.reason)
