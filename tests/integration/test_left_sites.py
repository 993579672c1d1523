"""How a site is left whose cluster, or whose instances, cannot be asked. The new site has a real broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams_recovery.application.port import InstanceState
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import ApplicationRunning, LockLost, Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.restore.move import leave, require_entered, running_at
from streams_recovery.operations.restore.start import arrive
from streams_recovery.operations.restore.strategies import Failover
from streams_recovery.operations.restore.values import RestoreTicket
from tests.support.applications import fleet
from tests.support.applications.restore_steps import reach

pytestmark = pytest.mark.kafka

SILENT = [sys.executable, "-c", "import sys; sys.exit('no answer')"]


@contextmanager
def opened(bootstrap: str, directory: Path, *, site: str = "dr", asked: bool = True) -> Iterator[RecoveryContext]:
    """One instance at each of two clusters, of which the one at home does not answer; with ``asked`` the program that stops the instance there does."""
    home = fleet.programs(directory / "primary") if asked else dict.fromkeys(("status", "start", "stop", "wipe"), SILENT)
    config = {
        "version": 1,
        "name": "app",
        "application": {"id": "app", "guarantee": "exactly_once_v2"},
        "source": {"timeout_seconds": 2},
        "topics": {"inputs": ["in"]},
        "backup": {"survive_cluster_loss": False},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "runs": {"kind": "command", "command": home},
        "sites": {"dr": {"connection": "kafka_dr", "runs": {"kind": "command", "command": fleet.programs(directory / "dr")}}},
    }
    (directory / "app.yaml").write_text(json.dumps(config))
    clusters = {"AIRFLOW_CONN_KAFKA_DEFAULT": "127.0.0.1:9", "AIRFLOW_CONN_KAFKA_DR": bootstrap}
    kafka = {name: json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": address}}) for name, address in clusters.items()}
    connections = EnvironmentConnections(kafka)
    with open_context(load_named("app", directory, {}), connections, site=site, patience=2) as recovery:
        yield recovery


def ticket(recovery: RecoveryContext, lost: str = "") -> RestoreTicket:
    return RestoreTicket(
        application_id="app",
        restore_id="20261121T100000Z-aaaaaaaaaa",
        request=Failover(reason="test", to="dr", lost=lost),
        requested_by="me",
        plan_hash="",
        plan=ArtifactRef.of("app/work/plan.json", b""),
        lock=recovery.lock.acquire("restore one", lease_seconds=LEASE_SECONDS, purpose="a test"),
        started_at=recovery.clock(),
        running=("one",),
        after_unfinished=None,
        before=PRIMARY,
    )


def left(recovery: RecoveryContext, lost: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stayed unproven, and what is fenced, after the site at home was left."""
    moving = ticket(recovery, lost)
    with recovery.at(PRIMARY) as old:
        stopped = leave(recovery, moving, old, lost, on_record=True)
    newest = next(recovery.sites.log.readable_back())
    assert (newest.site, newest.arrived, newest.run) == ("dr", False, moving.restore_id)
    require_entered(recovery, moving)
    return tuple(one.partition(":")[0] for one in stopped.unproven), tuple(fence.site for fence in newest.fences)


@pytest.mark.deep
def test_instances_are_stopped_although_their_cluster_is_lost(bootstrap: str, tmp_path: Path) -> None:
    with opened(bootstrap, tmp_path, site=PRIMARY) as home:
        home.application.start()
    with opened(bootstrap, tmp_path) as recovery:
        assert running_at(recovery, PRIMARY) == ("one",)
        assert left(recovery, PRIMARY) == (("cluster",), (PRIMARY,))
        with recovery.at(PRIMARY) as home:
            assert [one.state for one in home.application.status()] == [InstanceState.GONE]


@pytest.mark.deep
def test_a_site_of_which_nothing_answers_is_left_on_a_word_alone(bootstrap: str, tmp_path: Path) -> None:
    with opened(bootstrap, tmp_path, asked=False) as recovery:
        assert running_at(recovery, PRIMARY) == ()
        assert left(recovery, PRIMARY) == (("instances", "cluster"), (PRIMARY,))


@pytest.mark.deep
@pytest.mark.parametrize(("asked", "why"), [(True, "cluster: "), (False, "instances: ")])
def test_without_a_word_nothing_is_entered(bootstrap: str, tmp_path: Path, asked: bool, why: str) -> None:
    with opened(bootstrap, tmp_path, asked=asked) as recovery:
        moving = ticket(recovery)
        with (
            recovery.at(PRIMARY) as old,
            pytest.raises(Refused, match=f"nobody can prove that the application is stopped at the site primary: {why}"),
        ):
            leave(recovery, moving, old, "", on_record=True)
        assert list(recovery.sites.log.read_all()) == []
        with pytest.raises(Refused, match="is not the newest entry"):
            require_entered(recovery, moving)


def test_a_word_counts_nothing_where_an_instance_goes_on(bootstrap: str, tmp_path: Path) -> None:
    with opened(bootstrap, tmp_path, site=PRIMARY) as home:
        home.application.start()
    programs = fleet.programs(tmp_path / "primary")
    with opened(bootstrap, tmp_path) as recovery:
        moving = ticket(recovery, PRIMARY)
        # It answers that it runs, whatever it is told.
        config = recovery.sites.written
        command = config.runs.command
        assert command is not None
        stubborn = config.runs.model_copy(
            update={"command": command.model_copy(update={"stop": tuple(programs["status"]), "stop_timeout_seconds": 1})}
        )
        deaf = config.model_copy(update={"runs": stubborn})
        with (
            open_context(deaf, recovery.connections, site=PRIMARY, patience=2) as old,
            pytest.raises(ApplicationRunning, match="did not stop at the site primary: one"),
        ):
            leave(recovery, moving, old, PRIMARY, on_record=True)
        assert list(recovery.sites.log.read_all()) == []


def test_it_has_arrived_only_by_the_restore_that_moved_it_has_its_lock_and_has_started_it(bootstrap: str, tmp_path: Path) -> None:
    with opened(bootstrap, tmp_path) as recovery:
        moving = ticket(recovery)
        for phase in (Phase.OPENED, Phase.STARTED):
            reach(recovery, moving, phase)
            with pytest.raises(Refused, match=f"is in phase {phase}; this step belongs between recovered and closed"):
                arrive(recovery, moving)
        reach(recovery, moving, Phase.RECOVERED)
        with pytest.raises(Refused, match="belongs to the primary site, and this restore has moved it to dr"):
            arrive(recovery, moving)
        recovery.lock.release(moving.lock)
        with pytest.raises(LockLost):
            arrive(recovery, moving)
