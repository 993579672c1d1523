"""What is asked of reprocessing, and what came of it: one entry for each interval and run, whatever became of it. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.sandbox.interval import Interval, IntervalSlice
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.core.timestamps import parse_moment


class Base(enum.StrEnum):
    """The state that an interval begins from: ``none``, or that of the newest exact ``savepoint`` that had read nothing of it."""

    NONE = "none"
    SAVEPOINT = "savepoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprocessRequest:
    """One interval to process again. With ``tombstones``, keys whose result of the interval did not come again are deleted from replaced outputs; else
    they stop the publishing.
    """

    slice: IntervalSlice
    base: Base
    publish: PublishPolicy
    tombstones: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprocessOptions:
    """A request as it is written. An empty text leaves it to the configuration."""

    lateness: str = ""
    overlap: str = ""
    beyond: str = ""
    base: str = ""
    publish: str = PublishPolicy.SIDE_BY_SIDE
    tombstones: bool = False
    confirm: str = ""
    reason: str = ""


def reprocess_request(requested: ReprocessOptions, interval: Interval, application_id: str, tables: tuple[str, ...]) -> ReprocessRequest:
    """What ``asked`` means, once its empty texts were filled in. Raises ``ConfigInvalid`` for what is no duration, and ``Refused`` unless the id of the
    application was typed whose outputs are to be written.
    """
    publish = PublishPolicy(requested.publish)
    if publish is PublishPolicy.REPLACE and requested.confirm != application_id:
        raise Refused(
            f"results are put into the outputs of {application_id} only when its id is typed to confirm it, not {requested.confirm!r}",
            next_step="nothing was changed; type it exactly, or leave the results side by side",
        )
    if requested.tombstones and publish is PublishPolicy.SIDE_BY_SIDE:
        raise ConfigInvalid("tombstones belong to publish replace", next_step="leave them out, or replace")
    lengths = {"lateness": requested.lateness, "overlap": requested.overlap, "beyond": requested.beyond}
    return ReprocessRequest(
        slice=IntervalSlice(interval=interval, tables=tables, **{name: milliseconds(text) for name, text in lengths.items()}),
        base=Base(requested.base),
        publish=publish,
        tombstones=requested.tombstones,
        reason=requested.reason,
    )


def written_interval(begin: str, end: str) -> Interval:
    """The interval between two moments as people write them, with their time zones. Raises ``ConfigInvalid``."""
    return Interval(start=parse_moment(begin), end=parse_moment(end))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReport:
    """One output of an interval. ``results`` are in ``topic``, the interval's own; ``outside`` more there are of input around it. In the application's
    output ``written`` of them were put, ``tombstones`` besides; ``same`` were there, ``superseded`` ones have a later result.
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
    """What was published."""

    how: PublishPolicy
    outputs: tuple[OutputReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprocessEntry:
    """One interval, once. ``records`` are its own input records; with none nothing was started. ``reached`` is the last phase of its restore, None when none
    was begun. ``left`` names what could not be removed.
    """

    run: str
    requested_by: str
    reason: str
    start: int
    end: int
    base: Base
    at: int
    restore_id: str | None
    savepoint_id: str | None
    records: int | None
    reached: Phase | None
    published: PublishReport | None
    left: tuple[str, ...]
    succeeded: bool

    @property
    def outcome(self) -> str:
        """In a few words."""
        if self.succeeded:
            return "published" if self.published else "no input: 0 records, nothing was started"
        got = "before it began" if self.reached is None else f"after {self.reached}"
        return f"failed {got}{', something is left' if self.left else ''}"


def succeeded(records: int | None, reached: Phase | None, published: PublishReport | None, left: tuple[str, ...]) -> bool:
    """True for an interval that has no input, and for one that was processed, published and removed."""
    if left or records is None:
        return False
    return records == 0 if reached is None else reached is Phase.CLOSED and published is not None
