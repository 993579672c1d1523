"""The record of deep runs, and what is said of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support import deep_runs
from tests.support.deep_runs import DeepRun

RUN = DeepRun(unit="system/test_cut_under_load.py", shard="1/2", commit="HEAD", minutes=3.0, passed=4, failed=0, skipped=0)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(deep_runs, "RECORD", tmp_path / "runs.json")
    return tmp_path / "runs.json"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (None, "never run"),
        (RUN, "green on HEAD, 0 commits ago, 4 tests in 3.0 min"),
        (dataclasses.replace(RUN, commit="0123456789abcdef"), "green on 0123456789, unknown commits ago, 4 tests in 3.0 min"),
        (dataclasses.replace(RUN, failed=1), "red on HEAD: 1 failed, 0 skipped of 4"),
        (dataclasses.replace(RUN, passed=3, skipped=1), "red on HEAD: 0 failed, 1 skipped of 4"),
        (dataclasses.replace(RUN, passed=3), "run again: it has 4 tests, 3 passed on HEAD"),
        (dataclasses.replace(RUN, passed=0), "run again: it has 4 tests, 0 passed on HEAD"),
    ],
)
def test_green_is_what_ran_whole_with_nothing_failed_or_skipped(run: DeepRun | None, expected: str) -> None:
    said = deep_runs.standing({} if run is None else {RUN.unit: run}, {RUN.unit: 4})
    assert said == {RUN.unit: expected}
    assert deep_runs.is_green(said[RUN.unit]) == expected.startswith("green on")


def test_a_unit_that_is_gone_is_not_told() -> None:
    assert deep_runs.standing({RUN.unit: RUN}, {}) == {}


@pytest.mark.parametrize(
    ("begun", "ended", "noted"), [("a", "a", "a"), ("a", "b", "a+"), ("a", "a+", "a+"), ("a+", "a+", "a+"), ("a+", "b", "a+")]
)
def test_what_changes_during_a_run_is_not_what_was_run(begun: str, ended: str, noted: str) -> None:
    assert deep_runs.commit_of_run(begun, ended) == noted


def test_a_run_of_uncommitted_changes_is_not_recorded(written: Path) -> None:
    with pytest.raises(ValueError, match="commit them"):
        deep_runs.record([dataclasses.replace(RUN, commit="0123+")])
    assert not written.exists()


@pytest.mark.parametrize(
    ("changed", "clean"),
    [
        ([], True),
        (["tests/seconds.json", "docs/a.md"], True),
        (["docs/runbooks/disk-full.md"], False),
        (["tests/support/stack/oracle.py"], False),
    ],
)
def test_uncommitted_is_what_a_test_may_depend_on(changed: list[str], clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_runs, "uncommitted", lambda: changed)
    assert deep_runs.head().endswith("+") != clean


@pytest.mark.usefixtures("written")
def test_a_run_takes_the_place_of_the_one_before_it() -> None:
    other = dataclasses.replace(RUN, unit="system/test_demo.py::test_a")
    deep_runs.record([RUN, other])
    deep_runs.record([dataclasses.replace(RUN, minutes=5.0)])
    assert {unit: run.minutes for unit, run in deep_runs.read().items()} == {RUN.unit: 5.0, other.unit: 3.0}
    assert other.file == "tests/system/test_demo.py"


@pytest.mark.usefixtures("written")
def test_a_run_of_a_file_that_is_gone_is_dropped() -> None:
    deep_runs.record([RUN, dataclasses.replace(RUN, unit="system/test_gone.py")])
    assert deep_runs.read() == {RUN.unit: RUN}
