"""What a drill leaves behind, and what it does to the application it is a drill of: nothing. On a real broker, loads as Spark tasks would run them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import SandboxName, in_sandbox
from streams_recovery.core.errors import Damaged, LockHeld, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import restore, sandbox, topic_holds
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.applications.monitored import at, causes, looked
from tests.support.applications.restore_steps import loaded, opened, reach, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, configured_for, says, surviving
from tests.support.applications.topic_records import produce

GONE = [{"name": "drill", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 2"}]
RUN = "run-1"


@dataclass(frozen=True)
class Trial:
    """The application, what its drills restore into, and the savepoint."""

    small: Small
    scratch: RecoveryContext
    savepoint: str

    @property
    def own(self) -> RecoveryContext:
        return self.small.recovery

    def request(self) -> restore.RestoreRequest:
        return restore.FromSavepoint(source=self.own.application_id, savepoint=self.savepoint, reason="drill")

    def conclude(self, ticket: restore.RestoreTicket | None, *, run: str = RUN, left: tuple[str, ...] = ()) -> sandbox.DrillEntry:
        at = self.own.clock()
        return sandbox.conclude(self.own, run_id=run, requested_by="test", began_at=at, ticket=ticket, report=None, left=left)

    def here(self) -> set[str]:
        """Everything on the cluster that a drill would make."""
        names = {name for name in self.scratch.cluster.topic_names() if name.startswith(self.scratch.application_id)}
        return names | {group for group in self.scratch.cluster.groups() if group == self.scratch.application_id}


@pytest.fixture
def trial(small: Small) -> Iterator[Trial]:
    scratch = f"drill-{small.recovery.application_id}"
    output = f"{scratch}.out"
    drill = {
        "application_id": scratch,
        "schedule": "0 4 * * 6",
        "topic_map": {small.output.topic: output},
        "command": {
            "status": says(GONE),
            "stop": says(GONE),
            "start": ["true", output],
            "wipe": [*says(GONE)[:2], 'print(\'{"removed": ["/state/drill"], "remaining": []}\')'],
        },
    }
    config = ApplicationConfig.model_validate(json.loads(small.recovery.config.model_dump_json()) | {"drill": drill})
    own = replace(small, recovery=replace(small.recovery, config=config))
    kafka = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": own.recovery.connection.bootstrap_servers}}
        )
    }
    savepoint = publish(own)
    with open_context(in_sandbox(config, SandboxName(application=config.name)), EnvironmentConnections(kafka)) as recovery:
        found = Trial(own, recovery, savepoint)
        yield found
        recovery.cluster.delete_topics([name for name in found.here() if name in recovery.cluster.topic_names()])


def begun(trial: Trial) -> restore.RestoreTicket:
    """A drill whose topics are loaded."""
    sandbox.clear(trial.scratch, run_id=RUN)
    ticket = opened(trial.scratch, trial.request())
    assert saved(trial.scratch, ticket).savepoint_id is None
    assert loaded(trial.scratch, ticket) == 7
    return ticket


@pytest.mark.way("drill")
def test_a_drill_that_breaks_off_is_removed_and_told_and_the_application_never_noticed(trial: Trial) -> None:
    own, scratch, small = trial.own, trial.scratch, trial.small
    before = own.cluster.describe_topics(small.topics)
    ends = own.cluster.high_watermarks([small.input, small.output, small.changelog, small.tail])
    ticket = begun(trial)
    scratch.groups.set_offsets(scratch.application_id, {small.input: CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)})
    made = f"{scratch.application_id}-newer-changelog"
    scratch.cluster.create_topic(made, partitions=1, replication_factor=1, config={})
    assert len(trial.here()) == 5
    assert topic_holds.outstanding(scratch)

    removed = sandbox.remove(scratch, ticket)
    assert set(removed.topics) == {
        made,
        f"{scratch.application_id}.out",
        f"{scratch.application_id}-totals-changelog",
        f"{scratch.application_id}-by-key-repartition",
    }
    assert removed.directories == ("/state/drill",)
    assert trial.here() == set()
    assert (topic_holds.outstanding(scratch), scratch.lock.holder()) == ((), None)

    entry = trial.conclude(ticket)
    assert (entry.reached, entry.succeeded, entry.savepoint_id, entry.rto_seconds) == (Phase.LOADED, False, trial.savepoint, None)
    assert entry.rpo_seconds is not None
    assert entry.loss_seconds is None, "the inputs are there"
    assert trial.conclude(ticket) == entry, "once, however often it is repeated"
    assert sandbox.drills(own) == [entry]
    with pytest.raises(Damaged, match="failed after loaded"):
        sandbox.raise_unless_succeeded(entry)

    assert own.cluster.describe_topics(small.topics) == before
    assert own.cluster.high_watermarks(list(ends)) == ends
    committed = own.groups.committed(own.application_id, [small.input])[small.input]
    assert committed == CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)
    assert (own.lock.holder(), own.safety.ids()) == (None, [])

    again = sandbox.remove(scratch, ticket)
    assert (again.topics, trial.here()) == ((), set()), "harmless when nothing is left"


@pytest.mark.deep
def test_what_a_dead_drill_left_is_taken_away_before_the_next(trial: Trial) -> None:
    ticket = begun(trial)
    with pytest.raises(LockHeld):
        sandbox.clear(trial.scratch, run_id="run-2")
    assert trial.here()
    trial.scratch.lock.take_from(ticket.lock.owner)
    assert len(sandbox.clear(trial.scratch, run_id="run-2").topics) == 3
    assert trial.here() == set()
    restore.plan(trial.scratch, trial.request())


@pytest.mark.deep
def test_topics_and_groups_that_no_drill_created_are_refused_and_left_alone(trial: Trial) -> None:
    scratch = trial.scratch
    output = TopicPartition(f"{scratch.application_id}.out", 0)
    scratch.cluster.create_topic(output.topic, partitions=1, replication_factor=1, config={})
    produce(scratch, output, 2)
    scratch.groups.set_offsets(scratch.application_id, {trial.small.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
    with pytest.raises(TargetNotEmpty, match=rf"topic {output.topic}, consumer group {scratch.application_id}"):
        sandbox.clear(scratch, run_id=RUN)
    assert scratch.cluster.high_watermarks([output])[output] == 2
    assert scratch.application_id in scratch.cluster.groups()
    assert scratch.lock.holder() is None
    scratch.groups.delete(scratch.application_id)


@pytest.mark.deep
def test_a_topic_that_somebody_else_put_in_the_place_of_a_drills_own_stays(trial: Trial) -> None:
    ticket = begun(trial)
    output = f"{trial.scratch.application_id}.out"
    _, theirs = recreate_plain(trial.scratch, output)
    removed = sandbox.remove(trial.scratch, ticket)
    assert output not in removed.topics
    assert trial.scratch.cluster.describe_topics([output])[output].topic_id == theirs


def recreate_plain(recovery: RecoveryContext, topic: str) -> tuple[str, str]:
    before = recovery.cluster.describe_topics([topic])[topic].topic_id
    recovery.cluster.delete_topics([topic])
    return before, recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config={}).topic_id


@pytest.fixture
def stranger(small: Small) -> Iterator[str]:
    """A topic of somebody else."""
    name = f"victim{uuid.uuid4().hex[:8]}"
    small.recovery.cluster.create_topic(name, partitions=1, replication_factor=1, config={})
    yield name
    small.recovery.cluster.delete_topics([name] if name in small.recovery.cluster.topic_names() else [])


def forge(trial: Trial, restore_id: str, ids: Mapping[str, str]) -> None:
    """An entry of a drill's journal as somebody writes it who may create objects."""
    prefix, created = trial.scratch.layout.journal(restore_id), [{"topic": name, "topic_id": topic_id} for name, topic_id in ids.items()]
    entry = {"phase": "created", "at": 1, "created": created, "result": None, "scope": "state"}
    number = len(list(trial.scratch.repository.keys(prefix))) + 1
    trial.scratch.repository.create(f"{prefix}{number:012}.json", json.dumps(entry).encode())


