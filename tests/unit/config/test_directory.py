"""What an installed package does is in tests/unit/test_wheel.py."""

from __future__ import annotations

from pathlib import Path

from streams_recovery.config.directory import config_directory
from tests.support.project import PROJECT


def test_a_checkout_has_its_configurations_in_itself() -> None:
    assert config_directory({"AIRFLOW_HOME": "/srv/airflow"}) == PROJECT / "include" / "configs"


def test_the_environment_names_another_directory() -> None:
    assert config_directory({"STREAMS_RECOVERY_CONFIG_DIR": "/srv/configs"}) == Path("/srv/configs")
