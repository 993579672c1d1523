"""Recovery contexts without a broker: on a copy of a golden repository, and of an application that runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.applications.unreachable import application
from tests.support.project import GOLDEN
from tests.support.repository.golden import OpenGolden
from tests.support.repository.golden_place import CONFIG


@pytest.fixture
def golden(tmp_path: Path) -> Iterator[OpenGolden]:
    """Opens a golden repository by name, at a place and a time of the test's choice, with these stores declared."""
    with ExitStack() as opened:

        def open_copy(name: str, *, place: str = "repository", now: int | None = None, stores: str = "{}") -> RecoveryContext:
            if not (tmp_path / place).exists():
                shutil.copytree(GOLDEN / name, tmp_path / place)
            storage = f"{{backend: filesystem, path: {tmp_path / place}}}"
            (tmp_path / "golden.yaml").write_text(f"{CONFIG.format(storage=storage, always='false')}stores: {stores}\n")
            kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}})
            config, connections = load_named("golden", tmp_path, {}), EnvironmentConnections({"AIRFLOW_CONN_KAFKA_DEFAULT": kafka})
            clock = {} if now is None else {"clock": lambda: now}
            return opened.enter_context(open_context(config, connections, **clock))

        yield open_copy


@pytest.fixture
def recovery(tmp_path: Path) -> Iterator[RecoveryContext]:
    """Of an application that runs, on a cluster that does not answer."""
    with application(tmp_path) as found:
        yield found
