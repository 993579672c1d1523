"""What a person sees while the demonstration runs, and what is left of it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome. ``rpo_seconds`` is the newest input acknowledged before the disaster minus the newest one found in the recovered state;
    ``rto_seconds`` the time from the disaster until the application was RUNNING and caught up.
    """

    strategy: str
    guarantee: str
    savepoints: list[str]
    records_copied: list[int]
    keys_compared: int
    state_equal: bool
    changelogs_equal: bool
    incremental: bool
    tail_and_suppress_covered: bool
    offset_metadata_equal: bool
    continued_correctly: bool
    rpo_seconds: float
    rto_seconds: float
    phases: dict[str, float]

    @property
    def good(self) -> bool:
        """True when every check held."""
        return all(value for value in dataclasses.asdict(self).values() if isinstance(value, bool))

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")


@dataclass(slots=True)
class Teller:
    """Phases with their seconds, and lines in between."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    phases: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        """One line with the time since the beginning."""
        self.console.print(f"[dim]{time.monotonic() - self.started:6.1f} s[/dim]  {line}", soft_wrap=True)

    @contextmanager
    def phase(self, name: str, title: str) -> Iterator[None]:
        """A phase under its title; its seconds go into the report."""
        self.console.print(f"\n[bold cyan]{title}[/bold cyan]")
        began = time.monotonic()
        yield
        self.phases[name] = round(time.monotonic() - began, 1)
        self.say(f"[green]done in {self.phases[name]} s[/green]")

    def summary(self, report: Report) -> None:
        """The table at the end."""
        table = Table("what", "value", title="All checks hold" if report.good else "SOME CHECKS FAILED")
        for name, value in dataclasses.asdict(report).items():
            if name != "phases":
                table.add_row(name, f"[{'green' if value else 'red'}]{value}" if isinstance(value, bool) else str(value))
        self.console.print(table)
