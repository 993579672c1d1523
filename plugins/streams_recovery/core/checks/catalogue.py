"""Every check, in the order in which findings of one severity are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streams_recovery.core.checks import application, runs, savepoints, topics
from streams_recovery.core.checks.check import CatalogueCheck, CheckPlace, Found, Occasion
from streams_recovery.core.checks.facts import AdviceFacts, Facts

SHARED: Final = (*topics.SHARED, *application.SHARED)
_ADVISED: Final[tuple[CatalogueCheck[Any], ...]] = (*topics.CHECKS, *SHARED, *application.CHECKS)
CHECKS: Final[tuple[CatalogueCheck[Any], ...]] = (
    *_ADVISED,
    savepoints.HANGING,
    savepoints.UNATTRIBUTED,
    savepoints.AHEAD,
    savepoints.CLUSTER_LOSS,
    savepoints.SEALS,
    *runs.CHECKS,
)


def before_run(asked: Occasion, facts: Facts) -> Iterator[tuple[CheckPlace, Found]]:
    """Findings about topics and brokers before a savepoint or a restore."""
    for check in SHARED:
        yield from check.ask(asked, facts)


def as_advice(facts: AdviceFacts) -> Iterator[tuple[CheckPlace, Found]]:
    """All advice."""
    for check in _ADVISED:
        yield from check.ask(Occasion.ADVICE, facts)
