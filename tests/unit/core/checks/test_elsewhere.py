"""A question about a setting of topics or brokers is asked in the catalogue: whatever else names one has a reason, and names no other."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core import topic_settings
from streams_recovery.core.checks.catalogue import CHECKS
from streams_recovery.core.checks.facts import AUTO_CREATE
from tests.support.project import PROJECT

PACKAGE = PROJECT / "plugins" / "streams_recovery"
# Where checks and what they tell people to do are written, and where settings are named.
ROOMS = ("core/checks/", "core/remedies/", "core/topic_settings.py")
SETTINGS = frozenset(
    {
        *topic_settings.IN_FORCE,
        *topic_settings.BROKER_NAMES,
        *topic_settings.BROKER_NAMES.values(),
        AUTO_CREATE,
        "log.cleaner.enable",
        "max.compaction.lag.ms",
        "offsets.retention.minutes",
        "transaction.max.timeout.ms",
    }
)
POLICY, LAG, TIMES, MESSAGE = "cleanup.policy", "min.compaction.lag.ms", "message.timestamp.type", "max.message.bytes"
BEFORE, AFTER, IN_SYNC = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "min.insync.replicas"
RETENTION = ("retention.ms", "retention.bytes")
HELD = frozenset({LAG, "max.compaction.lag.ms", *RETENTION, TIMES, BEFORE, AFTER})
# By module: the settings that it may name, and why that is no check.
REASONS: dict[str, tuple[frozenset[str], str]] = {
    "core/compaction/latest_per_key.py": (frozenset({POLICY, LAG}), "decides whether a changelog may be rewritten, by its kind of store"),
    "core/draft/seen.py": (frozenset({POLICY}), "guesses the kind of a store by how Kafka Streams makes its changelog"),
    "core/names.py": (frozenset({POLICY, LAG}), "tells the kind of a store by how Kafka Streams makes its changelog"),
    "core/preflight/findings.py": (frozenset({AUTO_CREATE}), "has the kind of a finding that is called like it, in its order"),
    "core/repository/cleaning.py": (frozenset({"delete.retention.ms"}), "decides whether files of two savepoints can be shared"),
    "core/restore/failover.py": (frozenset({IN_SYNC}), "sets it, lower where there are fewer brokers"),
    "core/restore/parts/interval.py": (frozenset(RETENTION), "sets them on copies of inputs"),
    "core/restore/single_topics.py": (HELD | {POLICY, "delete.retention.ms"}, "sets what a copy of a topic has"),
    "core/restore/topic_settings.py": (
        frozenset(topic_settings.IN_FORCE) - {"segment.bytes", "segment.ms"},
        "decides what a topic is made with, and what a cluster does not take",
    ),
    "core/rollout/compatibility.py": (frozenset({POLICY}), "tells the kind of a store by how Kafka Streams makes its changelog"),
    "core/sandbox/results.py": (frozenset({TIMES, BEFORE}), "decides whether results fit into an output, by their times"),
    "core/savepoint/warnings.py": (frozenset({POLICY, "retention.ms"}), "tells by a store's retention what Kafka Streams 4.4 leaves out"),
    "core/topic_holds/compaction_guard.py": (HELD | {POLICY}, "sets and reads holds"),
    "core/topic_holds/log.py": (
        frozenset({LAG, TIMES, BEFORE, AFTER, *RETENTION, "segment.bytes", "segment.ms"}),
        "decides when a hold may end",
    ),
    "kafka/cluster.py": (frozenset({MESSAGE, "log.cleanup.policy"}), "reads them"),
    "kafka/properties.py": (frozenset({"message.max.bytes"}), "a setting of clients of the same name"),
    "kafka/transactional_append.py": (frozenset({"message.max.bytes"}), "a setting of clients of the same name"),
    "kafka/writer.py": (frozenset({"message.max.bytes"}), "a setting of clients of the same name"),
    "operations/offsets/mirrored_inputs.py": (frozenset({TIMES}), "decides by which times records of two logs are compared"),
    "operations/restore/moments.py": (frozenset({LAG}), "decides whether a table read as input may lack what was replaced since"),
}


def named(path: Path) -> frozenset[str]:
    """The settings that a module has by name: written there, or imported as a constant."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    written = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return SETTINGS & (written | set(imported(tree)))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("streams_recovery.core."):
            module = importlib.import_module(node.module)
            for name in node.names:
                value = getattr(module, name.name, None)
                if isinstance(value, str) and name.name.isupper():
                    yield value


