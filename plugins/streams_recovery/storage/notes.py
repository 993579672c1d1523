"""Notes that the tasks of one run leave for each other in the repository."""

from __future__ import annotations

from typing import Any, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound, RepositoryUnavailable
from streams_recovery.core.layout import Layout
from streams_recovery.storage.failures import AlreadyExists
from streams_recovery.storage.repository import Repository

T = TypeVar("T")
_ATTEMPTS = 50


class Notes:
    """Small JSON objects by run and name. Writing again adds a newer version, so that a cleared task can say something else; readers get
    the newest. Values are dataclasses of core; secrets do not belong here.
    """

    def __init__(self, repository: Repository, layout: Layout) -> None:
        self._repository, self._layout = repository, layout

    def write(self, run: str, name: str, value: Any) -> str:
        """Add a version and return its key."""
        number = len(self._versions(run, name))
        for _ in range(_ATTEMPTS):
            number += 1
            key = self._key(run, name, number)
            try:
                self._repository.create(key, codec.dumps(value))
            except AlreadyExists:
                continue
            return key
        raise RepositoryUnavailable(f"the note {name} of {run} is written by too many at once", next_step="run this again", run=run)

    def read(self, run: str, name: str, kind: type[T]) -> T:
        """The newest version. Raises ``NotFound``, ``Damaged``."""
        found = self.find(run, name, kind)
        if found is None:
            raise NotFound(
                f"the run {run} left no note {name}", next_step="run the task that writes it, then this one again", run=run, note=name
            )
        return found

    def find(self, run: str, name: str, kind: type[T]) -> T | None:
        """The newest version, None when there is none. Raises ``Damaged``."""
        versions = self._versions(run, name)
        return codec.loads(kind, self._repository.get(versions[-1]), where=versions[-1]) if versions else None

    def _versions(self, run: str, name: str) -> list[str]:
        first = self._key(run, name, 1)
        start, length = first.removesuffix("0001.json"), len(first)
        return [key for key in self._repository.list(first.rpartition("/")[0] + "/") if key.startswith(start) and len(key) == length]

    def _key(self, run: str, name: str, number: int) -> str:
        return self._layout.work(run, f"{name}.{number:04}")
