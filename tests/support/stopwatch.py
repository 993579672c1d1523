"""What tests took, and how deep ones ended: left in ``build/`` at the end of a run. A plugin of pytest, in the process that sees all reports."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from tests.support.deep_runs import RUN, DeepRun, commit_of_run, head
from tests.support.tiers import noted, unit_of

MEASURED: Final = Path("build") / "seconds.json"


class Stopwatch:
    """Adds up the seconds of each unit. ``shard`` and ``tier`` are the run's."""

    def __init__(self, shard: str | None, tier: str) -> None:
        self._shard, self._tier = shard, tier
        self._seconds: dict[str, float] = defaultdict(float)
        self._outcomes: dict[str, str] = {}
        self._begun = head() if tier == "deep" else ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test."""
        self._seconds[noted(unit_of(report.nodeid), self._tier)] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write them down, the seconds over those of an earlier run."""
        MEASURED.parent.mkdir(exist_ok=True)
        earlier = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
        rounded = {name: round(seconds, 1) for name, seconds in self._seconds.items()}
        MEASURED.write_text(json.dumps(earlier | rounded, indent=0, sort_keys=True) + "\n")
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
