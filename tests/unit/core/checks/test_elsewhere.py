"""A question about a setting of topics or brokers is asked in the catalogue: whatever else names one has a reason, and names no other."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core import topic_settings
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
    "core/compaction/plan.py": (frozenset({POLICY, LAG}), "decides whether a changelog may be rewritten, by its kind of store"),
    "core/names.py": (frozenset({POLICY, LAG}), "tells the kind of a store by how Kafka Streams makes its changelog"),
    "core/repository/cleaning.py": (frozenset({"delete.retention.ms"}), "decides whether files of two savepoints can be shared"),
    "core/restore/failover.py": (frozenset({IN_SYNC}), "sets it, lower where there are fewer brokers"),
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
    "operations/restore/placing.py": (frozenset(RETENTION), "sets them on copies of inputs"),
    "operations/restore/plan.py": (frozenset({LAG}), "decides whether a table read as input may lack what was replaced since"),
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
