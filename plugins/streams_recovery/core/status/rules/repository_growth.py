"""How fast the repository grows."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import DAY, Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.status.trend import per_second
from streams_recovery.core.words import size

GROWS = "repository-grows"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    slope = per_second(observed.history, lambda point: point.repository_bytes, now=observed.now)
    now = next((point.repository_bytes for point in reversed(observed.history) if point.repository_bytes is not None), 0)
    daily = slope * DAY if slope is not None else 0.0
    if now > limits.growth_from_bytes and daily > limits.repository_growth * max(1.0, now - daily):
        yield finding(
            GROWS,
            Severity.WARNING,
            f"the repository has {size(now)} and grows by {size(daily)} a day",
            remedies=[command("expire", observed.name, "--plan"), command("compact", observed.name, "--plan")],
            numbers={"bytes": float(now), "bytes_per_day": daily, "limit_per_day": limits.repository_growth},
        )


RULE = Rule(kinds=(GROWS,), find=_find)
