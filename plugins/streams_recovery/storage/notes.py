"""Notes that the steps of one run leave for each other. A step that is repeated writes a new note; readers take the newest."""

from __future__ import annotations

from typing import Any, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound
from streams_recovery.core.layout import Layout
from streams_recovery.storage.repository import AlreadyExists, Repository

T = TypeVar("T")


class Notes:
    """Notes of one application's runs, at ``work/{run}/{name}.{n}.json``."""

    def __init__(self, repository: Repository, layout: Layout) -> None:
        self._repository = repository
        self._layout = layout

    def write(self, run: str, name: str, value: Any) -> str:
        """Leave a note (a dataclass) and return its key."""
        while True:
            key = self.reserve(run, name)
            try:
                self._repository.create(key, codec.dumps(value))
            except AlreadyExists:
                continue
            return key

    def reserve(self, run: str, name: str) -> str:
        """The key that the next note of this name would get. Nothing is written."""
        return self._layout.work(run, f"{name}.{len(self._keys(run, name)) + 1:04}")

    def answer(self, key: str, name: str) -> str:
        """The key of the note ``name`` that answers the note at ``key``: it has the same number, so no other attempt's answer can be taken for it."""
        directory, _, asked = key.rpartition("/")
        number = asked.removesuffix(".json").rpartition(".")[2]
        return f"{directory}/{name}.{number}.json"

    def read(self, kind: type[T], run: str, name: str) -> T:
        """The newest note of this name. Raises ``NotFound`` when the step that writes it has not run."""
        keys = self._keys(run, name)
        if not keys:
            raise NotFound(f"run {run} has left no note {name}", next_step="run the step before this one first", run=run, note=name)
        return self.read_key(kind, keys[-1])

    def read_key(self, kind: type[T], key: str) -> T:
        """The note at ``key``. Raises ``NotFound`` or ``Damaged``."""
        return codec.loads(kind, self._repository.get(key), where=key)

    def _keys(self, run: str, name: str) -> list[str]:
        stem = self._layout.work(run, name).removesuffix(".json") + "."
        directory = stem.rsplit("/", 1)[0] + "/"
        return [key for key in self._repository.keys(directory) if key.startswith(stem)]
