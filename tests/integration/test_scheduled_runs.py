"""Runs of an application that is down in between, on a real broker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning, LockHeld, Refused
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.operations import conditions, scheduled_run
from tests.support.applications.small import RUNNING, STOPPED, Small, says, small_application
from tests.support.applications.topic_records import commit, produce

ENDS = parse_limit("ends")


@pytest.mark.way("scheduled run")
def test_a_run_goes_to_the_ends_there_were_at_its_start(small: Small) -> None:
    recovery, name = small.recovery, small.input
    commit(recovery, {small.tail: 4})
    begun = scheduled_run.begin(recovery, ENDS, run_id="first")
    assert (begun.ends, begun.before, begun.until) == ({name: 5}, {name: 4}, None)
    produce(recovery, small.input, 7)
    facts = {"ends": codec.encode(begun.ends), "until": begun.until}
    assert conditions.ends_reached(recovery, facts) == conditions.ConditionState(
        done=False, message=f"1 of 1 partitions are behind: {small.input} by 1"
    )
    assert scheduled_run.end(recovery, begun).behind == {name: 1}
    commit(recovery, {small.input: 5})
    assert conditions.ends_reached(recovery, facts) == conditions.ConditionState(done=True, message="2 partitions are read")
    report = scheduled_run.end(recovery, begun)
    assert (report.processed, report.behind, report.closed_cleanly) == ({name: 1}, {}, True)
    assert recovery.lock.holder() is None


def test_without_news_nothing_is_started_unless_there_is_a_time_to_run_for(bootstrap: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with small_application(bootstrap, tmp_path, programs={"start": ["touch", str(started)]}) as small:
        commit(small.recovery, {small.input: 5, small.tail: 4})
        assert scheduled_run.begin(small.recovery, ENDS, run_id="one").instances == ()
        assert not started.exists()
        timed = scheduled_run.begin(small.recovery, parse_limit("duration:PT1H"), run_id="two")
        assert started.exists()
        assert timed.until == timed.started_at + 3_600_000
        assert not conditions.ends_reached(small.recovery, {"ends": codec.encode(timed.ends), "until": timed.until}).done
        assert conditions.ends_reached(small.recovery, {"ends": {}, "until": timed.started_at}).done


def test_an_application_that_runs_already_is_left_alone(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(RUNNING)}) as small:
        with pytest.raises(ApplicationRunning, match=r"runs already: one \(pid 1\)"):
            scheduled_run.begin(small.recovery, ENDS, run_id="x")
        assert small.recovery.lock.holder() is None


def two_instances(directory: Path) -> dict[str, list[str]]:
    """Programs of an application with two instances. Its start launches what is gone, but for what a file ``broken`` names, and says so."""
    program = directory / "program.py"
    program.write_text(TWO)
    return {verb: [sys.executable, "-I", "-S", str(program), str(directory), verb] for verb in ("status", "start", "stop")}


TWO = """
import json, pathlib, sys
place, verb = pathlib.Path(sys.argv[1]), sys.argv[2]
marks = {name: place / f"{name}.up" for name in ("one", "two")}
broken = place / "broken"
if verb == "start":
    for name, mark in marks.items():
        if broken.exists() and name in broken.read_text():
            sys.exit(f"{name} cannot be started")
        mark.touch()
if verb == "stop":
    for mark in marks.values():
        mark.unlink(missing_ok=True)
if verb in ("status", "stop"):
    gone = {"state": "gone", "streams_state": None, "closed_cleanly": True}
    up = {"state": "running", "streams_state": "RUNNING", "closed_cleanly": None}
    print(json.dumps([{"name": name, "detail": "", **(up if mark.exists() else gone)} for name, mark in marks.items()]))