def elsewhere(package: Path = PACKAGE) -> dict[str, frozenset[str]]:
    paths = {path.relative_to(package).as_posix(): path for path in sorted(package.rglob("*.py"))}
    found = {name: named(path) for name, path in paths.items() if not name.startswith(ROOMS)}
    return {name: settings for name, settings in found.items() if settings}


def test_no_setting_is_judged_outside_the_catalogue_and_no_reason_is_left_over() -> None:
    assert elsewhere() == {name: settings for name, (settings, _) in REASONS.items()}, "a question about a setting belongs into core/checks"


@pytest.mark.parametrize(
    "text",
    [
        'def weak(settings):\n    return settings.get("min.insync.replicas") == "1"\n',
        "from streams_recovery.core.remedies.topics import UNCLEAN\n\n\ndef weak(settings):\n    return settings[UNCLEAN]\n",
    ],
)
def test_a_check_that_is_written_elsewhere_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "asks.py").write_text(text)
    assert list(elsewhere(tmp_path)) == ["operations/asks.py"]


MAKERS = ("finding", "warning", "blocking_finding", "refused", "_refusal", "PreflightFinding")
# By module: the kinds of the catalogue that it tells of by itself, and why that is another question.
OTHERS: dict[str, tuple[frozenset[str], str]] = {
    "operations/preflight.py": (
        frozenset({"replication", "outputs-transferred"}),
        "topics that were given fewer replicas; the refusal of a stop, in its own words",
    ),
    "operations/restore/dry_run.py": (frozenset({"outputs-empty"}), "what a plan that was made leaves empty"),
    "operations/room.py": (frozenset({"space"}), "brokers that do not tell their disks"),
    "operations/savepoint/begin.py": (frozenset({"hold"}), "the refusal of a mode that was asked for, in its own words"),
}


def told_in(path: Path) -> frozenset[str]:
    """The kinds of the catalogue with which a module makes findings: written there, or a constant of that module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = dict(pair for node in tree.body for pair in assigned(node))
    used = {
        constants.get(name) if isinstance(argument, ast.Name) and (name := argument.id) else getattr(argument, "value", None)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS
        for argument in (*node.args[:1], *(word.value for word in node.keywords if word.arg == "kind"))
    }
    asked = {pair.elts[0].value for pair in ast.walk(tree) if is_named_question(pair)}
    return frozenset(place.kind for check in CHECKS for place in check.places) & (used | asked)


def is_named_question(node: ast.AST) -> bool:
    """True for a pair of a kind and the function that asks, as the beginning of a savepoint has them."""
    return (
        isinstance(node, ast.Tuple)
        and len(node.elts) == 2
        and isinstance(node.elts[1], ast.Lambda)
        and isinstance(node.elts[0], ast.Constant)
    )


def assigned(node: ast.stmt) -> Iterator[tuple[str, object]]:
    """The constants that a statement names, one or several in a line."""
    if not isinstance(node, ast.Assign):
        return
    target = node.targets[0]
    several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
    names, values = (target.elts, node.value.elts) if several else ([target], [node.value])
    for name, value in zip(names, values, strict=True):
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
            yield name.id, value.value


def findings_elsewhere(package: Path = PACKAGE) -> dict[str, frozenset[str]]:
    paths = {path.relative_to(package).as_posix(): path for path in sorted(package.rglob("*.py"))}
    found = {name: told_in(path) for name, path in paths.items() if not name.startswith("core/checks/")}
    return {name: told for name, told in found.items() if told}


def test_what_a_check_asks_no_preflight_and_no_rule_asks_by_itself_and_no_reason_is_left_over() -> None:
    assert findings_elsewhere() == {name: kinds for name, (kinds, _) in OTHERS.items()}, (
        "a question of the catalogue has one function there"
    )


@pytest.mark.parametrize(
    "text",
    [
        'def full():\n    return warning("space", "it is full", remedy())\n',
        'LOW, OTHER = "disk-space-low", "other"\n\n\ndef full():\n    yield finding(LOW, Severity.WARNING, "it is full")\n',
        'def asked():\n    return (("partitions", lambda: ask()),)\n',
        'def asked():\n    return PreflightFinding(severity=1, kind="instances", text="", remedy=None)\n',
    ],
)
def test_a_finding_of_the_catalogue_that_is_made_elsewhere_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "asks.py").write_text(text)
    assert list(findings_elsewhere(tmp_path)) == ["operations/asks.py"]
