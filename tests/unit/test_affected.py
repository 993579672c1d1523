"""Which deep tests a change concerns."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support import deep_runs
from tests.support.affected import ROOT, affected, deep_tests, reached
from tests.support.deep_runs import DeepRun

SPARK, CUTS, AIRFLOW = "tests/spark/test_submitted.py", "tests/system/test_cut_under_load.py", "tests/system/test_airflow_runs.py"
TESTS = [SPARK, CUTS, AIRFLOW]


def test_what_a_test_imports_is_followed_to_the_end() -> None:
    found = reached(CUTS)
    assert {"tests/conftest.py", "tests/system/stage.py", "embedded/stack.py"} <= found
    assert "plugins/streams_recovery/core/cut.py" in found, "by way of the steps of a savepoint"
    assert "dags/streams_backup.py" not in found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("docs/format.md", []),
        ("plugins/streams_recovery/core/cut.py", TESTS),
        ("spark_jobs/transforms/loading.py", TESTS),
        ("plugins/streams_recovery/operators/restore.py", [CUTS, AIRFLOW]),
        ("dags/streams_undo.py", [CUTS, AIRFLOW]),
        ("tests/spark/small_app.py", [SPARK]),
        ("tests/system/playing.py", [AIRFLOW]),
        ("tests/system/oracle.py", [CUTS]),
        ("pyproject.toml", TESTS),
        ("tests/conftest.py", TESTS),
        ("plugins/streams_recovery/application/docker_compose.py", []),
    ],
)
def test_a_change_concerns_those_that_import_or_start_it(changed: str, expected: list[str]) -> None:
    assert affected([changed], TESTS) == sorted(expected)


def test_all_deep_files_are_known_and_there() -> None:
    found = deep_tests()
    assert {SPARK, CUTS, AIRFLOW} <= set(found)
    assert all((ROOT / file).is_file() for file in found)


RUN = DeepRun(shard="1/2", commit="HEAD", minutes=3.0, passed=4, failed=0, skipped=0, files=(CUTS,))


def test_a_shard_that_never_ran_failed_or_was_skipped_is_not_green() -> None:
    red = dataclasses.replace(RUN, shard="2/2", failed=1)
    said = deep_runs.standing({"2/2": red})
    assert said["1/2"] == "never run"
    assert said["2/2"].startswith("red on HEAD: 1 failed")
    assert not dataclasses.replace(RUN, skipped=1).green
    assert not dataclasses.replace(RUN, passed=0).green


def test_a_run_of_uncommitted_changes_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_runs, "RECORD", tmp_path / "runs.json")
    with pytest.raises(ValueError, match="commit them"):
        deep_runs.record(dataclasses.replace(RUN, commit="0123+"))
    assert not (tmp_path / "runs.json").exists()


def test_nothing_recorded_is_not_green() -> None:
    assert deep_runs.standing({}) == {"1/1": "never run"}


def test_a_run_takes_the_place_of_the_one_before_and_of_other_numbers_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_runs, "RECORD", tmp_path / "runs.json")
    deep_runs.record(RUN)
    deep_runs.record(dataclasses.replace(RUN, shard="2/2"))
    deep_runs.record(dataclasses.replace(RUN, minutes=5.0))
    assert [(shard, run.minutes) for shard, run in deep_runs.read().items()] == [("1/2", 5.0), ("2/2", 3.0)]
    deep_runs.record(dataclasses.replace(RUN, shard="1/3"))
    assert list(deep_runs.read()) == ["1/3"]
