"""The page with every error message, found in the code: what it means for the caller, and what it says to do next."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import streams_recovery
from streams_recovery.core.errors import RecoveryError, TransientError

_LEFT_OUT: Final = ("airflow", "operators", "hooks", "sensors", "triggers", "ui", "__main__")
_HEAD: Final = """\
# Every error message

<!-- Made with the site from plugins/streams_recovery. Change the messages there. -->

An error names what happened, and ends with what to do next. *…* stands for what differs: a name, a number, a path.
Search this page for the fixed part of your message.
[Troubleshooting](troubleshooting.md) explains the kinds of errors, and the ones that people meet most.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it stands in the code, with an ellipsis for each value."""

    kind: str
    text: str
    next_step: str


def error_kinds() -> dict[str, type[RecoveryError]]:
    """Every error class of the package, by its name. The Airflow layer has none: it raises those of the layers below."""
    for found in walk_packages(streams_recovery.__path__, "streams_recovery."):
        if not set(found.name.split(".")) & set(_LEFT_OUT):
            import_module(found.name)
    # Whoever imports the package may have kinds of its own.
    return {kind.__name__: kind for kind in _below(RecoveryError) if kind.__module__.startswith(f"{streams_recovery.__name__}.")}


def _below(kind: type[RecoveryError]) -> Iterator[type[RecoveryError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _below(inner)


def messages(package: Path, kinds: Mapping[str, type[RecoveryError]]) -> list[Message]:
    """Every message that is written out where its error is made."""
    found = set()
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds and node.args:
                text, step = _text(node.args[0]), next((_text(one.value) for one in node.keywords if one.arg == "next_step"), "")
                if text.strip("…. "):
                    found.add(Message(kind=_public(kinds[node.func.id]), text=text, next_step=step))
    return sorted(found, key=lambda message: (message.kind, message.text.lower(), message.next_step))


def _public(kind: type[RecoveryError]) -> str:
    """The name that people see: a private class counts as the one that it is made from."""
    return next(one.__name__ for one in kind.__mro__ if not one.__name__.startswith("_"))


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return "…"


def messages_page(package: Path) -> str:
    """The page as Markdown."""
    kinds = error_kinds()
    by_kind: dict[str, list[Message]] = defaultdict(list)
    for message in messages(package, kinds):
        by_kind[message.kind].append(message)
    return _HEAD + "".join(_section(kinds[name], by_kind[name]) for name in sorted(by_kind))


def _section(kind: type[RecoveryError], found: list[Message]) -> str:
    retried = "tried again by itself" if issubclass(kind, TransientError) else "not tried again"
    says = cell((inspect.getdoc(kind) or "").split("\n\n")[0])
    rows = "".join(f"| {cell(message.text)} | {cell(message.next_step)} |\n" for message in found)
    return f"\n## {kind.__name__}\n\n{says} Exit code {kind.exit_code}, {retried}.\n\n| message | next |\n|---|---|\n{rows}"


def cell(text: str) -> str:
    """Text as Markdown that means nothing else."""
    plain = " ".join(text.split())
    for special in "\\`*_{}[]<>|#":
        plain = plain.replace(special, f"\\{special}")
    return plain
