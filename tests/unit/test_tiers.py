"""The tiers themselves: every test is in exactly one of two, and the shards of the deep one have each of its groups once."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.project import PROJECT
from tests.support.story import play_through
from tests.support.tiers import DEEP, SECONDS, group_of, in_tier, longest_first, parse_shard, shards, unit_of

SLICE, TEST, PROCESSES = (
    float(re.findall(rf"^{name} := (\d+)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)[0])
    for name in ("SLICE_SECONDS", "TEST_SECONDS", "TEST_PROCESSES")
)
# What all processes need to find the tests, and the last one to end behind the others.
AROUND = 90.0
# New files wait for the next whole run.
UNKNOWN = 40
GROUPS = st.dictionaries(st.text(min_size=1, max_size=5), st.floats(0.0, 3_000.0), max_size=40)


@pytest.mark.parametrize("deep", [True, False])
def test_a_test_is_in_one_tier_and_in_all(deep: bool) -> None:
    assert in_tier("test", deep=deep) != in_tier("deep", deep=deep)
    assert in_tier("all", deep=deep)
    assert in_tier("deep", deep=True)


@given(GROUPS, st.integers(1, 12))
def test_shards_have_every_group_once(seconds: dict[str, float], parts: int) -> None:
    found = shards(seconds, parts)
    assert len(found) == parts
    assert sorted(name for part in found for name in part) == sorted(seconds)
    assert found == shards(dict(reversed(seconds.items())), parts), "the same on every machine"


@given(GROUPS, st.integers(1, 12))
def test_no_shard_is_longer_than_the_shortest_by_more_than_its_longest_group(seconds: dict[str, float], parts: int) -> None:
    totals = [sum(seconds[name] for name in part) for part in shards(seconds, parts)]
    assert max(totals) - min(totals) <= max(seconds.values(), default=0.0) + 1e-6


@given(GROUPS)
def test_the_longest_begins(seconds: dict[str, float]) -> None:
    order = longest_first(seconds)
    assert sorted(order) == sorted(seconds)
    assert all(seconds[one] >= seconds[other] for one, other in pairwise(order))


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", ""])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="2/8"):
        parse_shard(text)


def test_a_shard() -> None:
    assert parse_shard("3/11") == (3, 11)


def test_a_file_is_a_group_and_a_unit_unless_it_is_named() -> None:
    assert group_of("tests/unit/test_a.py::test_b[1]") == unit_of("tests/unit/test_a.py::test_c") == "unit/test_a.py"
    cuts, cluster = "tests/system/test_cut_under_load.py::test_a", "tests/system/test_emptied_cluster.py::test_b"
    assert group_of(cuts) == group_of(cluster) == "stages"
    assert unit_of(cluster) == "system/test_emptied_cluster.py"
    assert unit_of(cuts) == "system/test_cut_under_load.py::test_a"
    assert group_of("tests/system/test_demo.py::test_a") == "system/test_demo.py"
    assert unit_of("tests/system/test_demo.py::test_a[x]") == "system/test_demo.py::test_a[x]"


def test_a_story_stops_at_the_step_that_fails_and_names_it() -> None:
    seen = []

    def first_one(on: str) -> None:
        seen.append(f"first {on}")

    def second_one(on: str) -> None:
        raise ValueError(on)

    with pytest.raises(ValueError, match="stage") as caught:
        play_through((first_one, second_one, first_one), "stage")
    assert caught.value.__notes__ == ["in step 2 of 3: second one"]
    assert seen == ["first stage"]


def test_no_slice_takes_longer_than_it_may() -> None:
    """Two processes, the longest unit first, by what each took."""
    deep = {name.removesuffix(DEEP): took for name, took in json.loads(SECONDS.read_text()).items() if name.endswith(DEEP)}
    parts = parse_shard((PROJECT / ".ci" / "slice").read_text().strip())[1]
    for part in shards({unit: took for unit, took in deep.items() if took <= SLICE}, parts):
        busy = [0.0, 0.0]
        for unit in longest_first({unit: deep[unit] for unit in part}):
            busy[busy.index(min(busy))] += deep[unit]
        assert max(busy) <= SLICE, part


def test_make_test_takes_no_longer_than_it_may() -> None:
    """By what each unit took on an idle machine. What is too much belongs to the deep tier: see the rule in docs/testing.md."""
    took = sum(seconds for name, seconds in json.loads(SECONDS.read_text()).items() if not name.endswith(DEEP))
    assert took / PROCESSES + AROUND <= TEST, f"{took / PROCESSES / 60 + AROUND / 60:.1f} minutes"


def test_what_took_how_long_is_known_of_nearly_all_files() -> None:
    known = {name.removesuffix(DEEP).partition("::")[0] for name in json.loads(SECONDS.read_text())}
    files = {str(path.relative_to(PROJECT / "tests")) for path in (PROJECT / "tests").rglob("test_*.py")}
    assert len(files - known) <= UNKNOWN, f"run make test, then make seconds: {sorted(files - known)}"
