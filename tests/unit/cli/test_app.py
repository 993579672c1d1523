"""Every command speaks the same way: its options, plan and approval, what to run next, what it exits with, and how it ends when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import EXIT_CODES, ConfigInvalid, NotFound, PlanChanged, Refused
from streams_recovery.core.forms import SAVEPOINT
from streams_recovery.core.outputs.comparison import OutputsOptions
from streams_recovery.core.rollout.cutover import RESTORE_FIRST
from streams_recovery.core.sandbox.interval_log import ReprocessOptions
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.operations.restore.strategies import STRATEGIES
from tests.support.command_line import command, every_command
from tests.support.project import PROJECT
from tests.support.repository.state_repository import FIRST, SECOND, environment, fill

# The program itself, with a command that holds something and waits.
_HOLDING = """
import os, sys
from streams_recovery.cli.app import app, run

@app.command()
def hold():
    try:
        print("held", flush=True)
        os.read(0, 1)
    finally:
        print("teardown begins", flush=True)
        os.read(0, 1)
        print("teardown ends", flush=True)

sys.argv = ["streams-recovery", "hold"]
run()
"""


FULL = "stdout cannot be written: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("words", "streams", "code", "told"),
    [
        ("paths", ">&-", 0, ""),
        ("paths", ">&- 2>&- <&-", 0, ""),
        ("--help", ">&-", 0, ""),
        ("info nothere", "2>&-", 4, ""),
        ("info nothere", "2>/dev/full", 4, ""),
        ("paths", ">/dev/full", 1, FULL),
        ("--help", ">/dev/full", 1, FULL),
        ("paths", ">/dev/full 2>&-", 1, ""),
    ],
)
def test_a_command_without_a_place_for_its_output_ends_quietly(words: str, streams: str, code: int, told: str, unbuffered: str) -> None:
    environment = {"PYTHONPATH": str(PROJECT / "plugins"), "PYTHONUNBUFFERED": unbuffered}
    shell = ["sh", "-c", f"exec {sys.executable} -m streams_recovery {words} {streams}"]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", told)


def test_sigterm_ends_a_command_by_its_teardown_and_a_second_one_does_not_disturb_that() -> None:
    environment = {"PYTHONPATH": str(PROJECT / "plugins")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _HOLDING], text=True, env=environment, **pipes) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "held\n"
        program.send_signal(signal.SIGTERM)
        assert program.stdout.readline() == "teardown begins\n"
        program.send_signal(signal.SIGTERM)
        program.stdin.write("x")
        program.stdin.flush()
        assert program.stdout.readline() == "teardown ends\n"
    assert program.returncode == 128 + signal.SIGTERM


_REFUSING = """
import sys
from streams_recovery.cli.app import app, run
from streams_recovery.core.errors import Refused

@app.command()
def refuse(configs: str = ""):
    raise Refused("no", next_step="do").then("streams-recovery info y")

