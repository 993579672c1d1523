"""Sizes of changelogs and repartition topics on the brokers' disks, and how fast they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import DAY, Limits
from streams_recovery.core.status.report import HistoryPoint
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.status.trend import per_second
from streams_recovery.core.words import size

LARGE, GROWS = "changelog-large", "changelogs-grow"
REPARTITION, REPARTITION_GROWS = "repartition-large", "repartition-grows"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    if observed.cluster is None or observed.disks is None:
        return
    for topic in observed.cluster.topics:
        found = observed.disks.topic_bytes.get(topic.name, 0)
        for role, kind, limit, why in (
            (TopicRole.CHANGELOG, LARGE, limits.changelog_bytes, "a restore has to load it"),
            (
                TopicRole.REPARTITION,
                REPARTITION,
                limits.repartition_bytes,
                "the application deletes what it has read, so it should be small",
            ),
        ):
            if topic.role is role and limit is not None and found > limit:
                yield finding(
                    kind,
                    Severity.WARNING,
                    f"{topic.name} has {size(found)} on the brokers' disks, the limit is {size(limit)}; {why}",
                    subject=topic.name,
                    numbers={"bytes": float(found), "limit_bytes": float(limit)},
                )
    for growing in _GROWING:
        yield from _growth(observed, limits, growing)


@dataclass(frozen=True, slots=True)
class _Growing:
    """Topics of one role together: their size at a moment, and what it means when they grow."""

    kind: str
    name: str
    size: Callable[[HistoryPoint], int | None]
    why: str


_GROWING: Final = (
    _Growing(GROWS, "changelogs", lambda point: point.changelog_bytes, "restores get slower, and disks fill"),
    _Growing(
        REPARTITION_GROWS,
        "repartition topics",
        lambda point: point.repartition_bytes,
        "the application does not read, or may not delete what it has read",
    ),
)


def _growth(observed: ObservedApplication, limits: Limits, growing: _Growing) -> Iterator[StatusFinding]:
    slope = per_second(observed.history, growing.size, now=observed.now)
    now = next((found for point in reversed(observed.history) if (found := growing.size(point)) is not None), 0)
    daily = slope * DAY if slope is not None else 0.0
    if now > limits.growth_from_bytes and daily > limits.changelog_growth * max(1.0, now - daily):
        yield finding(
            growing.kind,
            Severity.WARNING,
            f"the {growing.name} have {size(now)} on the brokers' disks and grow by {size(daily)} a day: {growing.why}",
            numbers={"bytes": float(now), "bytes_per_day": daily, "limit_per_day": limits.changelog_growth},
        )


def _stays(observed: ObservedApplication, _found: StatusFinding) -> bool:
    return observed.disks is not None and not observed.disks.brokers_seen


RULE = Rule(kinds=(LARGE, GROWS, REPARTITION, REPARTITION_GROWS), parts=(PartName.CLUSTER, PartName.DISKS), find=_find, stays=_stays)
