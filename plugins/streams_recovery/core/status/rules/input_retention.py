"""Input that retention has deleted, or is about to, before a savepoint has it or the application has read it."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import InputState, ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

SOON, LOST, UNREAD = "input-expires", "input-lost", "input-lost-unread"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for topic in observed.cluster.inputs if observed.cluster else ():
        remedies = [command("backup", observed.name)]
        if topic.unread:
            yield finding(
                UNREAD,
                Severity.CRITICAL,
                f"{topic.topic}: {topic.unread:,} offsets were deleted before the application had read them",
                subject=topic.topic,
                numbers={"offsets": float(topic.unread)},
            )
        if topic.lost:
            yield finding(
                LOST,
                Severity.CRITICAL,
                f"{topic.topic}: {topic.lost:,} offsets that a restore of the newest exact savepoint needs were deleted, and no savepoint has them",
                subject=topic.topic,
                remedies=remedies,
                numbers={"offsets": float(topic.lost)},
            )
        elif (left := _left(observed, topic)) is not None and left < limits.retention_margin:
            yield finding(
                SOON,
                Severity.WARNING,
                f"{topic.topic}: retention begins to delete input that neither a savepoint nor the archive has {f'in {span(left)}' if left > 0 else 'now'}",
                subject=topic.topic,
                remedies=remedies,
                numbers={"seconds_left": left, "limit_seconds": limits.retention_margin},
            )


def _left(observed: ObservedApplication, topic: InputState) -> float | None:
    if topic.needed_since is None or topic.retention_seconds is None:
        return None
    return topic.retention_seconds - observed.age(topic.needed_since)


RULE = Rule(kinds=(SOON, LOST, UNREAD), parts=(PartName.CLUSTER,), find=_find)
