"""Every command of this program that its own messages, errors, findings and plans print is one that the command line takes, with options that it has."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core.words import PROGRAM
from tests.support.page_commands import problem
from tests.support.project import PROJECT

PACKAGE = PROJECT / "plugins" / "streams_recovery"
# Of several options that exclude each other, or one of a list, a printed command has a value that only the program knows.
VALUES = {"held": "--mode", "mode.value": "stop"}
_NAMED = re.compile(rf"`+({PROGRAM} [a-z][^`]*)`")
_SENTENCE = re.compile(rf"(?<![`\w])({PROGRAM} (?:groups|offsets|savepoints) [a-z]+)")


def word(node: ast.expr) -> str | None:
    """A word of a call, None for words that are made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None if isinstance(node, ast.Starred) else VALUES.get(ast.unparse(node), "<x>")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring, with a placeholder for each part that is made elsewhere."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(one) for one in node.values}
            yield node.lineno, "".join(str(one.value) if isinstance(one, ast.Constant) else "<x>" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | parts:
            yield node.lineno, node.value


def printed(source: str) -> Iterator[tuple[int, str, bool]]:
    """Line, command, and whether it is complete."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "command" and node.args:
            words = [word(one) for one in node.args]
            if isinstance(node.args[0], ast.Constant) and words[0]:
                whole = not any(isinstance(one, ast.Starred) for one in node.args)
                yield node.lineno, f"{PROGRAM} {' '.join(one if one == '<x>' else shlex.quote(one) for one in words if one)}", whole
    for line, text in texts(tree):
        yield from ((line, found, False) for pattern in (_NAMED, _SENTENCE) for found in pattern.findall(text))


def everything() -> list[tuple[str, str, bool]]:
    return [
        (f"{path.relative_to(PACKAGE)}:{line}", command, whole)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, command, whole in printed(path.read_text(encoding="utf-8"))
    ]


def test_there_are_commands_to_look_at() -> None:
    assert len(everything()) > 70
    assert any(whole for *_, whole in everything())


def test_every_command_that_is_printed_can_be_typed() -> None:
    found = [(place, problem(command, whole=whole)) for place, command, whole in everything()]
    assert [one for one in found if one[1]] == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('x = command("unlock", name)', "Missing parameter"),
        ('x = command("restor", name)', "no command restor"),
        ('x = error.then(command("backup", name, "--force"))', "--force"),
        ('x = f"run `streams-recovery undo {name} --force`"', "no option --force"),
        ('x = "streams-recovery groups lst has the names"', "lst"),
    ],
)
def test_one_that_the_command_line_does_not_take_is_found(source: str, says: str) -> None:
    [(_, command, whole)] = printed(source)
    assert says in (problem(command, whole=whole) or "")


def test_a_docstring_prints_nothing(tmp_path: Path) -> None:
    assert list(printed('"""Run `streams-recovery nothing`."""\n')) == []
