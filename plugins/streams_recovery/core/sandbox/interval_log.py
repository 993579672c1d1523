"""Requests to process an interval again, and the history: one entry for each interval and run, also for failed ones. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.interval import Interval, IntervalSlice
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.core.timestamps import parse_moment


class IntervalBase(enum.StrEnum):
    """The state at the start of an interval: ``none``, or that of the newest exact ``savepoint`` that had read nothing of the interval."""

    NONE = "none"
    SAVEPOINT = "savepoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprocessRequest:
    """One interval to process again. ``tombstones``: delete keys from replaced outputs if their result of the interval did not come again. Without it
    such keys stop the publishing.
    """

    slice: IntervalSlice
    base: IntervalBase
    publish: PublishPolicy
    tombstones: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprocessOptions:
    """A request as a person writes it. An empty text means: as configured."""

    lateness: str = ""
    overlap: str = ""
    beyond: str = ""
    base: str = ""
    leave_late: bool = False
    publish: str = PublishPolicy.SIDE_BY_SIDE
    tombstones: bool = False
    confirm: str = ""
    reason: str = ""


def reprocess_request(requested: ReprocessOptions, interval: Interval, application_id: str, tables: tuple[str, ...]) -> ReprocessRequest:
    """The request that ``requested`` means, after its empty texts were filled in from the configuration. Raises ``ConfigInvalid`` for an invalid
    duration, and ``Refused`` if outputs are to be written and the application's id was not typed.
    """
    publish = PublishPolicy(requested.publish)
    if publish is PublishPolicy.REPLACE and requested.confirm != application_id:
        raise Refused(
            f"results are put into the outputs of {application_id} only when its id is typed to confirm it, not {requested.confirm!r}",
            next_step="nothing was changed; type it exactly, or leave the results side by side",
            application_id=application_id,
            confirm=requested.confirm,
        )
    if requested.tombstones and publish is PublishPolicy.SIDE_BY_SIDE:
        raise ConfigInvalid("tombstones belong to publish replace", next_step="leave them out, or replace")
    lengths = {"lateness": requested.lateness, "overlap": requested.overlap, "beyond": requested.beyond}
    return ReprocessRequest(
        slice=IntervalSlice(
            interval=interval,
            tables=tables,
            leave_late=requested.leave_late,
            **{name: milliseconds(text) for name, text in lengths.items()},
        ),
        base=IntervalBase(requested.base),
        publish=publish,
        tombstones=requested.tombstones,
        reason=requested.reason,
    )


def written_interval(begin: str, end: str) -> Interval:
    """The interval between two times that a person wrote, with time zones. Raises ``ConfigInvalid``."""
    return Interval(start=parse_moment(begin), end=parse_moment(end))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReport:
    """One output of an interval. ``results`` is the number of its results in ``topic``, the interval's own topic; ``outside`` counts results of input
    around the interval. In the application's output, ``written`` results and ``tombstones`` were written, ``same`` were already there, and
    ``superseded`` already had a later result.
    """

    output: str
    topic: str
    results: int
    outside: int
    written: int = 0
    tombstones: int = 0
    same: int = 0
    superseded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """The published results."""

    how: PublishPolicy
    outputs: tuple[OutputReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprocessEntry:
    """One run of an interval. ``records`` counts its own input records; with 0 nothing was started, and ``late`` are more of
    them that came behind the end of their log and were left out. ``reached`` is the last phase of its restore,
    None if none was begun. ``left`` names objects that could not be removed.
    """

    run: str
    requested_by: str
    reason: str
    start: int
    end: int
    base: IntervalBase
    at: int
    restore_id: str | None
    savepoint_id: str | None
    records: int | None
    reached: Phase | None
    published: PublishReport | None
    left: tuple[str, ...]
    succeeded: bool
    late: int = 0

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        if self.succeeded:
            late = f", {self.late:,} late records left out" if self.late else ""
            return ("published" if self.published else "no input: 0 records, nothing was started") + late
        got = "before it began" if self.reached is None else f"after {self.reached}"
        return f"failed {got}{', something is left' if self.left else ''}"


def succeeded(records: int | None, reached: Phase | None, published: PublishReport | None, left: tuple[str, ...]) -> bool:
    """True if the interval has no input, or was processed, published and removed."""
    if left or records is None:
        return False
    return records == 0 if reached is None else reached is Phase.CLOSED and published is not None
