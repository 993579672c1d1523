"""Notes that the steps of one run leave for each other, each read only by its reference or under a name that is written once."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from streams_recovery.core.errors import Altered, NotFound, Refused
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.storage.json_object import create_value, read_noted, read_value
from streams_recovery.storage.repository import AlreadyExists, Repository

T = TypeVar("T")

_NUMBER: Final = re.compile(r"([0-9]{4,9})\.json")


class RunArtifacts:
    """Notes of one application's runs: at ``work/{run}/{name}.{n}.json``, or ``work/{run}/{name}.json`` for one that is written once."""

    def __init__(self, repository: Repository, layout: Layout) -> None:
        self._repository = repository
        self._layout = layout

    def write(self, run: str, name: str, value: Any) -> ArtifactRef:
        """Leave a note (a dataclass). A step that is repeated leaves another one."""
        number = self._next(run, name)
        while True:
            try:
                return self._create(self._numbered(run, name, number), value)
            except AlreadyExists:
                number += 1

    def write_once(self, run: str, name: str, value: Any) -> ArtifactRef:
        """Leave the only note of this name. Raises ``Altered`` when a note is there: it cannot be of this run."""
        key = self._layout.work(run, name)
        try:
            return self._create(key, value)
        except AlreadyExists:
            raise _not_ours(key) from None

    def reserve(self, run: str, name: str) -> str:
        """The key that the next note of this name would get. Nothing is written."""
        return self._numbered(run, name, self._next(run, name))

    def answer(self, key: str, name: str) -> str:
        """The key of the note ``name`` that answers the note at ``key``: it has the same number, so no other attempt's answer can be taken for it."""
        directory, _, question = key.rpartition("/")
        number = question.removesuffix(".json").rpartition(".")[2]
        return f"{directory}/{name}.{number}.json"

    def read(self, kind: type[T], ref: ArtifactRef) -> T:
        """The note as it was written. Raises ``NotFound``, ``Damaged``, and ``Altered`` when it is another one now."""
        return read_noted(self._repository, kind, ref)

    def read_own(self, kind: type[T], run: str, ref: ArtifactRef) -> T:
        """``read`` for what only ``run`` itself may have left. Raises ``Refused`` for a note of another one."""
        if ref.key.rpartition("/")[0] != self._directory(run):
            raise other_attempt(ref.key, run)
        return self.read(kind, ref)

    def read_once(self, kind: type[T], run: str, name: str) -> T:
        """The only note of this name, for callers without its hash: the first note stays, and others beside it are never read. Raises
        ``NotFound`` when the step that writes it has not run, and ``Damaged``.
        """
        try:
            return read_value(self._repository, kind, self._layout.work(run, name))
        except NotFound:
            raise NotFound(
                f"run {run} has left no note {name}", next_step="run the step before this one first", run=run, note=name
            ) from None

    def refuse_others(self, run: str, name: str) -> None:
        """Raise ``Altered`` naming a second note beside the only one of this name."""
        others = self._keys(run, name)
        if others:
            raise _not_ours(others[-1])

    def left(self, run: str, name: str) -> bool:
        """True if a step of the run has left a note of this name."""
        return bool(self._keys(run, name))

    def _next(self, run: str, name: str) -> int:
        """One above all numbers of this name. Objects without a number are passed over."""
        stem = self._layout.work(run, name).removesuffix("json")
        found = (_NUMBER.fullmatch(key.removeprefix(stem)) for key in self._keys(run, name))
        return max((int(number[1]) for number in found if number), default=0) + 1

    def _numbered(self, run: str, name: str, number: int) -> str:
        return self._layout.work(run, f"{name}.{number:04}")

    def _create(self, key: str, value: Any) -> ArtifactRef:
        return ArtifactRef.of(key, create_value(self._repository, key, value))

    def _keys(self, run: str, name: str) -> list[str]:
        """Notes of this name with a number, or whatever else begins like one."""
        only = self._layout.work(run, name)
        stem = only.removesuffix("json")
        return [key for key in self._repository.keys(f"{self._directory(run)}/") if key.startswith(stem) and key != only]

    def _directory(self, run: str) -> str:
        return self._layout.work(run, "any").rpartition("/")[0]


def other_attempt(what: str, run: str) -> Refused:
    """The error for something that a step of another attempt has left, and that was given to ``run``."""
    return Refused(
        f"{what} is of another attempt, and this one is {run}: a task was cleared, and what was read before need not be what is there now",
        next_step="it was not used; trigger a new run",
        what=what,
        attempt=run,
    )


def _not_ours(key: str) -> Altered:
    return Altered(
        f"{key} was not written by this run",
        next_step="it was not used; find out who can write to this repository and remove it, or begin a new run",
        key=key,
    )
