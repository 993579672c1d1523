"""Estimates how long a restore takes, from its size and from earlier restores of the same application.

The default rates are from restores through Airflow on two cores shared by broker, application and Spark: one with 1.5 million records in 64
partitions, one with some thousand records in as many partitions. The constant parts are the start-up times of Spark, Airflow and the application.
Other machines are faster or slower in each step. So each step's default is multiplied by the ratio of measured to default time of earlier restores.

A load reads back what it wrote. Usually nothing is left to compare after it, and the estimate of that step assumes this.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.waiting import RateLimits

STEPS: Final = {
    "save": (Phase.OPENED, Phase.SAVED),
    "create": (Phase.SAVED, Phase.CREATED),
    "load": (Phase.CREATED, Phase.LOADED),
    "compare": (Phase.LOADED, Phase.VERIFIED),
    "start": (Phase.VERIFIED, Phase.STARTED),
    "catch up": (Phase.STARTED, Phase.RECOVERED),
}
# How many earlier restores count. Older ones may have run on other machines.
NEWEST: Final = 5
# Journal times that are closer together are too inexact for a measurement.
_LEAST_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The size of a restore: records to load, the bytes of their keys and values, and the number of partitions; offsets of topics that are replaced
    and saved first; and input records from the committed offsets to the ends.
    """

    records: int
    payload_bytes: int
    partitions: int
    replaced: int
    to_catch_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An earlier restore: its sizes, and the seconds of its steps."""

    sizes: Sizes
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds of each step, counted from the approval. ``measured`` is the number of earlier restores used; with 0 the default rates were used."""

    seconds: dict[str, float]
    measured: int

    @property
    def total(self) -> float:
        """All steps together."""
        return sum(self.seconds.values())


def by_default(sizes: Sizes) -> dict[str, float]:
    """Seconds of each step with the default rates."""
    return {
        "save": 3 + (18 + 5e-6 * sizes.replaced if sizes.replaced else 0),
        "create": 1 + 0.045 * sizes.partitions,
        "load": 13 + 0.12 * sizes.partitions + 5.5e-6 * sizes.records + 6e-9 * sizes.payload_bytes,
        "compare": 4,
        "start": 3.5,
        "catch up": 14 + 5e-4 * sizes.to_catch_up,
    }


def estimate(sizes: Sizes, earlier: Sequence[Timed], throttle: RateLimits) -> Estimate:
    """The estimate, from the newest of the ``earlier`` restores (oldest first). A throttle sets a minimum for the load."""
    newest = earlier[-NEWEST:]
    seconds = {step: plain * _factor(step, newest) for step, plain in by_default(sizes).items()}
    seconds["load"] = max(seconds["load"], *_throttled(sizes, throttle))
    return Estimate(seconds={step: round(value, 1) for step, value in seconds.items()}, measured=len(newest))


def recovery_seconds(journal: Collection[JournalEntry], *, began_at: int) -> float | None:
    """The whole time of a restore until the application was at work again, also where it was interrupted. None for one that has not recovered."""
    recovered = min((entry.at for entry in journal if entry.phase is Phase.RECOVERED), default=None)
    return None if recovered is None else max(0.0, round((recovered - began_at) / 1000, 1))


def _factor(step: str, earlier: Sequence[Timed]) -> float:
    # The median, because an interrupted restore, or one on a busy machine, says little about the next.
    return statistics.median(timed.seconds[step] / by_default(timed.sizes)[step] for timed in earlier) if earlier else 1.0


def _throttled(sizes: Sizes, throttle: RateLimits) -> tuple[float, float]:
    records, size = throttle.records_per_second, throttle.bytes_per_second
    return (sizes.records / records if records else 0.0, sizes.payload_bytes / size if size else 0.0)


def placing_ms(journal: Collection[JournalEntry]) -> int:
    """How long the records of a rescale were placed anew, until the plan with these was noted: no other restore has that. 0 for all others."""
    saved = [entry for entry in journal if entry.phase is Phase.SAVED]
    return max((max(0, entry.at - saved[0].at) for entry in saved if entry.result is not None), default=0)


def seconds_of(journal: Collection[JournalEntry], *, began_at: int) -> dict[str, float] | None:
    """The seconds of each step of a restore, from its journal, without what only a rescale needs. None unless it recovered and went through all phases in
    order.
    """
    # The opening is recorded in the ticket; the first journal entry is the next phase.
    first = {Phase.OPENED: began_at}
    for entry in journal:
        first.setdefault(entry.phase, entry.at)
    needed = [Phase.OPENED, *(end for _, end in STEPS.values())]
    if any(phase not in first for phase in needed):
        return None
    if any(first[later] < first[earlier] for earlier, later in pairwise(needed)):
        return None
    took = {step: (first[end] - first[begin]) / 1000 for step, (begin, end) in STEPS.items()}
    took["create"] -= placing_ms(journal) / 1000
    return {step: max(_LEAST_SECONDS, one) for step, one in took.items()}
