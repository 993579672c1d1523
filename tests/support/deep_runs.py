"""The record of deep runs, ``docs/deep-runs.json``: for each shard the commit it was last run on, how long it took, and how it ended.

python -m tests.support.deep_runs record   # what the last run of a shard has left in build/
python -m tests.support.deep_runs status   # which shards are green, and hold for what is here now; exit code 1 unless all do
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.support.affected import ROOT, affected, changed_since

RUN: Final = ROOT / "build" / "deep-run.json"
RECORD: Final = ROOT / "docs" / "deep-runs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepRun:
    """One run of one shard, such as ``2/8``. ``files`` are those of its tests."""

    shard: str
    commit: str
    minutes: float
    passed: int
    failed: int
    skipped: int
    files: tuple[str, ...]

    @property
    def green(self) -> bool:
        """True when tests ran and none failed or was left out."""
        return self.passed > 0 and not self.failed and not self.skipped


def read() -> dict[str, DeepRun]:
    """The last run of each shard."""
    plain = json.loads(RECORD.read_text()) if RECORD.exists() else []
    return {entry["shard"]: DeepRun(**{**entry, "files": tuple(entry["files"])}) for entry in plain}


def record(run: DeepRun) -> None:
    """Put a run in the place of an earlier one of its shard. Runs of another number of shards go: they were other tests. Raises ``ValueError`` for a run
    of files that are no commit: nobody could tell later what has changed since.
    """
    if run.commit.endswith("+"):
        raise ValueError(f"shard {run.shard} was run on uncommitted changes: commit them, then run it again")
    parts = run.shard.partition("/")[2]
    kept = {shard: old for shard, old in read().items() if shard.partition("/")[2] == parts}
    runs = sorted({**kept, run.shard: run}.values(), key=lambda one: int(one.shard.partition("/")[0]))
    RECORD.write_text(json.dumps([asdict(one) for one in runs], indent=1) + "\n")


def standing(runs: Mapping[str, DeepRun]) -> dict[str, str]:
    """What is to be said of each shard that there should be."""
    if not runs:
        return {"1/1": "never run"}
    parts = int(next(iter(runs)).partition("/")[2])
    return {shard: _standing(runs.get(shard)) for shard in (f"{part}/{parts}" for part in range(1, parts + 1))}


def _standing(run: DeepRun | None) -> str:
    if run is None:
        return "never run"
    if not run.green:
        return f"red on {run.commit[:10]}: {run.failed} failed, {run.skipped} skipped of {run.passed + run.failed + run.skipped}"
    stale = affected(changed_since(run.commit), run.files)
    what = f"green on {run.commit[:10]}, {run.passed} tests in {run.minutes:.0f} min"
    return f"{what}; run again, a change since then concerns {len(stale)} of its files: {', '.join(stale[:3])}" if stale else what


def head() -> str:
    """The commit that is checked out, with ``+`` when files differ from it."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return f"{commit}+" if changed_since("HEAD") else commit


def main(what: str) -> int:
    """Record, or tell."""
    if what == "record":
        plain = json.loads(Path(RUN).read_text())
        record(DeepRun(**{**plain, "files": tuple(plain["files"])}))
        return 0
    found = standing(read())
    for shard, said in found.items():
        print(f"{shard:>6}  {said}")  # noqa: T201
    return 0 if all(said.startswith("green") and "; run again" not in said for said in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "status"))
