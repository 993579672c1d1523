"""An application that runs on a cluster that does not answer, and restores of it that get as far as stopping it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import BrokerUnavailable
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.restore.open import note
from tests.support.applications import fleet

RUN = "restore one-run"


@contextmanager
def application(directory: Path) -> Iterator[RecoveryContext]:
    """One whose instance runs, on a cluster that does not answer."""
    config = {
        "version": 1,
        "name": "app",
        "application": {"id": "app", "guarantee": "exactly_once_v2"},
        "source": {"timeout_seconds": 1},
        "topics": {"inputs": ["in"]},
        "backup": {"survive_cluster_loss": False},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "runs": {"kind": "command", "command": fleet.programs(directory / "instance")},
    }
    (directory / "app.yaml").write_text(json.dumps(config))
    nowhere = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})}
    with open_context(load_named("app", directory, {}), EnvironmentConnections(nowhere)) as recovery:
        recovery.application.start()
        yield recovery


def opened(recovery: RecoveryContext, restore_id: str = "20261121T100000Z-aaaaaaaaaa", **changes: object) -> restore.RestoreTicket:
    """A restore that has the lock, and has touched nothing."""
    ticket = restore.RestoreTicket(
        application_id=recovery.application_id,
        restore_id=restore_id,
        request=restore.FromSavepoint(reason="test"),
        requested_by="test",
        plan_hash="",
        plan=ArtifactRef.of("app/work/plan.json", b""),
        lock=recovery.lock.acquire(RUN, lease_seconds=LEASE_SECONDS, purpose="a test"),
        started_at=recovery.clock(),
        running=("one",),
        after_unfinished=None,
    )
    ticket = replace(ticket, **changes)  # type: ignore[arg-type]
    note(recovery, ticket, Phase.OPENED)
    return ticket


def stopped(recovery: RecoveryContext) -> restore.RestoreTicket:
    """A restore that has stopped the application, and then could not reach the cluster."""
    ticket = opened(recovery)
    with pytest.raises(BrokerUnavailable):
        restore.stop(recovery, ticket)
    # Without the cluster nobody knows who is in the group, so nothing was stopped yet; what is to be stopped is on record.
    recovery.application.stop(timeout=1)
    assert not running(recovery)
    return ticket


def running(recovery: RecoveryContext) -> bool:
    """True when its one instance runs."""
    return [status.state.value for status in recovery.application.status()] == ["running"]
