"""The users and the time limits of the embedded Airflow. That it starts is tested in tests/system."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedded.airflow import ROLES, USER, Airflow
from embedded.processes import Processes
from embedded.stack import Ports, Stack


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
