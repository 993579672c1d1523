"""A whole savepoint and a whole restore by the command line while each of three brokers in turn is lost and comes back, the controller among them."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import TransientError
from streams_recovery.operations import topic_holds
from tests.support.kafka.three_brokers import Bouncer
from tests.support.spark.small_app import SmallApp

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.deep, pytest.mark.timeout(1800)]

PARTITIONS, ROWS = 4, 30_000
SECONDS = 60  # that a throttled load takes: all of the brokers go away in it
ATTEMPTS = 5  # of a savepoint
SAVED = (10, "AgAAAYvP4/gA")


@pytest.fixture(scope="module")
def app(three_brokers_once, tmp_path_factory):
    """An application with three copies of everything, stopped."""
    three_brokers_once.whole()
    directory = tmp_path_factory.mktemp("app")
    app = SmallApp(bootstrap=three_brokers_once.bootstrap, directory=directory, partitions=PARTITIONS, rows=ROWS, replication=3)
    app.configure("small", timeout=60)
    app.configure("slow", timeout=60, throttle={"records_per_second": PARTITIONS * ROWS // SECONDS})
    app.build()
    return app


def backed_up(app, log):
    """A savepoint, taken again where a leader moved just while the cut was read: that is no cut, and the operator is told to."""
    for _ in range(ATTEMPTS):
        code = app.start("backup", "small", log=log).wait(300)
        said = (app.directory / log).read_text()[-3000:]
        if code != TransientError.exit_code:
            break
        assert "leaders of topic" in said, said
        assert "Next: run the savepoint again" in said
    return code, said


@pytest.mark.fault("F5")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_savepoint_is_what_it_would_have_been(app, three, how):
    truth = app.contents()
    with Bouncer(three, how) as bouncer:
        code, said = backed_up(app, log=f"backup-{how}.log")
        assert code == 0, said
    assert bouncer.gone, "the controller moved"
    with app.recovery() as recovery:
        saved = recovery.savepoints.latest()
        assert saved is not None
        assert saved.consistency == "exact"
        changelog = saved.topic(app.changelog)
        assert {one.partition: (one.log_start, one.end, one.rows) for one in changelog.partitions} == {
            partition: (start, end, rows) for partition, (start, end, rows, _) in truth.items()
        }
        assert (recovery.lock.holder(), topic_holds.outstanding(recovery)) == (None, ())
    assert app.contents() == truth
    code, said = app.run("verify", "small", "--level", "full", log=f"verify-{how}.log")
    assert code == 0, said


@pytest.mark.fault("F5")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restore_ends_with_the_same_records(app, three, how):
    truth, log = app.contents(), f"restore-{how}.log"
    with app.recovery() as recovery:
        nothing_yet = recovery.savepoints.latest() is None
    if nothing_yet:
        assert app.run("backup", "small")[0] == 0
    app.lose()
    running = app.restore("slow", log=log)
    while running.poll() is None and app.loaded() == 0:
        pass
    with Bouncer(three, how) as bouncer:
        code = running.wait(900)
    if code != 0:
        assert app.committed() is None
        code, said = app.resume("slow", log=log)
        assert code == 0, said
    assert bouncer.gone, "the controller moved"
    assert app.contents() == truth
    assert app.committed() == SAVED
    with app.recovery() as recovery:
        assert (recovery.lock.holder(), topic_holds.outstanding(recovery)) == (None, ())