@pytest.mark.deep
@pytest.mark.fault("F63")
@pytest.mark.parametrize("step", ["clear", "remove"])
def test_a_forged_journal_deletes_nothing_that_is_not_the_drills_by_its_name(
    trial: Trial, stranger: str, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    ticket = begun(trial)
    foreign = trial.own.cluster.describe_topics([*trial.small.topics, stranger])
    assert len(foreign) == 5
    forge(trial, ticket.restore_id, {name: found.topic_id for name, found in foreign.items()} | {"no topic's name / at all": "1"})
    trial.scratch.lock.take_from(ticket.lock.owner)
    removed = sandbox.clear(trial.scratch, run_id="run-2") if step == "clear" else sandbox.remove(trial.scratch, ticket)
    assert len(removed.topics) == 3
    assert not set(removed.topics) & set(foreign)
    assert trial.here() == set()
    now = trial.own.cluster.describe_topics(list(foreign))
    assert {name: found.topic_id for name, found in now.items()} == {name: found.topic_id for name, found in foreign.items()}
    assert "no names of its topics" in caplog.text


@pytest.mark.deep
@pytest.mark.parametrize("left", ["gone", "empty"])
def test_an_input_of_the_application_that_is_gone_or_empty_is_not_made_by_a_drill(trial: Trial, left: str) -> None:
    savepoint = publish(surviving(trial.small))
    trial.own.cluster.delete_topics([trial.small.input.topic])
    if left == "empty":
        trial.own.cluster.create_topic(trial.small.input.topic, partitions=1, replication_factor=1, config={})
    with pytest.raises(Refused, match=f"fill topics of the application itself: {trial.small.input.topic}"):
        restore.plan(trial.scratch, replace(trial, savepoint=savepoint).request())


@pytest.mark.fault("F63")
def test_a_forged_entry_of_the_drill_log_does_not_pass_for_a_drill_that_succeeded(trial: Trial) -> None:
    known = {
        "run": RUN,
        "requested_by": "",
        "began_at": 1,
        "restore_id": "",
        "savepoint_id": trial.savepoint,
        "plan_hash": "",
        "captured_at": 1,
    }
    known |= {
        "reached": "closed",
        "rows": 1,
        "keys_compared": 1,
        "rpo_seconds": 1.0,
        "rto_seconds": 1.0,
        "succeeded": True,
        "left": [],
        "site": "primary",
        "loss_seconds": None,
    }
    trial.own.repository.create(f"{trial.own.layout.drills}{1:012}.json", json.dumps(known).encode())
    entry = trial.conclude(None)
    assert not entry.succeeded
    with pytest.raises(Damaged):
        sandbox.raise_unless_succeeded(entry)
    assert sandbox.drills(trial.own)[1:] == [entry]


def test_a_drill_that_found_nothing_to_restore_is_in_the_history_too(trial: Trial) -> None:
    runs = [f"run-{uuid.uuid4().hex}" for _ in range(2)]
    for run in runs:
        trial.conclude(None, run=run)
    found = sandbox.drills(trial.own)
    assert [(entry.run, entry.outcome) for entry in found] == [(run, "failed before it began") for run in runs]


@pytest.mark.deep
def test_the_monitor_finds_drills_that_are_due_and_what_they_measured_over_the_objectives(trial: Trial) -> None:
    looked(trial.own)
    assert about_drills(trial, 9) == ["drill-overdue"], "there was none since the first look"
    ticket = begun(trial)
    reach(at(trial.scratch, 1), ticket, Phase.RECOVERED)
    drilled = replace(trial, small=replace(trial.small, recovery=at(trial.own, 0.5)))
    entry = drilled.conclude(ticket)
    assert (entry.rpo_seconds, entry.rto_seconds) == (pytest.approx(1800, abs=60), pytest.approx(1800, abs=60))
    assert about_drills(trial, 0.1) == ["drill-failed"], "nothing was proven"
    assert about_drills(trial, 0.1, newest_age="PT40M", recovery_time="PT40M") == ["drill-failed"]
    assert about_drills(trial, 0.1, newest_age="PT20M") == ["drill-failed", "rpo-over-objective"]
    assert about_drills(trial, 0.1, recovery_time="PT20M") == ["drill-failed", "rto-over-objective"]
    assert about_drills(trial, 8) == ["drill-failed"]
    assert about_drills(trial, 9) == ["drill-failed", "drill-overdue"]


def about_drills(trial: Trial, days: float, **objectives: str) -> list[str]:
    """What a look so many days later finds of drills."""
    later = at(configured_for(trial.small, monitor={"objectives": objectives}), 24 * days)
    return [cause for cause in causes(later) if cause.startswith(("drill-", "rpo-", "rto-"))]
