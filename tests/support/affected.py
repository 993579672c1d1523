"""Which deep tests a change can have an effect on: those whose imports, followed to the end, meet a changed file, and those that a table names.

    python -m tests.support.affected [BASE]

Prints their files, a line each. What a test starts as a process of its own (a command, a Spark job, a DAG) it does not import: ``STARTED`` has that.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.project import PROJECT

# Where a package's folder is that is not at the top.
_SOURCES: Final = (PROJECT / "plugins", PROJECT)
_COMMAND_LINE: Final = "plugins/streams_recovery/__main__.py"
_PLUGIN: Final = "plugins/streams_recovery_plugin.py"
# Tests below the path on the left start or read what is on the right: programs with all that they import, whole folders, and files whose path begins so.
STARTED: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/contracts/test_chart": ("deploy/", "include/kubernetes/"),
    "tests/contracts/test_compose_client": ("docker-compose",),
    "tests/contracts/test_site_screens": ("documentation/", "mkdocs.yml"),
    "tests/contracts/applications/": ("tests/support/applications/", "tests/support/kubernetes/", "examples/", "include/kubernetes/"),
    "tests/contracts/test_prometheus_rules": ("include/monitoring/", "tests/data/monitoring/"),
    "tests/dags/": ("dags/", "include/"),
    "tests/dags/test_recovery": ("plugins/streams_recovery/ui/",),
    "tests/integration/": ("tests/support/programs/streams/", "examples/endpoints/"),
    "tests/integration/test_group_tools_parity": ("tests/support/programs/",),
    "tests/integration/test_endpoints": ("tests/support/programs/",),
    "tests/integration/test_cli": (_COMMAND_LINE, "spark_jobs/"),
    "tests/integration/test_runbooks": (_COMMAND_LINE, "spark_jobs/", "docs/runbooks/"),
    "tests/integration/test_secured_runs": (_COMMAND_LINE, "spark_jobs/"),
    "tests/spark/": (_COMMAND_LINE, "spark_jobs/", "tests/support/spark/"),
    "tests/system/test_emptied_cluster": ("tests/support/kubernetes/",),
    # The wheel has the whole package.
    "tests/system/test_wheel": ("plugins/",),
    # Airflow loads the page as a plugin, with its templates.
    "tests/system/": (_COMMAND_LINE, _PLUGIN, "spark_jobs/", "dags/", "embedded/", "examples/", "include/", "plugins/streams_recovery/ui/"),
    "tests/unit/test_coverage": (
        "tests/unit/",
        "tests/contracts/test_lock.py",
        "tests/contracts/test_repository.py",
        "tests/every_line.ini",
    ),
}
# A change of one of these may have an effect on anything.
EVERYTHING: Final = ("Makefile", "pyproject.toml", "requirements", "tests/conftest.py", "tests/data/golden/")
# What chooses tests, measures them and writes down how they ended has no effect on what one of them shows.
NOTHING: Final = (
    "docs/",
    ".ci/",
    "tests/seconds.json",
    *(f"tests/support/{name}.py" for name in ("affected", "deep_runs", "stopwatch", "tiers")),
)
# Pages whose commands a test runs.
_EXECUTED: Final = "docs/runbooks/"


def affected(changed: Iterable[str], tests: Sequence[str]) -> list[str]:
    """Those of ``tests`` that a change of the files ``changed`` can have an effect on; all are paths from the root of the project."""
    files = {file for file in changed if not without_effect(file)}
    if any(file.startswith(EVERYTHING) for file in files):
        return sorted(tests)
    return sorted(test for test in tests if _started(test, files) or files & reached(test))


def without_effect(file: str) -> bool:
    """True when no deep test depends on what a file says."""
    return file.startswith(NOTHING) and not file.startswith(_EXECUTED)


def _started(test: str, files: set[str]) -> bool:
    named = [what for place, several in STARTED.items() if test.startswith(place) for what in several]
    programs = [what for what in named if what.endswith(".py")]
    programs += [str(path.relative_to(PROJECT)) for what in named if what.endswith("/") for path in (PROJECT / what).rglob("*.py")]
    return any(file.startswith(tuple(named)) for file in files) or any(files & reached(program) for program in programs)


@cache
def reached(test: str) -> frozenset[str]:
    """The files that a test imports, by whatever way, itself and the ``conftest.py`` files above it included."""
    above = [str(folder / "conftest.py") for folder in Path(test).parents if (PROJECT / folder / "conftest.py").exists()]
    waiting, found = [test, *above], set[str]()
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imported(file)
    return frozenset(found)


@cache
def imported(file: str) -> tuple[str, ...]:
    """The project's files that one of them imports, anywhere in it."""
    names = imported_names((PROJECT / file).read_text())
    return tuple(sorted({found for name in names for found in _files(name)}))


def imported_names(text: str) -> set[str]:
    """The dotted names that a module imports, anywhere in it: modules, and what is taken from them."""
    return {name for node in ast.walk(ast.parse(text)) for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        # What is imported may be a module itself.
        yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def _files(name: str) -> Iterator[str]:
    """The file of a module, and of each package that it is in."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        inner = Path(*parts[:length])
        for source in _SOURCES:
            for path in (source / inner.with_suffix(".py"), source / inner / "__init__.py"):
                if path.is_file():
                    yield str(path.relative_to(PROJECT))


def changed_since(base: str) -> list[str]:
    """Files that differ from ``base`` in the working tree, those that git does not know yet included."""
    differing = _git("diff", "--name-only", base)
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard")})


def deep_tests() -> list[str]:
    """Files that have a test marked ``deep``."""
    return [file for file in _git("ls-files", "tests/**/test_*.py") if "mark.deep" in (PROJECT / file).read_text()]


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=PROJECT, check=True, capture_output=True, text=True).stdout.splitlines()


if __name__ == "__main__":
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    print("\n".join(affected(changed_since(base), deep_tests())))  # noqa: T201
