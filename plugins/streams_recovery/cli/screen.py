"""All output of the program. Results go to stdout, and what is for people besides them to stderr.

A terminal gets formatted text. Anything else gets plain text, and no line of it is broken. A command to run next has a line of its own everywhere.
Whatever a text holds, no control character reaches a terminal, and one line stays one.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams_recovery.core import codec, waiting
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import Markdown, visible, visible_lines
from streams_recovery.core.jobs.progress import JobProgress, progress_text
from streams_recovery.core.masking import masked
from streams_recovery.core.words import with_configs

# Columns for a table that is not shown on a terminal.
_WIDE: Final = 100_000
_BAD: Final = "red"
_LINE_EVERY_SECONDS: Final = 30.0
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
_given: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


def line(text: str) -> None:
    """One line of a result, on stdout."""
    _print(Console(), visible(text))


def say(text: str) -> None:
    """One line for people, on stderr, without a secret that is known: libraries warn by this way too."""
    _print(Console(stderr=True), visible(masked(text)))


def failures(failed: Mapping[str, RecoveryError]) -> dict[str, dict[str, str]]:
    """What failed, by its name, for JSON."""
    return {name: {"reason": error.reason, "next": error.next_step} for name, error in failed.items()}


def say_command(about: str, command: str) -> None:
    """A command to run next, on stderr: what it does, and below it the command on a line of its own."""
    say(about)
    say(command_line(command))


def say_error(error: RecoveryError) -> None:
    """An error on one line, on stderr, and each command to run next on a line of its own."""
    from streams_recovery.cli.advice import advice  # noqa: PLC0415  # what goes well needs no form of a request

    # A configuration has several mistakes, each on its line.
    for text in f"{type(error).__name__}: {error.reason}. Next: {advice(error.next_step)}".split("\n"):
        say(text)
    for command in error.commands:
        say(command_line(command))


def say_unexpected() -> None:
    """The error that is being handled, with its traceback, on stderr."""
    _print(Console(stderr=True), visible_lines(masked(traceback.format_exc()).rstrip("\n")))


def command_line(command: str) -> str:
    """The line of a command to run next. It is for the same configuration files as the call of this program."""
    return f"    {with_configs(words(), command)}"


def say_waiting() -> None:
    """Let waits of long steps say on stderr what they wait for. Once for the process, however often it is called."""
    if not any(isinstance(handler, _Saying) for handler in waiting.LOGGER.handlers):
        waiting.LOGGER.addHandler(_Saying())
    waiting.LOGGER.setLevel(logging.INFO)


def say_warnings() -> None:
    """Let what libraries warn of go this way too. Once for the process."""
    root = logging.getLogger()
    if not any(isinstance(handler, _Saying) for handler in root.handlers):
        root.addHandler(_Saying(logging.WARNING))


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def ask(question: str, *, default: str | None = None) -> str:
    """Ask the question on stderr, and return what a person types below it, or the default. Raises ``typer.Abort`` without an answer."""
    return str(typer.prompt(visible(question), default=default, show_default=bool(default), err=True))


def page(text: Markdown, *, stderr: bool = False) -> None:
    """Markdown: formatted on a terminal, else as it is."""
    console = Console(stderr=stderr)
    shown = visible_lines(text)
    if console.is_terminal:
        from rich.markdown import Markdown as Formatted  # noqa: PLC0415  # a parser of its own, for a terminal only

        console.print(Formatted(shown))
    else:
        _print(console, shown)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, folded: Sequence[str] = (), bad: Collection[str] = ()) -> None:
    """A table on stdout, as wide as its cells unless a terminal is narrower. A cell of a column that is ``folded`` goes on in the next line: what is cut
    off is no answer. One that is ``bad`` is red.
    """
    shown = Table()
    for name in columns:
        shown.add_column(Text(visible(name)), overflow="fold" if name in folded else "ellipsis")
    for row in rows:
        shown.add_row(*(Text(visible(cell), style=_BAD if cell in bad else "") for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    console.print(shown)


def data() -> IO[str]:
    """The stream for data that a program may read: stdout as it is, unless that is a terminal."""
    return _Lines() if sys.stdout.isatty() else sys.stdout


class _Lines(io.StringIO):
    """Standard output of a terminal."""

    def write(self, text: str) -> int:
        sys.stdout.write(visible_lines(text.replace("\r\n", "\n")))
        return len(text)


def json_text(text: str) -> None:
    """JSON on stdout, the same document for a person and a program."""
    sys.stdout.write(visible_lines(text) + "\n")


def print_json(value: Any) -> None:
    """One of our values, or plain JSON, on stdout."""
    json_text(json.dumps(codec.encode(value), indent=2))


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def shown_progress(step: str) -> Iterator[Callable[[JobProgress], None]]:
    """Give what shows the progress of the step's job, for as long as the block lasts: a bar on a terminal, elsewhere a line now and then, so that a log stays
    readable. On stderr, as all that is for people.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(step)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415  # for a terminal only

    columns = (
        TextColumn("{task.fields[step]}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[what]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=None, step=visible(step), what="Spark starts")

        def show(progress: JobProgress) -> None:
            # By whole percents, so that the bar does not promise an end that is not there yet.
            total = None if progress.percent is None else 100
            bar.update(shown, total=total, completed=progress.percent or 0, what=visible(progress_text(progress)))

        yield show


def _lines(step: str, clock: Callable[[], float] = time.monotonic) -> Callable[[JobProgress], None]:
    due = 0.0

    def show(progress: JobProgress) -> None:
        nonlocal due
        if clock() >= due:
            say(f"{step}: {progress_text(progress)}")
            due = clock() + _LINE_EVERY_SECONDS

    return show


def whole_streams() -> None:
    """Give a process that was started without stdin, stdout or stderr one that leads nowhere, so that a command does its work all the same. Else the next file
    that it opens would take the place of the missing one, and get what is printed.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def is_lost(stream: IO[str], probe: str = "") -> bool:
    """True if a stream takes neither ``probe`` nor what is left for it, as on a full disk. All of it goes nowhere then."""
    try:
        stream.write(probe)
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return True
    return False


@contextmanager
def remembered(words: Sequence[str]) -> Iterator[None]:
    """Keep the words of this call, without the program's own name, until it ends."""
    token = _given.set(tuple(words))
    try:
        yield
    finally:
        _given.reset(token)


def words() -> tuple[str, ...]:
    """The words that the program was called with, without its own name. The command to run next is made of them."""
    return _given.get()
