"""A workbench on a copy of a golden repository. No broker is ever asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.project import GOLDEN

CONFIG = """
version: 1
name: golden
application: {{id: golden, guarantee: exactly_once_v2}}
topics: {{inputs: [orders]}}
stores: {stores}
storage: {{backend: filesystem, path: {path}}}
backup: {{survive_cluster_loss: false}}
retention: {{keep_last: 1, keep_hourly: 0, keep_daily: 0, keep_weekly: 0, keep_monthly: 0, minimum: 1, grace_days: 7}}
runs: {{kind: command, command: {{status: ["true"], stop: ["true"], start: ["true"], wipe: ["true"]}}}}
"""

OpenGolden = Callable[..., RecoveryContext]


@pytest.fixture
def golden(tmp_path: Path) -> Iterator[OpenGolden]:
    """Opens a golden repository by name, at a place and a time of the test's choice, with these stores declared."""
    with ExitStack() as opened:

        def open_copy(name: str, *, place: str = "repository", now: int | None = None, stores: str = "{}") -> RecoveryContext:
            if not (tmp_path / place).exists():
                shutil.copytree(GOLDEN / name, tmp_path / place)
            (tmp_path / "golden.yaml").write_text(CONFIG.format(path=tmp_path / place, stores=stores))
            kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}})
            config, connections = load_named("golden", tmp_path, {}), EnvironmentConnections({"AIRFLOW_CONN_KAFKA_DEFAULT": kafka})
            clock = {} if now is None else {"clock": lambda: now}
            return opened.enter_context(open_context(config, connections, **clock))

        yield open_copy
