"""Every start of an application goes through one door, found by reading the source: a new start that passes it by is red here."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "plugins" / "streams_recovery"
# The engines, which are told, and the door, which tells them.
ENGINES, DOOR = SOURCE / "application", SOURCE / "operations" / "ownership.py"


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    """The source outside the engines."""
    return [(path, ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py")) if ENGINES not in path.parents]


def calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    """Calls of functions and methods with one of these names."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [one for one in found if (one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", None)) in names]


@pytest.mark.fault("F80")
def test_only_the_door_opens_an_application_that_could_be_started() -> None:
    opening = [path for path, tree in modules() if calls(tree, "open_application")]
    assert opening == [DOOR]
    engines = {
        node.name
        for path in ENGINES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any(isinstance(one, ast.FunctionDef) and one.name == "wipe_state" for one in node.body)
    } - {"StreamsApplication"}
    assert len(engines) >= 4
    assert [path for path, tree in modules() if calls(tree, *engines)] == []


@pytest.mark.fault("F80")
def test_the_door_is_the_only_place_where_it_starts_one() -> None:
    door = next(node for node in ast.parse(DOOR.read_text()).body if isinstance(node, ast.ClassDef) and node.name == "StartedByRole")
    methods = {node.name: node for node in door.body if isinstance(node, ast.FunctionDef)}
    assert [name for name, method in methods.items() if calls(method, "start", "restart")] == ["_start"]
    asked = {"_may_start", "role", "_refuse_second_writer"}
    assert {name for name in asked if calls(methods["_start"], name)} == asked
    assert {name for name, method in methods.items() if calls(method, "_start")} == {"start", "restart"}


@pytest.mark.fault("F80")
def test_everybody_else_starts_what_the_context_opened_by_its_door() -> None:
    receivers = {
        ast.unparse(one.func.value)
        for path, tree in modules()
        if path != DOOR and path.relative_to(SOURCE).parts[0] in ("operations", "workflows", "cli", "operators", "sensors", "triggers")
        for one in calls(tree, "start", "restart")
        if isinstance(one.func, ast.Attribute)
    }
    started = {name for name in receivers if "application" in name}
    assert started == {"recovery.application"}
    # Of other things: threads, and matches of patterns.
    assert receivers - started <= {"keeper", "found", "match", "timer"}
