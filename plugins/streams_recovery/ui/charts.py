"""The curves of one application, as images that say their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from streams_recovery.core.status.report import HistoryPoint, RunKind, StatusReport
from streams_recovery.ui import svg
from streams_recovery.ui.words import number, seconds, size

# As many as an image has room for.
_MOST = 200


@dataclass(frozen=True, slots=True)
class Chart:
    """One image with its title. ``image`` is None when nothing was measured yet."""

    title: str
    image: Markup | None


def charts(report: StatusReport) -> tuple[Chart, ...]:
    """In the order of the questions: how savepoints go, what grows, what lags, how long recoveries take."""
    points, objective = report.history[-_MOST:], report.objectives
    savepoints = report.savepoints[-_MOST:]
    drills = [run for run in report.runs if run.kind is RunKind.DRILL and run.ended_at is not None]

    def curve(
        title: str, value: Callable[[HistoryPoint], float | None], say: Callable[[float], str], objective: float | None = None
    ) -> Chart:
        return Chart(title, svg.curve([(point.at, value(point)) for point in points], title=title, say=say, objective=objective))

    return (
        curve("Age of the newest savepoint", lambda point: point.newest_age_seconds, seconds, objective.newest_age_seconds),
        curve("Age of the recovery point", lambda point: point.loss_seconds, seconds, objective.loss_seconds),
        Chart("Savepoint: duration", svg.bars([(one.captured_at, one.seconds) for one in savepoints], title="Duration", say=seconds)),
        Chart("Savepoint: hold", svg.bars([(one.captured_at, one.held_seconds) for one in savepoints], title="Hold", say=seconds)),
        Chart("Savepoint: new bytes", svg.bars([(one.captured_at, one.new_bytes) for one in savepoints], title="New bytes", say=size)),
        curve("Changelog topics", lambda point: point.changelog_bytes, size),
        curve("State", lambda point: point.state_bytes, size),
        curve("Repository", lambda point: point.repository_bytes, size),
        curve("Lag of the inputs", lambda point: point.lag, number),
        Chart(
            "Drills: recovery time",
            svg.bars(
                [(run.began_at, run.rto_seconds) for run in drills],
                title="Recovery time",
                say=seconds,
                objective=objective.recovery_seconds,
            ),
        ),
        Chart(
            "Drills: age of what came back",
            svg.bars(
                [(run.began_at, run.rpo_seconds) for run in drills],
                title="Age of what came back",
                say=seconds,
                objective=objective.newest_age_seconds,
            ),
        ),
    )
