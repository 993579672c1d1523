"""The program's commands with their options, as a test asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from streams_recovery.cli.app import Unloaded, app


def command(*words: str) -> Any:
    """What the words call: a command with its options, or a group. Without words the program."""
    found: Any = typer.main.get_command(app)
    for word in words:
        found = found.commands[word]
    return found.loaded() if isinstance(found, Unloaded) else found


def every_command(*words: str) -> Iterator[tuple[str, ...]]:
    """The words of each command below these, those of groups too."""
    for name, one in command(*words).commands.items():
        if isinstance(one, Unloaded):
            yield (*words, name)
        else:
            yield from every_command(*words, name)
