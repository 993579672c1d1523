"""The commands that only look: info and peek in a repository, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from tests.support.repository.state_repository import AHEAD, SECOND, environment, fill

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)
    bare = {name: value for name, value in environment().items() if "KAFKA" not in name}
    return lambda *words: CliRunner().invoke(app, [*words, "--configs", str(tmp_path)], env={**bare, "COLUMNS": "400"})


def test_info_needs_no_cluster_and_says_what_the_repository_tells(run: Run) -> None:
    shown = run("info", "shop")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0] == "application: shop (id shop)"
    assert any("streams_monitor has not looked yet" in line for line in lines)
    assert any(line.startswith(f"    newest: {AHEAD}") for line in lines)
    assert any(line.startswith(f"    newest exact: {SECOND}") for line in lines)
    (plain,) = json.loads(run("info", "--json").stdout)["applications"]
    assert (plain["savepoints"], plain["newest_exact"]["savepoint_id"]) == (4, SECOND)


def test_info_of_all_shows_the_others_when_one_is_broken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "torn.yaml").write_text("version: 1\napplication: {}\n")
    shown = run("info")
    assert shown.exit_code == ConfigInvalid.exit_code
    assert "application: shop (id shop)" in shown.stdout
    assert "application: torn" in shown.stdout
    assert set(json.loads(run("info", "--json").stdout)["failed"]) == {"torn"}


def test_records_of_a_topic_in_a_savepoint(run: Run) -> None:
    shown = run("peek", "shop", "shop-totals-changelog", "--savepoint", SECOND, "--json")
    assert shown.exit_code == 0, shown.output
    records = json.loads(shown.stdout)
    assert {"topic", "partition", "offset", "timestamp", "key", "value", "headers"} == set(records[0])
    assert f"{len(records)} records of shop-totals-changelog" in shown.stderr
    one = records[0]
    again = run(
        *("peek", "shop", "shop-totals-changelog", "--savepoint", SECOND, "--json", "--count", "1"),
        *("--partition", str(one["partition"]), "--offset", str(one["offset"])),
    )
    assert json.loads(again.stdout) == [one]
    newest = [record for record in records if record["partition"] == one["partition"]][-1]
    last = run(
        "peek", "shop", "shop-totals-changelog", "--savepoint", SECOND, "--json", "--count", "1", "--partition", str(one["partition"])
    )
    assert json.loads(last.stdout) == [newest]
    assert "alice" in run("peek", "shop", "shop-totals-changelog", "--savepoint", SECOND).stdout


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("gone",), NotFound, "has no topic gone"),
        (("shop-totals-changelog", "--partition", "9"), NotFound, "has no partition 9"),
        (("orders",), Refused, "has no records of orders"),
        (("orders", "--offset", "3"), ConfigInvalid, "an offset belongs to one partition"),
        (("orders", "--key", "alice"), ConfigInvalid, "one of two can be looked at"),
        (("--store", "totals"), ConfigInvalid, "one of two can be looked at"),
        (("--store", "totals", "--key", "stranger"), NotFound, "has no key stranger"),
    ],
)
def test_what_cannot_be_shown_is_an_error(run: Run, words: tuple[str, ...], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        raise run("peek", "shop", *words, "--savepoint", SECOND).exception or AssertionError


def test_a_key_of_a_store(run: Run) -> None:
    (row,) = run("peek", "shop", "--store", "totals", "--key", "alice", "--savepoint", SECOND).stdout.splitlines()
    assert json.loads(row)["value"] == {"count": 100}
    (deleted,) = json.loads(run("peek", "shop", "--store", "totals", "--key", "bob", "--savepoint", SECOND, "--json").stdout)
    assert "value" not in deleted
