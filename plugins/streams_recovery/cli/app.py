"""The program: its commands, its help and its exit codes. SIGTERM ends a command as Ctrl-C does, through every teardown."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from streams_recovery.cli.commands import PANELS, Command, CommandGroup
from streams_recovery.cli.screen import (
    is_lost,
    line,
    remembered,
    say,
    say_error,
    say_unexpected,
    say_waiting,
    say_warnings,
    whole_streams,
)
from streams_recovery.core.errors import EXIT_CODES, RecoveryError
from streams_recovery.core.names import each_once

_HELP = """Savepoints and restores of Kafka Streams applications, from a terminal.

A command that changes something shows what it would do with --plan. --approve HASH carries out exactly that plan. Without either, a command that
replaces or removes something shows its plan and asks you to type the application id. One that only adds something does not ask."""
_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code:<9} {meaning.replace('`', '')}" for code, meaning in EXIT_CODES)
_WIDE = 10_000


class Unloaded(TyperCommand):
    """A command by its line of help. Its module is loaded when it is called, or asked for its own help."""

    def __init__(self, command: Command) -> None:
        super().__init__(command.name, help=command.line)
        self.command = command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the loaded command: from here on that one is asked."""
        found = self.loaded().make_context(info_name, args, parent, **extra)
        for one in found.command.params:
            if isinstance(given := found.params.get(one.name), (list, tuple)):
                each_once(one.opts[0], given)
        return found

    def loaded(self) -> Any:
        """The command with its options."""
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        made_as = _found(self.command.made_as) if self.command.made_as else TyperCommand
        alone.command(self.command.name, cls=made_as)(_found(self.command.function))
        return typer.main.get_command(alone)


def _found(written: str) -> Any:
    module, _, name = written.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), name)


def _listed(one: Command | CommandGroup) -> TyperCommand | TyperGroup:
    if isinstance(one, Command):
        return Unloaded(one)
    commands: dict[str, Any] = {command.name: Unloaded(command) for command in one.commands}
    return TyperGroup(name=one.name, help=one.line, no_args_is_help=True, rich_markup_mode=None, commands=commands)


class Program(TyperGroup):
    """The program. It remembers the words of its call, to tell what to run next. Help that is not on a terminal is not wrapped."""

    def __init__(self, *, commands: Any = None, **rest: Any) -> None:
        known = {one.name: _listed(one) for several in PANELS.values() for one in several}
        super().__init__(commands={**known, **(commands or {})}, **rest)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of a call."""
        given = remembered(list(args))
        width = None if sys.stdout.isatty() else _WIDE
        context = super().make_context(info_name, args, parent, terminal_width=width, max_content_width=width, **extra)
        context.with_resource(given)
        return context

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands, by what a person is about to do. All lines begin in one column."""
        width = max(map(len, self.list_commands(ctx)))
        for panel, several in PANELS.items():
            shown = ((one.name, self.get_command(ctx, one.name)) for one in several)
            rows = [(name.ljust(width), found.get_short_help_str(formatter.width - 6 - width)) for name, found in shown if found]
            with formatter.section(panel):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=Program, help=_HELP, epilog=_CODES, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _show_version(wanted: bool) -> None:
    if wanted:
        # Slow to import, and only this asks for it.
        from importlib.metadata import version  # noqa: PLC0415

        line(version("kafka-streams-recovery"))
        raise typer.Exit


@app.callback()
def main(
    *,
    _: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)] = False,
) -> None:
    """Options of the program itself."""
    say_waiting()
    say_warnings()


def run() -> None:
    """The command's entry point: our errors become one line and their exit code."""
    whole_streams()
    end_by_teardown()
    try:
        # The context of a call has ended when its error is shown.
        with remembered(sys.argv[1:]):
            _ended()
    finally:
        # Left for the end of the process, what cannot be written would change the exit code.
        is_lost(sys.stderr)


def _ended() -> None:
    try:
        _flushed()
    except RecoveryError as error:
        # Where nobody can be told, the exit code tells.
        with suppress(OSError):
            say_error(error)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - it ends here in any case, and its text may come from anywhere
        with suppress(OSError):
            if isinstance(error, OSError) and is_lost(sys.stdout, "\n"):
                say(f"stdout cannot be written: {error.strerror}")
            else:
                say_unexpected()
        sys.exit(RecoveryError.exit_code)


def _flushed() -> None:
    try:
        app()
    finally:
        # At the end of the process it would be too late to tell that it was lost.
        sys.stdout.flush()


def end_by_teardown() -> None:
    """Let SIGTERM end this process by ``SystemExit`` (143), so that what a run has held comes back first.

    Without a handler it would end a process at once, and not at all the first process of a container. A second SIGTERM does not disturb the teardown.
    """
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
