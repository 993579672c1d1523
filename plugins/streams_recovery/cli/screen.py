"""What is printed, and how. Results go to stdout, and what is for people besides them to stderr.

A terminal gets formatted text. Anything else gets plain text, and no line of it is broken. A command to run next has a line of its own everywhere.
"""

from __future__ import annotations

import logging

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from streams_recovery.cli.words import words
from streams_recovery.core import waiting
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.text.next_command import with_configs

# Columns for a table where nobody looks at the width.
_WIDE = 100_000


def line(text: str) -> None:
    """One line of a result, on stdout."""
    _line(Console(), text)


def say(text: str) -> None:
    """One line for people, on stderr."""
    _line(Console(stderr=True), text)


def say_command(about: str, command: str) -> None:
    """A command to run next, on stderr: what it does, and below it the command on a line of its own."""
    say(about)
    say(command_line(command))


def say_error(error: RecoveryError) -> None:
    """An error on one line, on stderr, and each command to run next on a line of its own."""
    say(f"{type(error).__name__}: {error.reason.rstrip('.')}. Next: {error.next_step}")
    for command in error.commands:
        say(command_line(command))


def command_line(command: str) -> str:
    """The line of a command to run next. It is for the same configuration files as the call of this program."""
    return f"    {with_configs(words(), command)}"


def say_waiting() -> None:
    """Let waits of long steps say on stderr what they wait for. Once for the process, however often it is called."""
    if not any(isinstance(handler, _Saying) for handler in waiting.LOGGER.handlers):
        waiting.LOGGER.addHandler(_Saying())
    waiting.LOGGER.setLevel(logging.INFO)


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def page(text: str, *, stderr: bool = False) -> None:
    """Markdown: formatted on a terminal, else as it is."""
    console = Console(stderr=stderr)
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        _line(console, text)


def table(shown: Table) -> None:
    """A table on stdout, as wide as its cells unless a terminal is narrower."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    console.print(shown)


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)