sys.argv = ["streams-recovery", "refuse", "--configs", "/srv/configs"]
run()
"""


def test_the_command_of_an_error_is_for_the_configurations_of_the_call() -> None:
    environment = {"PYTHONPATH": str(PROJECT / "plugins")}
    done = subprocess.run([sys.executable, "-c", _REFUSING], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines() == ["Refused: no. Next: do", "    streams-recovery info y --configs /srv/configs"]


Run = Callable[..., Result]
CHANGING = (
    *dict.fromkeys(strategy.COMMAND for strategy in STRATEGIES.values() if strategy.COMMAND is not None),
    *("backup", "append-quarantine", "clone", "cut-over", "roll-back", "upgrade", "compact", "state write"),
    *("drill", "reprocess", "expire", "undelete", "unlock", "dismiss", "savepoints keep", "savepoints release", "offsets snapshot"),
    "offsets restore",
)
ADDS = {"compact", "state write", "drill", "savepoints keep", "offsets snapshot"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)

    def run(*words: str, typed: str = "") -> Result:
        return CliRunner().invoke(app, [*words, "--configs", str(tmp_path)], env=environment(), input=typed)

    return run


def helps(words: str) -> str:
    done = CliRunner().invoke(app, [*words.split(), "--help"])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("words", CHANGING)
def test_what_changes_something_shows_a_plan_and_takes_one_approval(words: str) -> None:
    text = helps(words)
    assert "--plan " in text
    assert ("--approve HASH" in text) == (words not in ADDS)
    assert not any(option in text for option in ("--yes", "--apply", "--dry-run", "--confirm"))


def test_help_has_all_exit_codes_the_version_and_completion_and_breaks_no_line() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    for code, meaning in EXIT_CODES:
        assert f"{code:<9} {meaning.replace('`', '')}" in text
    assert "--install-completion" in text
    assert CliRunner().invoke(app, ["--version"]).stdout.strip().count(".") == 2


def test_latest_is_a_word_for_every_command_that_takes_the_id_of_a_savepoint(run: Run, tmp_path: Path) -> None:
    listed = [one["savepoint_id"] for one in json.loads(run("savepoints", "list", "shop", "--json").stdout)]
    assert json.loads(run("savepoints", "show", "shop", "latest").stdout)["savepoint_id"] == listed[-1]
    assert json.loads(run("savepoints", "keep", "shop", "latest", "--reason", "x", "--json").stdout)["savepoint_id"] == listed[-1]
    assert listed[-1] in run("savepoints", "release", "shop", "latest", "--reason", "x", "--plan").stdout
    assert json.loads(run("verify", "shop", "latest", "--json").stdout)["savepoints"] == 1
    table = tmp_path / "table.json"
    assert run("state", "show", "shop", "totals", "--savepoint", SECOND, "--out", str(table)).exit_code == 0
    written = run("state", "write", "shop", "totals", "--from", str(table), "--savepoint", "latest", "--reason", "x")
    assert "written back over the savepoint that it was made from" in str(written.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "--delete"),
        ("undo", "--delete"),
        ("rebuild", "--delete"),
        ("failover", "--to", "dr", "--delete"),
        ("compatible", "--lose"),
    ],
)
def test_a_name_of_a_topic_that_a_form_refuses_is_refused_here_too(run: Run, words: tuple[str, ...]) -> None:
    refused = run(words[0], "shop", *words[1:], "totals*")
    assert isinstance(refused.exception, ConfigInvalid), refused.output
    assert refused.exception.reason == "topic 'totals*' is not allowed"


def test_a_plan_ends_with_the_command_that_carries_it_out(run: Run, tmp_path: Path) -> None:
    shown = run("savepoints", "release", "shop", FIRST, "--reason", "it's over", "--plan")
    last = shown.stderr.splitlines()[-1]
    expected = f"    streams-recovery savepoints release shop {FIRST} --reason 'it'\"'\"'s over' --configs {tmp_path} --approve "
    assert last.startswith(expected), shown.stderr
    assert len(last) > 120, "one line, however long it is"


def test_what_was_approved_is_done_without_a_question_and_nothing_else_is(run: Run) -> None:
    words = ("savepoints", "release", "shop", SECOND, "--reason", "x")
    approval = run("savepoints", "release", "shop", FIRST, "--reason", "x", "--plan").stderr.split()[-1]
    other = run(*words, "--approve", approval)
    assert isinstance(other.exception, PlanChanged)
    assert other.exception.facts["different"] == ["the savepoint"]
    again = other.stderr.splitlines()[-1]
    assert again.startswith(f"    streams-recovery savepoints release shop {SECOND} ")
    assert run(*words, "--approve", again.split()[-1]).exit_code == 0


def test_an_expiry_asks_and_does_what_was_typed_for_or_approved(run: Run) -> None:
    planned = json.loads(run("expire", "shop", "--plan", "--json").stdout)
    assert planned["approve"].startswith(planned["hash"])
    assert planned["command"].startswith("streams-recovery expire shop --json ")
    assert planned["command"].endswith(f" --approve {planned['approve']}")
    refused = run("expire", "shop", typed="another\n")
    assert isinstance(refused.exception, Refused)
    assert refused.exception.reason == "the plan was not approved"
    assert run("expire", "shop", typed="shop\n").exit_code == 0
    assert run("expire", "shop", "--approve", planned["hash"]).exit_code == 0


def test_where_nobody_can_type_the_command_that_does_not_ask_is_named(run: Run) -> None:
    refused = run("expire", "shop")
    assert isinstance(refused.exception, Refused)
    assert refused.stderr.splitlines()[-1].startswith("    streams-recovery expire shop ")


def test_a_restore_without_a_reason_is_a_usage_error_and_its_plan_is_none(run: Run) -> None:
    refused = run("restore", "shop")
    assert (refused.exit_code, "Missing option '--reason'" in refused.stderr) == (2, True)
    assert "Missing option" not in run("restore", "shop", "--plan").stderr


def test_dismissing_a_restore_asks(run: Run) -> None:
    refused = run("dismiss", "shop", "r1", typed="no\n")
    assert isinstance(refused.exception, Refused)
    assert refused.exception.reason == "the plan was not approved"
    with pytest.raises(NotFound, match="there is no restore r1"):
        raise run("dismiss", "shop", "r1", typed="shop\n").exception or AssertionError


# These mean several things, and the help of each command says which. Each reason says what it is kept with.
SEVERAL_THINGS = {
    "--as-of",
    "--for",
    "--from",
    "--group",
    "--in-place",
    "--limit",
    "--offsets",
    "--partition",
    "--reason",
    "--savepoint",
    "--state",
    "--to",
    "--topic",
    "--topology",
    "[APP]",
    "[ID]",
    "[RESTORE]",
}


def test_an_option_means_the_same_wherever_it_stands() -> None:
    helps = defaultdict[str, set[str]](set)
    for words in every_command():
        for one in command(*words).params:
            helps[one.opts[0] if one.opts[0].startswith("-") else str(one.metavar)].add(str(one.help))
    assert len(helps) > 60
    assert {name for name, texts in helps.items() if len(texts) > 1} == SEVERAL_THINGS


def options(*words: str) -> dict[str, Any]:
    """The options of a command, by their names."""
    return {name: option for option in command(*words).params for name in option.opts}


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("backup", SavepointRequest.FORM),
        ("reprocess", ReprocessOptions.FORM),
        ("compare-outputs", OutputsOptions.FORM),
        ("drill", (SAVEPOINT,)),
        ("roll-back", (RESTORE_FIRST,)),
    ],
)
def test_a_command_has_an_option_for_each_field_of_its_form(words: str, form: Any) -> None:
    found = options(words)
    for field in form:
        if field.name == "confirm":
            assert "--approve" in found
        else:
            assert found[field.option_name].help == field.option_help
            assert field.option_help


@pytest.mark.parametrize("words", [("compact",), ("seal",), ("state", "write"), ("savepoints", "keep"), ("offsets", "snapshot")])
def test_a_reason_is_kept_with_what_the_command_writes(words: tuple[str, ...]) -> None:
    assert options(*words)["--reason"].help.startswith("Kept with the ")
