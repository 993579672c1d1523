"""The four pages that lead from nothing to a first restore, and whether a command prints what they show below it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.page_commands import OURS, lines
from tests.support.project import PROJECT

PAGES: Final = ("index.md", "quick-start.md", "your-application.md", "first-restore.md")
LEFT_OUT: Final = "..."
_FENCE: Final = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from run to run, in the order in which it is looked for.
_DIFFERS: Final = (
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{10}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "HASH"),
    (re.compile(r"\b\d[\d,.]* (B|kB|KB|KiB|MB|MiB|GB)\b"), "SIZE"),
    (re.compile(r"(\b\d[\d,.]* (ms|s|min|h|d)\b ?)+"), "SPAN "),
    (re.compile(r"process group \d+"), "process group N"),
    (re.compile(r"-{3,}|━+"), "-"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page, and what the page shows below it, if it does."""

    page: str
    command: str
    shown: str | None


def page(name: str) -> str:
    """Its text."""
    return (PROJECT / "docs" / name).read_text(encoding="utf-8")


def steps(name: str) -> list[Step]:
    """The commands of ours in a page, from top to bottom. What a page shows belongs to the last one above it."""
    found = list[Step]()
    for fence in _FENCE.finditer(page(name)):
        text = textwrap.dedent(fence["text"])
        if fence["kind"] == "":
            found += [Step(name, line, None) for line in lines(text) if line.startswith(f"{OURS} ")]
        elif fence["kind"] in ("text", "yaml"):
            last = found.pop()
            found.append(Step(name, last.command, f"{last.shown or ''}{text}"))
    return found


def missing(shown: str, printed: str) -> list[str]:
    """The lines that a page shows and a command has not printed, in this order. ``...`` stands for what is left out, within a line too."""
    rest, absent = same(printed), list[str]()
    for piece in _pieces(shown):
        before, found, behind = rest.partition(piece)
        if found:
            rest = behind
        else:
            absent.append(f"{piece!r} is not in {before[:400]!r}")
    return absent


def same(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _DIFFERS:
        text = pattern.sub(word, text)
    return text


def _pieces(shown: str) -> Iterator[str]:
    for line in shown.splitlines():
        yield from (piece for part in line.split(LEFT_OUT) if (piece := same(part).strip()))
