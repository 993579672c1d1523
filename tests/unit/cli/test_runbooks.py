"""Every command of ours in a runbook is one that there is, with its options; and every page can be followed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from streams_recovery.cli.app import app
from tests.support.examples.runbooks import DIRECTORY, INDEX, PROGRAM, blocks, commands, pages, placeholders

PAGES = [*pages(), INDEX]
SECTIONS = ["What you see", "Check first", "How to know that it worked", "How to go back"]
# What a command needs although the command line could not know it before it has looked.
NEEDS_REASON = {"restore", "failover", "restore-topics", "rebuild", "undo", "clone", "cut-over", "roll-back", "upgrade"}
# What every mistake in the words of a command is, in the library that Typer has inside.
USAGE = typer.BadParameter.__mro__[1]
PROGRAM_COMMAND = typer.main.get_command(app)


def parsed(words: list[str]) -> dict[str, Any]:
    """What the last command in ``words`` would be called with; nothing is carried out. Raises ``LookupError`` for a command that there is not, and what
    Typer raises for words that it does not take.
    """
    command: Any = PROGRAM_COMMAND
    rest = list(words)
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    found: dict[str, Any] = command.make_context(words[0], rest).params
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_is_one_that_there_is(page: Path) -> None:
    for words in commands(page.read_text()):
        found = parsed(words)
        if words[0] in NEEDS_REASON and not found["plan_only"]:
            assert found["reason"], words
        if "<hash>" in words:
            assert words[words.index("<hash>") - 1] == "--approve"


@pytest.mark.parametrize(
    "words",
    [["restart", "<name>"], ["restore"], ["restore", "<name>", "--savepont", "x"], ["savepoints", "keep", "<name>", "<savepoint>"]],
)
def test_and_one_that_is_none_would_be_found(words: list[str]) -> None:
    with pytest.raises((LookupError, USAGE)):
        parsed(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_others_stand_apart_and_say_that_no_test_runs_them(page: Path) -> None:
    for block in blocks(page.read_text()):
        assert {line.split()[0] == PROGRAM for line in block.lines} == {not block.marked}, block


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_hash_comes_from_the_plan_of_the_same_command(page: Path) -> None:
    found = commands(page.read_text())
    for before, words in zip([[], *found], found, strict=False):
        if "<hash>" in words:
            asked = [word for word in words if word not in ("--approve", "<hash>")]
            if "--reason" in asked and "--reason" not in before:
                del asked[(at := asked.index("--reason")) : at + 2]
            shown = [word for word in before if word != "--plan"]
            assert ("--plan" in before, sorted(shown)) == (True, sorted(asked)) or words[0] == "expire", (before, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_placeholder_is_explained(page: Path) -> None:
    rows = {name for row in INDEX.read_text().splitlines() if row.startswith("| `<") for name in placeholders(row.split("|")[1])}
    assert placeholders(page.read_text()) - rows == set()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_each_page_says_what_to_check_and_how_to_go_back(page: Path) -> None:
    text = page.read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [heading for heading in headings if heading in SECTIONS] == SECTIONS
    assert len(headings) > len(SECTIONS), "and what to do"
    assert f"]({page.name}" in INDEX.read_text(), "the index leads to it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        file = (DIRECTORY / target) if target else page
        assert file.exists(), target
        if anchor:
            assert anchor in {slug(heading) for heading in re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)}, (target, anchor)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
