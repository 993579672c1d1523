"""How far a Spark job is, on a terminal as a bar. Elsewhere it is a line now and then, so that a log stays readable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from streams_recovery.cli.screen import say
from streams_recovery.core.escaping import visible
from streams_recovery.core.jobs.progress import JobProgress, progress_text

_LINE_EVERY_SECONDS: Final = 30.0


@contextmanager
def shown_progress(step: str) -> Iterator[Callable[[JobProgress], None]]:
    """What shows the progress of the step's job, for as long as the block lasts. On stderr, as all that is for people."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(step)
        return
    columns = (_text("step"), BarColumn(), TaskProgressColumn(), _text("what"))
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=None, step=visible(step), what="Spark starts")

        def show(progress: JobProgress) -> None:
            # By whole percents, so that the bar does not promise an end that is not there yet.
            total = None if progress.percent is None else 100
            bar.update(shown, total=total, completed=progress.percent or 0, what=visible(progress_text(progress)))

        yield show


def _text(field: str) -> TextColumn:
    return TextColumn(f"{{task.fields[{field}]}}", markup=False)


def _lines(step: str, clock: Callable[[], float] = time.monotonic) -> Callable[[JobProgress], None]:
    due = 0.0

    def show(progress: JobProgress) -> None:
        nonlocal due
        if clock() >= due:
            say(f"{step}: {progress_text(progress)}")
            due = clock() + _LINE_EVERY_SECONDS

    return show
