"""Which tests a tier has, in which order they run, and who runs them: a plugin of pytest, loaded by ``tests/conftest.py``.

``--tier test`` leaves out what is marked ``deep``, ``--tier deep`` is the rest, ``--shard 2/8`` one of eight parts of that, each about as long as the
others. Tests of one group run one after the other in one process. A group is a file, unless ``TOGETHER`` says otherwise. What took
longest the last time (``tests/seconds.json``) begins first, so that no worker is left with a long one at the end.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.deep_runs import RUN, DeepRun, head

SECONDS = Path(__file__).parents[1] / "seconds.json"
MEASURED = Path("build") / "seconds.json"
# For a group that was never measured.
_GUESS = 30.0
# Files whose tests never run at once: each has a stack of its own, which is all that a small machine can do.
TOGETHER = {f"system/test_{name}.py": "stages" for name in ("cut_under_load", "emptied_cluster")}
_TIERS = ("test", "deep", "all")


def add_options(parser: pytest.Parser) -> None:
    """``--tier`` and ``--shard``."""
    parser.addoption("--tier", choices=_TIERS, default="all", help="test: what every change has to pass; deep: all else")
    parser.addoption("--shard", default=None, metavar="K/N", help="part K of N of what is selected, by the seconds that each took")


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave in ``items`` those of the tier and the shard, in the order in which they are to begin."""
    known = measured()
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if in_tier(config.getoption("--tier"), deep=item.get_closest_marker("deep") is not None):
            groups[group_of(item.nodeid)].append(item)
    seconds = {name: known.get(name, _GUESS) for name in groups}
    chosen = set(groups)
    if shard := config.getoption("--shard"):
        part, parts = parse_shard(shard)
        chosen = set(shards(seconds, parts)[part - 1])
    kept = [item for name in longest_first(seconds) if name in chosen for item in groups[name]]
    left_out = set(items) - set(kept)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
    items[:] = kept


def in_tier(tier: str, *, deep: bool) -> bool:
    """True when a test with or without the mark ``deep`` belongs to the tier."""
    return tier == "all" or deep == (tier == "deep")


def group_of(nodeid: str) -> str:
    """The group of a test: its file from ``tests/`` on, or what ``TOGETHER`` says of that."""
    file = nodeid.split("::", maxsplit=1)[0].removeprefix("tests/")
    return TOGETHER.get(file, file)


class ByGroup(LoadScopeScheduling):
    """Gives each process whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def longest_first(seconds: Mapping[str, float]) -> list[str]:
    """Names of groups, the longest first; of equal ones in the order of their names."""
    return sorted(seconds, key=lambda name: (-seconds[name], name))


def parse_shard(text: str) -> tuple[int, int]:
    """Part and number of parts of ``2/8``. Raises ``pytest.UsageError``."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise pytest.UsageError(f"--shard {text}: a part and how many there are, such as 2/8")
    return int(found[1]), int(found[2])


def shards(seconds: Mapping[str, float], parts: int) -> list[list[str]]:
    """All groups in ``parts`` parts that take about as long: the longest group first, each to the part that has least so far."""
    found: list[list[str]] = [[] for _ in range(parts)]
    for name in longest_first(seconds):
        min(found, key=lambda part: (sum(seconds[one] for one in part), found.index(part))).append(name)
    return found


def measured() -> dict[str, float]:
    """The seconds that each group took when they were last written down."""
    found: dict[str, float] = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    return found


class Stopwatch:
    """Adds up what the tests of each group take, and leaves it in ``build/seconds.json`` at the end; of a shard it leaves what became of it in
    ``build/deep-run.json``. Lives in the process that sees all reports.
    """

    def __init__(self, shard: str | None) -> None:
        self._shard = shard
        self._began = time.monotonic()
        self._seconds: dict[str, float] = defaultdict(float)
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test."""
        self._seconds[group_of(report.nodeid)] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write them down."""
        self._write_seconds()
        if self._shard is not None:
            outcomes = list(self._outcomes.values())
            run = DeepRun(
                shard=self._shard,
                commit=head(),
                minutes=round((time.monotonic() - self._began) / 60, 1),
                passed=outcomes.count("passed"),
                failed=outcomes.count("failed"),
                skipped=outcomes.count("skipped"),
                files=tuple(sorted({nodeid.split("::")[0] for nodeid in self._outcomes})),
            )
            RUN.write_text(json.dumps(asdict(run)))

    def _write_seconds(self) -> None:
        MEASURED.parent.mkdir(exist_ok=True)
        earlier = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
        rounded = {name: round(seconds, 1) for name, seconds in self._seconds.items()}
        MEASURED.write_text(json.dumps(earlier | rounded, indent=0, sort_keys=True) + "\n")
