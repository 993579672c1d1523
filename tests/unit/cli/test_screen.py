"""What a person reads: an error on one line, and each command to run next on a line of its own, complete."""

from __future__ import annotations

import codecs
import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest

from streams_recovery.cli import approval, screen
from streams_recovery.cli.screen import _lines, print_json, remembered, shown_progress
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.escaping import code, md, visible
from streams_recovery.core.jobs.progress import JobProgress
from tests.support.hostile import HOSTILE


@pytest.fixture(autouse=True)
def words() -> Iterator[None]:
    """The words of a call with configuration files of its own."""
    with remembered(("verify", "shop", "--configs", "my files")):
        yield


def test_an_error_names_each_command_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    grant = "kafka-acls.sh --add --operation Read"
    screen.say_error(Refused("it is refused.", next_step="do both").then(grant, "streams-recovery dismiss shop r1"))
    assert capsys.readouterr().err.splitlines() == [
        "Refused: it is refused. Next: do both",
        f"    {grant}",
        "    streams-recovery dismiss shop r1 --configs 'my files'",
    ]


def test_a_command_is_for_the_same_configuration_files(capsys: pytest.CaptureFixture[str]) -> None:
    screen.say_command("To go back:", "streams-recovery undo shop r1")
    screen.say_command("This carries it out:", "streams-recovery expire shop --configs there")
    assert capsys.readouterr().err.splitlines() == [
        "To go back:",
        "    streams-recovery undo shop r1 --configs 'my files'",
        "This carries it out:",
        "    streams-recovery expire shop --configs there",
    ]


def unexpected() -> None:
    """An error of ours that nobody expected, as the program ends with it."""
    try:
        codecs.lookup(HOSTILE.replace("\0", ""))
    except LookupError:
        screen.say_unexpected()


def plan() -> None:
    """A plan with its approval."""
    shown = md("| a | b |\n|---|---|\n| {} | {} |\n\n### {}", HOSTILE, code(HOSTILE), HOSTILE)
    approval.show_plan(StatedPlan(application_id=HOSTILE, text=shown, parts={"group": HOSTILE}), shown, as_json=False)


def progress() -> None:
    """The bar of a job."""
    with shown_progress(HOSTILE) as show:
        show(
            JobProgress(
                job=HOSTILE,
                phase=HOSTILE,
                at=0,
                seconds=1,
                records=1,
                records_total=2,
                bytes=3,
                tasks=1,
                tasks_done=0,
                records_per_second=None,
                bytes_per_second=None,
                percent=None,
                seconds_left=None,
            )
        )


def warned() -> None:
    """What a library warns of."""
    screen.say_warnings()
    logging.getLogger("kafka").warning("%s", HOSTILE)


# Every way that a text takes to the screen.
WAYS: dict[str, Callable[[], object]] = {
    "line": lambda: screen.line(HOSTILE),
    "say": lambda: screen.say(HOSTILE),
    "command": lambda: screen.say_command(HOSTILE, f"echo '{HOSTILE}'"),
    "error": lambda: screen.say_error(Refused(HOSTILE, next_step=HOSTILE).then(f"echo '{HOSTILE}'")),
    "mistakes": lambda: screen.say_error(ConfigInvalid(HOSTILE, next_step=HOSTILE)),
    "unexpected": unexpected,
    "plan": plan,
    "table": lambda: screen.table((HOSTILE, "b"), [(HOSTILE, "[red]x[/red]"), ("bad", HOSTILE)], folded=("b",), bad=("bad",)),
    "data": lambda: screen.data().write(f"{HOSTILE}\r\n"),
    "json": lambda: print_json({HOSTILE: HOSTILE}),
    "progress": progress,
    "warned": warned,
}
_STYLE = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|1A)")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("terminal", [True, False])
def test_no_control_character_reaches_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, way: str, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal or way == "data", raising=False)
    monkeypatch.setenv("COLUMNS", "4000")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    WAYS[way]()
    out = "".join(capsys.readouterr())
    # The styles are ours, and so are the line breaks. What is written out is not among them.
    shown = _STYLE.sub("", out).replace("\r", "") if terminal else out.replace("\r\n", "\n")
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "alert(1)" in shown
    assert way not in ("line", "say", "warned") or shown.count("\n") == 1


def test_a_cell_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    screen.table(("topic",), [("[red]x[/red]",), (HOSTILE,)])
    out = capsys.readouterr().out
    assert "[red]x[/red]" in out
    assert visible(HOSTILE) in out


def test_json_stays_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": HOSTILE + "\x7f"})
    assert json.loads(capsys.readouterr().out) == {"a": HOSTILE + "\x7f"}


def test_data_for_a_program_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    screen.data().write(HOSTILE)
    assert capsys.readouterr().out == HOSTILE


def test_each_mistake_of_a_file_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen.say_error(ConfigInvalid("a.yaml:1: x\nb.yaml:2: y", next_step="correct it"))
    assert capsys.readouterr().err.splitlines() == ["ConfigInvalid: a.yaml:1: x", "b.yaml:2: y. Next: correct it"]


SEEN = JobProgress(
    job="restore",
    phase="loading",
    at=0,
    seconds=20.0,
    records=5,
    records_total=10,
    bytes=120,
    tasks=1,
    tasks_done=0,
    records_per_second=1.0,
    bytes_per_second=None,
    percent=50,
    seconds_left=5.0,
)


def test_where_nobody_looks_it_is_a_line_now_and_then_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    show = _lines("load_records", clock=lambda: now)
    for now in (0.0, 10.0, 29.0, 30.0, 45.0):  # noqa: B007  # the clock reads it
        show(SEEN)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["load_records: loading: 5 of 10 records (50 %), 120 B, 1 records/s, 5 s left, 0 of 1 tasks done"] * 2


def test_a_terminal_has_a_bar_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with shown_progress("load_records") as show:
        show(SEEN)
    out, err = capsys.readouterr()
    assert out == ""
    assert "load_records" in err
    assert "50%" in err
