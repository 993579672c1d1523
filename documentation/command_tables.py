"""The tables of docs/command-line.md: which command stands in which panel of the help, what it does, and where the page says more."""

from __future__ import annotations

import re
from typing import Final

from streams_recovery.cli.commands import PANELS
from streams_recovery.core.panels import Panel

_HEAD: Final = "| command | what it does |\n|---|---|\n"
_ROWS: Final = re.compile(r"\A(?:\|.*\n)*")


def with_tables(page: str) -> str:
    """The page with each panel's table as the program has it now. Raises ``ValueError`` where the page has no place for one."""
    parts = _parts(page)
    for panel in PANELS:
        begin, heading, rest = page.partition(f"\n## {panel}\n\n{_HEAD}")
        if not heading:
            raise ValueError(f"the page has no table of {panel}")
        page = f"{begin}{heading}{_rows(panel, parts)}{_ROWS.sub('', rest)}"
    return page


def _rows(panel: Panel, parts: dict[str, str]) -> str:
    named = ((f"[`{one.name}`](#{parts[one.name]})" if one.name in parts else f"`{one.name}`", one.line) for one in PANELS[panel])
    return "".join(f"| {name} | {line} |\n" for name, line in named)


def _parts(page: str) -> dict[str, str]:
    """The anchor of the part about each command that has one, by its name."""
    headings = re.findall(r"^### (.+)$", page, flags=re.M)
    return {name: heading.replace(", ", "-") for heading in headings for name in heading.split(", ")}
