"""Requests to process an interval again, and the history: one entry for each interval and run, also for failed ones. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Annotated, Final

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.forms import CONFIRM, FieldKind, Form, FormField, reason_field
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.interval import Interval, IntervalSlice
from streams_recovery.core.sandbox.drill import SandboxEntry
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.core.words import milliseconds, parse_moment


class IntervalBase(enum.StrEnum):
    """The state at the start of an interval: ``none``, or that of the newest exact ``savepoint`` that had read nothing of the interval."""

    NONE = "none"
    SAVEPOINT = "savepoint"


_DURATION: Final = r"|P(\d{1,5}D)?(T(\d{1,6}H)?(\d{1,8}M)?(\d{1,9}S)?)?"


def _length(name: str, title: str, help_text: str, option_help: str) -> FormField:
    """A length of time, such as PT1H."""
    return FormField(name=name, title=title, help=f"{help_text} Empty: as configured.", option_help=option_help, pattern=_DURATION)


BEGIN: Final = FormField(
    name="from",
    title="From",
    kind=FieldKind.MOMENT,
    help="With its time zone. Not in a backfill, which has its own.",
    option_help="The interval's start, with its time zone, such as 2026-11-21T12:00:00Z.",
)
END: Final = replace(BEGIN, name="to", title="To, not included", option_help="Its end, which is not part of it.")
LATENESS: Final = _length(
    "lateness",
    "Lateness",
    "How much later than the input's end a record may have come before the rest of a log is left out.",
    "How much later a record may have come, such as PT1H; default as configured.",
)
LEAVE_LATE: Final = FormField(
    name="leave_late",
    title="Leave out later records",
    kind=FieldKind.SWITCH,
    help="Records of the interval that came later than that are left out; else the interval is refused.",
    option_help="Leave out records of the interval that came later than that, instead of refusing the interval.",
)
OVERLAP: Final = _length(
    "overlap",
    "Overlap",
    "Input before the interval that fills windows and joins; its results are not the interval's.",
    "Input before the interval that fills windows and joins.",
)
BEYOND: Final = _length(
    "beyond",
    "Beyond",
    "Input behind the interval that closes windows; its results are not the interval's.",
    "Input behind it that closes windows.",
)
BASE: Final = FormField(
    name="base",
    title="State to begin from",
    kind=FieldKind.CHOICE,
    option_help="The state to begin from; default as configured.",
    choices={"": "As configured", IntervalBase.NONE.value: "None", IntervalBase.SAVEPOINT.value: "A savepoint before the interval"},
)
PUBLISH: Final = FormField(
    name="publish",
    title="Publish results",
    kind=FieldKind.CHOICE,
    option_help="Leave results in topics of their own, or put them into the outputs.",
    default=PublishPolicy.SIDE_BY_SIDE.value,
    choices={
        PublishPolicy.SIDE_BY_SIDE.value: "Side by side: in topics of the interval's own",
        PublishPolicy.REPLACE.value: "Replace: into the outputs",
    },
)
TOMBSTONES: Final = FormField(
    name="tombstones",
    title="Delete keys whose result did not come again",
    kind=FieldKind.SWITCH,
    help="Only with replace.",
    option_help="With replace: delete keys whose result did not come again.",
)
REASON: Final = reason_field("the entry")


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
    """A request as a person writes it. Empty fields are as configured. The interval itself, from ``begin`` to ``end``, a backfill has of its own."""

    FORM = Form()
    begin: Annotated[str, BEGIN] = ""
    end: Annotated[str, END] = ""
    lateness: Annotated[str, LATENESS] = ""
    leave_late: Annotated[bool, LEAVE_LATE] = False
    overlap: Annotated[str, OVERLAP] = ""
    beyond: Annotated[str, BEYOND] = ""
    base: Annotated[str, BASE] = ""
    publish: Annotated[PublishPolicy, PUBLISH] = PublishPolicy.SIDE_BY_SIDE
    tombstones: Annotated[bool, TOMBSTONES] = False
    confirm: Annotated[str, replace(CONFIRM, help="Only with replace: type the application id.")] = ""
    reason: Annotated[str, REASON] = ""


def reprocess_request(requested: ReprocessOptions, interval: Interval, application_id: str, tables: tuple[str, ...]) -> ReprocessRequest:
    """The request that ``requested`` means, after its empty texts were filled in from the configuration. Raises ``ConfigInvalid`` for an invalid
    duration, and ``Refused`` if outputs are to be written and the application's id was not typed.
    """
    if requested.publish is PublishPolicy.REPLACE and requested.confirm != application_id:
        raise Refused(
            f"results are put into the outputs of {application_id} only when its id is typed to confirm it, not {requested.confirm!r}",
            next_step="nothing was changed; type it exactly, or leave the results side by side",
            application_id=application_id,
            confirm=requested.confirm,
        )
    if requested.tombstones and requested.publish is PublishPolicy.SIDE_BY_SIDE:
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
        publish=requested.publish,
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
class ReprocessEntry(SandboxEntry):
    """One run of an interval. ``records`` counts its own input records; with 0 nothing was started, and ``late`` are more of them that came behind the end of
    their log and were left out.
    """

    reason: str
    start: int
    end: int
    base: IntervalBase
    at: int
    records: int | None
    published: PublishReport | None
    late: int = 0

    @property
    def took_nothing(self) -> bool:
        """True when it has input, and all of that came too late to be taken."""
        return self.records == 0 and self.late > 0

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        if self.succeeded:
            late = f", {self.late:,} late records left out" if self.late else ""
            return ("published" if self.published else "no input: 0 records, nothing was started") + late
        if self.took_nothing:
            return f"took nothing: {self.late:,} late records left out, and it has no other ones"
        return self.failed_text()


def succeeded(records: int | None, reached: Phase | None, published: PublishReport | None, left: tuple[str, ...], *, late: int = 0) -> bool:
    """True if the interval has no input, or was processed, published and removed. One of which only ``late`` records are there that were left out has not."""
    if left or records is None or (records == 0 and late):
        return False
    return records == 0 if reached is None else reached is Phase.CLOSED and published is not None
