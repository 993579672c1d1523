"""Append-only logs made of numbered objects: the number is the order, and creating it is the only way to get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, RepositoryUnavailable
from streams_recovery.storage.repository import AlreadyExists, Repository

T = TypeVar("T")

_RACES = 100


class NumberedLog(Generic[T]):
    """Entries ``000000000001.json``, ``000000000002.json`` and so on below a prefix. Two writers of one number cannot both succeed, so
    whoever creates number n has seen the entries before it. Needs no right to delete; where there is one, ``prune`` shortens a log from its
    beginning, and its numbers go on.
    """

    def __init__(self, repository: Repository, prefix: str, kind: type[T]) -> None:
        self._repository = repository
        self._prefix = prefix
        self._kind = kind

    def read_back(self) -> Iterator[T]:
        """Entries from the newest to the oldest, each read when it is asked for: most questions need only the last few."""
        return (self._read(key) for key in reversed(self._keys()))

    def last(self) -> T | None:
        """The newest entry, None when there is none."""
        return next(self.read_back(), None)

    def read_all(self) -> list[T]:
        """All entries in order."""
        return list(reversed(list(self.read_back())))

    def append(self, entry: T) -> int:
        """Add an entry whatever came before it, and return its number."""
        return self.append_after(lambda _last, _number: entry)

    def append_after(self, decide: Callable[[T | None, int], T]) -> int:
        """Add the entry that ``decide`` makes of the newest one and the new number; return that number. When another writer was faster,
        ``decide`` is asked again with its entry, so a decision never rests on an outdated view, nor on a listing that is late.
        """
        taken = 0
        for _ in range(_RACES):
            keys = self._keys()
            newest = max(taken, self._number(keys[-1]) if keys else 0)
            entry = decide(self._read(self._key(newest)) if newest else None, newest + 1)
            try:
                self._repository.create(self._key(newest + 1), codec.dumps(entry))
            except AlreadyExists:
                taken = newest + 1
                continue
            return newest + 1
        raise RepositoryUnavailable(f"{self._prefix}: lost {_RACES} races for the next number", next_step="try again", prefix=self._prefix)

    def prune(self, keep: int) -> int:
        """Remove all but the newest ``keep`` entries (at least one), oldest first, and return how many went."""
        old = self._keys()[: -max(1, keep)]
        if old:
            self._repository.delete(old)
        return len(old)

    def _read(self, key: str) -> T:
        return codec.loads(self._kind, self._repository.get(key), where=key)

    def _keys(self) -> list[str]:
        keys = list(self._repository.keys(self._prefix))
        first = self._number(keys[0]) if keys else 1
        expected = [self._key(number) for number in range(first, first + len(keys))]
        if keys != expected:
            odd = next(have for have, want in zip(keys, expected, strict=True) if have != want)
            raise Damaged(
                f"{self._prefix} has gaps or strange objects, the first is {odd}",
                next_step="find out who wrote or deleted there; nobody but this software should",
                key=odd,
            )
        return keys

    def _number(self, key: str) -> int:
        # What is no number makes 0, which is no entry's key.
        stem = key.removeprefix(self._prefix).removesuffix(".json")
        return int(stem) if stem.isdecimal() else 0

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number:012}.json"
