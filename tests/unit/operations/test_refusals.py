"""Whatever a run refuses before it changes anything, its preflight has said. Read from the source: every refusal that the first steps of a savepoint, a restore
and a failover can reach is one that their preflight can reach too, or has a line in a table below that says how it is said, or why it cannot be.

Calls are followed by name through ``operations`` and ``core``; a method is every method of that name, which finds too much rather than too little on both
sides. The other restores have no preflight of their own: it is their plan that is refused, before anybody approves it. What the clients of Kafka, of the store
and of the application raise is about rights and answers, which the preflight asks for with the same clients; and another run's lock passes by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property

import pytest

from tests.support.project import PROJECT

PACKAGE = PROJECT / "plugins" / "streams_recovery"
ROOMS = ("operations", "core")
ERRORS = "PermanentError"

# The steps up to the first change of a run, and its preflight.
RUNS = {
    "savepoint": (
        ("operations.savepoint.begin.begin", "operations.savepoint.quiesce.quiesce"),
        ("operations.savepoint.begin.before_savepoint",),
    ),
    "restore": (
        ("operations.restore.open.open_restore", "operations.restore.open.stop"),
        ("operations.restore.dry_run.before_restore", "operations.restore.dry_run.before_failover"),
    ),
}

# What another function of the preflight asks of the cluster.
OF_CLUSTER = {
    "core.preflight.findings.required": "core.preflight.findings.blocking",
    "operations.bring_down.require_known_members": "operations.preflight._strangers",
}
# What depends on the request alone: no cluster answers it.
OF_REQUEST = {
    "core.approval.check_approved": "the hash that was approved",
    "core.restore.plan.require_agreement": "offsets by another strategy than exact, which need the application id typed",
    "operations.savepoint.begin._check_confirmed": "the application id typed where changed state is accepted",
}
# What a run finds only by doing it.
OF_RUN = {
    "core.repository.journal.require": "the phase that this run has reached",
    "core.savepoint.cut.commit_interval": "the commit interval that an instance reports once it is paused",
    "core.topic_holds.compaction_guard._whole": "the record of the guard that this run sets",
    "operations.bring_down.empty_group": "members that stay after every known instance has stopped",
    "operations.bring_down.stop_instances": "an instance that does not stop",
    "operations.restore.move.leave": "what runs at the site that is left, when it is left",
    "operations.savepoint.quiesce._require_on_record": "whether this run's hold is still on record",
    "operations.savepoint.quiesce._require_not_let_go": "whether this run was let go while it waited",
    "operations.savepoint.quiesce._undo_if_let_go": "whether this run was let go while it held the application",
}


class Source:
    """Functions, what they name, and what they raise. ``texts`` are those of the modules, by name."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.modules = {name: _parsed(text) for name, text in texts.items()}
        self.imported = {name: _imported(text) for name, text in texts.items()}
        self.functions: dict[str, tuple[str, ast.FunctionDef]] = {}
        self.methods: dict[str, list[str]] = {}
        self.named: dict[str, frozenset[str]] = {}
        for name, tree in self.modules.items():
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    self.functions[f"{name}.{node.name}"] = (name, node)
                elif isinstance(node, ast.ClassDef):
                    for method in (one for one in node.body if isinstance(one, ast.FunctionDef)):
                        path = f"{name}.{node.name}.{method.name}"
                        self.functions[path] = (name, method)
                        self.methods.setdefault(method.name, []).append(path)

    @cached_property
    def errors(self) -> frozenset[str]:
        """The errors that the same call would raise again."""
        bases = {
            node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
            for tree in self.modules.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }
        found = {ERRORS}
        while more := {name for name, above in bases.items() if above & found} - found:
            found |= more
        return frozenset(found)

    def reached(self, entries: Iterable[str]) -> frozenset[str]:
        """Every function that these may call."""
        seen: set[str] = set()
        left = [path for entry in entries for path in self._resolved(entry)]
        assert left
        while left:
            path = left.pop()
            if path not in seen:
                seen.add(path)
                if path not in self.named:
                    self.named[path] = frozenset(self._named(path))
                left += self.named[path] - seen
        return frozenset(seen)

    def refuses(self, path: str) -> bool:
        """True for a function that raises one of the errors, or what another function has made."""
        for node in ast.walk(self.functions[path][1]):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                made: ast.expr = node.exc
                while isinstance(made, ast.Call | ast.Attribute):
                    made = made.func if isinstance(made, ast.Call) else made.value
                if not isinstance(made, ast.Name) or made.id in self.errors or not made.id[0].isupper():
                    return True
        return False

    def unsaid(self, run: str) -> set[str]:
        """Functions that refuse in the first steps of a run, and that its preflight does not reach."""
        steps, asked = RUNS[run]
        return {path for path in self.reached(steps) - self.reached(asked) if self.refuses(path)}

    def _named(self, path: str) -> Iterator[str]:
        module, function = self.functions[path]
        imported = self.imported[module]
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and f"{module}.{node.id}" in self.functions:
                yield f"{module}.{node.id}"
            elif isinstance(node, ast.Name) and node.id in imported:
                yield from self._resolved(imported[node.id])
            elif isinstance(node, ast.Attribute):
                owner = imported.get(node.value.id) if isinstance(node.value, ast.Name) else None
                yield from self._resolved(f"{owner}.{node.attr}") if owner in self.modules else self.methods.get(node.attr, ())

    def _resolved(self, path: str) -> Iterator[str]:
        """The function itself, where a package only passes it on."""
        module, _, name = path.rpartition(".")
        if path in self.functions:
            yield path
        elif name in self.imported.get(module, {}) and self.imported[module][name] != path:
            yield from self._resolved(self.imported[module][name])


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _imported(text: str) -> dict[str, str]:
    return dict(_imports(_parsed(text)))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    prefix = "streams_recovery."
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(prefix):
            for name in node.names:
                yield name.asname or name.name, f"{node.module.removeprefix(prefix)}.{name.name}"


