"""Notes that the steps of one run leave for each other. A step that is repeated writes a new note; readers take the newest."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from streams_recovery.core.errors import NotFound
from streams_recovery.core.layout import Layout
from streams_recovery.storage.repository import AlreadyExists, Repository
from streams_recovery.storage.values import create_value, read_value

T = TypeVar("T")

_NUMBER: Final = re.compile(r"([0-9]{4,9})\.json")


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
                create_value(self._repository, key, value)
            except AlreadyExists:
                continue
            return key

    def reserve(self, run: str, name: str) -> str:
        """The key that the next note of this name would get. Nothing is written."""
        return self._layout.work(run, f"{name}.{max(self._numbered(run, name), default=0) + 1:04}")

    def answer(self, key: str, name: str) -> str:
        """The key of the note ``name`` that answers the note at ``key``: it has the same number, so no other attempt's answer can be taken for it."""
        directory, _, asked = key.rpartition("/")
        number = asked.removesuffix(".json").rpartition(".")[2]
        return f"{directory}/{name}.{number}.json"

    def read(self, kind: type[T], run: str, name: str) -> T:
        """The newest note of this name. Raises ``NotFound`` when the step that writes it has not run."""
        numbered = self._numbered(run, name)
        if not numbered:
            raise NotFound(f"run {run} has left no note {name}", next_step="run the step before this one first", run=run, note=name)
        return self.read_key(kind, numbered[max(numbered)])

    def read_key(self, kind: type[T], key: str) -> T:
        """The note at ``key``. Raises ``NotFound`` or ``Damaged``."""
        return read_value(self._repository, kind, key)

    def _numbered(self, run: str, name: str) -> dict[int, str]:
        """Keys of the notes of this name by their numbers. Other objects are passed over."""
        stem = self._layout.work(run, name).removesuffix(".json") + "."
        keys = [key for key in self._repository.keys(stem.rpartition("/")[0] + "/") if key.startswith(stem)]
        return {int(found[1]): key for key in keys if (found := _NUMBER.fullmatch(key.removeprefix(stem)))}
