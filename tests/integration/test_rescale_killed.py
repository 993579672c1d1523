"""A rescale of a real application whose run is killed behind a step, and whose program is killed as it starts: every key goes on as if nothing had been."""

from __future__ import annotations

import uuid

import pytest

from embedded.demo import disaster
from streams_recovery.application.port import InstanceState
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.waiting import poll
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.strategies import Rescale
from streams_recovery.workflows.restore import RESCALE
from tests.support.applications import shape_inputs, shape_oracles
from tests.support.applications.shapes import RESCALED, Fleet, Open, Shaped
from tests.support.applications.small import asked

pytestmark = [pytest.mark.deep, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]
STEPS = [step.name for step in RESCALE.steps]
# Where the run is killed, and the number of partitions that it was to bring.
KILLED = (("place_records", 5), ("keep_placed", 5), ("load_records", 6), ("start_application", 3))


def killed_behind(app: Shaped, runner: Runner, step: str, numbers: int) -> RestoreTicket:
    """A run that came so far, and is dead."""
    wanted = " ".join(f"{topic}={numbers}" for topic in app.recovery.config.topics.inputs)
    request = asked(app.recovery, Rescale, replace=True, delete=tuple(app.internal()), partitions=wanted)
    planned = restore.plan(app.recovery, request)
    ticket = restore.open_restore(app.recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    steps = RESCALE.steps[: STEPS.index(step) + 1]
    runner.take(steps, {RESCALE.opening.name: ticket}).require(steps[-1])
    return ticket


def gone(app: Shaped) -> bool:
    return all(one.state is InstanceState.GONE for one in app.recovery.application.status())


@pytest.mark.fault("F50")
@pytest.mark.parametrize("fleet", RESCALED.values(), ids=RESCALED)
def test_a_rescale_that_is_killed_at_any_step_ends_with_every_key_right(
    opened: Open, in_session: Submitter, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(fleet)
    runner = Runner(recovery=app.recovery, submitter=in_session, say=print)
    app.start()
    app.feed_part(1)
    for number, (step, partitions) in enumerate(KILLED, start=2):
        app.backup()
        # What is processed since the savepoint is in the state that the run takes itself.
        app.feed_part(number)
        ticket = killed_behind(app, runner, step, partitions)
        again = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        if step in ("place_records", "keep_placed"):
            # Nothing is replaced yet: it goes on as it was, and a new run brings the number.
            assert gone(app)
            restore.abandon(app.recovery, ticket)
            report = app.rescale(partitions) if step == "keep_placed" else None
        else:
            if step == "start_application":
                # Its program too, in the middle of reading its new changelogs.
                disaster.kill_processes(app.recovery)
                assert poll(lambda: gone(app) or None, seconds=30, interval=0.1)
            report = runs.resume(runner, ticket.restore_id, again, take_over=True, approve=lambda _: True)
            app.numbers = partitions
        if report is not None:
            assert report.verdict is Verdict.EQUAL
            internal = app.recovery.cluster.describe_topics(app.internal())
            assert {topic.partitions for topic in internal.values()} == {partitions}
    for module in (shape_oracles, shape_inputs):
        monkeypatch.setattr(module, "PARTITIONS", app.numbers)
    app.feed_part(2 + len(KILLED), last=True)
    app.check()
