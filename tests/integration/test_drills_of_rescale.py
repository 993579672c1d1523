"""A drill that tries other numbers of partitions: it proves, places, loads and starts, and neither the application nor its part of the repository notice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.restore import Clone
from streams_recovery.config.sandbox_application import SandboxApplication, drill_name
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.rollout.described import DescribedTopology, described
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.state.edit import default_partition
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore, sandbox
from streams_recovery.operations.maintenance.contents import leftovers
from streams_recovery.operations.restore.strategies import Rescale, rescale
from streams_recovery.storage.json_object import read_value
from streams_recovery.workflows.restore import KEEP_PLACED, PREPARE_TOPICS
from streams_recovery.workflows.sandbox import DRILL
from tests.support.applications.counting import Counting

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]
# Of two partitions the program knows the first: letters that lie there, and one that does not.
HERE = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if default_partition(letter.encode(), 2) == 0]
ELSEWHERE = next(letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in HERE)

# One store has a changelog, and one has not.
TWO_STORES = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [{}])
      --> KSTREAM-AGGREGATE-0000000001
    Processor: KSTREAM-AGGREGATE-0000000001 (stores: [totals])
      --> KTABLE-SOURCE-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KTABLE-SOURCE-0000000002 (stores: [seen])
      --> none
      <-- KSTREAM-AGGREGATE-0000000001
"""


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    """An application with two partitions of everything, a savepoint, and a drill that gives it three."""
    found = Counting(bootstrap=bootstrap, directory=tmp_path)
    configured(found, {found.input.topic: 3})
    with found.recovery() as recovery:
        for topic, policy in ((found.input.topic, "delete"), (found.output.topic, "delete"), (found.changelog.topic, "compact")):
            recovery.cluster.create_topic(
                topic, partitions=2, replication_factor=1, config={"cleanup.policy": policy, "retention.ms": "-1"}
            )
    yield found
    found.tidy()


def configured(app: Counting, numbers: dict[str, int], *, copied: bool = True) -> None:
    scratch, source, output = f"drill-{app.id}", f"drill.{app.input.topic}", f"drill.{app.output.topic}"
    app.configure(
        topics={"inputs": [app.input.topic], "outputs": [app.output.topic], "include": [app.input.topic]},
        restore={"catch_up_timeout_seconds": 30},
        drill={
            "schedule": "none",
            "application_id": scratch,
            "topic_map": {app.output.topic: output, **({app.input.topic: source} if copied else {})},
            "partitions": numbers,
            "command": app.programs("drill", group=scratch, source=source if copied else None, output=output),
        },
    )


def drilled(app: Counting, submitter: Submitter) -> tuple[DrillEntry, BaseException | None, RestoreReport | None]:
    with app.recovery() as own, app.recovery(drill_name(app.name)) as scratch:
        done = runs.drill(
            own,
            Runner(recovery=scratch, submitter=submitter, say=print),
            runs.Requester(run_id=uuid.uuid4().hex, requested_by="test"),
            savepoint_id="latest",
        )
        entry, layout = done.entry, scratch.layout
        report = (
            read_value(own.repository, RestoreReport, layout.report(entry.restore_id)) if entry.succeeded and entry.restore_id else None
        )
        assert scratch.application_id not in own.cluster.groups()
        assert own.lock.holder() is None
    return entry, done.error, report


def test_a_drill_tries_other_numbers_and_leaves_the_application_as_it_was(app: Counting, in_session: Submitter) -> None:
    app.worked("".join(HERE[:3] + HERE[:2]))
    savepoint = app.savepoint(in_session)
    before, committed = app.topics(), app.committed()
    entry, error, report = drilled(app, in_session)
    assert (error, entry.succeeded, entry.savepoint_id) == (None, True, savepoint)
    assert report is not None
    assert isinstance(report.part, RescalePart)
    [log] = [one for one in report.part.rescaled.logs if one.topic == app.changelog.topic]
    assert (log.old, log.new, log.keys_before, log.keys_after) == (2, 3, 3, 3)
    assert log.digest_before == log.digest_after
    assert report.rows == 5, "every record of the changelog was compared"
    assert entry.outcome == f"succeeded with {app.input.topic}=3"
    assert entry.loss_seconds is None, "nothing says up to when the archive would have brought input back"
    assert (app.topics(), app.committed(), app.running) == (before, committed, False), "the application was not touched"
    with app.recovery() as own:
        assert own.savepoints.ids() == [savepoint], "nothing was published"
        assert leftovers(own).staged == ()
        days = own.config.retention.grace_days + 1
        old = leftovers(replace(own, clock=lambda: entry.began_at + days * 86_400_000 + 600_000)).staged
        assert {file.key.split("/")[0] for file in old} == {f"drill-{app.id}"}, (
            "expiry takes what was placed, and nothing of the application"
        )


