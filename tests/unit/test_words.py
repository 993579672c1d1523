"""One word for one thing: words that were given up do not come back as identifiers or as stored names, and no two classes have one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.project import PROJECT

FOLDERS = ("plugins", "spark_jobs", "dags")
# What was given up, and the word that took its place.
GIVEN_UP = {
    **dict.fromkeys(("audit", "audits", "audited", "auditing"), "check"),
    **dict.fromkeys(("reduced", "reducing", "reduction", "reducible", "synthetic"), "compacted"),
    **dict.fromkeys(("handover", "handovers", "handing"), "cut-over, or publish"),
    **dict.fromkeys(("lane", "lanes"), "slots"),
    "standstill": "quiesce record",
    **dict.fromkeys(("obstacle", "obstacles", "cautions"), "findings, or warnings"),
    **dict.fromkeys(("survey", "surveyed"), "discover"),
    **dict.fromkeys(("witness", "liveness"), "supervisor, or process identity"),
    **dict.fromkeys(("bench", "workbench"), "context"),
    **dict.fromkeys(("asking", "told", "nobody"), "requested, message, or a noun"),
}
# What a key of the repository, a field, an id or the name of a job looks like; a sentence does not.
STORED = re.compile(r"[\w./-]+")


def words(name: str) -> set[str]:
    """The words of an identifier or of a stored name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(source: str) -> Iterator[tuple[int, str]]:
    """Identifiers, and strings that could be stored as a name, with their lines."""
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield line, name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STORED.fullmatch(node.value):
            yield line, node.value


def given_up(root: Path) -> list[str]:
    """Where a word is used that was given up."""
    return [
        f"{path.relative_to(root)}:{line}: {name}: say {GIVEN_UP[word]}"
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        for line, name in names(path.read_text())
        for word in sorted(words(name) & GIVEN_UP.keys())
    ]


def test_words_that_were_given_up_stay_away() -> None:
    assert given_up(PROJECT) == []


@pytest.mark.parametrize(
    "source",
    [
        "def audit(): ...",
        "class AuditReport: ...",
        "def check(audit_id): ...",
        "from core import audit",
        "import check as audits",
        "report.audited",
        "run(audit=1)",
        "KEY = 'shop/audits/'",
        "KEY = f'{shop}/audits/'",
        "JOB_AUDIT = 1",
    ],
)
def test_each_place_of_a_name_is_looked_at(tmp_path: Path, source: str) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "one.py").write_text(source)
    assert [found.split(":")[0] for found in given_up(tmp_path)] == ["dags/one.py"]


def test_prose_and_other_words_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "one.py").write_text(
        '"""An audit of old words."""\nstarboard = "what an audit says"\nauditorium = __reduce__ = 1\n'
    )
    assert given_up(tmp_path) == []


def class_names(*folders: Path) -> dict[str, list[str]]:
    """Where each class at the top of a module is written."""
    found = defaultdict[str, list[str]](list)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{path.relative_to(folder.parent)}:{node.lineno}")
    return found


def test_no_two_classes_have_one_name(tmp_path: Path) -> None:
    found = class_names(PROJECT / "plugins" / "streams_recovery", PROJECT / "spark_jobs")
    assert len(found) > 500
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("class Seen:\n    pass\n")
    assert class_names(tmp_path) == {"Seen": [f"{tmp_path.name}/one.py:1", f"{tmp_path.name}/two.py:1"]}


# Names of others in docstrings: options of Kafka Streams and Airflow, classes and functions of Kafka, words of Kubernetes and Java.
OTHERS = {
    *("SchedulerJobRunner.process_executor_events", "PartitionGroup", "ForeignTableJoinProcessorSupplier", "rd_kafka_idemp_pid_fsm"),
    *("topology.optimization", "state.dir", "apache_airflow_provider", "aws", "KeyError", "NaN", "Error", "Completed"),
}
# Keys of the configuration, and DAGs.
STATED = {"monitor.docs_url", "structure", "streams_restore_full", "streams_restore_pitr", "orders", "runs.process.command", "best_effort"}
MENTIONED = re.compile(r"``([A-Za-z_][\w.]*)(?:\(\))?``")


@dataclass(frozen=True)
class Source:
    """A module: the names and strings in its code, the names that its docstrings mention, and the modules it imports."""

    names: set[str]
    mentioned: list[tuple[int, str]]
    imported: set[str]


def source_of(text: str) -> Source:
    """A module's source, read without importing it."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = [node.body[0].value for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node) is not None]
    skipped = {id(doc) for doc in docs}
    found, imported = set[str](), set[str]()
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            if isinstance(name := getattr(node, field, None), str):
                found |= {*name.split(".")}
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            found |= {*re.findall(r"\w+", node.value)}
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return Source(found, [(doc.lineno, name) for doc in docs for name in MENTIONED.findall(doc.value)], imported)


def unknown_names(sources: Mapping[str, Source]) -> list[str]:
    """Names in docstrings that are neither in their module, nor in one of its folder, nor in one that imports it or that it imports."""
    folders = defaultdict[str, set[str]](set)
    for name, source in sources.items():
        folders[name.rpartition(".")[0]] |= source.names
        folders[name.rpartition(".")[0]] |= {*name.split(".")}
    importers = defaultdict[str, set[str]](set)
    for source in sources.values():
        for imported in source.imported:
            importers[imported] |= source.names
    found = []
    for name, source in sources.items():
        near = folders[name.rpartition(".")[0]] | importers[name] | OTHERS | STATED
        near = near.union(*(sources[one].names for one in source.imported if one in sources))
        found += [
            f"{name}:{line}: {mentioned}"
            for line, mentioned in source.mentioned
            if mentioned not in near and not near.issuperset(mentioned.removesuffix(".py").split("."))
        ]
    return found


def test_what_a_docstring_names_is_near() -> None:
    paths = [path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*.py"))]
    sources = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removeprefix("plugins."): source_of(path.read_text()) for path in paths
    }
    assert sum(len(source.mentioned) for source in sources.values()) > 1000
    assert unknown_names(sources) == []
    gone = source_of('def look() -> int:\n    """As ``told`` says, see ``look``."""\n    return 1\n')
    assert unknown_names({"a.b": gone}) == ["a.b:2: told"]
