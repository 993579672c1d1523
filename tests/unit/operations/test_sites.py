"""An application is started where it belongs, and what was left at a site that was lost is stopped once it is seen again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application.port import InstanceState
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.repository.sites import PRIMARY, Fence
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.ownership import start_again
from streams_recovery.operations.restore.open import TICKET, plan_left
from streams_recovery.operations.restore.strategies import Failover, FromSavepoint
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications import fleet

RUN = "20261121T100000Z-aaaaaaaaaa"


@contextmanager
def opened(directory: Path, *, site: str | None = None, sites: bool = True) -> Iterator[RecoveryContext]:
    """An application of one instance at each of two clusters, neither of which answers."""
    runs = {where: {"kind": "command", "command": fleet.programs(directory / where)} for where in ("primary", "dr")}
    config = {
        "version": 1,
        "name": "app",
        "application": {"id": "app", "guarantee": "exactly_once_v2"},
        "source": {"timeout_seconds": 1},
        "topics": {"inputs": ["in"]},
        "backup": {"survive_cluster_loss": False},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "runs": runs["primary"],
        **({"sites": {"dr": {"connection": "kafka_dr", "runs": runs["dr"]}}} if sites else {}),
    }
    (directory / "app.yaml").write_text(json.dumps(config))
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})
    connections = EnvironmentConnections({"AIRFLOW_CONN_KAFKA_DEFAULT": kafka, "AIRFLOW_CONN_KAFKA_DR": kafka})
    with open_context(load_named("app", directory, {}), connections, site=site, patience=1) as recovery:
        yield recovery


def move(recovery: RecoveryContext, to: str, *, arrived: bool, fence: Fence | None = None) -> None:
    entry = recovery.sites.moving(to, cluster_id="c", run=RUN, requested_by="me", reason="lost", fence=fence)
    recovery.sites.write(entry if not arrived else entry.at_work(at=recovery.clock()))


def running(recovery: RecoveryContext) -> bool:
    return any(one.state is not InstanceState.GONE for one in recovery.application.status())


def begun(recovery: RecoveryContext) -> None:
    """A restore that has begun to replace topics."""
    log = AppendLog(recovery.repository, recovery.layout.journal(RUN), JournalEntry)
    log.append(JournalEntry(phase=Phase.DESTROYING, at=1, created=()))


def test_it_opens_where_it_belongs(tmp_path: Path) -> None:
    with opened(tmp_path) as recovery:
        assert (recovery.site, recovery.config.source.connection) == (PRIMARY, "kafka_default")
        move(recovery, "dr", arrived=True)
    with opened(tmp_path) as recovery:
        assert (recovery.site, recovery.config.source.connection) == ("dr", "kafka_dr")
    with opened(tmp_path, site=PRIMARY) as recovery:
        assert recovery.site == PRIMARY
    with pytest.raises(ConfigInvalid, match="no site 'third'"), opened(tmp_path, site="third"):
        raise AssertionError


def test_a_move_counts_once_it_has_begun_to_replace_topics(tmp_path: Path) -> None:
    with opened(tmp_path) as recovery:
        move(recovery, "dr", arrived=False)
        assert recovery.sites.current() == PRIMARY
        begun(recovery)
        assert recovery.sites.current() == "dr"


def test_it_is_not_started_where_it_does_not_belong(tmp_path: Path) -> None:
    with opened(tmp_path, site="dr") as there, pytest.raises(Refused, match="belongs to the site primary"):
        there.application.start()
    with opened(tmp_path) as here:
        here.application.start()
        assert running(here)
        move(here, "dr", arrived=True)
    with opened(tmp_path) as there, pytest.raises(Refused, match=r"runs elsewhere \(primary: one"):
        there.application.start()
    with opened(tmp_path, site=PRIMARY) as here:
        assert running(here)
        here.application.stop(timeout=5)
    with opened(tmp_path) as there:
        there.application.start()
        assert running(there)


def test_it_is_not_started_at_the_primary_site_by_leaving_the_others_out_of_the_configuration(tmp_path: Path) -> None:
    with opened(tmp_path) as recovery:
        move(recovery, "dr", arrived=True)
    with opened(tmp_path, sites=False) as recovery:
        with pytest.raises(Refused, match="belongs to the site dr"):
            recovery.application.start()
        assert not running(recovery)


def test_a_fence_stays_as_long_as_the_cluster_does_not_answer(tmp_path: Path) -> None:
    fence = Fence(site=PRIMARY, cluster_id="c", since=1, run=RUN)
    with opened(tmp_path) as recovery:
        move(recovery, "dr", arrived=True, fence=fence)
    with opened(tmp_path) as there:
        assert there.sites.lift_fences() == ()
        entry = there.sites.entry()
        assert entry is not None
        assert entry.fences == (fence,)
        # A way back to the site that was fenced ends its fence, and a second loss adds one.
        back = there.sites.moving(PRIMARY, cluster_id="c", run=RUN, requested_by="me", reason="", fence=None)
        assert (back.before, back.fences) == ("dr", ())
        other = Fence(site="dr", cluster_id="", since=2, run=RUN)
        assert there.sites.moving("third", cluster_id="", run=RUN, requested_by="me", reason="", fence=other).fences == (fence, other)


def test_an_entry_is_written_once(tmp_path: Path) -> None:
    with opened(tmp_path) as recovery:
        for _ in range(2):
            move(recovery, "dr", arrived=False)
        assert len(list(recovery.sites.log.read_all())) == 1
        move(recovery, "dr", arrived=True)
        assert [entry.arrived for entry in recovery.sites.log.read_all()] == [False, True]


def test_a_step_that_is_repeated_after_the_move_counts_leaves_where_it_came_from(tmp_path: Path) -> None:
    first, later = (Fence(site=PRIMARY, cluster_id="c", since=since, run=RUN) for since in (1, 2))
    with opened(tmp_path, site="dr") as recovery:
        move(recovery, "dr", arrived=False, fence=first)
        begun(recovery)
        move(recovery, "dr", arrived=False, fence=later)
        [entry] = recovery.sites.log.read_all()
        assert (entry.before, entry.fences) == (PRIMARY, (first,))


def test_who_was_opened_before_a_move_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as early:
        early.sites.require_current(PRIMARY)
        move(early, "dr", arrived=True)
        with pytest.raises(Refused, match="belongs to the site dr by now, and this run was opened at primary"):
            early.sites.require_current(PRIMARY)


@pytest.mark.parametrize("sites", [True, False])
def test_what_a_run_itself_has_stopped_is_started_again_whatever_somebody_writes_meanwhile(tmp_path: Path, *, sites: bool) -> None:
    with opened(tmp_path, sites=sites) as recovery:
        recovery.application.start()
        recovery.application.stop(timeout=5)
        move(recovery, "dr", arrived=True, fence=Fence(site=PRIMARY, cluster_id="", since=1, run=RUN))
        with pytest.raises(Refused, match="belongs to the site dr"):
            recovery.application.start()
        start_again(recovery.application, ran=Role.LIVE)
        assert running(recovery)


def opened_restore(recovery: RecoveryContext) -> RestoreTicket:
    """A restore that was opened."""
    return RestoreTicket(
        application_id="app",
        restore_id=RUN,
        request=FromSavepoint(reason=""),
        requested_by="me",
        plan_hash="",
        plan=ArtifactRef.of("app/work/plan.json", b""),
        lock=recovery.lock.acquire("run", lease_seconds=60, purpose="test"),
        started_at=1,
        running=(),
        after_unfinished=None,
        here=recovery.site,
    )


def test_all_steps_of_a_run_are_taken_where_it_was_begun(tmp_path: Path) -> None:
    with opened(tmp_path) as recovery:
        ticket = opened_restore(recovery)
        move(recovery, "dr", arrived=True)
        assert recovery.sites.current() == "dr"
    assert ticket.site == PRIMARY
    assert replace(ticket, request=Failover(reason="", to="dr")).site == "dr"


def test_a_restore_is_resumed_nowhere_but_where_it_was_begun(tmp_path: Path) -> None:
    with opened(tmp_path) as recovery:
        ticket = opened_restore(recovery)
        recovery.artifacts.write_once(RUN, TICKET, ticket)
        begun(recovery)
        recovery.lock.release(ticket.lock)
        move(recovery, "dr", arrived=True)
    with opened(tmp_path) as there, pytest.raises(Refused, match="works at the site primary, and app is on record at dr"):
        plan_left(there, RUN)
