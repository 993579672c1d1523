"""The commands of the runbooks, as a person would copy them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.support.project import PROJECT

DIRECTORY = PROJECT / "docs" / "runbooks"
INDEX = DIRECTORY / "README.md"
PROGRAM = "streams-recovery"
_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of commands: what stands behind its fence, its lines, and the last line before it that is not empty."""

    kind: str
    lines: tuple[str, ...]
    before: str


def pages() -> list[Path]:
    """All of them but the index."""
    return sorted(path for path in DIRECTORY.glob("*.md") if path != INDEX)


def blocks(text: str) -> list[Block]:
    """In the order of the page."""
    return [
        Block(
            kind=found[2],
            lines=tuple(line.strip() for line in found[3].splitlines() if line.strip()),
            before=next((line.strip() for line in reversed(text[: found.start()].splitlines()) if line.strip()), ""),
        )
        for found in _FENCE.finditer(text)
    ]


def commands(text: str) -> list[list[str]]:
    """The words of each command of ours, without the program, in the order of the page."""
    lines = [line for block in blocks(text) if block.kind == "sh" for line in block.lines]
    return [shlex.split(line)[1:] for line in lines]


def placeholders(text: str) -> set[str]:
    """Names in angle brackets, in blocks or in code."""
    return set(
        re.findall(r"<([a-z]+)>", " ".join([line for block in blocks(text) for line in block.lines] + re.findall(r"`([^`\n]+)`", text)))
    )
