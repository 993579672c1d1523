"""A directory of configurations, and Airflow's stats and variables, in the process of the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Variable

from streams_recovery.config.loader import DIRECTORY
from streams_recovery.operators import monitor as configurations
from streams_recovery.operators import monitor as tasks
from tests.support.airflow.listener import Listener
from tests.support.airflow.monitored import configuration


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory, with a configuration of ``orders``."""
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}))
    configuration(tmp_path, "orders")
    Listener.heard.clear()
    Listener.out = False
    yield tmp_path
    Listener.heard.clear()
    Listener.out = False


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What was sent to Airflow's stats: gauges as they are now, counters as they add up. Airflow sends them to a server, or
    nowhere when none is configured, and keeps nothing that could be read back.
    """
    found: dict[str, float] = {}

    def incr(name: str, count: int = 1, **_: Any) -> None:
        found[name] = found.get(name, 0) + count

    stats = SimpleNamespace(incr=incr, gauge=lambda name, value, **_: found.update({name: value}))
    for module in (tasks, configurations):
        monkeypatch.setattr(module, "Stats", stats)
    return found


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables of Airflow. Its own are answered by the supervisor of a task that runs; here none runs."""
    found: dict[str, str] = {}
    monkeypatch.setattr(Variable, "get", staticmethod(lambda key, default=None: found.get(key, default)))
    monkeypatch.setattr(Variable, "set", staticmethod(lambda key, value: found.update({key: value})))
    monkeypatch.setattr(Variable, "delete", staticmethod(found.pop))
    return found
