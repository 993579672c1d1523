"""The commands for the keys of encrypted records, and what others say of them."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import KeyUnavailable, NotFound, Refused
from streams_recovery.operations.context import open_context
from tests.support.repository.state_repository import SECOND, environment, fill

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--configs", str(tmp_path)], env=environment() | {"COLUMNS": "300"})

    return run


def configure(directory: Path, *names: str, mirror: bool = False, own: str | None = None) -> None:
    """Let the keys in these files encrypt records, one of them the second place's ``own``; they are made when they are not there."""
    for name in names:
        if not (path := directory / name).exists():
            path.write_bytes(base64.b64encode(os.urandom(32)))
            path.chmod(0o600)
    written = json.loads((directory / "shop.yaml").read_text())
    written["storage"]["encryption"] = {
        "keys": [{"key": "local", "key_file": str(directory / name), "mirror": name == own} for name in names]
    }
    if mirror:
        written["storage"]["mirror"] = {"backend": "filesystem", "path": "second"}
    (directory / "shop.yaml").write_text(json.dumps(written))


def data_key(directory: Path) -> bytes:
    """What a run of today would encrypt with."""
    with open_context(load_named("shop", directory, {}), EnvironmentConnections(environment())) as recovery:
        key = recovery.repository.data_keys.writing(recovery.application_id)
        assert key is not None
        return key.secret


def told(done: Result) -> Any:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def info(run: Run) -> str:
    return next(line for line in run("info", "shop").stdout.splitlines() if "encryption" in line).strip()


def test_keys_are_listed_shown_wrapped_again_and_missed(run: Run, tmp_path: Path) -> None:
    assert isinstance(run("keys", "list", "shop").exception, Refused)
    assert "encryption" not in run("info", "shop").stdout
    configure(tmp_path, "old.key")
    assert told(run("keys", "list", "shop", "--json")) == []
    assert info(run) == "encryption: records will be encrypted, there are none yet"
    secret = data_key(tmp_path)
    (one,) = told(run("keys", "list", "shop", "--json"))
    assert info(run) == f"encryption: records are encrypted with 1 data key, wrapped by {one['wrapped_by']}"
    shown = run("keys", "show", "shop", one["key_id"])
    assert shown.stdout.strip() == base64.b64encode(secret).decode()
    assert isinstance(run("keys", "show", "shop", "k0000000000000000").exception, NotFound)

    configure(tmp_path, "new.key", "old.key")
    assert told(run("keys", "rotate", "shop", "--json")) == {"wrapped": [one["key_id"]]}
    assert run("keys", "rotate", "shop").stdout == "0 data keys were wrapped again\n"
    configure(tmp_path, "new.key")
    (again,) = told(run("keys", "list", "shop", "--json"))
    assert (again["key_id"], again["problem"]) == (one["key_id"], "")
    assert again["wrapped_by"] != one["wrapped_by"]

    configure(tmp_path, "other.key")
    listed = run("keys", "list", "shop")
    assert (listed.exit_code, again["wrapped_by"] in listed.stdout) == (2, True)
    assert info(run).startswith(f"encryption: the data key {one['key_id']} cannot be unwrapped: it is wrapped by {again['wrapped_by']}")
    assert isinstance(run("keys", "rotate", "shop").exception, KeyUnavailable)
    assert isinstance(run("keys", "show", "shop", one["key_id"]).exception, KeyUnavailable)


def test_the_key_of_the_second_place_is_listed_and_makes_up_for_what_it_has_not_wrapped(run: Run, tmp_path: Path) -> None:
    configure(tmp_path, "a.key", mirror=True)
    data_key(tmp_path)
    assert "second place" not in run("keys", "list", "shop").stdout
    configure(tmp_path, "a.key", "b.key", mirror=True, own="b.key")
    assert info(run).endswith("for the second place: it has not wrapped 1 of them")
    assert told(run("mirror", "shop", "--json"))["copied"] > 0
    (one,) = told(run("keys", "list", "shop", "--json"))
    assert one["second"] not in ("", one["wrapped_by"])
    listed = run("keys", "list", "shop").stdout
    assert "for the second place by" in listed
    assert one["second"] in listed
    assert info(run).endswith(f"wrapped by {one['wrapped_by']}, and by {one['second']} for the second place")


def test_an_edited_store_is_encrypted_and_read_from_the_second_place_alone(run: Run, tmp_path: Path) -> None:
    configure(tmp_path, "a.key", mirror=True)
    rows = tmp_path / "rows.json"
    assert run("state", "show", "shop", "totals", "--savepoint", SECOND, "--out", str(rows)).exit_code == 0
    first, *rest = rows.read_text().splitlines()
    rows.write_text("\n".join([json.dumps(json.loads(first) | {"value": 4_711}), *rest]))
    done = run("state", "write", "shop", "totals", "--from", str(rows), "--savepoint", SECOND, "--reason", "a test", "--json")
    edited = told(done)["savepoint_id"]
    new = [path for path in (tmp_path / "repository").rglob("*.parquet") if path.read_bytes()[:4] == b"PARE"]
    assert new
    assert told(run("mirror", "shop", "--json"))["copied"] > 0
    (tmp_path / "repository").rename(tmp_path / "lost")
    written = json.loads((tmp_path / "shop.yaml").read_text())
    written["storage"] |= {"path": "second", "mirror": None}
    (tmp_path / "shop.yaml").write_text(json.dumps(written))
    key = str(json.loads(first)["key"])
    assert "4711" in run("state", "get", "shop", "totals", key, "--savepoint", edited).stdout
    configure(tmp_path, "other.key")
    assert isinstance(run("state", "get", "shop", "totals", key, "--savepoint", edited).exception, KeyUnavailable)