def test_records_that_obey_no_form_are_told_before_anything_is_made(app: Counting, in_session: Submitter) -> None:
    app.worked(HERE[0] + ELSEWHERE)
    app.savepoint(in_session)
    before = app.topics()
    entry, error, _ = drilled(app, in_session)
    assert not entry.succeeded
    assert app.changelog.topic in str(error)
    assert (app.topics(), entry.left, entry.reached) == (before, (), Phase.SAVED)


def test_an_input_that_a_drill_would_read_as_it_is_keeps_its_number(app: Counting, in_session: Submitter) -> None:
    app.worked(HERE[0])
    app.savepoint(in_session)
    before = app.topics()
    for numbers, copied, why in (({app.input.topic: 3}, False, "cannot be copied"), ({app.output.topic: 3}, True, "neither an input")):
        configured(app, numbers, copied=copied)
        entry, error, _ = drilled(app, in_session)
        assert isinstance(error, Refused)
        assert why in str(error)
        assert (entry.succeeded, entry.restore_id, app.topics()) == (False, None, before)


def planned(app: Counting) -> RestorePlan:
    """The plan of a drill."""
    with app.recovery(drill_name(app.name)) as scratch:
        return restore.plan(scratch, Rescale(partitions=f"{app.input.topic}=3", reason="drill"))


def test_what_a_rescale_would_refuse_of_the_application_its_drill_refuses_too(
    app: Counting, in_session: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.worked(HERE[0])
    app.savepoint(in_session)
    with app.recovery() as own:
        own.groups.set_offsets("another", {app.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
        with pytest.raises(Refused, match=rf"inputs of {app.id} .*: group another reads"):
            planned(app)
        own.groups.delete("another")
    assert planned(app).part.placed is None
    # Its program is asked as well, where it runs: the drill's own is not there yet.
    asked = []

    def told(config: ApplicationConfig) -> DescribedTopology:
        asked.append(config.application.id)
        return described(TWO_STORES.format(app.input.topic).encode())

    with monkeypatch.context() as patched:
        patched.setattr(rescale, "topology_of", told)
        with pytest.raises(Refused, match=f"would lose what was read of these: seen from {app.input.topic}"):
            planned(app)
    assert asked == [app.id]
    with app.recovery(drill_name(app.name)) as scratch:
        assert isinstance(scratch.config, SandboxApplication)
        clone = Clone.model_construct(of="another")
        scratch.config._of = scratch.config.of.model_copy(update={"clone": clone})  # a whole clone takes another application
        with pytest.raises(Refused, match=f"{app.id} is a clone of another"):
            restore.plan(scratch, Rescale(partitions=f"{app.input.topic}=3", reason="drill"))
    app.configure(restore={"topic_map": {app.input.topic: "elsewhere"}})
    with pytest.raises(Refused, match=r"has another name here \(restore.topic_map\)"):
        planned(app)
    app.configure(restore={})
    admin = AdminClient({"bootstrap.servers": app.bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(app.input.topic, 3)])[app.input.topic].result(30)
    with pytest.raises(Refused, match="has its new number already"):
        planned(app)


def test_what_is_placed_is_loaded_whatever_becomes_of_the_application_meanwhile(app: Counting, in_session: Submitter) -> None:
    app.worked("".join(HERE[:2]))
    app.savepoint(in_session)
    steps = DRILL.steps[: DRILL.steps.index(KEEP_PLACED) + 1]
    with app.recovery(drill_name(app.name)) as scratch:
        request = Rescale(partitions=f"{app.input.topic}=3", reason="drill")
        found = restore.plan(scratch, request)
        pinned, run = request.pinned(scratch, found), uuid.uuid4().hex
        ticket = restore.open_restore(scratch, pinned, run_id=run, requested_by="test", approved_hash=found.hash)
        runner = Runner(recovery=scratch, submitter=in_session, say=print)
        done = runner.take(steps, {DRILL.opening.name: ticket})
        done.require(KEEP_PLACED)
        # Its plan is made once more behind this, and only asks the drill's own topics.
        scratch.groups.set_offsets("another", {app.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
        created = runner.take((PREPARE_TOPICS,), done.results).require(PREPARE_TOPICS).created
        assert f"drill.{app.input.topic}" in created
        scratch.groups.delete("another")
        sandbox.remove(scratch, ticket)
