"""How far the application is behind its inputs, and whether that grows."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import HOUR, Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.status.trend import per_second
from streams_recovery.core.words import span

HIGH, GROWS = "lag-high", "lag-grows"
_WINDOW, _LEAST = HOUR, HOUR / 4


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    if observed.cluster is None:
        return
    lag = observed.cluster.lag
    if limits.lag_records is not None and lag > limits.lag_records:
        yield finding(
            HIGH,
            Severity.WARNING,
            f"the application is {lag:,} offsets behind its inputs, the limit is {limits.lag_records:,}",
            numbers={"lag": float(lag), "limit": float(limits.lag_records)},
        )
    slope = per_second(observed.history, lambda point: point.lag, now=observed.now, window=_WINDOW, least=_LEAST)
    hourly = slope * HOUR if slope is not None else 0.0
    if hourly > limits.lag_growth:
        yield finding(
            GROWS,
            Severity.WARNING,
            f"the application is {lag:,} offsets behind its inputs, and each hour {hourly:,.0f} more (measured over {span(_WINDOW)} at most)",
            numbers={"lag": float(lag), "per_hour": hourly, "limit_per_hour": float(limits.lag_growth)},
        )


RULE = Rule(kinds=(HIGH, GROWS), parts=(PartName.CLUSTER,), find=_find)
