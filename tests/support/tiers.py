"""Which tests a tier has, in which order they run, and who runs them: hooks of pytest, called by ``tests/conftest.py``.

``--tier test`` leaves out what is marked ``deep``, ``--tier deep`` is the rest, ``--shard 2/8`` one of eight parts of that, each about as long as the
others; ``--most 900`` leaves out of the parts what took longer. Tests of one group run one after the other in one process; a group is a file, unless
``TOGETHER`` says otherwise. A shard has whole files, unless ``APART`` says otherwise. What took longest the last time (``tests/seconds.json``) begins first,
so that no worker is left with a long one at the end.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.project import PROJECT

SECONDS: Final = PROJECT / "tests" / "seconds.json"
# For what was never measured: a test on real parts, and one of the others.
_GUESS, _SHORT = 30.0, 1.0
# Files whose tests never run at once: each has a stack of its own, which is all that a small machine can do.
TOGETHER: Final = {f"system/test_{name}.py": "stages" for name in ("cut_under_load", "emptied_cluster")}
# Files whose tests take minutes each and need nothing of each other.
APART: Final = (
    "spark/test_restore_killed.py",
    "system/test_cut_under_load.py",
    "system/test_demo.py",
    "system/test_killed_savepoints.py",
    "unit/core/archive/test_log.py",
)
# Ends the name of a unit's seconds in the deep tier.
DEEP: Final = " (deep)"
_TIERS: Final = ("test", "deep", "all")


def add_options(parser: pytest.Parser) -> None:
    """``--tier``, ``--shard`` and ``--most``."""
    parser.addoption("--tier", choices=_TIERS, default="all", help="test: what every change has to pass; deep: all else")
    parser.addoption("--shard", default=None, metavar="K/N", help="part K of N of what is selected, by the seconds that each took")
    parser.addoption("--most", type=float, default=math.inf, metavar="SECONDS", help="leave out units that took longer")


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave in ``items`` those of the tier and the shard, in the order in which they are to begin."""
    tier, shard = config.getoption("--tier"), config.getoption("--shard")
    chosen = [item for item in items if in_tier(tier, deep=item.get_closest_marker("deep") is not None)]
    seconds = seconds_of({unit_of(item.nodeid) for item in chosen}, tier)
    if shard:
        part, parts = parse_shard(shard)
        short = {unit: took for unit, took in seconds.items() if took <= config.getoption("--most")}
        mine = set(shards(short, parts)[part - 1])
        chosen = [item for item in chosen if unit_of(item.nodeid) in mine]
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in chosen:
        groups[group_of(item.nodeid)].append(item)
    totals = {name: sum(seconds[unit] for unit in {unit_of(item.nodeid) for item in several}) for name, several in groups.items()}
    kept = [item for name in longest_first(totals) for item in groups[name]]
    if left_out := set(items) - set(kept):
        config.hook.pytest_deselected(items=list(left_out))
    items[:] = kept


def in_tier(tier: str, *, deep: bool) -> bool:
    """True when a test with or without the mark ``deep`` belongs to the tier."""
    return tier == "all" or deep == (tier == "deep")


def group_of(nodeid: str) -> str:
    """The group of a test: its file from ``tests/`` on, or what ``TOGETHER`` says of that."""
    file = _file_of(nodeid)
    return TOGETHER.get(file, file)


def unit_of(nodeid: str) -> str:
    """What a shard has whole or not at all: the file of a test, or the test itself where ``APART`` names its file."""
    file = _file_of(nodeid)
    return nodeid.removeprefix("tests/") if file in APART else file


def _file_of(nodeid: str) -> str:
    return nodeid.split("::", maxsplit=1)[0].removeprefix("tests/")


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


def seconds_of(units: set[str], tier: str) -> dict[str, float]:
    """What each unit took when that was last written down. A file has tests of both tiers, and another time in each."""
    known: dict[str, float] = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    return {unit: known.get(noted(unit, tier), _SHORT if unit.startswith("unit/") else _GUESS) for unit in units}


def noted(unit: str, tier: str) -> str:
    """The name under which the seconds of a unit are kept."""
    return unit + DEEP if tier == "deep" else unit
