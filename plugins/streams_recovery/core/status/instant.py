"""Estimate of a restore to a chosen instant, by the status of the application alone: neither broker nor repository is asked.

Two ways lead there. **moment**: the state of a savepoint and the archived input behind it, up to the instant (``streams_restore_pitr``). **savepoint**: the
state of a savepoint; the application then reads on in its inputs as they are (``streams_restore_full``). The plan that a run shows before it waits for an
approval counts: it looks at files, topics and rights.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.kafka_types import Consistency, Profile, TopicRole
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS
from streams_recovery.core.status.look import InputAmount, Positions
from streams_recovery.core.status.report import RunKind, SavepointSummary, StatusReport
from streams_recovery.core.words import moment as moment_text

# Seconds a record of input takes, as in ``core.restore.estimate``.
_SECONDS_A_RECORD: Final = 5e-4


class Way(enum.StrEnum):
    """Way to reach the instant."""

    MOMENT = "moment"
    SAVEPOINT = "savepoint"
    REBUILD = "rebuild"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeNeeded:
    """Seconds, about. ``measured`` restores are behind it, 0: default rates. ``without_input`` is true when the time to process input again is not in it."""

    seconds: float
    measured: int
    without_input: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """The estimate for ``moment``. ``reached`` is the moment whose state comes back. ``kept`` is up to when input behind it is archived, at most ``moment``;
    None if none is. Input behind both up to ``moment`` is ``lost`` unless the cluster still has it. ``replayed`` is archived input that is processed on the
    way. ``again`` is input whose outputs are written a second time once the application runs. ``replaced`` topics are deleted and made again in a restore in
    place.
    """

    moment: int
    way: Way
    base: SavepointSummary | None
    reached: int | None
    kept: int | None
    replayed: tuple[InputAmount, ...]
    lost: tuple[InputAmount, ...]
    again: tuple[InputAmount, ...]
    replaced: tuple[str, ...]
    records: int
    bytes: int | None
    needed: TimeNeeded | None
    blockers: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def lost_seconds(self) -> float | None:
        """Seconds from the moment that comes back, archived input included, to the moment that was asked for; None when nothing comes back."""
        return None if self.reached is None else (self.moment - max(self.reached, self.kept or 0)) / 1000


def instant(report: StatusReport, moment: int, *, now: int | None = None) -> Instant:
    """The estimate for a moment in milliseconds. ``now`` is the time where it is asked for, that of the status when nothing is said."""
    base, way, reached = _way(report, moment)
    inputs = tuple(topic.name for topic in report.topics if topic.role is TopicRole.INPUT)
    end = max(report.taken_at, moment)
    kept = _kept(report, base, reached, moment)
    upto = reached if kept is None else kept
    between = Positions(report.savepoints).between
    replayed = between(inputs, base.captured_at, moment) if way is Way.MOMENT and base else ()
    again = between(inputs, base.captured_at, end) if way in (Way.SAVEPOINT, Way.REBUILD) and base else ()
    return Instant(
        moment=moment,
        way=way,
        base=base,
        reached=reached,
        kept=kept,
        replayed=replayed,
        lost=between(inputs, upto, moment) if base and upto is not None and upto < moment else (),
        again=again,
        replaced=tuple(topic.name for topic in report.topics if topic.role.internal) if base else (),
        records=base.records if base else 0,
        bytes=_bytes(report, base),
        needed=_needed(report, base, replayed or again),
        blockers=tuple(_blockers(report, base, moment, report.taken_at if now is None else now)),
        warnings=tuple(_warnings(report, base, way, moment)),
    )


def _kept(report: StatusReport, base: SavepointSummary | None, reached: int | None, moment: int) -> int | None:
    """The archive goes on behind the newest exact savepoint, and behind no other."""
    point, newest = report.recovery_point, report.newest_exact
    if base is None or newest is None or base.savepoint_id != newest.savepoint_id or point is None or reached is None or point <= reached:
        return None
    return min(point, moment)


def _base_at(savepoints: Sequence[SavepointSummary], moment: int) -> SavepointSummary | None:
    """The newest savepoint whose state may be brought back for this moment: exact, and full where there is a full one; None when there is none."""
    exact = [one for one in savepoints if one.captured_at <= moment and one.consistency is Consistency.EXACT and not one.rescaled]
    full = [one for one in exact if one.profile is Profile.FULL]
    return max(full or exact, key=lambda one: (one.captured_at, one.savepoint_id), default=None)


def _base_of_moment(savepoints: Sequence[SavepointSummary], moment: int, now: int) -> SavepointSummary | None:
    """The newest savepoint from which a restore reaches this moment itself, by what its plan goes by; None when none is known to."""
    # A restore believes none of a time that has not come.
    known = [(one, one.moments) for one in savepoints if one.captured_at <= now + CLOCK_DIFFERENCE_MS]
    until = {found.history: one.captured_at for one, found in sorted(known, key=lambda found: found[0].captured_at) if found is not None}
    exact = [
        (one, found) for one, found in known if (one.consistency, one.profile, one.rescaled) == (Consistency.EXACT, Profile.FULL, None)
    ]
    fit = [
        one
        for one, found in exact
        if found is not None
        and found.history is not None
        and found.since is not None
        and max(found.since, one.captured_at) <= moment <= until[found.history]
    ]
    return max(fit, key=lambda one: (one.captured_at, one.savepoint_id), default=None)


def _way(report: StatusReport, moment: int) -> tuple[SavepointSummary | None, Way, int | None]:
    base = _base_at(report.savepoints, moment)
    if base is None:
        return None, Way.NONE, None
    if base.profile is Profile.MINIMAL:
        return base, Way.REBUILD, base.captured_at
    if base.captured_at < moment and (before := _base_of_moment(report.savepoints, moment, report.taken_at)) is not None:
        return before, Way.MOMENT, moment
    return base, Way.SAVEPOINT, base.captured_at


def _skipped(savepoints: Sequence[SavepointSummary], base: SavepointSummary | None, moment: int) -> int:
    after = base.captured_at if base else -1
    return sum(after < one.captured_at <= moment and one.consistency is not Consistency.EXACT for one in savepoints)


def _bytes(report: StatusReport, base: SavepointSummary | None) -> int | None:
    """Size of the state when the savepoint was taken, by the history: the summary of a savepoint does not have it."""
    sizes = [point.state_bytes for point in report.history if base and point.state_bytes is not None and point.at <= base.captured_at]
    return sizes[-1] if sizes else None


def _needed(report: StatusReport, base: SavepointSummary | None, input_read: tuple[InputAmount, ...]) -> TimeNeeded | None:
    estimate, newest = report.estimate, report.newest_exact
    if base is None or estimate is None or newest is None or base.profile is not Profile.FULL:
        return None
    load = estimate.seconds.get("load", 0.0) * (base.records / newest.records if newest.records else 1.0)
    rest = sum(seconds for step, seconds in estimate.seconds.items() if step not in ("load", "catch up"))
    catch_up = estimate.seconds.get("catch up", 0.0)
    if base.savepoint_id == newest.savepoint_id:
        return TimeNeeded(seconds=load + rest + catch_up, measured=estimate.measured, without_input=False)
    known = [amount.records for amount in input_read if amount.records is not None]
    without = not input_read or len(known) < len(input_read)
    return TimeNeeded(
        seconds=load + rest + (0.0 if without else max(catch_up, sum(known) * _SECONDS_A_RECORD)),
        measured=estimate.measured,
        without_input=without,
    )


def _blockers(report: StatusReport, base: SavepointSummary | None, moment: int, now: int) -> Iterator[str]:
    if moment > now + CLOCK_DIFFERENCE_MS:
        yield "This instant has not come yet."
    if base is None:
        if not report.savepoints:
            yield "There is no savepoint."
        elif moment < min(one.captured_at for one in report.savepoints):
            yield "All savepoints are later than this instant."
            older = report.savepoint_count - len(report.savepoints)
            if older > 0:
                yield f"{older} older savepoints are not in this status. `streams-recovery savepoints list` has all of them."
        else:
            yield "No savepoint up to this instant is exact. Others are restored by their id, with allow_ahead or allow_damaged."
    for run in report.runs:
        if run.running and run.kind is RunKind.RESTORE:
            yield f"A restore is running: {run.run}. The lock of the application keeps a second one out."


def _about_way(base: SavepointSummary, way: Way, moment: int) -> Iterator[str]:
    if way is Way.SAVEPOINT and base.captured_at < moment:
        yield "No input is archived from a savepoint up to this instant without a break, so the state of the savepoint itself comes back."
    if way is Way.REBUILD:
        yield "The savepoint has no state, only offsets and settings. State is built again from the input."


def _warnings(report: StatusReport, base: SavepointSummary | None, way: Way, moment: int) -> Iterator[str]:
    if base is None:
        return
    skipped = _skipped(report.savepoints, base, moment)
    if skipped == 1:
        yield "1 newer savepoint is not exact and is passed over."
    elif skipped:
        yield f"{skipped} newer savepoints are not exact and are passed over."
    yield from _about_way(base, way, moment)
    if base.expires:
        yield "The savepoint expires with the next run of the retention. Pin it to keep it."
    if base.leaves_at is not None:
        yield f"The pin of the savepoint was released: from {moment_text(base.leaves_at)} on only the rules of retention keep it. Pin it to keep it."
    if not base.survives_cluster_loss:
        yield "The savepoint alone is not enough when the whole cluster is lost."
    for name in ("repository", "cluster"):
        part = report.parts.get(name)
        if part is not None and part.problem is not None:
            yield f"The {name} could not be looked at: what is said here may be older than the status."
    yield from (found.text for found in report.findings if found.severity is Severity.CRITICAL)
