"""What tests took, and what became of a shard: left in ``build/`` at the end of a run. A plugin of pytest, in the process that sees all reports."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from tests.support.deep_runs import RUN, DeepRun, head
from tests.support.tiers import noted, unit_of

MEASURED: Final = Path("build") / "seconds.json"


class Stopwatch:
    """Adds up the seconds of each unit. ``shard`` and ``tier`` are the run's."""

    def __init__(self, shard: str | None, tier: str) -> None:
        self._shard, self._tier = shard, tier
        self._began = time.monotonic()
        self._seconds: dict[str, float] = defaultdict(float)
        self._outcomes: dict[str, str] = {}

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
        if self._shard is not None and self._tier == "deep":
            RUN.write_text(json.dumps(asdict(self._run(self._shard))))

    def _run(self, shard: str) -> DeepRun:
        outcomes = list(self._outcomes.values())
        return DeepRun(
            shard=shard,
            commit=head(),
            minutes=round((time.monotonic() - self._began) / 60, 1),
            passed=outcomes.count("passed"),
            failed=outcomes.count("failed"),
            skipped=outcomes.count("skipped"),
            files=tuple(sorted({nodeid.split("::")[0] for nodeid in self._outcomes})),
        )
