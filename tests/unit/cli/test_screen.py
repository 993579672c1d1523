"""What a person reads: an error on one line, and each command to run next on a line of its own, complete."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams_recovery.cli import screen
from streams_recovery.cli.words import remembered
from streams_recovery.core.errors import Refused


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
