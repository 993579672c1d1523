"""The record of deep runs, ``docs/deep-runs.json``: for each unit of the deep tier (a file, or one of its tests) the run that had it last.

python -m tests.support.deep_runs record   # what the last run of deep tests has left in build/
python -m tests.support.deep_runs status   # which units are green, and how many commits ago; exit code 1 unless all are

A unit, not a shard, is what is green: shards have other units as soon as a test is new or takes another time. A green unit is green on its commit: what a
later change concerns is for the person to say who made it, since a test on real parts runs most of the product.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tests.support.project import PROJECT
from tests.support.tiers import unit_of

RUN: Final = PROJECT / "build" / "deep-run.json"
RECORD: Final = PROJECT / "docs" / "deep-runs.json"
# No test depends on what these say: what is uncommitted there makes no run worthless.
_WITHOUT_EFFECT: Final = ("docs/", ".ci/", "tests/seconds.json")
# Pages whose commands a test runs.
_EXECUTED: Final = "docs/runbooks/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepRun:
    """The last run of one unit. ``shard`` is the part that was asked for, such as ``2/8``, or None for a run of all or of a few files."""

    unit: str
    shard: str | None
    commit: str
    minutes: float
    passed: int
    failed: int
    skipped: int

    @property
    def file(self) -> str:
        """Where its tests are, from the root of the project."""
        return f"tests/{self.unit.partition('::')[0]}"


def read() -> dict[str, DeepRun]:
    """The last run of each unit."""
    plain = json.loads(RECORD.read_text()) if RECORD.exists() else []
    return {entry["unit"]: DeepRun(**entry) for entry in plain}


def record(runs: Iterable[DeepRun]) -> None:
    """Put runs in the place of earlier ones of the same units, and drop those of files that are gone. Raises ``ValueError`` for a run of files that are no
    commit: nobody could tell later what has changed since.
    """
    found = read()
    for run in runs:
        if run.commit.endswith("+"):
            raise ValueError(f"{run.unit} was run on uncommitted changes: commit them, then run it again")
        found[run.unit] = run
    kept = [asdict(found[unit]) for unit in sorted(found) if (PROJECT / found[unit].file).exists()]
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


def standing(runs: Mapping[str, DeepRun], tests: Mapping[str, int]) -> dict[str, str]:
    """What is to be said of each unit that there is. ``tests`` has how many tests each has."""
    return {unit: _standing(runs.get(unit), count) for unit, count in sorted(tests.items())}


def is_green(said: str) -> bool:
    """True for what ``standing`` says of a unit of which all tests passed."""
    return said.startswith("green")


def _standing(run: DeepRun | None, tests: int) -> str:
    if run is None:
        return "never run"
    if run.failed or run.skipped:
        return f"red on {run.commit[:10]}: {run.failed} failed, {run.skipped} skipped of {tests}"
    if run.passed != tests:
        return f"run again: it has {tests} tests, {run.passed} passed on {run.commit[:10]}"
    return f"green on {run.commit[:10]}, {_commits_since(run.commit)} commits ago, {run.passed} tests in {run.minutes:.1f} min"


def _commits_since(commit: str) -> str:
    """How many commits came after one. A clone without its whole history may not have it."""
    counted = subprocess.run(["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False)
    return counted.stdout.strip() or "unknown"


def head() -> str:
    """The commit that is checked out, with ``+`` when files differ from it that a test may depend on."""
    (commit,) = _git("rev-parse", "HEAD")
    return commit if all(without_effect(file) for file in uncommitted()) else f"{commit}+"


def without_effect(file: str) -> bool:
    """True when no deep test depends on what a file says."""
    return file.startswith(_WITHOUT_EFFECT) and not file.startswith(_EXECUTED)


def uncommitted() -> list[str]:
    """Files that differ from the commit that is checked out, those that git does not know yet included."""
    return sorted({*_git("diff", "--name-only", "HEAD"), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=PROJECT, check=True, capture_output=True, text=True).stdout.splitlines()


def commit_of_run(begun: str, ended: str) -> str:
    """The commit that a run is of, by ``head`` at its beginning and at its end: with ``+`` when files changed meanwhile."""
    return begun if begun == ended else f"{begun.rstrip('+')}+"


def collected() -> Counter[str]:
    """How many tests each unit of the deep tier has, by asking pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--tier", "deep", "tests"]
    listed = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    return Counter(unit_of(line) for line in listed.splitlines() if "::" in line)


def main(what: str) -> int:
    """Record, or tell."""
    if what == "record":
        record(DeepRun(**entry) for entry in json.loads(RUN.read_text()))
        return 0
    found = standing(read(), collected())
    for unit, said in found.items():
        print(f"{unit}\n    {said}")  # noqa: T201
    green = sum(map(is_green, found.values()))
    print(f"{green} of {len(found)} are green")  # noqa: T201
    return 0 if green == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "status"))
