"""What tests took is written down once a run has measured units whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import stopwatch
from tests.support.stopwatch import Stopwatch, is_whole, renewed

KNOWN = {"unit/test_tiers.py": 1.0, "unit/test_gone.py": 2.0, "unit/test_words.py": 3.0, "system/test_up.py (deep)": 180.0}


def test_a_run_of_make_test_replaces_all_that_it_has_and_leaves_the_deep_tier() -> None:
    assert renewed(KNOWN, {"unit/test_tiers.py": 4.0}) == {"unit/test_tiers.py": 4.0, "system/test_up.py (deep)": 180.0}


def test_a_part_of_the_deep_tier_replaces_its_own_units() -> None:
    measured = {"system/test_wheel.py (deep)": 5.0, "system/test_up.py (deep)": 90.0}
    assert renewed(KNOWN, measured) == {"unit/test_tiers.py": 1.0, "unit/test_words.py": 3.0, **measured}


@pytest.mark.parametrize(
    "name", ["unit/test_gone.py", "system/test_demo.py", "unit/test_tiers.py::test_a", "system/test_gone.py::test_a (deep)"]
)
def test_what_is_gone_or_no_unit_is_dropped(name: str) -> None:
    assert renewed({}, {name: 1.0}) == {}
    assert renewed({}, {"system/test_demo.py::test_a (deep)": 1.0})


class Config(SimpleNamespace):
    """What pytest was asked."""

    def __init__(self, arguments: Sequence[str] = ("tests",), **chosen: object) -> None:
        super().__init__(
            args=list(arguments), option=SimpleNamespace(**{"keyword": "", "markexpr": "", "deselect": None, "lf": False} | chosen)
        )


@pytest.mark.parametrize(
    ("config", "whole"),
    [
        (Config(), True),
        (Config(["tests/unit"]), False),
        (Config(["tests/unit/test_a.py::test_b"]), False),
        (Config(keyword="s3"), False),
        (Config(markexpr="kafka"), False),
        (Config(deselect=["a"]), False),
        (Config(lf=True), False),
    ],
)
def test_a_run_of_some_tests_measures_no_unit(config: pytest.Config, whole: bool) -> None:
    assert is_whole(config) == whole


EARLIER = {"unit/test_b.py": 1.0, "system/test_up.py (deep)": 9.0}


@pytest.mark.parametrize(
    ("tier", "shard", "whole", "ended", "expected"),
    [
        ("test", None, True, pytest.ExitCode.OK, {"unit/test_a.py": 2.5, "system/test_up.py (deep)": 9.0}),
        ("test", None, True, pytest.ExitCode.TESTS_FAILED, {"unit/test_a.py": 2.5, "system/test_up.py (deep)": 9.0}),
        ("deep", "1/8", True, pytest.ExitCode.OK, {**EARLIER, "unit/test_a.py (deep)": 2.5}),
        ("test", "1/8", True, pytest.ExitCode.OK, EARLIER),
        ("test", None, True, pytest.ExitCode.INTERRUPTED, EARLIER),
        ("test", None, False, pytest.ExitCode.OK, EARLIER),
        ("all", None, True, pytest.ExitCode.OK, EARLIER),
    ],
)
def test_seconds_are_left_by_a_whole_run_and_deep_ones_stay(
    tier: str,
    shard: str | None,
    whole: bool,
    ended: pytest.ExitCode,
    expected: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopwatch, "MEASURED", tmp_path / "seconds.json")
    monkeypatch.setattr(stopwatch, "RUN", tmp_path / "run.json")
    (tmp_path / "seconds.json").write_text(json.dumps(EARLIER))
    watch = Stopwatch(shard, tier, whole=whole)
    for when, duration in (("setup", 0.5), ("call", 2.0)):
        watch.pytest_runtest_logreport(
            pytest.TestReport("tests/unit/test_a.py::test_a", ("", None, ""), {}, "passed", None, when, duration=duration)  # type: ignore[arg-type]
        )
    watch.pytest_sessionfinish(ended)
    assert json.loads((tmp_path / "seconds.json").read_text()) == expected
