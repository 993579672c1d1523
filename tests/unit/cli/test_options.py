"""What the commands ask for: an option means the same wherever it stands, and each field of a request's form has its option."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from streams_recovery.cli.app import app
from streams_recovery.core.forms import SAVEPOINT
from streams_recovery.core.outputs.comparison import OutputsOptions
from streams_recovery.core.rollout.cutover import MAX_LAG, RESTORE_FIRST
from streams_recovery.core.sandbox.interval_log import ReprocessOptions
from streams_recovery.core.savepoint.warnings import SavepointRequest
from streams_recovery.core.state.inspection import KEY, STORE

COMMANDS: Any = typer.main.get_command(app)
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
    "[APP]",
    "[ID]",
    "[RESTORE]",
}


def commands(group: Any) -> Iterator[Any]:
    """Every command, those of groups too."""
    for one in group.commands.values():
        if hasattr(one, "commands"):
            yield from commands(one)
        else:
            yield one


def test_an_option_means_the_same_wherever_it_stands() -> None:
    helps = defaultdict[str, set[str]](set)
    for command in commands(COMMANDS):
        for one in command.params:
            helps[one.opts[0] if one.opts[0].startswith("-") else str(one.metavar)].add(str(one.help))
    assert len(helps) > 60
    assert {name for name, texts in helps.items() if len(texts) > 1} == SEVERAL_THINGS


def options(*command: str) -> dict[str, Any]:
    """The options of a command, by their names."""
    found = COMMANDS
    for word in command:
        found = found.commands[word]
    return {name: option for option in found.params for name in option.opts}


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("backup", SavepointRequest.FORM),
        ("reprocess", ReprocessOptions.FORM),
        ("compare-outputs", OutputsOptions.FORM),
        ("drill", (SAVEPOINT,)),
        ("peek", (STORE, KEY)),
        ("cut-over", (MAX_LAG,)),
        ("roll-back", (RESTORE_FIRST,)),
        ("state", (KEY,)),
    ],
)
def test_a_command_has_an_option_for_each_field_of_its_form(command: str, form: Any) -> None:
    found = options(command)
    for field in form:
        if field.name == "confirm":
            assert "--approve" in found
        else:
            assert found[field.option_name].help == field.option_help
            assert field.option_help


@pytest.mark.parametrize(
    "command", [("compact",), ("merge",), ("seal",), ("state-write",), ("savepoints", "keep"), ("offsets", "snapshot")]
)
def test_a_reason_is_kept_with_what_the_command_writes(command: tuple[str, ...]) -> None:
    assert options(*command)["--reason"].help.startswith("Kept with the ")
