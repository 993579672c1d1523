"""Situations of ``docs/situations.md`` that no other test has in full: real applications, and results that are computed without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streams_recovery.application.port import InstanceState
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.core.waiting import poll
from streams_recovery.operations import conditions, scheduled_run
from streams_recovery.operations.restore import Rebuild
from streams_recovery.operations.scheduled_run import ScheduledRunReport
from tests.support.applications.rebuilds import strategy
from tests.support.applications.shape_inputs import PART, ZERO, Batches, part
from tests.support.applications.shape_oracles import MINUTE, Given
from tests.support.applications.shapes import Fleet, Open, Shaped
from tests.support.applications.versioned import Versioned

pytestmark = [pytest.mark.deep, pytest.mark.kafka, pytest.mark.timeout(600)]

# Counts of all, of minutes and of sessions, all of which take late records; and a join that finds late partners.
SHAPES = ("memory", "inner")


@pytest.fixture
def versioned(bootstrap: str, tmp_path: Path) -> Iterator[Versioned]:
    app = Versioned(bootstrap=bootstrap, directory=tmp_path)
    app.configure()
    app.build()
    app.deploy("counted")
    try:
        yield app
    finally:
        app.stop()
        app.tidy()


def parts(number: int, *, last: bool = False) -> dict[str, Batches]:
    return {shape: part(shape, number, ZERO, last=last) for shape in SHAPES}


def rebuilt(app: Shaped, offsets: str, begins: Mapping[TopicPartition, int]) -> None:
    """Rebuilt with its inputs begun as this strategy says, which must be at these offsets."""
    assert all(0 < begin < len(records) for begin, records in ((begins[tp], records) for tp, records in app.logs().items()))
    app.mark()
    app.forget(begins)
    app.restore(Rebuild, offsets=strategy(offsets), delete=tuple(app.internal()))


@pytest.mark.spark
def test_state_is_built_again_from_offsets_and_from_a_time(opened: Open) -> None:
    app = opened(Fleet(shapes=SHAPES))
    app.start()
    app.feed(parts(1))
    app.savepoint()
    app.feed(parts(2))
    app.recovery.application.stop(timeout=60)

    # Another one in each partition.
    named = {tp: len(records) // (3 + place) for place, (tp, records) in enumerate(app.logs().items())}
    rebuilt(app, "specific:" + ",".join(f"{tp.topic}:{tp.partition}={begin}" for tp, begin in named.items()), named)
    app.check()

    moment = ZERO + MINUTE
    by_time = {tp: next(at for at, one in enumerate(records) if one.at >= moment) for tp, records in app.logs().items()}
    rebuilt(app, f"timestamp:{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}", by_time)
    app.feed(parts(3, last=True))
    app.check()


def wrong_and_late(moment: int) -> tuple[dict[str, Batches], dict[str, list[Given]]]:
    """Records that should not have been written, all later than this moment, with late ones of before it among them; and these alone."""
    batches, late = {}, {}
    for shape, [records] in parts(3).items():
        late[shape] = [replace(one, at=one.at - PART, value=f"late {one.value}") for one in records[::2]]
        wrong = [replace(one, at=max(one.at, moment + 1), value=f"wrong {one.value}") for one in records]
        half = len(wrong) // 2
        batches[shape] = [[*wrong[:half], *late[shape], *wrong[half:]]]
    return batches, late


@pytest.mark.spark
def test_wrong_records_are_taken_out_of_the_past_and_late_ones_stay_in_their_windows(opened: Open) -> None:
    app = opened(Fleet(shapes=SHAPES, survives=True))
    moment = ZERO + 2 * PART - 1
    app.start()
    app.feed(parts(1))
    app.savepoint()
    known = app.before
    app.feed(parts(2))
    right = {shape: list(records) for shape, records in app.since.items()}
    batches, late = wrong_and_late(moment)
    app.feed(batches)
    app.savepoint()
    app.recovery.application.stop(timeout=60)
    app.mark()

    app.restore(as_of=AsOf(moment=moment, by=CutBy.TIMESTAMP), in_place=True, delete=tuple(app.internal()))
    app.before = known
    app.since = {shape: [*right[shape], *late[shape]] for shape in SHAPES}
    kept = Counter(
        TopicPartition(app.topic(shape, one.side), one.partition) for shape in SHAPES for one in (*app.before[shape], *app.since[shape])
    )
    assert app.recovery.cluster.high_watermarks([*kept]) == kept, "no wrong record is left, and every other one is"
    app.start()
    app.feed(parts(3, last=True))
    app.check()


def worked(app: Versioned, limit: str, run_id: str, *, meanwhile: str = "") -> tuple[tuple[str, ...], ScheduledRunReport]:
    """A run of the DAG's steps, with these records fed once it is begun: the instances that it started, and what it says in the end."""
    with app.recovery() as recovery:
        run = scheduled_run.begin(recovery, parse_limit(limit), run_id=run_id)
        if meanwhile:
            app.feed(meanwhile)
            app.works_off()
        facts = {"ends": codec.encode(run.ends), "until": run.until}
        assert poll(lambda: conditions.ends_reached(recovery, facts).done or None, seconds=120, interval=0.2)
        report = scheduled_run.end(recovery, run)
        assert {one.state for one in recovery.application.status()} == {InstanceState.GONE}
        assert recovery.groups.describe(app.id).members == ()
        return run.instances, report


def states(app: Versioned) -> Sequence[Path]:
    """What an instance that runs leaves behind."""
    return sorted((app.directory / "state").rglob("*"))


def test_an_application_runs_for_cold_data_for_new_data_and_for_a_time_and_is_down_in_between(versioned: Versioned) -> None:
    app, fed = versioned, "aabab"
    app.feed(fed)
    instances, cold = worked(app, "ends", "cold")
    assert (instances, cold.processed, cold.behind, cold.unread) == (("one",), {app.input: 5}, {}, {})
    assert (cold.closed_cleanly, app.counts()) == (True, Counter(fed))

    before = [(path, path.stat().st_mtime_ns) for path in states(app)]
    assert before
    instances, idle = worked(app, "ends", "idle")
    assert (instances, idle.processed, app.counts()) == ((), {}, Counter(fed))
    assert [(path, path.stat().st_mtime_ns) for path in states(app)] == before, "no instance was there"

    app.feed("bc")
    instances, driven = worked(app, "ends", "driven")
    assert (instances, driven.processed, app.counts()) == (("one",), {app.input: 2}, Counter(fed + "bc"))

    instances, timed = worked(app, "duration:PT20S", "timed", meanwhile="ca")
    assert (instances, timed.processed, app.counts()) == (("one",), {app.input: 2}, Counter(fed + "bc" + "ca"))
    assert timed.seconds >= 20, "it stays up for its time"
