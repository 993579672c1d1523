"""A fact has one type from where it is found to where it is shown: no two value classes are mirrors of each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from tests.support.project import PROJECT

ROOTS = ("plugins/streams_recovery", "spark_jobs")
MOST = 4
# Why one is not the other, and the pairs that share more names than that.
REASONS = {
    "a workload that was found may lack what a configuration must have": (("FoundWorkload", "KubernetesRuns"),),
    "a file may have the keys of both backends, so that a variable chooses between them; a location has those of one": (
        ("StorageLocation", "StoragePlace"),
    ),
    "the stored form is columns: one text for all files where a file has a number": (("SegmentFile", "StoredFiles"),),
    "a detail is stored for the page, which opens it in place of the manifest and its tables": (
        ("Manifest", "SavepointDetail"),
        ("PartitionDetail", "PartitionImage"),
        ("Provenance", "SavepointDetail"),
    ),
    "a cluster describes a topic as it is, our hold included; a cut has it as its owner had set it": (("TopicAtCut", "TopicDescription"),),
    "the sum of the entries has a mapping where an entry has a list, and what nobody has said yet": (("Archive", "ArchiveEntry"),),
    "a look gathers what a report, which is stored, tells in another form: of parts that were not seen it has what is known of them": (
        ("ObservedApplication", "StatusReport"),
        ("StatusReport", "_InRepository"),
        ("ApplicationInfo", "ObservedApplication"),
    ),
    "a drill that never began a restore has an entry without one, and the report of its restore is removed with the sandbox": (
        ("DrillEntry", "RestoreReport"),
    ),
    "one line for four kinds of runs, of which a drill is one": (("DrillEntry", "RunSummary"),),
    "a drill may leave all names as they are, an interval gives each output another one: the keys have rules and defaults of their own": (
        ("Drill", "Reprocess"),
    ),
    "a restore names the savepoint that it is of, and may be of none": (
        ("Manifest", "PlannedRestore"),
        ("Manifest", "RestoreReport"),
        ("PlannedRestore", "PublishedSavepoint"),
        ("RestoreReport", "SavepointFacts"),
    ),
    "what is asked for names a savepoint; the source is what was found in it": (("Rebuild", "RebuildSource"),),
    "other things: each says whose it is, who asked for it, why and when": (
        ("AppendPlan", "RestoreReport"),
        ("CutoverReport", "RestoreReport"),
        ("OffsetSnapshot", "RestoreReport"),
        ("OffsetSnapshot", "SavepointDetail"),
        ("Pin", "ReprocessEntry"),
        ("RestoreReport", "RestoreTicket"),
        ("RestoreTicket", "Ticket"),
    ),
    "sections of a file, and what was seen of the things that they are about": (("ApplicationConfig", "StatusReport"),),
}


@dataclass(frozen=True)
class ValueClass:
    """A class with its ``fields``, without those of its bases. ``value`` is True for a dataclass, a named tuple and a model, as it is written."""

    name: str
    bases: tuple[str, ...]
    fields: tuple[str, ...]
    value: bool


def value_classes(root: Path) -> dict[str, ValueClass]:
    """All classes of these folders. No two have one name."""
    files = (path for folder in ROOTS for path in sorted((root / folder).rglob("*.py")))
    found = [one for path in files for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(one, ast.ClassDef)]
    return {one.name: read(one) for one in found}


def read(found: ast.ClassDef) -> ValueClass:
    bases = tuple(ast.unparse(base).split("[")[0].rpartition(".")[2] for base in found.bases)
    declared = [one for one in found.body if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.unparse(one.annotation)]
    return ValueClass(
        name=found.name,
        bases=bases,
        fields=tuple(one.target.id for one in declared if isinstance(one.target, ast.Name)),
        value=any("dataclass" in ast.unparse(one) for one in found.decorator_list) or {"NamedTuple", "BaseModel"} & {*bases} != set(),
    )


def with_bases(one: ValueClass, known: dict[str, ValueClass]) -> Iterator[ValueClass]:
    yield one
    for base in one.bases:
        if base in known:
            yield from with_bases(known[base], known)


def mirrors(root: Path) -> dict[tuple[str, str], set[str]]:
    """Pairs of value classes with the fields that both declare, or have from bases that are not the same. Those of a class and its base are left out, and
    those whose bases are such a pair.
    """
    known = value_classes(root)
    lines = {name: [*with_bases(one, known)] for name, one in known.items()}
    declared = {
        name: {(field, one.name) for one in reversed(line) for field in one.fields}
        for name, line in lines.items()
        if any(one.value for one in line)
    }
    found: dict[tuple[str, str], set[str]] = {}
    for one, other in combinations(sorted(declared), 2):
        if known[one] in lines[other] or known[other] in lines[one]:
            continue
        inherited = {field for field, _ in declared[one] & declared[other]}
        shared = ({field for field, _ in declared[one]} & {field for field, _ in declared[other]}) - inherited
        if len(shared) > MOST:
            found[one, other] = shared
    of_bases = {
        pair
        for pair in found
        for one in lines[pair[0]]
        for other in lines[pair[1]]
        if tuple(sorted((one.name, other.name))) in found.keys() - {pair}
    }
    return {pair: shared for pair, shared in found.items() if pair not in of_bases}


def test_no_value_class_is_a_mirror_of_another() -> None:
    found, known = mirrors(PROJECT), [pair for pairs in REASONS.values() for pair in pairs]
    told = {f"{one} and {other}": sorted(shared) for (one, other), shared in found.items() if (one, other) not in known}
    assert told == {}, (
        "one of the two can be used in place of the other, hold it, or share a base with it; where neither is so, say why in REASONS"
    )
    assert [pair for pair in known if pair not in found] == []


def test_mirrors_are_found(tmp_path: Path) -> None:
    folder = tmp_path / ROOTS[0]
    folder.mkdir(parents=True)
    facts = "    a: int\n    b: int\n    c: int\n    d: int\n"
    (folder / "values.py").write_text(
        f"@dataclass(frozen=True)\nclass First:\n{facts}    e: int\n\n"
        f"class Section(BaseModel):\n    pass\n\nclass Second(Section):\n{facts}    e: int | None = None\n\n"
        f"@dataclass\nclass Fewer:\n{facts}    kind: ClassVar[str] = 'x'\n    f: int\n\n"
        f"class Plain:\n{facts}    e: int\n\n"
        "@dataclass\nclass Child(First):\n    f: int\n\n@dataclass\nclass Sibling(First):\n    g: int\n"
    )
    assert mirrors(tmp_path) == {("First", "Second"): set("abcde"), ("Child", "Fewer"): set("abcdf")}
