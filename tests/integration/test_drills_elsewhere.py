"""A drill at another site: its inputs are the savepoint's, its topics are at the other cluster, and the application's own cluster is asked nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import SandboxName, in_sandbox
from streams_recovery.core.errors import Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.operations import restore, sandbox
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import STOPPED, Small, says, surviving
from tests.support.applications.topic_records import produce

GONE = [{"name": "drill", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 2"}]
RUN, NEXT = "run-1", "run-2"


@dataclass(frozen=True)
class Elsewhere:
    """An application with a second site, and its savepoint. Only ``both`` knows a connection to each cluster."""

    small: Small
    stack: ExitStack
    config: ApplicationConfig
    savepoint: str
    dr: str

    @property
    def own(self) -> RecoveryContext:
        return self.small.recovery

    def connections(self, *, both: bool) -> EnvironmentConnections:
        servers = {"DR": self.dr} | ({"DEFAULT": self.own.connection.bootstrap_servers} if both else {})
        extras = {name: {"conn_type": "kafka", "extra": {"bootstrap.servers": address}} for name, address in servers.items()}
        return EnvironmentConnections({f"AIRFLOW_CONN_KAFKA_{name}": json.dumps(extra) for name, extra in extras.items()})

    def changed(self, **drill: object) -> ApplicationConfig:
        plain = json.loads(self.config.model_dump_json())
        return ApplicationConfig.model_validate(plain | {"drill": plain["drill"] | drill})

    def scratch(
        self, config: ApplicationConfig | None = None, *, both: bool = False, anew: bool = False, site: str | None = None
    ) -> RecoveryContext:
        """What a task of the drill opens."""
        written = in_sandbox(config or self.config, SandboxName(application="small"))
        return self.stack.enter_context(open_context(written, self.connections(both=both), anew=anew, site=site))

    def at_site(self, site: str) -> RecoveryContext:
        return self.stack.enter_context(open_context(self.config, self.connections(both=True), site=site))

    def request(self) -> restore.RestoreRequest:
        return restore.FromSavepoint(source=self.own.application_id, savepoint=self.savepoint, reason="drill")

    def move(self, to: str) -> None:
        """The application belongs there from now on."""
        with open_context(self.config, self.connections(both=True)) as recovery:
            moved = recovery.sites.moving(to, cluster_id="c", run="failover", requested_by="me", reason="lost", fence=None)
            recovery.sites.write(moved.at_work(at=recovery.clock()))

    def conclude(self, ticket: restore.RestoreTicket | None, config: ApplicationConfig | None = None, run: str = RUN) -> sandbox.DrillEntry:
        with open_context(config or self.config, self.connections(both=False)) as own:
            return sandbox.conclude(own, run_id=run, requested_by="test", began_at=own.clock(), ticket=ticket, report=None, left=())


@pytest.fixture
def elsewhere(small: Small, own_bootstrap: str) -> Iterator[Elsewhere]:
    small = surviving(small)
    savepoint, scratch = publish(small), f"drill-{small.recovery.application_id}"
    mirrored = f"primary.{small.input.topic}"
    command = {
        "status": says(GONE),
        "stop": says(GONE),
        "start": ["true", f"{scratch}.in", f"{scratch}.out"],
        "wipe": [*says(GONE)[:2], 'print(\'{"removed": ["/state/drill"], "remaining": []}\')'],
    }
    there = {verb: says([{**STOPPED[0], "name": "dr"}]) for verb in ("status", "stop", "start", "wipe")}
    sections = {
        "sites": {
            "dr": {"connection": "kafka_dr", "topic_map": {small.input.topic: mirrored}, "runs": {"kind": "command", "command": there}}
        },
        "drill": {
            "site": "dr",
            "application_id": scratch,
            "schedule": "0 4 * * 6",
            "topic_map": {small.input.topic: f"{scratch}.in", small.output.topic: f"{scratch}.out"},
            "command": command,
        },
    }
    config = ApplicationConfig.model_validate(json.loads(small.recovery.config.model_dump_json()) | sections)
    with ExitStack() as stack:
        found = Elsewhere(small, stack, config, savepoint, own_bootstrap)
        yield found
        for site in ("primary", "dr"):
            at = found.at_site(site).cluster
            at.delete_topics([name for name in at.topic_names() if name.startswith(scratch) or name == mirrored])


def drilled(scratch: RecoveryContext, elsewhere: Elsewhere, *, run: str = RUN) -> restore.RestoreTicket:
    """A drill as far as its offsets."""
    sandbox.clear(scratch, run_id=run)
    ticket = opened(scratch, elsewhere.request())
    saved(scratch, ticket)
    assert loaded(scratch, ticket) == 12
    return ticket


def here(recovery: RecoveryContext) -> set[str]:
    return {name for name in recovery.cluster.topic_names() if name.startswith(recovery.application_id)}


@pytest.mark.deep
def test_a_drill_at_another_site_restores_and_verifies_there_and_the_first_cluster_is_asked_nothing(elsewhere: Elsewhere) -> None:
    # A connection to the first cluster is not even configured.
    scratch = elsewhere.scratch(anew=True)
    assert (scratch.site, scratch.connection.bootstrap_servers) == ("dr", elsewhere.dr)
    ticket = drilled(scratch, elsewhere)
    name = scratch.application_id
    made = {f"{name}.in", f"{name}.out", f"{name}-totals-changelog", f"{name}-by-key-repartition"}
    assert here(scratch) == made
    assert verified(scratch, ticket).rows_compared == 12
    restore.set_offsets(scratch, ticket)
    copy = TopicPartition(f"{name}.in", 0)
    assert scratch.groups.committed(name, [copy])[copy] == CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)

    # Another task opens it by its name, and so does the one that removes it.
    later = elsewhere.scratch()
    assert later.site == "dr"
    assert set(sandbox.remove(later, ticket).topics) == made
    assert here(later) == set()
    assert name not in later.cluster.groups()
    entry = elsewhere.conclude(ticket)
    assert (entry.site, entry.reached, entry.outcome) == ("dr", Phase.OFFSETS_SET, "failed after offsets-set at dr")
    assert entry.loss_seconds == entry.rpo_seconds, "without an archive the inputs that it brought end where the savepoint does"
    assert [one.site for one in sandbox.drills(elsewhere.own)] == ["dr"]


@pytest.mark.deep
def test_a_drill_without_a_site_goes_where_the_application_belongs_and_stays_where_it_began(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    config = elsewhere.changed(site=None)
    first = elsewhere.scratch(config, both=True, anew=True)
    assert first.site == PRIMARY
    ticket = drilled(first, elsewhere)
    made = here(first)
    assert len(made) == 4
    elsewhere.move("dr")
    assert elsewhere.scratch(config, both=True).site == PRIMARY, "its other tasks are where it began"
    # It dies, its lock runs out, and the first cluster is lost: the next one asks nothing of it.
    first.lock.take_from(ticket.lock.owner)
    second = elsewhere.scratch(config, anew=True)
    assert second.site == "dr"
    with caplog.at_level(logging.WARNING):
        again = drilled(second, elsewhere, run=NEXT)
    assert f"{ticket.restore_id} of {second.application_id} was not removed at the site primary" in caplog.text
    assert here(first) == made, "what is left there is not touched"
    assert elsewhere.scratch(config).site == "dr"
    sandbox.remove(second, again)
    assert here(second) == set()
    assert elsewhere.conclude(again, config, NEXT).site == "dr"
    # The next one at the first cluster knows what it finds there.
    elsewhere.move(PRIMARY)
    home = elsewhere.scratch(config, both=True, anew=True)
    assert home.site == PRIMARY
    assert set(sandbox.clear(home, run_id="run-3").topics) == made
    assert here(home) == set()


@pytest.mark.deep
def test_a_drill_that_did_not_begin_is_told_of_where_it_was_to_be(elsewhere: Elsewhere) -> None:
    assert elsewhere.conclude(None).outcome == "failed before it began at dr"
    elsewhere.move("dr")
    assert elsewhere.conclude(None, elsewhere.changed(site=None), NEXT).site == "dr"
    elsewhere.move(PRIMARY)
    assert elsewhere.conclude(None, elsewhere.changed(site=None), "run-3").site == PRIMARY


def test_it_is_started_only_where_it_began(elsewhere: Elsewhere) -> None:
    scratch = elsewhere.scratch(both=True, anew=True)
    sandbox.clear(scratch, run_id=RUN)
    scratch.application.start()
    with pytest.raises(Refused, match="stands at the site dr, so it is not started at primary"):
        elsewhere.scratch(both=True, site=PRIMARY).application.start()


@pytest.mark.deep
def test_an_input_that_is_not_at_the_other_site_is_not_made_there_under_the_name_that_a_failover_would_use(elsewhere: Elsewhere) -> None:
    small = elsewhere.small
    names = {small.output.topic: f"drill-{small.recovery.application_id}.out"}
    scratch = elsewhere.scratch(elsewhere.changed(topic_map=names), anew=True)
    sandbox.clear(scratch, run_id=RUN)
    with pytest.raises(Refused, match=rf"fill topics of the application itself: primary\.{small.input.topic}"):
        restore.plan(scratch, elsewhere.request())
    # A mirror has put it there meanwhile, at other offsets.
    mirrored = TopicPartition(f"primary.{small.input.topic}", 0)
    scratch.cluster.create_topic(mirrored.topic, partitions=1, replication_factor=1, config={})
    produce(scratch, mirrored, 3)
    with pytest.raises(Refused, match="offsets mean nothing"):
        restore.plan(scratch, elsewhere.request())


@pytest.mark.deep
def test_a_group_that_a_drill_at_another_cluster_made_proves_nothing_here(elsewhere: Elsewhere) -> None:
    config = elsewhere.changed(site=None)
    first = elsewhere.scratch(config, both=True, anew=True)
    sandbox.remove(first, drilled(first, elsewhere))
    elsewhere.move("dr")
    second = elsewhere.scratch(config, anew=True)
    topic = f"{second.application_id}.other"
    second.cluster.create_topic(topic, partitions=1, replication_factor=1, config={})
    stranger = {TopicPartition(topic, 0): CommittedOffset(offset=0, metadata="", leader_epoch=None)}
    second.groups.set_offsets(second.application_id, stranger)
    with pytest.raises(TargetNotEmpty, match=f"consumer group {second.application_id}"):
        sandbox.clear(second, run_id=NEXT)
    assert second.application_id in second.cluster.groups()
    second.groups.delete(second.application_id)
