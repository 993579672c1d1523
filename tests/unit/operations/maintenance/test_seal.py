"""Vouching for records that are older than the seals, on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import Forged, LockHeld, PlanChanged, Refused
from streams_recovery.core.repository.check import Cause
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.seal import SEALED
from streams_recovery.operations.context import open_context, wall_clock
from streams_recovery.operations.maintenance.contents import check_logs
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from tests.support.repository.state_repository import FIRST, SECOND, environment, fill

Run = Callable[..., Result]
LAYOUT = Layout("shop")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)
    return lambda *words: CliRunner().invoke(app, [*words, "--configs", str(tmp_path)], env=environment() | {"COLUMNS": "300"})


def seal(directory: Path) -> str:
    """Write keys into the configuration. Returns the public one."""
    made = CliRunner().invoke(app, ["seal-key", str(directory / "seal.key")])
    assert made.exit_code == 0, made.output
    public = made.stdout.strip()
    file = directory / "shop.yaml"
    written = yaml.safe_load(file.read_text())
    written["storage"]["seal"] = {"public_keys": [public], "key_file": str(directory / "seal.key")}
    file.write_text(json.dumps(written))
    return public


def plain(directory: Path) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")))


@pytest.mark.remedy("repository-seal")
def test_an_older_repository_is_forged_until_somebody_vouches_for_it(run: Run, tmp_path: Path) -> None:
    before = run("savepoints", "list", "shop")
    assert "not sealed" in before.stdout
    assert "seals: not sealed" in run("info", "shop").stdout
    seal(tmp_path)
    listed = json.loads(run("savepoints", "list", "shop", "--json").stdout)
    assert {one["savepoint_id"]: one["sealed"] for one in listed} == {one["savepoint_id"]: False for one in listed}
    forged = run("savepoints", "list", "shop").stdout
    assert f"    {LAYOUT.manifest(FIRST)}: it has no seal\n" in forged
    assert "records are forged: no writer of this repository has signed them, and nothing uses them:" in forged
    assert f"forged, not used: {LAYOUT.manifest(FIRST)}: it has no seal" in run("info", "shop").stdout
    # No refusal of a listing, and none of a savepoint's manifest is shown.
    assert isinstance(run("savepoints", "show", "shop", FIRST).exception, Forged)
    planned = json.loads(run("seal", "shop", "--plan", "--json").stdout)
    assert LAYOUT.manifest(FIRST) in planned["records"]
    assert LAYOUT.manifest(SECOND) in planned["records"]
    assert not [key for key in planned["records"] if "/segments/" in key or "/ranges/" in key]
    assert "Nothing was changed" in run("seal", "shop", "--plan").stdout + run("seal", "shop", "--plan").stderr
    done = run("seal", "shop", "--approve", planned["approve"], "--reason", "a test", "--json")
    assert json.loads(done.stdout)["adopted"] == len(planned["records"])
    after = run("savepoints", "list", "shop")
    assert SEALED in after.stdout
    assert all(one["sealed"] and one["adopted"] for one in json.loads(run("savepoints", "list", "shop", "--json").stdout))
    assert re.search(rf"{FIRST}.* adopted ", after.stdout)
    assert run("savepoints", "show", "shop", FIRST).exit_code == 0


def test_what_appears_after_the_plan_is_not_vouched_for(run: Run, tmp_path: Path) -> None:
    seal(tmp_path)
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    plain(tmp_path).create(f"{LAYOUT.pins}{1:012}.json", b"{}")
    done = run("seal", "shop", "--approve", approve, "--reason", "a test")
    assert isinstance(done.exception, PlanChanged)
    assert not list(plain(tmp_path).keys(LAYOUT.adopted))


def test_a_lock_without_a_seal_is_respected(run: Run, tmp_path: Path) -> None:
    seal(tmp_path)
    ApplicationLock(plain(tmp_path), LAYOUT, wall_clock).acquire("old", lease_seconds=600, purpose="a savepoint")
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    done = run("seal", "shop", "--approve", approve, "--reason", "a test")
    assert isinstance(done.exception, LockHeld)


def test_a_record_with_a_wrong_seal_is_never_adopted(run: Run, tmp_path: Path) -> None:
    seal(tmp_path)
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    assert run("seal", "shop", "--approve", approve, "--reason", "a test").exit_code == 0
    manifest = tmp_path / "repository" / LAYOUT.published(FIRST)
    lock = sorted((tmp_path / "repository" / LAYOUT.locks).iterdir())[-1]
    if manifest.exists():
        manifest.unlink()
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_bytes(lock.read_bytes())
    planned = json.loads(run("seal", "shop", "--plan", "--json").stdout)
    assert LAYOUT.published(FIRST) not in planned["records"]
    assert [one for one in planned["refused"] if LAYOUT.published(FIRST) in one]


def test_verify_names_what_is_forged(run: Run, tmp_path: Path) -> None:
    seal(tmp_path)
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    assert run("seal", "shop", "--approve", approve, "--reason", "a test").exit_code == 0
    forged = f"{LAYOUT.pins}{7:012}.json"
    plain(tmp_path).create(forged, b"{}")
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        found = check_logs(recovery, every_entry=True).findings
    assert [one.cause for one in found if one.key == forged] == [Cause.FORGED]


def test_without_seals_there_is_nothing_to_vouch_for(run: Run) -> None:
    done = run("seal", "shop", "--plan")
    assert isinstance(done.exception, Refused)
    assert "seal-key" in str(done.exception)


def test_a_key_is_written_once_and_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "seal.key"
    assert CliRunner().invoke(app, ["seal-key", str(file)]).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    kept = file.read_text()
    assert isinstance(CliRunner().invoke(app, ["seal-key", str(file)]).exception, Refused)
    assert file.read_text() == kept
