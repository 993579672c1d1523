"""A commit is checked with what `make lint` runs, by the same programs."""

from __future__ import annotations

import yaml

from tests.support.project import PROJECT, linters

HOOKS = [hook for repo in yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"] for hook in repo["hooks"]]


def program(command: str) -> str:
    """``ruff format`` of a whole command line; of the others only the program."""
    words = command.split()
    return " ".join(words[:2]) if words[0] == "ruff" else words[0]


def test_every_linter_is_a_hook_and_every_hook_a_linter() -> None:
    entries = [hook["entry"].removeprefix("env PYTHONPATH=plugins:. ") for hook in HOOKS]
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    assert {program(entry.removeprefix(".venv/bin/")) for entry in entries} == {program(command) for command in linters()}


def test_hooks_download_nothing() -> None:
    assert {hook["language"] for hook in HOOKS} == {"system"}


def test_mypy_sees_the_same_folders_in_both() -> None:
    (entry,) = (hook["entry"] for hook in HOOKS if hook["id"] == "mypy")
    folders = entry.partition("/mypy ")[2]
    assert folders
    assert f"/mypy {folders}\n" in (PROJECT / "Makefile").read_text()
