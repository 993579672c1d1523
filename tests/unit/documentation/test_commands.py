"""What the pages tell people to type can be typed, and every runbook can be followed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from streams_recovery.cli.app import app
from tests.support.examples import runbooks
from tests.support.examples.runbooks import INDEX, placeholders
from tests.support.page_commands import (
    blocks,
    known_targets,
    make_targets,
    mentioned_commands,
    pages,
    problem,
    unmarked,
    whole_commands,
)

PAGES = pages()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_one(page: str) -> None:
    found = [problem(command, whole=True) for command in whole_commands(PAGES[page])]
    found += [problem(command, whole=False) for command in mentioned_commands(PAGES[page])]
    assert [one for one in found if one] == []


def test_there_are_commands_to_look_at() -> None:
    assert sum(len(whole_commands(text)) for text in PAGES.values()) > 40
    assert sum(len(mentioned_commands(text)) for text in PAGES.values()) > 40


def test_what_stands_between_two_blocks_is_none_of_them() -> None:
    page = "```yaml\na: 1\n```\nbetween\n```\nkubectl get pods\n```\n```sh external\nother\n```\n  ```sh\n  ls\n  ```\n"
    assert blocks(page) == ["kubectl get pods\n", "ls\n"]


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_make_is_one(page: str) -> None:
    assert {target for block in blocks(PAGES[page]) for target in make_targets(block)} <= known_targets()


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_others_say_that_they_are_not_run_here(page: str) -> None:
    assert [line for block in blocks(PAGES[page]) for line in unmarked(block)] == [], "begin the block with: # not run here"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("streams-recovery restor orders", "no command restor"),
        ("streams-recovery restore orders --raeson why", "No such option"),
        ("streams-recovery restore", "Missing parameter: name"),
        ("streams-recovery reprocess <name> --from 2026-11-20T00:00:00Z", "Missing parameter: to"),
        ("streams-recovery backup <name> --mode sleep", "sleep"),
    ],
)
def test_what_the_command_line_would_refuse_is_found(command: str, says: str) -> None:
    assert says in (problem(command, whole=True) or "")


@pytest.mark.parametrize(
    "command",
    [
        'streams-recovery unlock <name> "<owner of a dead run>"',
        "streams-recovery resume <name>      # the newest one",
        "streams-recovery verify <name> [ID] --level structure|full",
        "streams-recovery offsets snapshot NAME [--group G]...       store the offsets",
    ],
)
def test_placeholders_choices_and_remarks_are_understood(command: str) -> None:
    assert problem(command, whole=True) is None


def test_an_option_that_is_mentioned_has_to_exist() -> None:
    assert problem("streams-recovery undo", whole=False) is None
    assert "no option --force" in (problem("streams-recovery undo <name> --force", whole=False) or "")


def test_a_block_with_commands_of_others_has_the_mark_first() -> None:
    assert unmarked("docker compose up\n") == ["docker compose up"]
    assert unmarked("# not run here\ndocker compose up\n") == []


# Runbooks

RUNBOOKS = [*runbooks.pages(), INDEX]
SECTIONS = ["What you see", "Check first", "How to know that it worked", "How to go back"]
# What a command needs although the command line could not know it before it has looked.
NEEDS_REASON = {"restore", "failover", "restore-topics", "rebuild", "undo", "clone", "cut-over", "roll-back", "upgrade"}
PROGRAM_COMMAND = typer.main.get_command(app)


def parsed(words: list[str]) -> dict[str, Any]:
    """What the last command in ``words`` would be called with; nothing is carried out. A word in brackets stands for a name."""
    command: Any = PROGRAM_COMMAND
    rest = [word.strip("<>") for word in words]
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    found: dict[str, Any] = command.make_context(words[0], rest).params
    return found


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_every_command_of_a_runbook_is_complete(page: Path) -> None:
    for words in runbooks.commands(page.read_text()):
        found = parsed(words)
        if words[0] in NEEDS_REASON and not found["plan_only"]:
            assert found["reason"], words
        if "<hash>" in words:
            assert words[words.index("<hash>") - 1] == "--approve"


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_commands_of_others_stand_apart_and_say_that_no_test_runs_them(page: Path) -> None:
    for block in runbooks.blocks(page.read_text()):
        assert {line.split()[0] == runbooks.PROGRAM for line in block.lines} == {not block.marked}, block


@pytest.mark.parametrize("page", runbooks.pages(), ids=lambda page: page.stem)
def test_a_hash_comes_from_the_plan_of_the_same_command(page: Path) -> None:
    found = runbooks.commands(page.read_text())
    for before, words in zip([[], *found], found, strict=False):
        if "<hash>" in words:
            asked = [word for word in words if word not in ("--approve", "<hash>")]
            if "--reason" in asked and "--reason" not in before:
                del asked[(at := asked.index("--reason")) : at + 2]
            shown = [word for word in before if word != "--plan"]
            assert ("--plan" in before, sorted(shown)) == (True, sorted(asked)) or words[0] == "expire", (before, words)


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_every_placeholder_is_explained(page: Path) -> None:
    rows = {name for row in INDEX.read_text().splitlines() if row.startswith("| `<") for name in placeholders(row.split("|")[1])}
    assert placeholders(page.read_text()) - rows == set()


@pytest.mark.parametrize("page", runbooks.pages(), ids=lambda page: page.stem)
def test_each_page_says_what_to_check_and_how_to_go_back(page: Path) -> None:
    text = page.read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [heading for heading in headings if heading in SECTIONS] == SECTIONS
    assert len(headings) > len(SECTIONS), "and what to do"
    assert f"]({page.name}" in INDEX.read_text(), "the index leads to it"
