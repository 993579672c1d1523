"""The first savepoint of an application in words: what it has and what it has not, how long a restore takes, and how to try one without touching anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.savepoint_detail import SavepointDetail
from streams_recovery.core.words import command, first_names, span

# As long as nobody has configured a drill.
_CADENCE: Final = "once a week, and before each risky change"
_OUTSIDE: Final = (
    "schemas of a registry, and state outside Kafka: databases, files of the program. Save these yourself, at about the same time"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSavepoint:
    """The first savepoint of the application that is configured as ``name``. ``estimate`` is about how long a restore of it takes, None if unknown. ``drills``
    are the schedule of drills, None where none is configured; ``can_drill`` is False for one that cannot be started under another id.
    """

    name: str
    detail: SavepointDetail
    estimate: Estimate | None
    drills: str | None
    can_drill: bool


def first_lines(first: FirstSavepoint) -> Iterator[str]:
    """One fact a line."""
    detail = first.detail
    topics = Counter(topic.role for topic in detail.topics if topic.archived)
    roles = ", ".join(f"{count} {role}{'s' if count > 1 else ''}" for role, count in topics.items())
    yield f"it has: {detail.consistency} state, the committed offsets, the settings of {len(detail.topics)} topics, and the records of {roles or 'none'}"
    for what in _lacks(detail):
        yield f"it has not: {what}"
    yield f"a restore takes: {_takes(first)}"
    yield f"try that without touching anything: {_try(first)}"


def _lacks(detail: SavepointDetail) -> Iterator[str]:
    outputs = [topic.name for topic in detail.topics if topic.role is TopicRole.OUTPUT and not topic.archived]
    if outputs:
        yield f"the records of outputs ({first_names(outputs)}): a restore leaves those that are there, and makes lost ones empty"
    yield from (f"enough to survive the loss of the cluster: {why}" for why in detail.lost_with_cluster)
    yield _OUTSIDE


def _takes(first: FirstSavepoint) -> str:
    if first.estimate is None:
        return f"not known before the cluster is looked at again: {command('monitor', first.name)}"
    by = f"measured by {first.estimate.measured} restores" if first.estimate.measured else "by default rates; the first drill measures it"
    return f"about {span(first.estimate.total)}, {by}"


def _try(first: FirstSavepoint) -> str:
    drill = f"{command('drill', first.name)}, or a run of streams_drill"
    if first.drills is not None:
        return f"{drill}, {first.drills}"
    looks = f"{command('restore', first.name, '--replace', '--plan')} says what it would do"
    if not first.can_drill:
        whole = command("verify", first.name, "--level", "full")
        return f"{looks}, and {whole} reads all of it, {_CADENCE}. A drill needs an application that starts under another id"
    return f"{drill}, {_CADENCE}, once the configuration has the section `drill`. Until then {looks}"
