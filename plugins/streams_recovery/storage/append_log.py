"""Append-only logs made of numbered objects: the number is the order, and creating it is the only way to get it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from streams_recovery.core.bounded_json import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, EntryUnreadable, RepositoryUnavailable
from streams_recovery.storage.json_object import create_value, read_value
from streams_recovery.storage.repository import AlreadyExists, Repository

T = TypeVar("T")

LOGGER = logging.getLogger("streams_recovery.storage.append_log")

_RACES = 100
_DIGITS = 12
_ENTRY = re.compile(r"[0-9]{12}\.json")


class AppendLog(Generic[T]):
    """Entries ``000000000001.json``, ``000000000002.json`` and so on below a prefix. Two writers of one number cannot both succeed, so
    whoever creates number n has seen the entries before it. Needs no right to delete; where there is one, ``prune`` shortens a log from its
    beginning, and its numbers go on. Objects with other names are no entries, and are passed over: a check tells of them.

    An entry has at most ``most_bytes``. All that reads raises ``EntryUnreadable`` for one that is no entry, ``Damaged`` for a number that is missing.
    """

    def __init__(self, repository: Repository, prefix: str, kind: type[T], *, most_bytes: int = MOST_BYTES_OF_ENTRY) -> None:
        self._repository = repository
        self._prefix = prefix
        self._kind = kind
        self._most_bytes = most_bytes

    def read_back(self) -> Iterator[T]:
        """Entries from the newest to the oldest, each read when it is asked for: most questions need only the last few."""
        return (self._read(key) for key in reversed(self._keys()))

    def readable_back(self, *, whole: bool = True) -> Iterator[T]:
        """The same, without those that are no entries; each is logged. Only for logs of which any part is enough. With ``whole`` false numbers may be
        missing too.
        """
        for key in reversed(self._keys() if whole else self._present()):
            try:
                entry = self._read(key)
            except EntryUnreadable as error:
                LOGGER.warning("%s is passed over: %s", key, error.reason)
                continue
            yield entry

    def dated_back(self, *, readable: bool = False) -> Iterator[tuple[T, int]]:
        """The same as ``read_back``, each with the moment (ms) at which the store says that it was stored: the time in an entry is its writer's word. With
        ``readable``, entries that cannot be read are passed over, and numbers may be missing.
        """
        keys = self._present() if readable else self._keys()
        stored = {file.key: file.modified for file in self._repository.listed(self._prefix)}
        for key in reversed(keys):
            try:
                yield self._read(key), stored[key]
            except EntryUnreadable as error:
                if not readable:
                    raise
                LOGGER.warning("%s is passed over: %s", key, error.reason)

    def last(self) -> T | None:
        """The newest entry, None when there is none."""
        return next(self.read_back(), None)

    def read_all(self) -> list[T]:
        """All entries in order."""
        return list(reversed(list(self.read_back())))

    def append(self, entry: T, *, whole: bool = True) -> int:
        """Add an entry whatever came before it, also when that cannot be read, and return its number. With ``whole`` false numbers may be missing: only
        for an entry that says that nothing before it matters any more.
        """
        return self._append(lambda _newest: entry, self._keys if whole else self._present)

    def append_behind(self, key: str, entry: T) -> bool:
        """Add an entry with the number behind the one at ``key``. False when there is one already; then nothing was added."""
        try:
            create_value(self._repository, self._key(self._number(key) + 1), entry, most_bytes=self._most_bytes)
        except AlreadyExists:
            return False
        return True

    def append_after(self, decide: Callable[[T | None, int], T]) -> int:
        """Add the entry that ``decide`` makes of the newest one and the new number; return that number. When another writer was faster,
        ``decide`` is asked again with its entry, so a decision never rests on an outdated view, nor on a listing that is late.
        """
        return self._append(lambda newest: decide(self._read(self._key(newest)) if newest else None, newest + 1), self._keys)

    def _append(self, entry_behind: Callable[[int], T], look: Callable[[], list[str]]) -> int:
        taken = 0
        for _ in range(_RACES):
            keys = look()
            newest = max(taken, self._number(keys[-1]) if keys else 0)
            entry = entry_behind(newest)
            try:
                create_value(self._repository, self._key(newest + 1), entry, most_bytes=self._most_bytes)
            except AlreadyExists:
                taken = newest + 1
                continue
            return newest + 1
        raise RepositoryUnavailable(
            f"{self._prefix}: lost {_RACES} races for the next number", next_step="try again", prefix=self._prefix, races=_RACES
        )

    def prune(self, keep: int, *, whole: bool = True) -> int:
        """Remove all but the newest ``keep`` entries (at least one), oldest first, and return how many went. With ``whole`` false numbers may be missing."""
        old = (self._keys() if whole else self._present())[: -max(1, keep)]
        if old:
            self._repository.delete(old)
        return len(old)

    def _read(self, key: str) -> T:
        try:
            return read_value(self._repository, self._kind, key, most_bytes=self._most_bytes)
        except Damaged as error:
            raise EntryUnreadable(error.reason, next_step=error.next_step, **(error.facts | {"key": key})) from None

    def _present(self) -> list[str]:
        return [key for key in self._repository.keys(self._prefix) if _ENTRY.fullmatch(key.removeprefix(self._prefix))]

    def _keys(self) -> list[str]:
        keys = self._present()
        first = self._number(keys[0]) if keys else 1
        missing = next((at for at, key in enumerate(keys, first) if key != self._key(at)), None)
        if missing is not None:
            raise Damaged(
                f"{self._prefix} has no entry {missing}, and has {keys[missing - first]}",
                next_step="put the entries that are missing back from a copy; when none is missing, remove that one: this software did not write it",
                key=keys[missing - first],
            )
        return keys

    def _number(self, key: str) -> int:
        return int(key.removeprefix(self._prefix).removesuffix(".json"))

    def _key(self, number: int) -> str:
        if number >= 10**_DIGITS:
            raise Damaged(
                f"{self._prefix} has an entry {number - 1}, and no number is left behind it",
                next_step="remove that entry: this software did not write it",
                key=f"{self._prefix}{number - 1}.json",
            )
        return f"{self._prefix}{number:0{_DIGITS}}.json"
