"""How long a restore will take: by what it moves, and by how long earlier restores of the same application took for what they moved.

The rates below are of restores through Airflow on two cores that broker, application and Spark shared: 1.5 million records in 64 partitions, and some
thousand in as many. A part that hardly depends on the records is what Spark, Airflow and the application need to start. Other machines are faster or
slower as a whole, step by step; so what earlier restores took is compared with what these rates say of *them*, and the new estimate is moved by that.

A load reads back what it wrote. That nothing is left to compare after it is the rule, and what the estimate of that step is for.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.throttle import Throttle

STEPS: Final = {
    "save": (Phase.OPENED, Phase.SAVED),
    "create": (Phase.SAVED, Phase.CREATED),
    "load": (Phase.CREATED, Phase.LOADED),
    "compare": (Phase.LOADED, Phase.VERIFIED),
    "start": (Phase.VERIFIED, Phase.STARTED),
    "catch up": (Phase.STARTED, Phase.RECOVERED),
}
# Earlier restores that count: the machines of last year may be others.
NEWEST: Final = 5
# Two moments of a journal closer than this are no measurement.
_LEAST_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a restore moves: records to load with the bytes of their keys and values into so many partitions, offsets of topics that are replaced and
    saved first, and input records from the committed offsets to the ends.
    """

    records: int
    payload_bytes: int
    partitions: int
    replaced: int
    to_catch_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A restore that was: what it moved, and the seconds of its steps."""

    sizes: Sizes
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds of each step, from the moment the plan is approved. ``measured`` earlier restores are behind it; with none it is by default rates."""

    seconds: dict[str, float]
    measured: int

    @property
    def total(self) -> float:
        """All steps together."""
        return sum(self.seconds.values())


def by_default(sizes: Sizes) -> dict[str, float]:
    """Seconds of each step by the stated rates."""
    return {
        "save": 3 + (18 + 5e-6 * sizes.replaced if sizes.replaced else 0),
        "create": 1 + 0.045 * sizes.partitions,
        "load": 13 + 0.12 * sizes.partitions + 5.5e-6 * sizes.records + 6e-9 * sizes.payload_bytes,
        "compare": 4,
        "start": 3.5,
        "catch up": 14 + 5e-4 * sizes.to_catch_up,
    }


def estimate(sizes: Sizes, earlier: Sequence[Timed], throttle: Throttle) -> Estimate:
    """How long it will take, by the newest of the ``earlier`` restores, which are in the order of time. A throttle bounds the load from below."""
    newest = earlier[-NEWEST:]
    seconds = {step: plain * _factor(step, newest) for step, plain in by_default(sizes).items()}
    seconds["load"] = max(seconds["load"], *_throttled(sizes, throttle))
    return Estimate(seconds={step: round(value, 1) for step, value in seconds.items()}, measured=len(newest))


def _factor(step: str, earlier: Sequence[Timed]) -> float:
    # The middle one: a restore that was interrupted, or met a busy machine, says little of the next.
    return statistics.median(timed.seconds[step] / by_default(timed.sizes)[step] for timed in earlier) if earlier else 1.0


def _throttled(sizes: Sizes, throttle: Throttle) -> tuple[float, float]:
    records, size = throttle.records_per_second, throttle.bytes_per_second
    return (sizes.records / records if records else 0.0, sizes.payload_bytes / size if size else 0.0)


def seconds_of(journal: Collection[JournalEntry], *, began_at: int) -> dict[str, float] | None:
    """The seconds of each step of a restore by its journal, None unless it recovered with every phase behind the one before it."""
    # That it was opened says its ticket; the first entry is the next phase.
    first = {Phase.OPENED: began_at}
    for entry in journal:
        first.setdefault(entry.phase, entry.at)
    needed = [Phase.OPENED, *(end for _, end in STEPS.values())]
    if any(phase not in first for phase in needed):
        return None
    if any(first[later] < first[earlier] for earlier, later in pairwise(needed)):
        return None
    return {step: max(_LEAST_SECONDS, (first[end] - first[begin]) / 1000) for step, (begin, end) in STEPS.items()}


def duration_text(seconds: float) -> str:
    """As people say it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
