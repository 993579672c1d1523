"""Restores whose parts are killed at random moments, then resumed: no record twice, none lost, no offset before the end."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sys
import time

import psutil
import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import HALF_WAY
from streams_recovery.operations import topic_holds
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.spark.small_app import COMMAND_SECONDS, SmallApp

# Seconds that each step of a test may take at most. A broker that stays away gives up sooner.
SET_UP, LOADS, KILLED = 300, 300, 60
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(SET_UP + LOADS + KILLED + 2 * COMMAND_SECONDS)]

PARTITIONS, ROWS = 4, 6_000
SECONDS = 8  # that a throttled load takes, so that a random moment is in it
THROTTLE = {"records_per_second": PARTITIONS * ROWS // SECONDS}
SAVED = (10, "AgAAAYvP4/gA")


class Place:
    """A broker that others do not miss, and an application with a savepoint on it."""

    def __init__(self, processes, directory, ports, submitter):
        self.processes, self.directory, self.ports = processes, directory, ports
        self.bootstrap = self.start_broker()
        self.app = SmallApp(bootstrap=self.bootstrap, directory=directory, partitions=PARTITIONS, rows=ROWS)
        self.app.configure("small")
        self.app.configure("slow", throttle=THROTTLE)
        self.app.configure("spark", throttle=THROTTLE, always=True)
        self.app.build()
        self.truth = self.app.contents()
        with self.app.recovery() as recovery:
            request = SavepointRequest(run_id="s", requested_by="test", reason="", mode=None)
            runs.backup(Runner(recovery=recovery, submitter=submitter, say=print), request)

    def start_broker(self):
        from embedded.broker import start_broker

        return start_broker(self.processes, self.directory / "broker", port=self.ports[0], controller_port=self.ports[1])

    def broker(self):
        return self.processes.recorded()["broker"][0]


@pytest.fixture(scope="module")
def place(tmp_path_factory, in_session):
    from embedded.ports import free_ports
    from embedded.processes import Processes

    directory = tmp_path_factory.mktemp("place")
    with Processes(directory / "processes") as processes:
        yield Place(processes, directory, free_ports(2), in_session)


def kill_below(pid, *words):
    """Kill processes below one whose command line, and its parents' as far as there are more words, have these words; wait for the first."""
    deadline = time.monotonic() + KILLED
    while time.monotonic() < deadline:
        killed = 0
        for child in psutil.Process(pid).children(recursive=True):
            # Between two looks any of them may end.
            with contextlib.suppress(psutil.Error):
                line = [child, *child.parents()][: len(words)]
                if all(word in " ".join(process.cmdline()) for word, process in zip(words, line, strict=True)):
                    child.kill()
                    killed += 1
        if killed:
            return
        time.sleep(0.02)
    raise AssertionError(f"there was no {words[0]} to kill")


def python_workers(place, running):
    """The task's own processes: children of Spark's daemon, which forks them."""
    kill_below(running.pid, "pyspark.daemon", "pyspark.daemon")


def driver(place, running):
    kill_below(running.pid, "restore.py")


def one_process(place, running):
    """The process of a job without Spark."""
    kill_below(running.pid, "spark_jobs.restore")


def command_line(place, running):
    running.kill()


def broker_killed(place, running):
    os.kill(place.broker(), signal.SIGKILL)
    place.processes.stop("broker")
    place.start_broker()


def broker_frozen(place, running):
    os.kill(place.broker(), signal.SIGSTOP)
    time.sleep(5)
    os.kill(place.broker(), signal.SIGCONT)


OF_SPARK = {python_workers, driver}
KILLS = [python_workers, driver, one_process, command_line, broker_killed, broker_frozen]


def await_loaded(app, running, log, records):
    """Wait until so many records are there. The restore must not end before."""
    give_up = time.monotonic() + LOADS
    while app.loaded() < records:
        assert running.poll() is None, (app.directory / log).read_text()
        assert time.monotonic() < give_up
        time.sleep(0.05)


