"""The commands that only look: info, in a repository, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import ConfigInvalid
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
