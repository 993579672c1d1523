"""What the pages tell people to type can be typed."""

from __future__ import annotations

import pytest

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
        ("streams-recovery reprocess <name> --from 2026-11-20T00:00:00Z", "Missing parameter: end"),
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
