"""The figures of the benchmark: medians, ratios, slopes, and the tables that show them."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BACKUP, RESTORE = "backup", "restore"
LIMIT, ZSTD, RIVAL = "librdkafka", "zstd-3", "rival"
MB: Final = 1_000_000
NONE: Final = "-"
RUNS_HEAD: Final = (
    *("case", "records", "by", "whole, s", "started, s", "inside, s", "read back, s"),
    *("records/s", "CPU µs/record", "worker, MiB", "stored, MB"),
    *("inside to librdkafka", "inside to zstd-3", "inside to rival", "whole to rival"),
)
SLOPES_HEAD: Final = (
    "case",
    "what",
    "by",
    "inside, s a million",
    "whole, s a million",
    "CPU µs/record",
    "of no records, s",
    "to librdkafka",
    "to rival",
)
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. ``whole`` is what somebody waits for, Python's start included; ``inside`` what the job says of itself, ``read_back`` the part of it
    in which the loaded records were read again. ``cpu`` is of all its processes, the broker's not among them, all in seconds. ``memory`` is
    the peak of one Python worker in MiB, ``stored`` bytes. ``started`` is when the application was started.
    """

    case: str
    records: int
    what: str
    by: str
    whole: float
    cpu: float
    inside: float | None = None
    started: float | None = None
    read_back: float | None = None
    memory: int | None = None
    stored: int | None = None
    broker_cpu: float | None = None

    @property
    def time(self) -> float:
        """Seconds without start and end, where they are known."""
        return self.whole if self.inside is None else self.inside

    @property
    def kind(self) -> tuple[str, int, str, str]:
        """The fields that its rounds have in common."""
        return self.case, self.records, self.what, self.by


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """The growth of a time from the smaller to the larger size: seconds a million records, inside, whole and of processors, and what is left for no records."""

    case: str
    what: str
    by: str
    inside: float
    whole: float
    cpu: float
    rest: float


def medians(runs: Iterable[Run]) -> list[Run]:
    """One run for all rounds of a kind, in the order in which the kinds came: each figure is the median of those that are known."""
    rounds: dict[tuple[str, int, str, str], list[Run]] = {}
    for run in runs:
        rounds.setdefault(run.kind, []).append(run)
    return [_median(same) for same in rounds.values()]


def _median(rounds: Sequence[Run]) -> Run:
    def of(name: str) -> float | None:
        known = [value for run in rounds if (value := getattr(run, name)) is not None]
        return statistics.median(known) if known else None

    def whole_number(name: str) -> int | None:
        found = of(name)
        return None if found is None else round(found)

    first = rounds[0]
    return Run(
        case=first.case,
        records=first.records,
        what=first.what,
        by=first.by,
        whole=of("whole") or 0.0,
        cpu=of("cpu") or 0.0,
        inside=of("inside"),
        started=of("started"),
        read_back=of("read_back"),
        memory=whole_number("memory"),
        stored=whole_number("stored"),
        broker_cpu=of("broker_cpu"),
    )


def slopes(found: Sequence[Run]) -> list[Slope]:
    """Between the smallest and the largest size of each kind; nothing of what was measured at one size only."""
    sizes: dict[tuple[str, str, str], list[Run]] = {}
    for run in found:
        sizes.setdefault((run.case, run.what, run.by), []).append(run)
    result = []
    for (case, what, by), same in sizes.items():
        small, large = min(same, key=lambda run: run.records), max(same, key=lambda run: run.records)
        if small.records == large.records:
            continue
        millions = (large.records - small.records) / 1e6
        whole = (large.whole - small.whole) / millions
        inside, cpu = (large.time - small.time) / millions, (large.cpu - small.cpu) / millions
        rest = small.whole - whole * small.records / 1e6
        result.append(Slope(case=case, what=what, by=by, inside=inside, whole=whole, cpu=cpu, rest=rest))
    return result


def runs_table(found: Sequence[Run], what: str) -> Table:
    """A row for each kind of this direction. Ratios are to the same records."""
    by_kind = {run.kind: run for run in found if run.what == what}

    def row(run: Run) -> tuple[str, ...]:
        limit, zstd, rival = (
            None if run.by == other else by_kind.get((run.case, run.records, what, other)) for other in (LIMIT, ZSTD, RIVAL)
        )
        return (
            *(run.case, f"{run.records:,}", run.by),
            *(_seconds(value) for value in (run.whole, run.started, run.inside, run.read_back)),
            f"{run.records / run.time:,.0f}" if run.time else NONE,
            f"{run.cpu / run.records * 1e6:.2f}",
            NONE if run.memory is None else f"{run.memory:,}",
            NONE if run.stored is None else f"{run.stored / MB:,.1f}",
            *(_ratio(run.time, None if other is None else other.time) for other in (limit, zstd, rival)),
            _ratio(run.whole, None if rival is None else rival.whole),
        )

    return RUNS_HEAD, [row(run) for run in by_kind.values()]


def slopes_table(found: Sequence[Slope]) -> Table:
    """A row for each kind that has two sizes."""
    by_kind = {(slope.case, slope.what, slope.by): slope for slope in found}

    def row(slope: Slope) -> tuple[str, ...]:
        limit, rival = (None if slope.by == other else by_kind.get((slope.case, slope.what, other)) for other in (LIMIT, RIVAL))
        figures = (f"{slope.inside:.2f}", f"{slope.whole:.2f}", f"{slope.cpu:.2f}", f"{slope.rest:.1f}")
        ratios = (_ratio(slope.inside, None if other is None else other.inside) for other in (limit, rival))
        return slope.case, slope.what, slope.by, *figures, *ratios

    return SLOPES_HEAD, [row(slope) for slope in found]


def markdown(table: Table) -> str:
    """The table as a page has it, without columns in which nothing was measured."""
    head, rows = without_empty_columns(table)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def without_empty_columns(table: Table) -> Table:
    """Without the columns that no row has a value in."""
    head, rows = table
    kept = [at for at in range(len(head)) if any(row[at] != NONE for row in rows)]
    return tuple(head[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]


def machine_line(machine: Mapping[str, object]) -> str:
    """The machine that it was measured on, in one line."""
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def core_seconds() -> float:
    """Processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _ratio(value: float, other: float | None) -> str:
    # A time that shrinks with the records is noise: nothing is so many times as slow as that.
    return f"{value / other:.2f}" if other is not None and min(value, other) > 0 else NONE
