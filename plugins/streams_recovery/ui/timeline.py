"""The timeline of one application as SVG: savepoints, what was restored or tried, failures, and the times that nothing covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.status.report import RunSummary, SavepointSummary, StatusReport
from streams_recovery.ui.charts import Scale, drawing, time_label
from streams_recovery.ui.overview import utc

WIDTH, HEIGHT = 1000, 108
LINE, MARKS, FLAGS = 80, 54, 8
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
WINDOWS: Final = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY, "all": None}
# Between savepoints of an application without an objective: this many times the usual distance is a gap.
_USUAL_TIMES: Final = 3
_TICKS: Final = (5 * MINUTE, 10 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY)
_MOST_TICKS: Final = 9
_SEVERAL: Final = 3
# A label that is nearer to the edge would be cut off.
_EDGE: Final = 30
_WORST: Final = (Consistency.EXACT, Consistency.EDITED, Consistency.AHEAD, Consistency.DAMAGED)
_SHAPES: Final = {
    Consistency.EXACT: "M{x} {y}m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    Consistency.AHEAD: "M{x} {y}m0 -6l6 11h-12z",
    Consistency.DAMAGED: "M{x} {y}m-5 -5h10v10h-10z",
    Consistency.EDITED: "M{x} {y}m0 -6l6 6l-6 6l-6 -6z",
}


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment to another."""

    begin: int
    end: int


def shown(report: StatusReport, window: str, now: int) -> Span:
    """The span of the timeline: up to now, back to as far as the window goes, or to the first savepoint."""
    length = WINDOWS.get(window)
    first = min((one.captured_at for one in report.savepoints), default=now - DAY)
    return Span(now - length if length is not None else min(first - HOUR, now - HOUR), now)


def default_window(report: StatusReport, now: int) -> str:
    """The shortest window that has several savepoints."""
    for name, length in WINDOWS.items():
        if length is not None and length > HOUR and sum(one.captured_at >= now - length for one in report.savepoints) >= _SEVERAL:
            return name
    return "all"


def gaps(savepoints: Sequence[SavepointSummary], span: Span, objective_seconds: float | None) -> list[Span]:
    """Times when no exact savepoint was as young as it should be: from that moment to the next one, or to the end."""
    times = sorted(one.captured_at for one in savepoints if one.consistency is Consistency.EXACT)
    if not times:
        return [span]
    allowed = objective_seconds * 1000 if objective_seconds else _usual(times)
    if allowed is None:
        return []
    late = (Span(int(before + allowed), after) for before, after in pairwise([*times, span.end]) if after - before > allowed)
    inside = (Span(max(gap.begin, span.begin), min(gap.end, span.end)) for gap in late)
    return [gap for gap in inside if gap.begin < gap.end]


