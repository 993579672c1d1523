"""The commands of the runbooks, as a person would copy them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.support import page_commands
from tests.support.project import PROJECT

DIRECTORY = PROJECT / "docs" / "runbooks"
INDEX = DIRECTORY / "README.md"
PROGRAM = page_commands.OURS


@dataclass(frozen=True)
class Block:
    """A block of commands. ``marked`` says that no test runs them."""

    marked: bool
    lines: tuple[str, ...]


def pages() -> list[Path]:
    """All of them but the index."""
    return sorted(path for path in DIRECTORY.glob("*.md") if path != INDEX)


def blocks(text: str) -> list[Block]:
    """In the order of the page."""
    found = [block.splitlines() for block in page_commands.blocks(text)]
    marked = [lines[0] == page_commands.MARK for lines in found]
    return [
        Block(marked=skip, lines=tuple(line.strip() for line in lines[skip:] if line.strip()))
        for lines, skip in zip(found, marked, strict=True)
    ]


def commands(text: str) -> list[list[str]]:
    """The words of each command of ours, without the program, in the order of the page."""
    return [shlex.split(line)[1:] for block in blocks(text) if not block.marked for line in block.lines]


def placeholders(text: str) -> set[str]:
    """Names in angle brackets, in blocks or in code."""
    return set(
        re.findall(r"<([a-z]+)>", " ".join([line for block in blocks(text) for line in block.lines] + re.findall(r"`([^`\n]+)`", text)))
    )
