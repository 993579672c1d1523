"""The output of the demonstration: lines while it runs, and the report at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one strategy: every check by its name, and what was measured. Phases have seconds."""

    strategy: str
    guarantee: str
    checks: dict[str, bool]
    figures: dict[str, Any]
    phases: dict[str, float]

    @property
    def good(self) -> bool:
        """True when there were checks and every one held."""
        return bool(self.checks) and all(self.checks.values())

    def plain(self) -> dict[str, Any]:
        """Checks and figures beside each other, for JSON."""
        return {"strategy": self.strategy, "guarantee": self.guarantee, **self.figures, **self.checks, "phases": self.phases}


def write(reports: Sequence[Report], path: Path) -> None:
    """One report as it is, several as a list."""
    plain = [report.plain() for report in reports]
    document = plain[0] if len(plain) == 1 else {"strategy": "all", "guarantee": reports[0].guarantee, "strategies": plain}
    path.write_text(json.dumps(document, indent=2) + "\n")


@dataclass(slots=True)
class Teller:
    """Phases with their seconds, and lines in between."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    phases: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    _number: int = 0

    def say(self, line: str) -> None:
        """One line with the time since the beginning."""
        self.console.print(f"[dim]{time.monotonic() - self.started:6.1f} s[/dim]  {line}", soft_wrap=True)

    @contextmanager
    def phase(self, name: str, title: str) -> Iterator[None]:
        """A phase under its title and number; its seconds go into the report."""
        self._number += 1
        self.console.print(f"\n[bold cyan]{self._number}. {title}[/bold cyan]")
        began = time.monotonic()
        yield
        self.phases[name] = round(time.monotonic() - began, 1)
        self.say(f"[green]done in {self.phases[name]} s[/green]")

    def take_phases(self) -> dict[str, float]:
        """The phases since this was last asked."""
        taken, self.phases = self.phases, {}
        return taken

    def summary(self, report: Report) -> None:
        """The table at the end."""
        table = Table("what", "value", title=f"{report.strategy}: {'all checks hold' if report.good else 'SOME CHECKS FAILED'}")
        for name, value in report.plain().items():
            if name != "phases":
                table.add_row(name, f"[{'green' if value else 'red'}]{value}" if isinstance(value, bool) else str(value))
        self.console.print(table)