def disturbed(place, kill, moment, *, spark=False):
    """One restore with one kill when so much of the records is there. Returns how it ended and what the operator had to do."""
    app, total = place.app, PARTITIONS * ROWS
    app.lose()
    log = f"{kill.__name__}-{moment:.3f}.log"
    name = "spark" if kill in OF_SPARK or (spark and kill is not one_process) else "slow"
    running = app.restore(name, log=log)
    try:
        await_loaded(app, running, log, moment * total)
        kill(place, running)
        seen = app.loaded()
        assert app.committed() is None, "a start now would not continue from the savepoint"
        code = running.wait(COMMAND_SECONDS)
    finally:
        running.kill()  # its job ends with it
    resumed = code != 0
    if resumed:
        assert app.committed() is None
        code, said = app.resume(name, log=log)
        assert code == 0, said
    contents = app.contents()
    assert {part: (end - start, rows) for part, (start, end, rows, _) in contents.items()} == dict.fromkeys(range(PARTITIONS), (ROWS, ROWS))
    assert contents == place.truth
    assert app.committed() == SAVED
    with app.recovery() as recovery:
        assert recovery.lock.holder() is None
        assert topic_holds.outstanding(recovery) == ()
    text = (app.directory / log).read_text()
    again = [line.strip() for line in text.splitlines() if "were there and equal" in line]
    sys.stdout.write(f"{kill.__name__} at {moment:.0%} ({seen} of {total} records): {'resumed' if resumed else 'went on'}; {again}\n")


@pytest.mark.way("resume")
@pytest.mark.fault("F3", "F5")
@pytest.mark.parametrize(
    "kill",
    [command_line, one_process, pytest.param(python_workers, marks=pytest.mark.deep), pytest.param(broker_killed, marks=pytest.mark.deep)],
    ids=lambda kill: kill.__name__,
)
def test_a_kill_during_the_load_costs_and_doubles_nothing(place, kill):
    part = random.Random(kill.__name__).uniform(0.1, 0.7)
    sys.stdout.write(f"killed when {part} of the records are there\n")
    disturbed(place, kill, part)


@pytest.mark.fault("F6")
@pytest.mark.deep
def test_a_cluster_that_stays_away_is_named_with_the_phase_and_where_it_stood_and_the_restore_goes_on_when_it_is_back(place):
    app, log = place.app, "away.log"
    app.configure("impatient", timeout=5, stall_timeout_seconds=3, throttle={"records_per_second": PARTITIONS * ROWS // SECONDS})
    app.lose()
    running = app.restore("impatient", log=log)
    try:
        await_loaded(app, running, log, 0.3 * PARTITIONS * ROWS)
        os.kill(place.broker(), signal.SIGKILL)
        place.processes.stop("broker")
        code = running.wait(240)
        told = " ".join((app.directory / log).read_text().split())
    finally:
        running.kill()
        place.start_broker()
    stood = re.search(rf"{app.changelog}-(\d): no acknowledgement .{{,99}}? offset (\d+)", told)
    assert stood, told
    assert place.bootstrap in stood[0]
    assert code == HALF_WAY, told
    assert "stopped in phase created: the application is down on purpose" in told
    assert f" streams-recovery resume impatient {app.newest_restore()} --approve " in told
    assert "Traceback" not in told
    start, end, rows, _ = app.contents()[int(stood[1])]
    assert int(stood[2]) <= end - start == rows < ROWS, "what was acknowledged is there, and no row is there that it was not sent"
    assert app.committed() is None
    with app.recovery() as recovery:
        assert recovery.lock.holder() is None
    code, said = app.resume("impatient", log=log)
    assert code == 0, said
    assert "were there and equal" in " ".join(said.split())
    assert app.contents() == place.truth
    assert app.committed() == SAVED


@pytest.mark.fault("F3")
@pytest.mark.deep
@pytest.mark.parametrize("number", range(20))
def test_twenty_kills_at_random_moments_cost_and_double_nothing(place, number):
    dice = random.Random(number)
    disturbed(place, KILLS[number % len(KILLS)], dice.uniform(0.02, 0.9), spark=number // len(KILLS) % 2 == 0)
