"""The command that shows a key: what a savepoint has, and what the running application answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.state import DIFFERENT, NOTHING_COMPARED
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.operations.state import keys
from tests.support.applications.key_answers import key_program, write_answers
from tests.support.repository.state_repository import FIRST, SECOND, T0, environment, fill

Run = Callable[..., Result]
SAME: dict[str, dict[str, Any]] = {
    "totals": {"alice": {"count": 100}, "erin": {"count": 4, "sum": 1.5}},
    "numbers": {"0": 1.5, "1": "NaN"},
    "accounts": {"alice": {"owner": "alice"}},
    "minutes": {"bob": {"found": True, "windows": [{"start": T0 + 60_000, "value": 1}]}},
    "sessions": {"bob": {"found": True, "windows": [{"start": T0 + 5, "end": T0 + 5, "value": 1}]}},
    "versions": {"alice": "third"},
}


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return tmp_path / "answers.json"


@pytest.fixture
def run(tmp_path: Path, answers: Path) -> Run:
    fill(tmp_path)
    config = json.loads((tmp_path / "shop.yaml").read_text())
    config["runs"]["command"]["query_keys"] = key_program(answers)
    (tmp_path / "shop.yaml").write_text(json.dumps(config))
    write_answers(answers, SAME)
    runner = CliRunner()
    return lambda *arguments: runner.invoke(
        app, ["state", "get", "shop", *arguments, "--configs", str(tmp_path)], env={**environment(), "COLUMNS": "220"}
    )


@pytest.mark.parametrize(
    ("store", "key"),
    [("totals", "alice"), ("numbers", "0"), ("numbers", "1"), ("minutes", "bob"), ("sessions", "bob"), ("versions", "alice")],
)
def test_what_is_the_same_ends_with_0(run: Run, store: str, key: str) -> None:
    done = run(store, key, "--ask", "--savepoint", SECOND)
    assert (done.exit_code, "has the same for it" in done.stderr) == (0, True), done.output
    assert "the application (one)" in done.stdout
    assert SECOND in done.stdout


def test_both_values_are_shown_as_json(run: Run, answers: Path) -> None:
    write_answers(answers, {"totals": {"alice": {"count": 101}}})
    done = run("totals", "alice", "--ask", "--savepoint", SECOND, "--json")
    assert done.exit_code == DIFFERENT
    found = json.loads(done.stdout)
    assert found["live"] == {"found": True, "value": {"count": 101}, "instance": "one"}
    assert (found["savepoint"], found["equal"], [row["value"] for row in found["rows"]]) == (SECOND, False, [{"count": 100}])


@pytest.mark.parametrize(("store", "key"), [("totals", "zoe"), ("minutes", "alice"), ("versions", "bob")])
def test_a_key_that_only_one_of_them_has_is_different(run: Run, answers: Path, store: str, key: str) -> None:
    write_answers(answers, {store: {"bob": "back"} if store == "versions" else {}})
    done = run(store, key, "--ask", "--savepoint", SECOND)
    assert done.exit_code == DIFFERENT, done.output


def test_a_deleted_key_that_is_not_there_is_not_found(run: Run) -> None:
    done = run("totals", "bob", "--ask", "--savepoint", SECOND)
    assert done.exit_code == 1
    assert isinstance(done.exception, NotFound)


def test_a_value_that_the_application_may_show_in_its_own_way_is_not_called_different(run: Run) -> None:
    done = run("accounts", "alice", "--ask", "--savepoint", SECOND)
    assert (done.exit_code, "cannot be compared" in done.stderr) == (NOTHING_COMPARED, True), done.output


def test_time_bounds_both_sides(run: Run, answers: Path) -> None:
    # Of alice's windows only the one at the start is within it.
    write_answers(answers, {"minutes": {"alice": {"found": True, "windows": [{"start": T0, "value": 0}]}}})
    assert run("minutes", "alice", "--ask", "--savepoint", SECOND, "--to", str(T0 + 1)).exit_code == 0
    assert run("minutes", "alice", "--ask", "--savepoint", SECOND, "--from", str(T0 + 1)).exit_code == DIFFERENT
    done = run("totals", "alice", "--ask", "--savepoint", SECOND, "--from", "0")
    assert isinstance(done.exception, ConfigInvalid)
    assert "has no windows" in str(done.exception)


def test_without_a_savepoint_only_the_application_is_asked(run: Run) -> None:
    done = run("totals", "alice", "--ask", "--savepoint", "live")
    assert (done.exit_code, '{"count": 100}' in done.stdout, FIRST in done.output) == (0, True, False), done.output
    assert isinstance(run("totals", "nobody", "--ask", "--savepoint", "live").exception, NotFound)


def test_a_store_that_cannot_be_asked_is_not_found(run: Run) -> None:
    done = run("raw", "ff00", "--ask", "--savepoint", SECOND)
    assert isinstance(done.exception, NotFound)
    assert "query_keys ended with status 5" in str(done.exception)


def test_of_a_key_with_many_versions_some_are_held_and_all_are_compared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(run("versions", "alice", "--ask", "--savepoint", SECOND, "--json").stdout)
    monkeypatch.setattr(keys, "MOST_ROWS", len(whole["rows"]) - 1)
    found = json.loads(run("versions", "alice", "--ask", "--savepoint", SECOND, "--json").stdout)
    assert (whole["more"], found["more"], found["equal"]) == (False, True, True)
    assert found["rows"] == whole["rows"][:-1]
    monkeypatch.setattr(keys, "MOST_ROWS", 0)
    done = run("versions", "alice", "--ask", "--savepoint", SECOND)
    assert (done.exit_code, f"rows of {SECOND} are shown" in done.stderr) == (NOTHING_COMPARED, True)


def test_a_savepoint_has_a_key_whatever_runs(run: Run, answers: Path) -> None:
    answers.unlink()
    done = run("totals", "alice", "--savepoint", SECOND)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert '{"count":100}' in done.stdout
    found = json.loads(run("totals", "alice", "--savepoint", SECOND, "--json").stdout)
    assert (found["live"], found["equal"], found["savepoint"]) == (None, None, SECOND)
    assert [(row["value"], row["timestamp"]) for row in found["rows"]] == [({"count": 100}, T0 + 60)]


@pytest.mark.parametrize(("store", "key", "value"), [("numbers", "1", "nan"), ("raw", "ff00", None)])
def test_keys_are_written_as_the_table_shows_them(run: Run, store: str, key: str, value: str | None) -> None:
    [row] = json.loads(run(store, key, "--savepoint", SECOND, "--json").stdout)["rows"]
    assert (str(row["key"]), row["value"] if value else None) == (key, value)


def test_versions_are_shown_with_their_times(run: Run) -> None:
    done = run("versions", "alice", "--savepoint", SECOND)
    assert ("valid_from" in done.stdout, "third" in done.stdout) == (True, True)


def test_of_windows_only_those_of_the_time_are_shown(run: Run) -> None:
    def starts(*words: str) -> list[int]:
        return [row["window_start"] for row in json.loads(run("minutes", "alice", "--savepoint", SECOND, "--json", *words).stdout)["rows"]]

    assert starts("--to", str(T0 + 1)) == [T0] < starts()
    assert isinstance(run("minutes", "alice", "--savepoint", SECOND, "--from", "2", "--to", "1").exception, ConfigInvalid)


@pytest.mark.parametrize(("key", "said"), [("stranger", f"no key stranger in {SECOND}"), ("bob", "it was deleted")])
def test_a_key_that_is_not_there_is_not_found(run: Run, key: str, said: str) -> None:
    done = run("totals", key, "--savepoint", SECOND)
    assert isinstance(done.exception, NotFound)
    assert said in str(done.exception)
    assert ("bob" in done.stdout) == (key == "bob"), "a deleted key is shown"