def texts() -> dict[str, str]:
    found = {}
    for room in ROOMS:
        for file in sorted((PACKAGE / room).rglob("*.py")):
            parts = file.relative_to(PACKAGE).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.read_text(encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(texts())


@pytest.mark.fault("F90")
@pytest.mark.parametrize("run", RUNS)
def test_whatever_a_run_refuses_before_it_changes_anything_its_preflight_had_said(source: Source, run: str) -> None:
    said = OF_CLUSTER.keys() | OF_REQUEST.keys() | OF_RUN.keys()
    assert source.unsaid(run) - said == set(), "ask it in the preflight of this run, or say here why nobody can"
    asked = source.reached(RUNS[run][1])
    questions = {OF_CLUSTER[path] for path in source.unsaid(run) & OF_CLUSTER.keys()}
    assert questions <= asked, "the preflight does not ask this"


def test_every_line_of_the_tables_is_about_a_refusal_that_there_is(source: Source) -> None:
    unsaid = {path for run in RUNS for path in source.unsaid(run)}
    assert (OF_CLUSTER.keys() | OF_REQUEST.keys() | OF_RUN.keys()) - unsaid == set()


@pytest.mark.fault("F90")
def test_a_new_refusal_without_a_question_is_found() -> None:
    changed = texts()
    steps = {
        "savepoint": ("operations.savepoint.begin", "    try:\n        savepoint_id = "),
        "restore": ("operations.restore.open", "        if request.site is None:\n"),
    }
    for module, step in steps.values():
        assert changed[module].count(step) == 1
        indent = step[: len(step) - len(step.lstrip())]
        changed[module] = changed[module].replace(step, f"{indent}_new(recovery)\n{step}")
        changed[module] += '\n\ndef _new(recovery: RecoveryContext) -> None:\n    raise Refused("no", next_step="none")\n'
    found = Source(changed)
    assert {run: f"{module}._new" in found.unsaid(run) for run, (module, _) in steps.items()} == dict.fromkeys(steps, True)
