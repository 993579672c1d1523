"""Other sites of an application as the monitor sees them: what one that it could fail over to lacks, and what is left at one that it was taken from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from typer.testing import CliRunner

from streams_recovery.application.port import InstanceState
from streams_recovery.cli.app import app
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import LockHeld, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.preflight.findings import PreflightFinding, blocking
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.sites import PRIMARY, Fence, SiteEntry
from streams_recovery.core.status.report import SitesStatus, StandbySite
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.preflight import before_failover
from streams_recovery.operations.site_correction import correct, plan_correction
from streams_recovery.operations.status import log as status_log
from streams_recovery.operations.status import look as status_look
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications import fleet
from tests.support.applications.monitored import at
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small
from tests.support.applications.topic_records import produce
from tests.support.programs.kafka_tools import done

RUN = "20261121T100000Z-aaaaaaaaaa"
NOBODY = "127.0.0.1:9"


@dataclass
class Two:
    """An application with a second site, and a savepoint of it. ``servers`` are where its clusters are reached."""

    small: Small
    directory: Path
    stack: ExitStack
    servers: dict[str, str]
    standby: dict[str, Any] = field(default_factory=dict)

    def configure(self, **dr: Any) -> None:
        self.standby |= dr
        own = json.loads((self.directory / "small.yaml").read_text())
        there = {"connection": "kafka_dr", "runs": {"kind": "command", "command": fleet.programs(self.directory / "dr")}}
        own |= {
            "source": {"timeout_seconds": 2},
            "runs": {"kind": "command", "command": fleet.programs(self.directory / "primary")},
            "sites": {"dr": there | self.standby},
        }
        (self.directory / "small.yaml").write_text(json.dumps(own))

    @property
    def variables(self) -> dict[str, str]:
        kafka = {name: {"conn_type": "kafka", "extra": {"bootstrap.servers": server}} for name, server in self.servers.items()}
        return {f"AIRFLOW_CONN_KAFKA_{name}": json.dumps(extra) for name, extra in kafka.items()}

    def opened(self, site: str | None = None) -> RecoveryContext:
        connections = EnvironmentConnections(self.variables)
        return self.stack.enter_context(open_context(load_named("small", self.directory, {}), connections, site=site))

    def looked(self, hours: float = 0) -> SitesStatus:
        """What the monitor sees, so much later."""
        return status_look.watch(at(self.opened(), hours)).sites

    def standbys(self, hours: float = 0) -> tuple[StandbySite, ...]:
        return self.looked(hours).standbys

    def run(self, *words: str, **how: Any) -> Any:
        return CliRunner().invoke(app, [*words, "--configs", str(self.directory)], env=self.variables, **how)

    def fenced(self) -> Fence:
        """It was taken to the other site on a person's word."""
        fence, recovery = Fence(site=PRIMARY, cluster_id="c", since=1_790_000_000_000, run=RUN), self.opened()
        moved = recovery.sites.moving("dr", cluster_id="d", run=RUN, requested_by="me", reason="lost", fence=fence)
        recovery.sites.write(moved.at_work(at=recovery.clock()))
        return fence

    def found(self) -> list[str]:
        report = status_log.newest(self.small.recovery.repository, self.small.recovery.layout)
        kinds = ("standby-not-ready", "site-fenced", "runs-at-two-sites")
        return [] if report is None else [one.cause for one in report.findings if one.kind in kinds]


@pytest.fixture
def two(small: Small, tmp_path: Path, own_bootstrap: str) -> Iterator[Two]:
    publish(small)
    own = small.recovery.connection.bootstrap_servers
    with ExitStack() as stack:
        found = Two(small, tmp_path, stack, {"DEFAULT": str(own), "DR": own_bootstrap})
        found.configure()
        yield found
        there = found.opened("dr").cluster
        there.delete_topics([name for name in there.topic_names() if small.recovery.application_id in name])


@pytest.mark.deep
@pytest.mark.remedy("site-input", "site-partitions-added", "site-partitions-mirrored")
def test_what_an_input_at_a_site_lacks_is_there_when_it_was_done_as_it_is_told(two: Two) -> None:
    name = two.small.input.topic
    admin = AdminClient({"bootstrap.servers": two.servers["DEFAULT"], "log_level": 0})
    [added] = admin.create_partitions([NewPartitions(name, 2)]).values()
    added.result(30)
    publish(two.small)

    def told() -> list[PreflightFinding]:
        there = two.opened("dr")
        return list(blocking(before_failover(there, two.small.recovery.savepoints.latest())))

    [missing] = told()
    assert "Mirror these topics to that cluster" in str(missing)
    there = two.opened("dr").cluster
    # A mirror makes it.
    there.create_topic(name, partitions=1, replication_factor=1, config={})
    [fewer] = told()
    assert (fewer.kind, "it was never written to there" in fewer.text) == ("partitions", True)
    done(fewer.next_step)
    assert told() == []
    assert there.describe_topics([name])[name].partitions == 2

    there.delete_topics([name])
    there.create_topic(name, partitions=1, replication_factor=1, config={})
    produce(two.opened("dr"), TopicPartition(name, 0), 1)
    [written] = told()
    assert "kafka-topics.sh" not in written.next_step
    assert "mirror it again from its beginning" in written.next_step

    # As many as the input gets at home too.
    there.delete_topics([name])
    there.create_topic(name, partitions=3, replication_factor=1, config={})
    [more] = told()
    assert "if the input has got 3 partitions since that savepoint, take one now and fail over with it" in more.next_step
    [added] = admin.create_partitions([NewPartitions(name, 3)]).values()
    added.result(30)
    publish(two.small)
    assert told() == []


