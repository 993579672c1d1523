"""The embedded Airflow: its users, its time limits, and its database, a copy of one that was made once. That it starts is tested in tests/system."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from embedded import airflow_database
from embedded.airflow import ROLES, USER, Airflow
from embedded.airflow_database import prepare_database, template
from embedded.processes import Processes
from embedded.stack import Ports, Stack
from streams_recovery.core.errors import ApplicationNotReady


@pytest.fixture
def airflow(tmp_path: Path) -> Airflow:
    return Airflow(Stack(directory=tmp_path, ports=Ports.free(), guarantee="exactly_once_v2"), Processes(tmp_path / "processes"))


def test_each_user_has_a_role_and_a_password_that_only_the_owner_can_read(airflow: Airflow) -> None:
    airflow.make_passwords()
    passwords = {user: airflow.password_of(user) for user in ROLES}
    assert ROLES == {"admin": "admin", "operator": "op", "viewer": "viewer"}
    assert USER == "admin"
    assert len(set(passwords.values())) == len(ROLES)
    assert airflow.password_file.stat().st_mode & 0o777 == 0o600


def test_a_stack_that_had_fewer_users_keeps_their_passwords(airflow: Airflow) -> None:
    airflow.password_file.parent.mkdir(parents=True)
    airflow.password_file.write_text(json.dumps({"admin": "as it was"}))
    airflow.make_passwords()
    airflow.make_passwords()
    assert airflow.password_of("admin") == "as it was"
    assert airflow.password_of("viewer") not in ("", "as it was")


def test_whoever_needs_the_database_has_more_time_than_it_may_take(airflow: Airflow) -> None:
    airflow.password_file.parent.mkdir(parents=True)
    found = airflow.environment()
    database = float(found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].partition("timeout=")[2])
    for name in ("WORKERS__EXECUTION_API_TIMEOUT", "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT"):
        assert float(found[f"AIRFLOW__{name}"]) > database, name


# The database

MIGRATE = """
import os, sqlite3, sys
assert sys.argv[1:] == ["db", "migrate"]
database = sqlite3.connect(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].removeprefix("sqlite:///"))
database.execute("PRAGMA journal_mode = WAL")
database.execute("CREATE TABLE pool (name)")
database.execute("INSERT INTO pool VALUES ('default')")
database.commit()
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of Airflow's: its own takes ten seconds."""
    program = tmp_path / "airflow.py"
    program.write_text(MIGRATE)
    monkeypatch.setattr(airflow_database, "COMMAND", [airflow_database.COMMAND[0], str(program)])
    monkeypatch.setenv("STREAMS_RECOVERY_CACHE", str(tmp_path / "cache"))
    return program


def pools(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as opened:
        return [name for (name,) in opened.execute("SELECT name FROM pool")]


def test_each_stack_has_a_database_of_its_own(command: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    prepare_database(first)
    command.write_text("raise SystemExit('it is not made twice')")
    with closing(sqlite3.connect(first)) as opened:
        opened.execute("DELETE FROM pool")
        opened.commit()
    prepare_database(second)
    assert pools(second) == ["default"]
    prepare_database(first)
    assert pools(first) == [], "what a stack has is kept"


def test_other_versions_have_another_one(command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = template()
    found = [one for one in airflow_database.distributions() if one.name.lower() != "apache-airflow-providers-standard"]
    monkeypatch.setattr(airflow_database, "distributions", lambda: found)
    assert template() != first


def test_a_failed_migration_leaves_nothing_and_says_why(command: Path, tmp_path: Path) -> None:
    command.write_text("raise SystemExit('no such driver')")
    with pytest.raises(ApplicationNotReady, match="no such driver"):
        prepare_database(tmp_path / "first.db")
    assert not (tmp_path / "first.db").exists()
    assert list((tmp_path / "cache").rglob("*.db")) == []
