"""Sizes of changelogs and repartition topics on the brokers' disks, and how fast changelogs grow."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.facts import Observed, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import DAY, Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.status.trend import per_second
from streams_recovery.core.text.units import size

LARGE, GROWS, REPARTITION = "changelog-large", "changelogs-grow", "repartition-large"


def _find(observed: Observed, limits: Limits) -> Iterator[StatusFinding]:
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
    yield from _growth(observed, limits)


def _growth(observed: Observed, limits: Limits) -> Iterator[StatusFinding]:
    slope = per_second(observed.history, lambda point: point.changelog_bytes, now=observed.now)
    now = next((point.changelog_bytes for point in reversed(observed.history) if point.changelog_bytes is not None), 0)
    daily = slope * DAY if slope is not None else 0.0
    if now > limits.growth_from_bytes and daily > limits.changelog_growth * max(1.0, now - daily):
        yield finding(
            GROWS,
            Severity.WARNING,
            f"the changelogs have {size(now)} on the brokers' disks and grow by {size(daily)} a day: restores get slower, and disks fill",
            numbers={"bytes": float(now), "bytes_per_day": daily, "limit_per_day": limits.changelog_growth},
        )


def _stays(observed: Observed, _found: StatusFinding) -> bool:
    return observed.disks is not None and not observed.disks.brokers_seen


RULE = Rule(kinds=(LARGE, GROWS, REPARTITION), parts=(PartName.CLUSTER, PartName.DISKS), find=_find, stays=_stays)