@pytest.mark.deep
def test_the_monitor_says_once_a_day_what_a_standby_lacks(two: Two) -> None:
    name = two.small.input.topic
    [first] = two.standbys()
    assert (first.site, first.problem) == ("dr", None)
    [lack] = first.lacks
    assert lack.startswith(f"{name} is not there, and the records are in no savepoint. Mirror these topics to that cluster")
    assert two.found() == ["standby-not-ready:dr"]
    there = two.opened("dr").cluster
    there.create_topic(name, partitions=2, replication_factor=1, config={})
    assert two.standbys(23) == (first,), "it is asked once a day"
    [second] = two.standbys(25)
    assert second.lacks == (
        f"{name} has 2 partitions there and 1 in the savepoint, so keys would go to other tasks than those that have their state",
    )
    there.delete_topics([name])
    there.create_topic(name, partitions=1, replication_factor=1, config={})
    [third] = two.standbys(50)
    assert (third.lacks, third.problem) == ((), None)
    assert two.found() == []


@pytest.mark.deep
def test_an_input_with_another_name_there_is_looked_for_by_that(two: Two) -> None:
    two.configure(topic_map={two.small.input.topic: f"mirror.{two.small.input.topic}"})
    [first] = two.standbys()
    [lack] = first.lacks
    assert lack.startswith(f"mirror.{two.small.input.topic} is not there, and the records are in no savepoint. ")


@pytest.mark.deep
def test_a_standby_that_does_not_answer_is_told_and_slows_the_monitor_once_a_day(two: Two) -> None:
    two.servers["DR"] = NOBODY
    [first] = two.standbys()
    assert (first.lacks, first.problem is not None) == ((), True)
    assert two.found() == ["standby-not-ready:dr"]
    two.servers["DR"] = two.opened(PRIMARY).connection.bootstrap_servers
    assert two.standbys(1) == (first,)


def test_preflight_looks_at_a_site(two: Two) -> None:
    done = two.run("preflight", "small", "--to", "dr", "--json")
    assert done.exit_code == Refused.exit_code
    assert [one["kind"] for one in json.loads(done.stdout)["findings"] if one["severity"] == "blocking"] == ["inputs"]
    assert two.run("preflight", "small", "--to", PRIMARY).exit_code == 0
    unknown = two.run("preflight", "small", "--to", "third")
    assert "has no site 'third'" in str(unknown.exception)


@pytest.mark.deep
def test_what_runs_at_a_fenced_site_is_stopped_as_soon_as_it_answers(two: Two) -> None:
    primary = two.opened(PRIMARY)
    primary.application.start()
    fence = two.fenced()
    two.servers["DEFAULT"] = NOBODY
    [seen] = two.looked().fences
    assert (seen.site, seen.since, seen.run, seen.running) == (PRIMARY, fence.since, RUN, ("one (a file)",))
    assert seen.problem is not None
    assert two.found() == ["runs-at-two-sites:primary"], "its instance is seen, and its cluster is not"
    two.servers["DEFAULT"] = str(two.small.recovery.connection.bootstrap_servers)

    # Whoever has the lock may be about to do something else with it.
    held = two.opened()
    lock = held.lock.acquire("savepoint x", lease_seconds=60, purpose="test")
    [seen] = two.looked().fences
    assert str(seen.problem).startswith("savepoint x holds the lock")
    assert [one.state for one in primary.application.status()] == [InstanceState.RUNNING]
    assert two.found() == ["runs-at-two-sites:primary"]
    held.lock.release(lock)

    # A fence may be forged: what runs at this site alone goes on.
    [seen] = two.looked().fences
    assert "only what would run twice is stopped" in str(seen.problem)
    assert [one.state for one in primary.application.status()] == [InstanceState.RUNNING]

    (two.directory / "dr").write_text("running")
    assert two.looked().fences == ()
    assert [one.state for one in primary.application.status()] == [InstanceState.GONE]
    assert two.found() == []
    assert held.lock.holder() is None
    entry = two.opened().sites.entry()
    assert entry is not None
    assert (entry.site, entry.fences) == ("dr", ())


