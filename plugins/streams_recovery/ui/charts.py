"""The curves of one application: values over time as SVG images that say their numbers. Colours come from the style sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from streams_recovery.core.status.report import HistoryPoint, RunKind, StatusReport
from streams_recovery.ui.overview import number, seconds, size, utc

WIDTH, HEIGHT = 320, 96
_LEFT, _RIGHT, _TOP, _BOTTOM = 4, 4, 16, 16
# Values in an image: as many as it has room for.
_MOST = 200

Points = Sequence[tuple[int, float | None]]


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to coordinates, straight."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        """The place of a value. In the middle when there is only one."""
        if self.high == self.low:
            return (self.first + self.last) / 2
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)


def curve(points: Points, *, title: str, say: Callable[[float], str], objective: float | None = None) -> Markup | None:
    """Values over time, broken where nothing was measured, with the largest and the newest value and a line for the objective. None without any value."""
    known = [(at, value) for at, value in points if value is not None]
    if not known:
        return None
    top = max([value for _, value in known] + ([objective] if objective is not None else []))
    x = Scale(known[0][0], known[-1][0], _LEFT, WIDTH - _RIGHT)
    y = Scale(0.0, top or 1.0, HEIGHT - _BOTTOM, _TOP)
    parts = [*_lines(points, x, y), *_line_at(objective, y)]
    last_at, last = known[-1]
    parts.append(Markup('<circle class="last" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(x(last_at), y(last)))
    parts.append(Markup('<text class="axis" x="{}" y="11">{}</text>').format(_LEFT, say(top)))
    parts.append(_time(known[0][0], _LEFT, "start"))
    parts.append(_time(last_at, WIDTH - _RIGHT, "end"))
    words = f"{title}: now {say(last)}, at most {say(max(value for _, value in known))}"
    words += f", objective {say(objective)}" if objective is not None else ""
    return drawing("curve", WIDTH, HEIGHT, words, parts)


def bars(points: Points, *, title: str, say: Callable[[float], str], objective: float | None = None) -> Markup | None:
    """Values of single events, a bar each, with a line for the objective. None without any value."""
    known = [(at, value) for at, value in points if value is not None]
    if not known:
        return None
    top = max([value for _, value in known] + ([objective] if objective is not None else []))
    width = max(1.0, min(14.0, (WIDTH - _LEFT - _RIGHT) / len(known) * 0.7))
    x = Scale(0, max(1, len(known) - 1), _LEFT + width / 2, WIDTH - _RIGHT - width / 2)
    y = Scale(0.0, top or 1.0, HEIGHT - _BOTTOM, _TOP)
    path = "".join(f"M{x(number):.1f} {HEIGHT - _BOTTOM}V{y(value):.1f}" for number, (_, value) in enumerate(known))
    parts = [Markup('<path class="bars" d="{}" stroke-width="{:.1f}"/>').format(path, width), *_line_at(objective, y)]
    parts.append(Markup('<text class="axis" x="{}" y="11">{}</text>').format(_LEFT, say(top)))
    parts.append(_time(known[0][0], _LEFT, "start"))
    if len(known) > 1:
        parts.append(_time(known[-1][0], WIDTH - _RIGHT, "end"))
    words = f"{title}: the last of {len(known)} is {say(known[-1][1])}, the largest {say(max(value for _, value in known))}"
    return drawing("curve", WIDTH, HEIGHT, words, parts)


def _line_at(objective: float | None, y: Scale) -> Iterable[Markup]:
    if objective is not None:
        line = Markup('<line class="objective" x1="{}" x2="{}" y1="{y}" y2="{y}"/>')
        yield line.format(_LEFT, WIDTH - _RIGHT, y=f"{y(objective):.1f}")


def _lines(points: Points, x: Scale, y: Scale) -> Iterable[Markup]:
    for measured, run in groupby(points, key=lambda point: point[1] is not None):
        if not measured:
            continue
        several = [(x(at), y(value)) for at, value in run if value is not None]
        path = "L".join(f"{across:.1f} {down:.1f}" for across, down in several)
        # A single point has no length, and is seen by its round end.
        yield Markup('<path class="line" d="M{}{}"/>').format(path, "h0.01" if len(several) == 1 else "")


def _time(at: int, x: float, anchor: str) -> Markup:
    return time_label(at, x, HEIGHT - 3, anchor)


def time_label(at: int, x: float, y: float, anchor: str, form: str = "short") -> Markup:
    """A moment that the page's script says in the reader's zone."""
    return Markup('<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="{}" data-at="{}" data-form="{}">{}</text>').format(
        x, y, anchor, at, form, utc(at, {"time": "%H:%M", "day": "%d %b"}.get(form, "%d %b %H:%M"))
    )


def drawing(kind: str, width: int, height: int, words: str, parts: Iterable[Markup]) -> Markup:
    """An image that says in words what it shows."""
    head = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return Markup("").join([head.format(kind, width, height, words), *parts, Markup("</svg>")])


@dataclass(frozen=True, slots=True)
class Chart:
    """One image with its title. ``image`` is None when nothing was measured yet."""

    title: str
    image: Markup | None


def _present(report: StatusReport) -> HistoryPoint:
    """The values that the status has anew since the monitor last looked: the page says them beside the charts."""
    return HistoryPoint(
        at=report.taken_at,
        changelog_bytes=None,
        state_bytes=None,
        repository_bytes=report.repository_bytes,
        lag=None,
        newest_age_seconds=report.newest_age_seconds,
        loss_seconds=report.loss_seconds,
    )


def charts(report: StatusReport) -> tuple[Chart, ...]:
    """In the order of the questions: how savepoints go, what grows, what lags, how long recoveries take."""
    points, objective = (*report.history, _present(report))[-_MOST:], report.objectives
    savepoints = report.savepoints[-_MOST:]
    drills = [run for run in report.runs if run.kind is RunKind.DRILL and run.ended_at is not None]

    def over_time(
        title: str, value: Callable[[HistoryPoint], float | None], say: Callable[[float], str], objective: float | None = None
    ) -> Chart:
        return Chart(title, curve([(point.at, value(point)) for point in points], title=title, say=say, objective=objective))

    return (
        over_time("Age of the newest savepoint", lambda point: point.newest_age_seconds, seconds, objective.newest_age_seconds),
        over_time("Age of the recovery point", lambda point: point.loss_seconds, seconds, objective.loss_seconds),
        Chart("Savepoint: duration", bars([(one.captured_at, one.seconds) for one in savepoints], title="Duration", say=seconds)),
        Chart("Savepoint: hold", bars([(one.captured_at, one.held_seconds) for one in savepoints], title="Hold", say=seconds)),
        Chart("Savepoint: new bytes", bars([(one.captured_at, one.new_bytes) for one in savepoints], title="New bytes", say=size)),
        over_time("Changelog topics", lambda point: point.changelog_bytes, size),
        over_time("State", lambda point: point.state_bytes, size),
        over_time("Repository", lambda point: point.repository_bytes, size),
        over_time("Lag of the inputs", lambda point: point.lag, number),
        Chart(
            "Drills: recovery time",
            bars(
                [(run.began_at, run.rto_seconds) for run in drills],
                title="Recovery time",
                say=seconds,
                objective=objective.recovery_seconds,
            ),
        ),
        Chart(
            "Drills: age of what came back",
            bars(
                [(run.began_at, run.rpo_seconds) for run in drills],
                title="Age of what came back",
                say=seconds,
                objective=objective.newest_age_seconds,
            ),
        ),
    )
