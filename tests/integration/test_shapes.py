"""Every shape of state, saved, lost and brought back: real applications, and results that are computed without them."""

from __future__ import annotations

import pytest

from embedded.jars import KAFKA_VERSION
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.operations import restore
from streams_recovery.operations.restore import Rebuild
from tests.support.applications.rebuilds import strategy
from tests.support.applications.shape_inputs import KEYS, PART, ZERO, Batches, news, part, questions
from tests.support.applications.shape_oracles import MINUTE, Given
from tests.support.applications.shapes import Fleet, Open, Shaped
from tests.support.applications.small import asked
from tests.support.programs.kafka_versions import kafka

pytestmark = [pytest.mark.deep, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]


def parts(app: Shaped, number: int, *, last: bool = False) -> dict[str, Batches]:
    return {shape: part(shape, number, ZERO, last=last) for shape in app.fleet.shapes}


FLEETS = {
    "joins of streams": Fleet(shapes=("inner", "left", "outer", "suppressed")),
    "tables": Fleet(shapes=("tables", "foreign", "punctuated"), guarantee="at_least_once", mode="stop"),
    "no changelog of their own": Fleet(shapes=("memory", "unlogged", "globals")),
    "inputs that are changelogs": Fleet(shapes=("optimized", "globals", "memory"), optimized=True, survives=True),
    "static members that stand by": Fleet(shapes=("tables", "outer"), instances=4, threads=1, standbys=1, static=True, mode="stop"),
    "streams protocol": Fleet(shapes=("left", "foreign", "suppressed"), protocol="streams", mode="stop"),
}


@pytest.mark.fault("F50")
@pytest.mark.parametrize("fleet", FLEETS.values(), ids=FLEETS)
def test_state_that_was_lost_comes_back_as_it_was(opened: Open, fleet: Fleet) -> None:
    app = opened(fleet)
    app.start()
    app.feed(parts(app, 1))
    app.savepoint()
    app.feed(parts(app, 2))
    app.lose()
    if "globals" in fleet.shapes and not fleet.survives:
        app.send({"globals": news(ZERO)})
    assert app.restore().verdict is Verdict.EQUAL
    if fleet.survives:
        # Whoever writes to the inputs writes again what no savepoint has.
        app.feed(parts(app, 2))
    app.feed(parts(app, 3, last=True))
    app.check()


@pytest.mark.fault("F50")
def test_tables_and_joins_are_built_again_from_their_inputs(opened: Open) -> None:
    app = opened(Fleet(shapes=("tables", "foreign", "inner", "left", "outer")))
    app.start()
    app.feed(parts(app, 1))
    app.savepoint()
    app.feed(parts(app, 2))
    internal = app.spoil()
    app.forget()
    app.restore(Rebuild, offsets=strategy("earliest"), delete=tuple(internal))
    app.feed(parts(app, 3, last=True))
    app.check()


@pytest.mark.fault("F50")
def test_a_versioned_store_has_every_version_up_to_the_moment_and_none_after_it(opened: Open) -> None:
    app = opened(Fleet(shapes=("versioned",), survives=True))
    app.start()
    app.feed(parts(app, 1))
    app.savepoint()
    app.feed(parts(app, 2))
    known = {"versioned": [*app.before["versioned"], *app.since["versioned"]]}
    app.feed(parts(app, 3))
    app.savepoint()
    app.restore(as_of=AsOf(moment=ZERO + 2 * PART - 1, by=CutBy.TIMESTAMP), in_place=True)
    app.before = known
    app.mark()
    # Kafka Streams 4.3.1 does not find older versions in local state that was there when it started; its changelog has them.
    app.recovery.application.wipe_state()
    app.start()
    app.feed({"versioned": [questions(ZERO, 3)]})
    app.check()


@pytest.mark.parametrize(("version", "missing"), [("4.3.1", False), (KAFKA_VERSION, True)])
def test_windows_that_are_written_ahead_of_their_records_are_missing_since_4_4_and_the_plan_says_so(
    opened: Open, version: str, *, missing: bool
) -> None:
    """The store keeps an hour. What is due after 100 minutes is written first; then come 90 minutes of records, each with something due soon."""
    # A changelog whose last record is not there within one poll is read from its beginning.
    app = opened(Fleet(shapes=("ahead",), guarantee="at_least_once", mode="stop", threads=1, poll_ms=3_000, kafka=kafka(version)))
    keys = [key for key in KEYS if asks(key, 0, "").partition == 0]
    due = [(0, 100), *((minute, minute + 5) for minute in range(1, 91))]
    app.start()
    app.feed({"ahead": [[asks(key, at, f"due {ZERO + when * MINUTE}") for at, when in due for key in keys]]})
    app.savepoint()
    app.lose()
    warnings = restore.plan(app.recovery, asked(app.recovery, replace=True, safety=SafetyPolicy.SKIP)).warnings
    told = f"windows of {app.recovery.application_id}-ahead-due-changelog begin up to 6000 seconds after the records that wrote them"
    assert [one for one in warnings if one.startswith(told)], warnings
    assert app.restore().verdict is Verdict.EQUAL
    if missing:
        # The first record that is read is of an hour before the last one.
        app.before = {"ahead": [one for one in app.before["ahead"] if one.at >= ZERO + 30 * MINUTE]}
    app.feed({"ahead": [[asks(key, minute, "what is due") for key in keys for minute in (95, 100)]]})
    app.check()


def asks(key: str, minute: int, value: str) -> Given:
    return Given(side="in", key=key, value=value, at=ZERO + minute * MINUTE)