def _usual(times: Sequence[int]) -> float | None:
    distances = sorted(after - before for before, after in pairwise(times))
    return _USUAL_TIMES * distances[len(distances) // 2] if len(distances) >= _SEVERAL else None


def timeline(report: StatusReport, span: Span, chosen: int) -> Markup:
    """The image. ``chosen`` is where the slider stands."""
    x = Scale(span.begin, span.end, 8, WIDTH - 8)
    inside = [one for one in report.savepoints if span.begin <= one.captured_at <= span.end]
    holes = gaps(report.savepoints, span, report.objectives.newest_age_seconds)
    runs = [run for run in report.runs if span.begin <= run.began_at <= span.end]
    words = f"{len(inside)} savepoints from {utc(span.begin)} to {utc(span.end)} UTC, {len(holes)} times without one that is recent enough"
    parts = [
        *(_gap(hole, x) for hole in holes),
        Markup('<line class="base" x1="0" x2="{}" y1="{y}" y2="{y}"/>').format(WIDTH, y=LINE),
        *_ticks(span, x),
        *_looks(report, span, x),
        *(mark for marks in map(_mark, _one_a_place(inside, x)) for mark in marks),
        *(_flag(run, x(run.began_at)) for run in runs),
        _hand(x(min(max(chosen, span.begin), span.end))),
    ]
    return drawing("timeline", WIDTH, HEIGHT, words, parts)


def _one_a_place(savepoints: Iterable[SavepointSummary], x: Scale) -> Iterator[tuple[float, SavepointSummary]]:
    """At most one savepoint every few units: the pinned one, or the worst."""
    places: dict[int, SavepointSummary] = {}
    for one in savepoints:
        place = round(x(one.captured_at) / 4)
        if place not in places or _weight(one) > _weight(places[place]):
            places[place] = one
    return ((x(one.captured_at), one) for one in places.values())


def _weight(one: SavepointSummary) -> tuple[bool, int, bool]:
    return one.pinned, _WORST.index(one.consistency), not one.expires


def _mark(placed: tuple[float, SavepointSummary]) -> Iterator[Markup]:
    across, one = placed
    kind = f"mark {one.consistency.value}{' hollow' if one.expires and not one.pinned else ''}"
    words = (
        f"{utc(one.captured_at)} UTC, {one.consistency.value}{', pinned' if one.pinned else ''}{', expires soon' if one.expires else ''}"
    )
    if one.pinned:
        yield Markup('<circle class="ring" cx="{:.1f}" cy="{}" r="9"/>').format(across, MARKS)
    shape = _SHAPES[one.consistency].format(x=f"{across:.1f}", y=MARKS)
    yield Markup('<path class="{}" d="{}"><title>{}</title></path>').format(kind, shape, words)


def _gap(hole: Span, x: Scale) -> Markup:
    begin, end = x(hole.begin), x(hole.end)
    return Markup('<rect class="gap" x="{:.1f}" width="{:.1f}" y="26" height="{}"><title>{}</title></rect>').format(
        begin, max(1.0, end - begin), LINE - 26, f"no exact savepoint that is recent enough, {utc(hole.begin)} to {utc(hole.end)} UTC"
    )


def _flag(run: RunSummary, across: float) -> Markup:
    words = f"{run.kind.value}, {utc(run.began_at)} UTC: {run.outcome or 'in progress'}"
    if run.failed:
        return Markup('<path class="failed" d="M{:.1f} {}l8 8m0 -8l-8 8"><title>{}</title></path>').format(
            across - 4, LINE - 4, f"failed {words}"
        )
    return Markup('<path class="flag {}" d="M{:.1f} {}v{}m0 0h12l-4 5l4 5h-12"><title>{}</title></path>').format(
        run.kind.value, across, LINE, FLAGS - LINE, words
    )


def _ticks(span: Span, x: Scale) -> Iterator[Markup]:
    length = span.end - span.begin
    step = next((tick for tick in _TICKS if length / tick <= _MOST_TICKS), _TICKS[-1])
    form = "time" if step < DAY and length <= DAY else "short" if step < DAY else "day"
    at = -(-span.begin // step) * step
    while at < span.end:
        across = x(at)
        yield Markup('<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/>').format(LINE, LINE + 6, x=across)
        if _EDGE < across < WIDTH - _EDGE:
            yield time_label(at, across, HEIGHT - 8, "middle", form)
        at += step


def _looks(report: StatusReport, span: Span, x: Scale) -> Iterator[Markup]:
    """A point for each exact cut of the archive, where several would be one point only the last of them."""
    looks = () if report.archive is None else report.archive.looks or ()
    places = {round(x(at) / 2): at for at in looks if span.begin <= at <= span.end}
    for at in places.values():
        words = f"state of {utc(at)} UTC, in the archive"
        yield Markup('<circle class="look" cx="{:.1f}" cy="{}" r="1.5"><title>{}</title></circle>').format(x(at), LINE - 6, words)


def _hand(across: float) -> Markup:
    return Markup('<line id="hand" class="hand" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{}"/>').format(LINE + 6, x=across)
