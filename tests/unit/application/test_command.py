"""Programs of the user, as the page says and as its example does it: gone is proven, and so is a clean end."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from streams_recovery.application.command import CommandApplication
from streams_recovery.application.port import InstanceState, InstanceStatus, WipeReport
from streams_recovery.config.runs import CommandRuns
from streams_recovery.core.errors import ApplicationRunning
from tests.support.project import PROJECT

PROGRAMS = PROJECT / "examples" / "programs"
PAGE = (PROJECT / "docs" / "programs.md").read_text(encoding="utf-8")
# It ends by itself when it is asked to, as Kafka Streams does behind its hook; "deaf" does not.
PROGRAM = """
import signal, sys, time
if sys.argv[1] != "deaf":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1])))
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""

Application = Callable[[str], CommandApplication]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert true()


@pytest.fixture(params=["control.py", "control.sh"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    """One whose program ends with this status when it is asked to, and is up."""
    made: list[CommandApplication] = []

    def application(ends_with: str) -> CommandApplication:
        (tmp_path / "program.py").write_text(PROGRAM)
        words = [sys.executable, str(tmp_path / "program.py"), ends_with]
        program = json.dumps(words) if request.param == "control.py" else " ".join(words)
        environment = {"RECORDS": str(tmp_path / "records"), "STATE": str(tmp_path / "state"), "PROGRAM": program}
        verbs = {verb: [str(PROGRAMS / request.param), verb] for verb in ("status", "stop", "start", "wipe")}
        made.append(CommandApplication(CommandRuns.model_validate({**verbs, "environment": environment}), "shop"))
        return made[-1]

    yield application
    for one in made:
        one.stop(timeout=0)


def started(application: CommandApplication, tmp_path: Path) -> InstanceStatus:
    log = tmp_path / "records" / "log"
    before = log.read_text() if log.exists() else ""
    application.start()
    until(lambda: log.exists() and log.read_text() != before)
    [found] = application.status()
    return found


def test_the_example_starts_once_stops_cleanly_and_wipes_only_what_is_gone(application: Application, tmp_path: Path) -> None:
    shop = application("0")
    [never] = shop.status()
    assert (never.state, never.closed_cleanly, never.stopped_here) == (InstanceState.GONE, False, None)
    up = started(shop, tmp_path)
    assert up.silent
    assert (up.state, up.streams_state, up.closed_cleanly) == (InstanceState.RUNNING, None, None)
    shop.start()
    assert shop.status() == (up,), "what runs is left alone"
    with pytest.raises(ApplicationRunning):
        shop.wipe_state()
    [down] = shop.stop(timeout=20).instances
    assert (down.state, down.closed_cleanly, down.stopped_here) == (InstanceState.GONE, True, True)
    state = tmp_path / "state" / "shop"
    state.mkdir(parents=True)
    report = shop.wipe_state()
    assert (report.removed, report.remaining, [mark.place for mark in report.marks]) == ((str(state),), (), [str(state)])
    assert shop.state_since(report.marks).unseen == (f"{state} is not there",)
    state.mkdir()
    assert shop.state_since(report.marks).fresh == (str(state),)
    again = shop.state_since((replace(report.marks[0], at=time.time_ns() + 1_000_000_000),))
    assert len(again.stale) == 1
    state.rmdir()
    assert shop.wipe_state() == WipeReport(removed=(), remaining=())
    assert shop.state_since(()).unseen == ("the wipe program named no directory that can be seen from here",)


@pytest.mark.fault("F107")
@pytest.mark.parametrize("again", [False, True], ids=["only emptied", "made again"])
def test_a_wipe_program_may_leave_the_directory_empty(tmp_path: Path, again: bool) -> None:
    state = tmp_path / "state" / "shop"
    (state / "0_0").mkdir(parents=True)
    kept = tmp_path / "kept"
    (kept / "0_0").mkdir(parents=True)
    takes = f"shutil.rmtree('{state}'); os.mkdir('{state}')" if again else f"shutil.rmtree('{state}/0_0')"
    wipe = f"import json, os, shutil; {takes}; print(json.dumps({{'removed': ['{state}'], 'remaining': []}}))"
    gone = '[{"name": "a", "state": "gone", "streams_state": null, "closed_cleanly": true, "detail": ""}]'
    verbs = {verb: ["echo", gone] for verb in ("status", "stop", "start")}
    shop = CommandApplication(CommandRuns.model_validate({**verbs, "wipe": [sys.executable, "-c", wipe]}), "shop")
    marks = shop.wipe_state().marks
    empty = shop.state_since(marks)
    assert (empty.fresh, empty.stale, empty.unseen) == ((), (), (f"{state} has nothing in it since the wipe",))
    (state / "0_0").mkdir()
    assert shop.state_since(marks).fresh == (str(state),)
    (kept / "0_0").rename(state / "0_1")
    assert shop.state_since(marks).stale == (f"{state}/0_1 (of {state})",)


@pytest.mark.parametrize("ends_with", ["1", "deaf"])
def test_an_end_that_is_not_clean_is_told(application: Application, tmp_path: Path, ends_with: str) -> None:
    shop = application(ends_with)
    started(shop, tmp_path)
    [down] = shop.stop(timeout=0.5 if ends_with == "deaf" else 20).instances
    assert (down.state, down.closed_cleanly, down.stopped_here) == (InstanceState.GONE, False, True)


def test_a_process_whose_attendant_was_killed_still_runs_and_one_that_crashed_has_not_closed(
    application: Application, tmp_path: Path
) -> None:
    shop = application("0")
    up = started(shop, tmp_path)
    [group] = map(int, re.findall(r"\d+", up.detail))
    os.kill(group, signal.SIGKILL)
    assert [one.state for one in shop.status()] == [InstanceState.RUNNING], "the lock is held by the program"
    os.killpg(group, signal.SIGKILL)
    until(lambda: shop.status()[0].state is InstanceState.GONE)
    [down] = shop.status()
    assert (down.closed_cleanly, down.stopped_here) == (False, False)


def test_the_page_has_every_program_every_field_and_every_exit_status() -> None:
    tables = PAGE.split("\n## ")[1]
    rows = {name for row in re.findall(r"^\| (`[^|]*) \|", tables, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    verbs = {name for name in CommandRuns.model_fields if name not in ("environment", "timeout_seconds")}
    assert rows == verbs | {one.name for one in fields(InstanceStatus)}
    assert all(f'"{one.name}"' in PAGE for one in fields(WipeReport))
    assert all(f"`{state.value}`" in PAGE for state in InstanceState)
    for name in ("control.sh", "control.py"):
        assert f"](../examples/programs/{name})" in PAGE
    assert f"```bash\n{(PROGRAMS / 'control.sh').read_text(encoding='utf-8').rstrip()}\n```" in PAGE, "the page shows what the tests run"
    for page in ("quick-start.md", "configuration.md", "kubernetes-native.md"):
        assert "](programs.md)" in (PROJECT / "docs" / page).read_text(encoding="utf-8"), page