"""


def up(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.up"))


@pytest.mark.deep
@pytest.mark.parametrize("left", [["one", "two"], ["one"], []])
@pytest.mark.parametrize("run", ["first", "second"], ids=["the same run", "the next run"])
def test_what_a_dead_run_has_started_is_taken_over_and_stopped_in_the_end(
    bootstrap: str, tmp_path: Path, left: list[str], run: str
) -> None:
    with small_application(bootstrap, tmp_path, programs=two_instances(tmp_path)) as small:
        first = scheduled_run.begin(small.recovery, ENDS, run_id="first")
        assert (first.instances, up(tmp_path)) == (("one", "two"), ["one", "two"])
        # Its worker dies here: nobody has what it returned, and some of it may not have been started.
        for name in {"one", "two"} - set(left):
            (tmp_path / f"{name}.up").unlink()
        again = scheduled_run.begin(small.recovery, ENDS, run_id=run)
        assert (again.run_id, again.instances, up(tmp_path)) == (run, ("one", "two"), ["one", "two"])
        assert again.ends == first.ends
        scheduled_run.end(small.recovery, again)
        assert up(tmp_path) == []
        # What is started after that is somebody else's.
        (tmp_path / "one.up").touch()
        with pytest.raises(ApplicationRunning, match="runs already: one"):
            scheduled_run.begin(small.recovery, ENDS, run_id="third")


@pytest.mark.deep
def test_a_stop_that_is_repeated_leaves_alone_what_was_started_since(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs=two_instances(tmp_path)) as small:
        first = scheduled_run.begin(small.recovery, ENDS, run_id="first")
        scheduled_run.end(small.recovery, first)
        assert scheduled_run.end(small.recovery, first).run_id == "first", "it is down as it should be"
        second = scheduled_run.begin(small.recovery, ENDS, run_id="second")
        with pytest.raises(Refused, match=r"run first .* is over, and run second works with it"):
            scheduled_run.end(small.recovery, first)
        assert up(tmp_path) == ["one", "two"]
        scheduled_run.end(small.recovery, second)
        (tmp_path / "one.up").touch()
        for run in (first, second):
            with pytest.raises(Refused, match="is over, and something else has started one"):
                scheduled_run.end(small.recovery, run)
        assert (up(tmp_path), small.recovery.lock.holder()) == (["one"], None)


def test_where_one_instance_cannot_be_started_none_is_left_running(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs=two_instances(tmp_path)) as small:
        (tmp_path / "broken").write_text("two")
        with pytest.raises(ApplicationNotReady, match="two cannot be started"):
            scheduled_run.begin(small.recovery, ENDS, run_id="first")
        assert up(tmp_path) == []
        (tmp_path / "broken").unlink()
        assert scheduled_run.begin(small.recovery, ENDS, run_id="second").instances == ("one", "two")


def test_nothing_is_started_while_another_run_works_on_the_application(small: Small) -> None:
    held = small.recovery.lock.acquire("somebody", lease_seconds=60, purpose="a test")
    with pytest.raises(LockHeld):
        scheduled_run.begin(small.recovery, ENDS, run_id="x")
    small.recovery.lock.release(held)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("states", "wanted", "done"),
    [
        (RUNNING, "RUNNING", True),
        (RUNNING, "GONE", False),
        (RUNNING, "REBALANCING", False),
        (STOPPED, "GONE", True),
        (STOPPED, "RUNNING", False),
    ],
)
def test_a_state_is_waited_for_on_every_instance(
    bootstrap: str, tmp_path: Path, states: list[dict[str, Any]], wanted: str, done: bool
) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(states)}) as small:
        assert conditions.application_state(small.recovery, {"state": wanted}).done is done


def test_a_group_is_empty_or_names_its_members(small: Small) -> None:
    found = conditions.group_empty(small.recovery, {})
    assert (found.done, small.recovery.application_id in found.message) == (True, True)


def reporting(*told: tuple[str | None, int | None]) -> list[dict[str, Any]]:
    """Instances that report these states and numbers of records left to restore."""
    return [RUNNING[0] | {"name": f"i{n}", "streams_state": state, "restoring": left} for n, (state, left) in enumerate(told)]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("states", "done", "told"),
    [
        (reporting(("RUNNING", 0), ("RUNNING", 0)), True, "i0 RUNNING, 0 records left to restore"),
        (reporting(("RUNNING", None)), True, "i0 RUNNING, it does not tell what is left to restore"),
        (reporting(("RUNNING", 0), ("REBALANCING", 1_200)), False, "i1 REBALANCING, 1200 records left to restore"),
        (reporting(("REBALANCING", 0)), False, "i0 REBALANCING, 0 records left to restore"),
        (reporting(("RUNNING", 3)), False, "i0 RUNNING, 3 records left to restore"),
        (reporting(("PAUSED", 0)), False, "PAUSED"),
        (reporting((None, None)), False, "i0 running, it does not tell"),
        (STOPPED, False, "one gone, it does not tell"),
        (RUNNING + STOPPED, False, "one gone"),
    ],
)
def test_restoration_is_done_when_every_instance_runs_and_has_nothing_left_to_restore(
    bootstrap: str, tmp_path: Path, states: list[dict[str, Any]], done: bool, told: str
) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(states)}) as small:
        look = conditions.restoration_done(small.recovery, {})
        assert look.done is done
        assert told in look.message


def test_every_watch_has_its_sensor() -> None:
    from streams_recovery.sensors import application

    kinds: list[Callable[..., Any]] = [
        application.EndsReachedSensor,
        application.GroupEmptySensor,
        application.ApplicationStateSensor,
        application.RestorationDoneSensor,
    ]
    assert {kind.watch for kind in kinds} == set(conditions.WATCHES)  # type: ignore[attr-defined]