@pytest.mark.deep
def test_a_fence_without_anything_behind_it_is_a_warning_until_the_site_answers(two: Two) -> None:
    two.fenced()
    two.servers["DEFAULT"] = NOBODY
    found = two.looked()
    assert (found.belongs, [one.running for one in found.fences], found.standbys) == ("dr", [()], ())
    assert two.found() == ["site-fenced:primary"]
    # The record is part of every status, the monitor's look at it stays.
    recovery = two.opened()
    status_look.refresh(recovery)
    report = status_log.newest(recovery.repository, recovery.layout)
    assert report is not None
    assert report.sites.fences == found.fences
    assert two.found() == ["site-fenced:primary"]


@pytest.mark.deep
def test_the_command_lists_sites_and_corrects_the_record(two: Two) -> None:
    two.looked()
    listed = two.run("sites", "small")
    assert listed.exit_code == 0, listed.output
    assert ["primary", "kafka_default", "belongs", "here"] in [re.findall(r"[\w-]+", line)[:4] for line in listed.stdout.splitlines()]
    assert "belongs here" not in next(line for line in listed.stdout.splitlines() if "kafka_dr" in line)
    plan = json.loads(two.run("sites", "small", "--set", "dr", "--plan", "--json").stdout)
    done = two.run("sites", "small", "--set", "dr", "--reason", "moved by hand", "--approve", plan["approve"])
    assert done.exit_code == 0, done.output
    entry = two.opened().sites.entry()
    assert entry is not None
    assert (entry.site, entry.before, entry.arrived, entry.reason, entry.fences) == ("dr", PRIMARY, True, "moved by hand", ())
    assert entry.cluster_id == two.opened("dr").cluster.cluster_id()
    assert json.loads(two.run("sites", "small", "--json").stdout)["belongs"] == "dr"
    not_typed = two.run("sites", "small", "--set", PRIMARY, "--reason", "x", input="no\n")
    assert "the plan was not approved" in str(not_typed.exception)
    typed = two.run("sites", "small", "--set", PRIMARY, "--reason", "x", input=f"{two.small.recovery.application_id}\n")
    assert typed.exit_code == 0, typed.output
    assert two.opened().site == PRIMARY


def corrected(recovery: RecoveryContext, to: str, *, lost: str = "") -> SiteEntry:
    return correct(recovery, plan_correction(recovery, to, lost=lost), lost=lost, run_id="run", requested_by="me", reason="why")


@pytest.mark.deep
def test_the_record_is_not_corrected_while_that_could_make_two(two: Two) -> None:
    recovery = two.opened(PRIMARY)
    with pytest.raises(Refused, match="on record as belonging to the site primary already"):
        corrected(recovery, PRIMARY)
    recovery.application.start()
    with pytest.raises(Refused, match=r"runs elsewhere \(primary: one"):
        corrected(recovery, "dr")
    recovery.application.stop(timeout=5)
    log = AppendLog(recovery.repository, recovery.layout.journal(RUN), JournalEntry)
    log.append(JournalEntry(phase=Phase.DESTROYING, at=1, created=()))
    with pytest.raises(Refused, match=f"restore {RUN} of"):
        corrected(recovery, "dr")
    log.append(JournalEntry(phase=Phase.CLOSED, at=2, created=()))
    planned = plan_correction(recovery, "dr", lost="")
    lock = recovery.lock.acquire("savepoint x", lease_seconds=60, purpose="test")
    with pytest.raises(LockHeld):
        corrected(recovery, "dr")
    recovery.lock.release(lock)
    with pytest.raises(Refused, match="not as they were when this was planned"):
        correct(recovery, replace(planned, cluster_id="other"), lost="", run_id="run", requested_by="me", reason="why")
    assert (recovery.sites.entry(), recovery.lock.holder()) == (None, None)


@pytest.mark.deep
def test_a_site_that_cannot_be_asked_is_left_on_a_persons_word_and_fenced(two: Two) -> None:
    two.servers["DEFAULT"] = NOBODY
    recovery = two.opened("dr")
    with pytest.raises(Refused, match="nobody can prove that the application is stopped at the site primary"):
        corrected(recovery, "dr")
    entry = corrected(recovery, "dr", lost=PRIMARY)
    assert [(one.site, one.run) for one in entry.fences] == [(PRIMARY, "run")]
    assert two.looked().belongs == "dr"


@pytest.mark.deep
def test_the_word_of_a_person_fences_no_site_that_answers(two: Two) -> None:
    assert corrected(two.opened(PRIMARY), "dr", lost=PRIMARY).fences == ()
