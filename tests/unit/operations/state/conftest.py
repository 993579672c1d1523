"""The stores of a repository without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.repository.state_repository import environment, fill


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[RecoveryContext]:
    fill(tmp_path)
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        yield recovery
