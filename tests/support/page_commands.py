"""Commands that the pages tell people to type, and whether the command line would take them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from documentation.pages import site_pages
from tests.support.command_line import command as find
from tests.support.project import PROJECT

OURS: Final = "streams-recovery"
MARK: Final = "# not run here"
# Programs that are not ours, or need what a test has not.
FOREIGN: Final = ("docker", "kubectl", "helm", "aws", "gcloud", "az", "pip", "python3.11", "venv-pack", "kafka-acls.sh", "(umask")
_TYPED: Final = ("", "sh", "bash", "shell", "console")
_FENCE: Final = re.compile(r"^ *```(?P<kind>[^\n]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(rf"(?<!\\)`({OURS} [^`\\]+)`")


def pages() -> dict[str, str]:
    """Every page, those that are made with the site too, by its path from the root of the project."""
    files = [*sorted((PROJECT / "docs").rglob("*.md")), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
    stored = {str(file.relative_to(PROJECT)): file.read_text(encoding="utf-8") for file in files}
    return {**stored, **{f"docs/{name}": text for name, text in site_pages().items()}}


def blocks(text: str) -> list[str]:
    """What is to be typed, block by block."""
    return [textwrap.dedent(found["text"]) for found in _FENCE.finditer(text) if found["kind"] in _TYPED]


def lines(block: str) -> Iterator[str]:
    """The commands of a block. A line that ends with a backslash, or is followed by an indented one, goes on there."""
    joined = re.sub(r"\\\n\s*|\n +(?=\S)", " ", block)
    yield from (line.strip() for line in joined.splitlines() if line.strip())


def whole_commands(text: str) -> list[str]:
    """Ours, as they are to be typed."""
    return [line for block in blocks(text) for line in lines(block) if line.startswith(f"{OURS} ")]


def mentioned_commands(text: str) -> list[str]:
    """Ours that are named within a sentence, where required options may be left out."""
    return [" ".join(found.split()) for found in _INLINE.findall(_FENCE.sub("", text))]


def arguments(command: str) -> list[str]:
    """The arguments of a command of a page, with a word in place of each placeholder and the first of several choices."""
    plain = re.split(r" {2,}| # ", command)[0]
    plain = re.sub(r"<[^<>]*>", "x", plain)
    plain = re.sub(r"(?<=[A-Za-z\]]) ?\.\.\.", " x", plain) if re.search(r"--[a-z-]+ \.\.\.", plain) else plain.replace("...", " ")
    words = shlex.split(plain.replace("[", " ").replace("]", " "))
    return ["1" if word == "N" else word.split("|")[0] for word in words][1:]


def problem(command: str, *, whole: bool) -> str | None:
    """Why the command line would not take a command, None when it would. Nothing is run."""
    found, words = find(), list[str]()
    rest = arguments(command)
    while hasattr(found, "commands"):
        if not rest:
            return None
        if rest[0] not in found.commands:
            return None if rest[0].startswith("-") else f"{command}: there is no command {rest[0]}"
        words.append(rest.pop(0))
        found = find(*words)
    if not whole:
        known = {option for param in found.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
        unknown = [word for word in rest if word.startswith("--") and word.split("=")[0] not in known]
        return f"{command}: there is no option {unknown[0]}" if unknown else None
    try:
        found.make_context(found.name, rest)
    except Exception as error:  # noqa: BLE001 - whatever the parser says is what a person would see
        return f"{command}: {error}"
    return None


def make_targets(block: str) -> list[str]:
    """The targets of ``make`` that a block names."""
    return [line.split()[1] for line in lines(block) if line.startswith("make ")]


def unmarked(block: str) -> list[str]:
    """Commands of others in a block that does not say that they are not run here."""
    return [] if block.startswith(f"{MARK}\n") else [line for line in lines(block) if line.split()[0] in FOREIGN]


def known_targets(makefile: Path = PROJECT / "Makefile") -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", makefile.read_text(encoding="utf-8"), re.MULTILINE))
