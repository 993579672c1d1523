"""Comparing the outputs of two runs of an application over the same input: the request, the work and the result of the Spark job, and the report. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Final

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.forms import FieldKind, Form, FormField
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.keys import KeyCounts, ReadBy
from streams_recovery.core.outputs.values import RecordForm, Tolerance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.inspection import Findings, FoundRows, Inspection, Outcome, bounded
from streams_recovery.core.words import first_names, moment, parse_moment, span

SAMPLE: Final = 20
COLUMNS: Final = ("output", "partition", "key", "window", "what", "real", "other")


class Against(enum.StrEnum):
    """The outputs that are compared with the real ones: those of a ``clone``, or of an ``interval`` that was processed again."""

    CLONE = "clone"
    INTERVAL = "interval"


BEGIN: Final = FormField(
    name="interval",
    title="Start of the interval",
    kind=FieldKind.MOMENT,
    help="Empty: of a clone its own outputs, of any other application the newest interval whose results stand side by side.",
    option_help="Start of the interval, with its time zone; default: the outputs of a clone, else the newest interval.",
)
TOLERANCE: Final = FormField(
    name="tolerance",
    title="Tolerance",
    pattern=r"|\d+(\.\d+)?([eE]-?\d+)?",
    help="By how much two numbers may differ, such as 0.001. Empty: not at all.",
    option_help="By how much two numbers may differ, such as 0.001.",
)
RELATIVE: Final = FormField(
    name="relative_tolerance",
    title="Relative tolerance",
    pattern=TOLERANCE.pattern,
    help="By which part of the larger one two numbers may differ, such as 1e-9. Empty: not at all.",
    option_help="By which part of the larger one two numbers may differ, such as 1e-9.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsOptions:
    """A request as a person writes it. Empty fields are left out."""

    FORM = Form()
    interval: Annotated[str, BEGIN] = ""
    tolerance: Annotated[str, TOLERANCE] = ""
    relative_tolerance: Annotated[str, RELATIVE] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsRequest:
    """``interval`` is the start of one, in milliseconds. Without it a clone is compared, and of any other application the newest interval."""

    interval: int | None
    tolerance: Tolerance
    run_id: str
    requested_by: str


def outputs_request(asked: OutputsOptions, *, run_id: str, requested_by: str) -> OutputsRequest:
    """The request that ``asked`` means. Raises ``ConfigInvalid`` for a tolerance that is none."""
    begin = parse_moment(asked.interval) if asked.interval else None
    relative = _number(asked.relative_tolerance)
    if relative >= 1:
        raise ConfigInvalid(
            f"with a relative tolerance of {relative:g} any two numbers of one sign are the same",
            next_step="write a part of the number, such as 0.01 for one percent",
        )
    return OutputsRequest(
        interval=begin,
        tolerance=Tolerance(absolute=_number(asked.tolerance), relative=relative),
        run_id=run_id,
        requested_by=requested_by,
    )


def _number(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise ConfigInvalid(f"{text[:40]!r} is no number", next_step="write a tolerance such as 0.001") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRange:
    """Offsets ``[start, end)`` of a log. Records below ``settled`` are settled, see ``outputs/keys.py``."""

    tp: TopicPartition
    start: int
    settled: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPair:
    """A real output, and the topic that is compared with it. ``by_partition``: a key has to be in the same partition of both. Records with a timestamp outside
    ``[since, until)`` are not compared; with ``supersedes`` a later record of a key says that its result of the interval may be gone.
    """

    output: str
    other: str
    way: ReadBy
    form: RecordForm
    here: tuple[OutputRange, ...]
    there: tuple[OutputRange, ...]
    by_partition: bool
    since: int | None = None
    until: int | None = None
    supersedes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsSpec:
    """Work for the job. Unless ``shown``, it returns numbers only."""

    application_id: str
    pairs: tuple[OutputPair, ...]
    shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingKey:
    """A key that is not equal, as text, each cell cut to a length. ``partition`` is None if a key may be in any."""

    partition: int | None
    key: str
    window: str
    what: str
    here: str
    there: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCompared:
    """Result for a pair: exact numbers, and the first keys that are not equal."""

    counts: KeyCounts
    differing: tuple[DifferingKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsResult:
    """One for each pair of the specification, in its order."""

    pairs: tuple[PairCompared, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsTicket:
    """A comparison under way. ``other`` is the clone's application id or the interval's name, and ``savepoint_id`` what the clone began from, empty for an
    interval. ``notes`` say from where to where is compared, and what that proves.
    """

    request: OutputsRequest
    against: Against
    other: str
    savepoint_id: str
    run: str
    spec: ArtifactRef
    ranges: int
    offsets: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedOutput:
    """One output in a report."""

    output: str
    other: str
    way: ReadBy
    counts: KeyCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsReport(Findings):
    """Result of a comparison of outputs, as it is kept."""

    against: Against
    outputs: tuple[ComparedOutput, ...]
    notes: tuple[str, ...]
    tolerance: Tolerance


def outputs_outcome(counts: Iterable[KeyCounts]) -> Outcome:
    """The outcome of all outputs together. One key that is wrong outweighs everything that is equal, and an output without one compared key proves nothing."""
    every = list(counts)
    if any(one.wrong for one in every):
        return Outcome.DIFFERENT
    if not any(one.equal for one in every):
        return Outcome.NOTHING_COMPARED
    return Outcome.EQUAL if all(one.equal for one in every) else Outcome.PARTLY


def report_of(ticket: OutputsTicket, spec: OutputsSpec, result: OutputsResult, *, at: int) -> OutputsReport:
    """The report of a finished comparison."""
    pairs = list(zip(spec.pairs, result.pairs, strict=True))
    rows = [
        (pair.output, "any" if one.partition is None else str(one.partition), one.key, one.window, one.what, one.here, one.there)
        for pair, done in pairs
        for one in done.differing
    ]
    return OutputsReport(
        against=ticket.against,
        other=ticket.other,
        savepoint_id=ticket.savepoint_id,
        outcome=outputs_outcome(done.counts for _, done in pairs),
        outputs=tuple(ComparedOutput(output=pair.output, other=pair.other, way=pair.way, counts=done.counts) for pair, done in pairs),
        notes=ticket.notes,
        found=bounded(COLUMNS, rows),
        has_data=spec.shown,
        tolerance=ticket.request.tolerance,
        at=at,
        run_id=ticket.request.run_id,
        requested_by=ticket.request.requested_by,
    )


def counts_text(one: ComparedOutput) -> str:
    """The numbers of one output."""
    counts = one.counts
    read = f"{counts.records_here:,} and {counts.records_there:,} records read"
    if not counts.compared and not counts.wrong:
        left = f", {counts.in_flux:,} keys in flux" if counts.in_flux else ""
        return f"{one.output} and {one.other}: nothing was compared, {read}{left}"
    behind = f" by {counts.missing:,} records" if counts.missing else ""
    more = [f"{number:,} {what}" for number, what in ((counts.in_flux, "in flux"), (counts.superseded, "superseded")) if number]
    return (
        f"{one.output} and {one.other}, by {one.way.value}: {counts.compared:,} keys compared: {counts.equal:,} equal, {counts.different:,} different, "
        f"{counts.behind:,} behind{behind}; {counts.only_here:,} only in {one.output}, {counts.only_there:,} only in {one.other}"
        f"{''.join(f', {each}' for each in more)}; {read}"
    )


def shown(report: OutputsReport, *, values: bool) -> Inspection:
    """The report as people see it. Without ``values`` it has no key and no value."""
    what = "the clone" if report.against is Against.CLONE else "the interval"
    allowed = _allowed(report.tolerance)
    found = Inspection(
        **codec.fields_of(Findings, report),
        question=f"real outputs compared with those of {what} {report.other}",
        sentences=(*map(counts_text, report.outputs), *report.notes, *((allowed,) if allowed else ())),
    )
    return found if values else replace(found, found=FoundRows(), has_data=False)


def _allowed(tolerance: Tolerance) -> str:
    if tolerance == Tolerance():
        return ""
    return f"numbers may differ by {tolerance.absolute:g}, or by {tolerance.relative:g} of the larger one"


def newest_text(report: OutputsReport | None, *, now: int) -> str:
    """Text for a cut-over's plan about the newest comparison with this clone."""
    if report is None:
        return "The outputs of the clone were not compared with the real ones since it was made."
    compared = sum(one.counts.compared for one in report.outputs)
    age = span(max(0, now - report.at) / 1000)
    flux = sum(one.counts.in_flux for one in report.outputs)
    nothing = [one.output for one in report.outputs if not one.counts.compared and not one.counts.wrong]
    more = [
        f"{flux:,} keys were in flux" if flux else "",
        f"nothing was compared of {first_names(nothing)}" if nothing else "",
        _allowed(report.tolerance),
    ]
    return (
        "; ".join(
            [
                f"Outputs compared {age} ago ({moment(report.at)}): {report.outcome.value}, {compared:,} keys compared",
                *(one for one in more if one),
            ]
        )
        + "."
    )
