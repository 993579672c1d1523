"""The commands for sandboxes: drills and reprocessed intervals, one now and the history of all."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.cli import runs
from streams_recovery.cli.approval import approved, show_plan, show_unasked
from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, Name, Savepoint, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import AsJson, line, print_json
from streams_recovery.cli.screen import table as print_table
from streams_recovery.config.sandbox_application import drill_name
from streams_recovery.core import codec
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.errors import Refused
from streams_recovery.core.escaping import code, joined, md
from streams_recovery.core.forms import request_of
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.sandbox.interval_log import BEGIN, END, ReprocessEntry, ReprocessOptions, ReprocessRequest, written_interval
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.core.words import LATEST, count, moment, span
from streams_recovery.operations import interval, sandbox


@asks(without=("approve",))
def drill(call: Call, *, savepoint: Savepoint = LATEST) -> None:
    """Try a restore into an application of its own, measure it, and remove it again. Touches nothing of the application, so it does not ask."""
    with recovery_of(call.name, call.configs) as recovery, recovery_of(drill_name(call.name), call.configs, anew=True) as scratch:
        if call.plan_only:
            text = md(
                "Restore savepoint {} of {} into {} at the site {}, measure it, and remove it again.",
                code(savepoint),
                code(recovery.application_id),
                code(scratch.application_id),
                code(scratch.site),
            )
            parts = {"the savepoint (`--savepoint`)": savepoint, "the site (`drill.site`)": scratch.site}
            if recovery.config.drill is not None and (numbers := recovery.config.drill.numbers):
                text = joined([text, md("Its topics get other numbers of partitions: {}.", code(numbers))])
                parts["the numbers of partitions (`drill.partitions`)"] = numbers
            planned = StatedPlan(application_id=scratch.application_id, text=text, parts=parts)
            show_unasked(planned, text, as_json=call.as_json)
            return
        done = runs.drill(recovery, runner(scratch, call.logs), requester(), savepoint_id=savepoint)
    entry = done.entry
    if call.as_json:
        print_json(entry)
    else:
        line(f"drill {entry.outcome}: RPO {_of(entry.rpo_seconds)}, RTO {_of(entry.rto_seconds)}, loss {_of(entry.loss_seconds)}")
    if done.error is not None:
        raise done.error
    sandbox.raise_unless_succeeded(entry)


def drills(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List an application's drills with what they measured, newest last."""
    with recovery_of(name, configs) as recovery:
        found = sandbox.drills(recovery)
    if as_json:
        print_json(found)
        return
    print_table(("began", "site", "savepoint", "outcome", "RPO", "RTO", "loss", "records compared", "restore"), map(_row, found))


def _row(entry: DrillEntry) -> tuple[str, ...]:
    return (
        moment(entry.began_at),
        entry.site,
        entry.savepoint_id or "-",
        entry.outcome,
        _of(entry.rpo_seconds),
        _of(entry.rto_seconds),
        _of(entry.loss_seconds),
        count(entry.rows),
        entry.restore_id or "-",
    )


def _of(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)


@asks(*ReprocessOptions.FORM, replace(BEGIN, required=True), replace(END, required=True))
def reprocess(call: Call) -> None:
    """Process an interval of the past again, in an application of its own that is removed afterwards. With --publish replace it asks first."""
    run = requester()
    with recovery_of(call.name, call.configs) as recovery:
        options = request_of(ReprocessOptions, call.confirmed(recovery.application_id))
        wanted = written_interval(options.begin, options.end)
        request = interval.requested(recovery, options, wanted)
        planned = _planned(recovery.application_id, request)
        if call.plan_only:
            show_plan(planned, planned.text, as_json=call.as_json)
            return
        if request.publish is PublishPolicy.REPLACE or call.approve is not None:
            approved(planned, planned.text, call.approve, typed=recovery.application_id)
        claimed = interval.claim(recovery, request, run_id=run.run_id)
        if claimed is None:
            raise Refused(
                f"all slots are taken, by the intervals {', '.join(interval.busy(recovery))}",
                next_step="wait until one of them has ended; one that died keeps its slot until it is run again",
            )
        with recovery_of(claimed.application, call.configs, anew=True) as scratch:
            done = runs.reprocess(recovery, runner(scratch, call.logs), claimed, run)
    if call.as_json:
        print_json(done.entry)
    else:
        line(f"{wanted.name}: {done.entry.outcome}")
    if done.error is not None:
        raise done.error
    interval.raise_unless_succeeded(done.entry)


def _planned(application_id: str, request: ReprocessRequest) -> StatedPlan:
    window = request.slice.interval
    application = code(application_id)
    results = {
        PublishPolicy.SIDE_BY_SIDE: md("Results are left in topics of their own."),
        PublishPolicy.REPLACE: md("Results are **written into the outputs** of {}.", application),
    }
    deleted = md(" Keys whose result does not come again are **deleted** there.") if request.tombstones else md("")
    return StatedPlan(
        application_id=application_id,
        text=md(
            "Process the input of {} from {} up to {} again, in an application of its own. {}{}",
            application,
            moment(window.start),
            moment(window.end),
            results[request.publish],
            deleted,
        ),
        parts={
            "the interval (`--from`, `--to`)": [window.start, window.end],
            "what is read (`--lateness`, `--leave-late`, `--overlap`, `--beyond`)": codec.encode(request.slice),
            "the state to begin from (`--base`)": request.base.value,
            "where results go (`--publish`, `--tombstones`)": [request.publish.value, request.tombstones],
        },
    )


def reprocessed(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List the intervals that were processed again, newest last."""
    with recovery_of(name, configs) as recovery:
        found = interval.history(recovery)
    if as_json:
        print_json(found)
        return
    print_table(("from", "to", "run", "outcome", "base", "input records", "results", "written"), map(_slot_row, found))


def _slot_row(entry: ReprocessEntry) -> tuple[str, ...]:
    outputs = () if entry.published is None else entry.published.outputs
    return (
        moment(entry.start),
        moment(entry.end),
        moment(entry.at),
        entry.outcome,
        entry.savepoint_id or entry.base,
        "-" if entry.records is None else f"{entry.records:,}",
        f"{sum(output.results for output in outputs):,}",
        f"{sum(output.written + output.tombstones for output in outputs):,}",
    )
