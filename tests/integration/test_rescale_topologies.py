"""A repartition topic alone gets another number of partitions, by the description of a real program, from wherever it comes."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import Refused
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.waiting import poll
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore
from streams_recovery.operations.restore.strategies import Rescale
from tests.support.applications.small import asked
from tests.support.applications.versioned import Versioned, program

pytestmark = [pytest.mark.deep, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Versioned]:
    """An application that counts behind a repartition topic whose number it sets to 2."""
    made = Versioned(bootstrap=bootstrap, directory=tmp_path)
    made.configure(restore={"catch_up_timeout_seconds": 30})
    made.build()
    made.deploy("through-2")
    made.feed(ascii_letters + "abc")
    made.start()
    made.works_off()
    yield made
    made.stop()
    made.tidy()


def numbers(app: Versioned, **wanted: str) -> dict[str, tuple[int, int]]:
    """What a plan says of each topic."""
    with app.recovery() as recovery:
        planned = restore.plan(recovery, asked(recovery, Rescale, replace=True, **{"partitions": "by=5", **wanted}))
        assert isinstance(planned.part, RescalePart)
        return {one.name.removeprefix(app.id): (one.old, one.new) for one in planned.part.rescaled.topics}


def test_a_repartition_topic_alone_follows_the_program(app: Versioned, in_session: Submitter) -> None:
    app.savepoint(in_session)
    assert poll(lambda: app.running or None, seconds=60)
    wanted = {".in": (1, 1), "-by-repartition": (2, 5), "-totals-changelog": (2, 5)}
    # An instance that runs is asked.
    assert numbers(app) == wanted
    app.stop()
    with pytest.raises(Refused, match="which topics have to follow cannot be told") as refused:
        numbers(app)
    assert "GET /topology" in refused.value.next_step
    # What a person hands over, and what a program prints.
    assert numbers(app, topology=app.describes("through-2").decode()) == wanted
    prints = [*program(), "describe", "through-2", app.input.topic, app.output.topic]
    app.configure(application={"id": app.id, "guarantee": "exactly_once_v2", "topology_command": prints})
    assert numbers(app) == wanted
    with pytest.raises(Refused, match="does not fit the savepoint"):
        numbers(app, topology=app.describes("counted").decode())

    # The program with the other number is deployed by the run itself.
    app.deploys("through-5")
    app.start()
    with app.recovery() as recovery:
        request = asked(recovery, Rescale, replace=True, partitions="by=5")
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        report = runs.restore_in_place(
            runner, request, runs.Requester(run_id=uuid.uuid4().hex, requested_by="test"), approve=lambda _: True
        )
        assert report.verdict is Verdict.EQUAL
        found = recovery.cluster.describe_topics([f"{app.id}-by-repartition", f"{app.id}-totals-changelog", app.input.topic])
    assert app.version == "through-5"
    assert {name.removeprefix(app.id): one.partitions for name, one in found.items()} == {name: new for name, (_, new) in wanted.items()}
    app.feed(ascii_letters + "\u00fc")
    everything = dict(Counter(ascii_letters * 2 + "abc\u00fc"))
    assert poll(lambda: app.counts(partitions=5) == everything or None, seconds=60), app.counts(partitions=5)
