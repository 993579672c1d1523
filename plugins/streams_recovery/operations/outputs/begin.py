"""The job of a comparison, from its request: the topics that are compared, from where to where, and how their records are read. And its report, from what the
job found.
"""

from __future__ import annotations

import uuid

from streams_recovery.config.application import Output
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.outputs.comparison import (
    Against,
    OutputPair,
    OutputsReport,
    OutputsRequest,
    OutputsResult,
    OutputsSpec,
    OutputsTicket,
    report_of,
)
from streams_recovery.core.outputs.keys import ReadBy
from streams_recovery.core.outputs.values import RecordForm, Tolerance
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.sandbox.results import Readers, readers
from streams_recovery.core.words import run_suffix
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.outputs.ranges import Sides, of_clone, of_interval
from streams_recovery.operations.rollout.values import keep
from streams_recovery.operations.state.read import key_format, value_format

SPEC, RESULT = "outputs-spec", "outputs-result"


def against(recovery: RecoveryContext, request: OutputsRequest) -> Against:
    """The other side of the comparison with the real outputs: an interval that is named, else what fits the application."""
    return Against.CLONE if recovery.config.clone is not None and request.interval is None else Against.INTERVAL


def begin(recovery: RecoveryContext, original: RecoveryContext | None, request: OutputsRequest) -> OutputsTicket:
    """Find both sides, waiting where that is needed, and leave a Spark job its specification. ``original`` is the application of which this one is a clone,
    None for a comparison with an interval. Raises what ``of_clone`` and ``of_interval`` raise.
    """
    found = against(recovery, request)
    sides = of_interval(recovery, request.interval) if original is None else of_clone(original, recovery)
    spec = OutputsSpec(
        application_id=recovery.application_id,
        pairs=tuple(_pair(recovery, sides, output, request.tolerance) for output in sorted(sides.topics)),
        shown=recovery.config.access.show_values and (original is None or original.config.access.show_values),
    )
    run = f"outputs-{run_suffix(request.run_id)}"
    ranges = [one for pair in spec.pairs for one in (*pair.here, *pair.there)]
    return OutputsTicket(
        request=request,
        against=found,
        other=sides.other,
        savepoint_id=sides.savepoint_id,
        run=run,
        spec=recovery.artifacts.write(run, SPEC, spec),
        ranges=len(ranges),
        offsets=sum(one.end - one.start for one in ranges),
        notes=sides.notes,
    )


def plan_job(recovery: RecoveryContext, ticket: OutputsTicket) -> JobPlan:
    """The job of a comparison. Each attempt has a place of its own for its result."""
    result_key = recovery.artifacts.reserve(ticket.run, f"{RESULT}-{uuid.uuid4().hex}")
    return JobPlan(spec=ticket.spec, result_key=result_key, ranges=ticket.ranges, offsets=ticket.offsets)


def conclude(recovery: RecoveryContext, ticket: OutputsTicket, result: ArtifactRef | None) -> OutputsReport:
    """Judge what the job found, and keep the report. Repeating it keeps no second one. Raises ``Damaged`` when no job ran, and ``Refused`` for the result of
    another attempt.
    """
    if result is None:
        raise Damaged("no comparison ran", next_step="clear the Spark task of this run and run it again")
    done = recovery.artifacts.read_own(OutputsResult, ticket.run, result)
    report = report_of(ticket, recovery.artifacts.read(OutputsSpec, ticket.spec), done, at=recovery.clock())
    keep(recovery, report)
    return report


def _pair(recovery: RecoveryContext, sides: Sides, output: str, tolerance: Tolerance) -> OutputPair:
    other = sides.topics[output]
    declared = recovery.config.outputs.get(output, Output())
    settings = recovery.cluster.settings([output, other])
    compacted = [name for name in (output, other) if readers(settings[name]) is Readers.NEWEST]
    way = declared.way or (ReadBy.LATEST if output in compacted else ReadBy.RECORDS)
    if way is ReadBy.RECORDS and compacted:
        raise Refused(
            f"{output} is compared by all records, and {', '.join(compacted)} is compacted: the cleaner removes records of a key, on each side others",
            next_step=f"write `way: latest` for {output} under `outputs`, or give both topics one cleanup.policy",
            topics=compacted,
        )
    here, there = sides.ranges[output], sides.ranges[other]
    return OutputPair(
        output=output,
        other=other,
        way=way,
        form=RecordForm(
            key=key_format(declared),
            value=value_format(declared),
            window=declared.window,
            ignore=declared.ignore,
            tolerance=tolerance,
        ),
        here=here,
        there=there,
        by_partition=len({one.tp for one in here}) == len({one.tp for one in there}),
        since=None if sides.interval is None else sides.interval.start,
        until=None if sides.interval is None else sides.interval.end,
        supersedes=sides.interval is not None and bool(compacted),
    )
