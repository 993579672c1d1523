"""The rule of ``make test``, on what the marks of tests say: of each fault and of each way through the product the quickest tests on real parts are there.

Everything else on real parts is in the deep tier. Which are the quickest a person says, with the mark ``deep`` on the others, and reads it in the
test's own file: chosen by seconds, tests would come and go with each measurement. What is said by hand is held by ``problems`` and, for the whole, by the
seconds in ``tests/seconds.json``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from documentation.faults import TESTS, arguments
from streams_recovery.workflows import maintenance, restore, rollout, sandbox, savepoint
from streams_recovery.workflows.step import Workflow

# So many tests with a broker or a JVM prove one fault, or go one way, in each run.
MOST: Final = 4
# A way is gone by two tests: a command and a DAG take the same steps, and where one test fails the other says whether the way is broken.
LEAST_OF_A_WAY: Final = 2
# What a test with one of these marks, or in one of these folders, needs takes a second at least: a broker or a JVM.
_COSTLY: Final = frozenset({"kafka", "spark", "system"})
_COSTLY_FOLDERS: Final = ("integration", "spark", "system")
# Folders of tests that need no real part.
_UNREAL: Final = ("unit", "lint")
# What pods need is a control plane that is built for minutes, so its tests are deep whatever they prove; what is decided about pods has unit tests.
_PODS: Final = "contracts/applications/pods"

# The ways through the product: its workflows, which commands and DAGs take, and what has none.
WAYS: Final[Mapping[str, Workflow[object] | None]] = {
    "savepoint": savepoint.SAVEPOINT,
    "archive": savepoint.ARCHIVE,
    "restore": restore.FROM_SAVEPOINT,
    "undo": None,
    "resume": None,
    "failover": restore.FAILOVER,
    "rebuild": restore.REBUILD,
    "rescale": restore.RESCALE,
    "restore to a moment": restore.AS_OF_MOMENT,
    "restore of single topics": restore.SINGLE_TOPICS,
    "append": maintenance.APPEND,
    "clone": None,
    "cut-over": rollout.CUTOVER,
    "upgrade": rollout.UPGRADE,
    "retirement": rollout.RETIREMENT,
    "upgrade in place": restore.UPGRADE,
    "drill": sandbox.DRILL,
    "interval": sandbox.INTERVAL,
    "scheduled run": maintenance.SCHEDULED_RUN,
    "check": maintenance.CHECK,
    "expiry": maintenance.EXPIRY,
    "second place": maintenance.MIRRORING,
    "compaction": maintenance.COMPACTION,
    "table of state": maintenance.EXPORT,
    "comparison": maintenance.COMPARISON,
    "look-up": maintenance.LOOK_UPS,
    "comparison of outputs": maintenance.OUTPUTS,
    "edited state": None,
    "offsets of groups": None,
    "monitor": None,
    "preflight": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A test with what its marks say. ``real`` is one with a real part, ``costly`` one with a broker or a JVM."""

    test: str
    real: bool
    costly: bool
    deep: bool
    faults: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()


def marked_tests(tests: Path = TESTS) -> list[Marked]:
    """All tests, read from their source: nothing is imported. One of which only some cases are deep is in ``make test``."""
    return [one for path in sorted(tests.rglob("test_*.py")) for one in _of_file(path, tests)]


def _of_file(path: Path, tests: Path) -> Iterator[Marked]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    folder = path.relative_to(tests).parts[0]
    real = folder not in _UNREAL and not path.is_relative_to(tests / _PODS)
    for_all = [mark for statement in body if isinstance(statement, ast.Assign) for mark in _pytestmark(statement)]
    for function in body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
            marks = [*function.decorator_list, *for_all]
            names = {ast.unparse(mark.func if isinstance(mark, ast.Call) else mark).removeprefix("pytest.mark.") for mark in marks}
            yield Marked(
                test=f"{path.relative_to(tests.parent)}::{function.name}",
                real=real,
                costly=real and (folder in _COSTLY_FOLDERS or bool(names & _COSTLY)),
                deep="deep" in names,
                faults=tuple(arguments(marks, "fault")),
                ways=tuple(arguments(marks, "way")),
            )


def _pytestmark(statement: ast.Assign) -> list[ast.expr]:
    if [ast.unparse(target) for target in statement.targets] != ["pytestmark"]:
        return []
    return statement.value.elts if isinstance(statement.value, ast.List) else [statement.value]


def problems(tests: Sequence[Marked], ways: Iterable[str]) -> list[str]:
    """What breaks the rule. A fault that is proven on no real part at all, only as a decision, is nothing to tell."""
    found = []
    for fault in sorted({fault for test in tests for fault in test.faults}, key=lambda name: int(name[1:])):
        found += _told(fault, [test for test in tests if fault in test.faults], least=1)
    for way in ways:
        on_it = [test for test in tests if way in test.ways]
        found += _told(way, on_it, least=LEAST_OF_A_WAY)
        if not on_it:
            found.append(f"{way}: no test goes this way")
    return found + [f"{way}: there is no such way" for way in sorted({way for test in tests for way in test.ways} - {*ways})]


def _told(subject: str, proofs: Sequence[Marked], *, least: int) -> Iterator[str]:
    real = [test for test in proofs if test.real]
    here = [test for test in real if not test.deep]
    costly = [test.test for test in here if test.costly]
    if len(here) < min(least, len(real)):
        yield f"{subject}: {len(here)} of its tests on real parts in make test, {least} are needed: {', '.join(t.test for t in real if t.deep)}"
    if len(costly) > MOST:
        yield f"{subject}: {len(costly)} tests with a broker or a JVM in make test, {MOST} at most, the rest is deep: {', '.join(costly)}"


def product_workflows() -> list[Workflow[object]]:
    """Every workflow that a command or a DAG takes."""
    modules = (savepoint, restore, maintenance, rollout, sandbox)
    return [value for module in modules for value in vars(module).values() if isinstance(value, Workflow)]
