"""Which deep tests a change concerns."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support import deep_runs
from tests.support.affected import affected, deep_tests, reached
from tests.support.deep_runs import DeepRun
from tests.support.project import PROJECT

SPARK, CUTS, AIRFLOW = "tests/spark/test_submitted.py", "tests/system/test_cut_under_load.py", "tests/system/test_airflow_runs.py"
TESTS = [SPARK, CUTS, AIRFLOW]


def test_what_a_test_imports_is_followed_to_the_end() -> None:
    found = reached(CUTS)
    assert {"tests/conftest.py", "tests/support/stack/stage.py", "embedded/stack.py"} <= found
    assert "plugins/streams_recovery/core/savepoint/cut.py" in found, "by way of the steps of a savepoint"
    assert "dags/streams_backup.py" not in found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("docs/format.md", []),
        ("tests/support/tiers.py", []),
        ("tests/support/story.py", [AIRFLOW]),
        ("plugins/streams_recovery/core/savepoint/cut.py", TESTS),
        ("spark_jobs/transforms/load.py", TESTS),
        ("plugins/streams_recovery/operators/restore.py", [CUTS, AIRFLOW]),
        ("dags/streams_undo.py", [CUTS, AIRFLOW]),
        ("tests/support/spark/small_app.py", [SPARK]),
        ("tests/support/stack/dag_runs.py", [AIRFLOW]),
        ("tests/support/stack/oracle.py", [CUTS]),
        ("pyproject.toml", TESTS),
        ("tests/conftest.py", TESTS),
        ("plugins/streams_recovery/application/docker_compose.py", []),
    ],
)
def test_a_change_concerns_those_that_import_or_start_it(changed: str, expected: list[str]) -> None:
    assert affected([changed], TESTS) == sorted(expected)


@pytest.mark.parametrize(
    ("test", "changed"),
    [
        ("tests/unit/test_coverage.py", "plugins/streams_recovery/core/savepoint/cut.py"),
        ("tests/unit/test_coverage.py", "tests/unit/core/savepoint/test_cut.py"),
        ("tests/unit/test_coverage.py", "tests/contracts/test_lock.py"),
        ("tests/unit/test_coverage.py", "tests/every_line.ini"),
        ("tests/integration/test_runbooks.py", "docs/runbooks/disk-full.md"),
        ("tests/integration/test_runbooks.py", "plugins/streams_recovery/cli/restore.py"),
        ("tests/integration/test_runbooks.py", "spark_jobs/restore.py"),
        ("tests/contracts/test_compose_client.py", "docker-compose.control.yaml"),
        ("tests/contracts/test_chart.py", "deploy/helm/kafka-streams-recovery/values.yaml"),
        ("tests/dags/test_recovery_screens.py", "plugins/streams_recovery/ui/static/page.js"),
        ("tests/system/test_recovery_page.py", "plugins/streams_recovery/ui/templates/application.html"),
        ("tests/system/test_recovery_page.py", "plugins/streams_recovery_plugin.py"),
    ],
)
def test_what_a_test_reads_or_starts_is_in_the_table(test: str, changed: str) -> None:
    assert (PROJECT / test).is_file()
    assert (PROJECT / changed).is_file()
    assert affected([changed], [test]) == [test]


def test_all_deep_files_are_known_and_there() -> None:
    found = deep_tests()
    assert {SPARK, CUTS, AIRFLOW} <= set(found)
    assert all((PROJECT / file).is_file() for file in found)


RUN = DeepRun(unit="system/test_cut_under_load.py", shard="1/2", commit="HEAD", minutes=3.0, passed=4, failed=0, skipped=0)
CASES = [
    (None, "never run"),
    (RUN, "green on HEAD, 4 tests in 3.0 min"),
    (dataclasses.replace(RUN, failed=1), "red on HEAD: 1 failed, 0 skipped of 4"),
    (dataclasses.replace(RUN, passed=3, skipped=1), "red on HEAD: 0 failed, 1 skipped of 4"),
    (dataclasses.replace(RUN, passed=3), "run again: it has 4 tests, 3 passed on HEAD"),
    (dataclasses.replace(RUN, passed=0), "run again: it has 4 tests, 0 passed on HEAD"),
]


@pytest.fixture
def nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_runs, "changed_since", lambda _: ["docs/testing.md", "tests/seconds.json"])


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(deep_runs, "RECORD", tmp_path / "runs.json")
    return tmp_path / "runs.json"


@pytest.mark.usefixtures("nothing_changed")
@pytest.mark.parametrize(("run", "expected"), CASES)
def test_green_is_what_ran_whole_with_nothing_failed_or_skipped(run: DeepRun | None, expected: str) -> None:
    said = deep_runs.standing({} if run is None else {RUN.unit: run}, {RUN.unit: 4})
    assert said == {RUN.unit: expected}
    assert deep_runs.holds(said[RUN.unit]) == expected.startswith("green on")


def test_what_a_later_change_concerns_is_to_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_runs, "changed_since", lambda _: ["tests/support/stack/oracle.py"])
    assert deep_runs.standing({RUN.unit: RUN}, {RUN.unit: 4}) == {RUN.unit: "run again: a change since HEAD concerns it"}


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
    ("changed", "clean"), [([], True), (["tests/seconds.json", "docs/a.md"], True), (["tests/support/stack/oracle.py"], False)]
)
def test_uncommitted_is_what_a_test_may_depend_on(changed: list[str], clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_runs, "changed_since", lambda _: changed)
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
