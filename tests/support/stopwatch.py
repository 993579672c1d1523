"""What tests took, and how deep ones ended: left in ``build/`` at the end of a run. A plugin of pytest, in the process that sees all reports.

python -m tests.support.stopwatch   # write what the last runs measured into tests/seconds.json, which orders and divides the next ones
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from tests.support.deep_runs import RUN, DeepRun, commit_of_run, head
from tests.support.project import PROJECT
from tests.support.tiers import APART, DEEP, SECONDS, noted, unit_of

MEASURED: Final = PROJECT / "build" / "measured.json"


class Stopwatch:
    """Adds up the seconds of each unit. ``shard`` and ``tier`` are the run's; ``whole`` says that each unit had all of its tests."""

    def __init__(self, shard: str | None, tier: str, *, whole: bool) -> None:
        self._shard, self._tier = shard, tier
        # Of ``make test`` all units or none are measured, of the deep tier those of a part.
        self._whole = whole and (tier == "deep" or (tier == "test" and shard is None))
        self._seconds: dict[str, float] = defaultdict(float)
        self._outcomes: dict[str, str] = {}
        self._begun = head() if tier == "deep" else ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test."""
        self._seconds[noted(unit_of(report.nodeid), self._tier)] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write them down, deep ones over those of earlier runs. What was broken off has measured no unit whole."""
        MEASURED.parent.mkdir(exist_ok=True)
        if self._whole and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            earlier = {name: took for name, took in read(MEASURED).items() if name.endswith(DEEP) or self._tier == "deep"}
            write(MEASURED, earlier | {name: round(seconds, 1) for name, seconds in self._seconds.items()})
        if self._tier == "deep":
            RUN.write_text(json.dumps([asdict(run) for run in self._runs()]))

    def _runs(self) -> Iterator[DeepRun]:
        commit = commit_of_run(self._begun, head())
        for unit in sorted({unit_of(nodeid) for nodeid in self._outcomes}):
            outcomes = [outcome for nodeid, outcome in self._outcomes.items() if unit_of(nodeid) == unit]
            yield DeepRun(
                unit=unit,
                shard=self._shard,
                commit=commit,
                minutes=round(self._seconds[noted(unit, self._tier)] / 60, 1),
                passed=outcomes.count("passed"),
                failed=outcomes.count("failed"),
                skipped=outcomes.count("skipped"),
            )


def is_whole(config: pytest.Config) -> bool:
    """True for a run in which no unit lacks a test: of all of ``tests``, with nothing chosen by name, mark or outcome."""
    chosen = config.option
    return config.args == ["tests"] and not (chosen.keyword or chosen.markexpr or chosen.deselect or chosen.lf)


def renewed(known: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """The seconds to keep: those that were measured, and of the others those of files that are there. A run measures all units of ``make test`` or none of
    them, so that where it did, the others have no test there any more.
    """
    every_run = any(not name.endswith(DEEP) for name in measured)
    kept = {name: took for name, took in known.items() if name.endswith(DEEP) or not every_run}
    return {name: took for name, took in (kept | {**measured}).items() if _is_unit(name)}


def _is_unit(name: str) -> bool:
    unit = name.removesuffix(DEEP)
    file = unit.partition("::")[0]
    return (PROJECT / "tests" / file).exists() and ("::" in unit) == (file in APART)


def read(path: Path) -> dict[str, float]:
    """The seconds of each unit, by the name under which they are kept. Empty where nothing was measured."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write(path: Path, seconds: Mapping[str, float]) -> None:
    """One unit a line, in the order of their names."""
    path.write_text(json.dumps(seconds, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write(SECONDS, renewed(read(SECONDS), read(MEASURED)))
