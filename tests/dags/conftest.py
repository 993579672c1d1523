"""Airflow with an empty home of its own, set before anything imports it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.applications.counting import Counting
from tests.support.project import PROJECT

_HOME = tempfile.TemporaryDirectory(prefix="airflow-tests-")

os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        # The example has every DAG that there is.
        "STREAMS_RECOVERY_ARCHIVE": "true",
        "STREAMS_RECOVERY_MIRROR": "true",
    }
)


@pytest.fixture(scope="session")
def metadata() -> None:
    """Airflow's database."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="module")
def auth_manager(metadata: None) -> Iterator[None]:
    """Airflow's auth manager, as configured by default: roles of the simple one."""
    from airflow.api_fastapi.app import init_auth_manager, purge_cached_app

    init_auth_manager()
    yield
    purge_cached_app()


@pytest.fixture(scope="session")
def dags(metadata: None) -> dict[str, Any]:
    """The DAGs of the project's example configuration."""
    from tests.support.airflow.parsed_dags import parsed_dags

    return parsed_dags()


@pytest.fixture
def a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any application is one of itself: what a clone's tasks ask for needs no configuration of a clone."""
    monkeypatch.setattr("streams_recovery.operators.clone.original_of", lambda _name: "order-processing")


@pytest.fixture
def counting(metadata: None, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """An application that has never run, with topics and a configuration that tasks of Airflow find."""
    app = Counting(bootstrap=bootstrap, directory=tmp_path)
    for name, value in app.variables.items():
        monkeypatch.setenv(name, value)
    app.configure()
    app.build()
    yield app
    app.tidy()
