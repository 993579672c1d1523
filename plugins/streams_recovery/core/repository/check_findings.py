"""What a check can find, by what has to be done about it."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streams_recovery.core.errors import Damaged, Forged
from streams_recovery.core.words import first_names

# Of the number in the name of a log's entry.
_DIGITS: Final = 12
_NUMBER: Final = re.compile(r"[0-9]{12}")


class Cause(enum.StrEnum):
    """Why a repository is not good, from what says least to what is worst. ``UNREACHABLE`` ends a check; the others are findings or verdicts."""

    UNREACHABLE = "repository-unreachable"
    NOTHING_CHECKED = "nothing-checked"
    NOT_READ = "not-read"
    DAMAGED_RECORD = "damaged-record"
    UNKNOWN_FORMAT = "unknown-format"
    ALTERED_FILE = "altered-file"
    MISSING_FILE = "missing-file"
    DAMAGED_MANIFEST = "damaged-manifest"
    LOST_MANIFEST = "lost-manifest"
    FORGED = "forged"

    @property
    def exit_code(self) -> int:
        """What ``verify`` exits with when nothing worse was found. A greater one is worse."""
        return _FIRST_EXIT_CODE + list(Cause).index(self)

    @property
    def next_step(self) -> str:
        """What to do about it."""
        return _NEXT_STEPS[self]


_FIRST_EXIT_CODE: Final = 20
_PUT_BACK: Final = "put it back from a copy of the repository, or from an older version of the object where the bucket keeps them"
_NEXT_STEPS: Final = {
    Cause.UNREACHABLE: "check that the store can be reached, then check again: nothing is known of the savepoints",
    Cause.NOTHING_CHECKED: "check the storage section of the configuration; a repository without files cannot restore anything",
    Cause.NOT_READ: "correct the rights or the store, then check again: nothing is known of what could not be read",
    Cause.DAMAGED_RECORD: f"{_PUT_BACK}, and find out who deletes there: runs that need this log are refused until then",
    Cause.UNKNOWN_FORMAT: "check with the release of this software that wrote the savepoint, or a newer one",
    Cause.ALTERED_FILE: f"{_PUT_BACK}, and take a new savepoint now; those named cannot be trusted",
    Cause.MISSING_FILE: f"{_PUT_BACK}, and take a new savepoint now; those named cannot be trusted",
    Cause.DAMAGED_MANIFEST: f"{_PUT_BACK}, and take a new savepoint now; those named cannot be trusted",
    Cause.LOST_MANIFEST: f"{_PUT_BACK} and take a new savepoint now; when it is lost for good, docs/format.md says how to give it up",
    Cause.FORGED: "find out who can write to this repository, then remove it: no run uses it. If it is older than the seals, `streams-recovery seal` adopts it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. Without a topic it concerns a manifest or a record; ``savepoints`` cannot be restored in full because of it."""

    cause: Cause
    key: str
    problem: str
    savepoints: tuple[str, ...]
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        offsets = f", offsets {self.start} to {self.end}" if self.start is not None else ""
        where = f" ({self.topic}-{self.partition}{offsets})" if self.topic is not None else ""
        needed = f"; needed by {first_names(self.savepoints)}" if self.savepoints else ""
        return f"{self.cause}: {self.key}{where}: {self.problem}{needed}"


def worst_first(findings: Collection[Finding]) -> list[Finding]:
    """The worst ones first, each kind in the order in which it was found."""
    return sorted(findings, key=lambda found: -found.cause.exit_code)


def cause_of(error: Damaged, otherwise: Cause) -> Cause:
    """``FORGED`` for a record that nobody sealed who may write, else ``otherwise``."""
    return Cause.FORGED if isinstance(error, Forged) else otherwise


def manifest_finding(key: str, savepoint_id: str, error: Damaged) -> Finding:
    """A finding about a manifest, with the partition that its reader complains of."""
    topic, partition = error.facts.get("topic"), error.facts.get("partition")
    # A version that is no number was not written by any release.
    newer = isinstance(error.facts.get("version"), int)
    return Finding(
        cause=Cause.UNKNOWN_FORMAT if newer else cause_of(error, Cause.DAMAGED_MANIFEST),
        key=key,
        problem=error.reason,
        savepoints=(savepoint_id,),
        topic=topic if isinstance(topic, str) else None,
        partition=partition if isinstance(partition, int) else None,
    )


def lost_manifests(
    alive: Collection[str], expired: Collection[str], *, published: Collection[str], pinned: Collection[str], in_use: Collection[str]
) -> dict[str, str]:
    """Savepoints that must exist and do not, with what proves it.

    ``alive`` have a manifest, ``expired`` a copy of one that expiry made. ``published`` have the record that is written after the manifest and
    goes only when the savepoint has expired and its copy goes, too. Expiry passes over what is ``pinned``, or ``in_use`` by an unfinished restore.
    A later savepoint's parent proves nothing: savepoints may expire before those that share their files.
    """
    why = dict.fromkeys(set(published) - set(expired), "it was published and has not expired")
    why |= dict.fromkeys(pinned, "it is pinned, so no expiry removed it")
    why |= dict.fromkeys(in_use, "an unfinished restore needs it, so no expiry removed it")
    copied = "; a copy of it is under expired/"
    return {
        savepoint_id: f"is gone: {why[savepoint_id]}{copied if savepoint_id in expired else ''}"
        for savepoint_id in sorted(set(why) - set(alive))
    }


def log_problems(prefix: str, keys: Collection[str], *, shortened: bool) -> dict[str, str]:
    """What is wrong with the names of a numbered log's entries, by key. A ``shortened`` log may begin later than 1. That the newest entries are
    gone cannot be seen.
    """
    stems = {key: key.removeprefix(prefix).removesuffix(".json") for key in keys}
    numbers = sorted(int(stem) for stem in stems.values() if _NUMBER.fullmatch(stem))
    problems = {key: "is no entry of this log" for key, stem in stems.items() if not _NUMBER.fullmatch(stem)}
    for before, after in pairwise(numbers if shortened else [0, *numbers]):
        first, last = before + 1, after - 1
        if first <= last:
            others = f", and so are all up to number {last}" if first < last else ""
            problems[f"{prefix}{first:0{_DIGITS}}.json"] = f"is missing{others}; entry {after} is there"
    return problems
