"""The context of a word count that works exactly once (``named_counts``), for what is done with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_all, load_named
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.discovery import discover
from streams_recovery.operations.savepoint import finish
from streams_recovery.operations.savepoint.by_names import take_by_names
from tests.support.applications.savepoint_steps import begun, take
from tests.support.applications.small import RUNNING, STOPPED, says
from tests.support.project import PROJECT

ONE_INSTANCE = str(PROJECT / "tests" / "support" / "programs" / "one_instance.py")
PATIENT = {"survive_cluster_loss": False, "consistency": {"mode": "live", "timeout_seconds": 60}}


@contextmanager
def named_recovery(
    extra: Mapping[str, object],
    application_id: str,
    directory: Path,
    *,
    running: bool = True,
    name: str = "named",
    **sections: Mapping[str, object],
) -> Iterator[RecoveryContext]:
    """The context of the application with this id, which is said to be ``running``. ``sections`` are laid over its configuration."""
    config: dict[str, Any] = {
        "version": 1,
        "name": name,
        "application": {"id": application_id, "guarantee": "exactly_once_v2"},
        "topics": {"inputs": [f"{application_id}.in"], "outputs": [f"{application_id}.out"]},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": False, "consistency": {"mode": "live", "timeout_seconds": 10}},
        "runs": {
            "kind": "command",
            "command": {"status": says(RUNNING if running else STOPPED), "stop": says(STOPPED), "start": ["true"], "wipe": ["true"]},
        },
    }
    for key, section in sections.items():
        config[key] = {**config.get(key, {}), **section}
    (directory / f"{name}.yaml").write_text(json.dumps(config))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": dict(extra)})}
    with open_context(
        load_named(name, directory, {}), EnvironmentConnections(kafka), applications=lambda: load_all(directory, {}).applications
    ) as recovery:
        yield recovery


def saved(recovery: RecoveryContext) -> Manifest:
    """A savepoint of the application as it works, which is as good as one can be."""
    found = recovery.savepoints.read(take(None, mode=QuiesceMode.LIVE, recovery=recovery).savepoint_id)  # type: ignore[arg-type]
    assert found.proof.names is not None, "it was not taken by names"
    assert (found.consistency, found.format_version, found.proof.held_seconds) == (Consistency.EXACT, 9, 0.0)
    return found


def why_not(recovery: RecoveryContext) -> str:
    """Why it is not saved by names."""
    ticket = begun(recovery, QuiesceMode.LIVE)
    try:
        taken = take_by_names(recovery, ticket, discover(recovery))
    finally:
        finish(recovery, ticket)
    assert isinstance(taken, str), "it is saved by names"
    return taken
