"""A log of small numbered JSON objects: 000000000001.json, 000000000002.json, …"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, RepositoryUnavailable
from streams_recovery.storage.failures import AlreadyExists
from streams_recovery.storage.repository import Repository

T = TypeVar("T")
_NAME = re.compile(r"(\d{12})\.json")
_ATTEMPTS = 50


class NumberedLog(Generic[T]):
    """Entries of one dataclass below a prefix, numbered from one without holes, never changed. Old ones may be removed from the beginning."""

    def __init__(self, repository: Repository, prefix: str, kind: type[T]) -> None:
        self._repository, self._prefix, self._kind = repository, prefix, kind

    def append(self, entry: T) -> int:
        """Add ``entry`` behind the newest one and return its number; writers that meet are put in order."""
        number = self.last_number()
        for _ in range(_ATTEMPTS):
            number += 1
            try:
                self.create(number, entry)
            except AlreadyExists:
                continue
            return number
        raise RepositoryUnavailable(f"{self._prefix} is written by too many at once", next_step="run this again", prefix=self._prefix)

    def create(self, number: int, entry: T) -> None:
        """Add ``entry`` under exactly this number. Raises ``AlreadyExists`` when another writer was first."""
        self._repository.create(self._key(number), codec.dumps(entry))

    def read(self, number: int) -> T:
        """One entry. Raises ``NotFound``."""
        key = self._key(number)
        return codec.loads(self._kind, self._repository.get(key), where=key)

    def read_all(self) -> tuple[T, ...]:
        """Every entry in order. Raises ``Damaged`` when one is missing in between: what it said would be unknown."""
        return tuple(self.read(number) for number in self._numbers())

    def last_number(self, *, known: int = 0) -> int:
        """The newest number, 0 when there is none. ``known`` is a number that exists, from which on is looked."""
        numbers = self._numbers(self._key(known) if known else None)
        return numbers[-1] if numbers else known

    def _numbers(self, after: str | None = None) -> list[int]:
        found = [_NAME.fullmatch(key.removeprefix(self._prefix)) for key in self._repository.list(self._prefix, after=after)]
        numbers = [int(name.group(1)) for name in found if name is not None]
        if numbers and numbers[-1] - numbers[0] + 1 != len(numbers):
            raise Damaged(
                f"entries are missing in {self._prefix}: {len(numbers)} of {numbers[0]} to {numbers[-1]} are there",
                next_step="restore the missing objects from a copy or an older version of the bucket",
                prefix=self._prefix,
            )
        return numbers

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number:012}.json"
