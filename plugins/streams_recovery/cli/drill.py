"""The commands for drills: one now, and the history of all."""

from __future__ import annotations

from streams_recovery.cli import runs
from streams_recovery.cli.approval import PlanOnly, show_unasked
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Name,
    Savepoint,
    print_json,
    recovery_of,
    requester,
    runner,
)
from streams_recovery.cli.screen import line
from streams_recovery.cli.screen import table as print_table
from streams_recovery.config.sandbox_application import drill_name
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.escaping import code, md
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.timestamps import moment
from streams_recovery.operations import sandbox


def drill(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    savepoint: Savepoint = "latest",
    plan_only: PlanOnly = False,
    as_json: AsJson = False,
) -> None:
    """Try a restore into an application of its own, measure it, and remove it again. Touches nothing of the application, so it does not ask."""
    with recovery_of(name, configs) as recovery, recovery_of(drill_name(name), configs, anew=True) as scratch:
        if plan_only:
            text = md(
                "Restore savepoint {} of {} into {} at the site {}, measure it, and remove it again.",
                code(savepoint),
                code(recovery.application_id),
                code(scratch.application_id),
                code(scratch.site),
            )
            parts = {"the savepoint (`--savepoint`)": savepoint, "the site (`drill.site`)": scratch.site}
            planned = StatedPlan(application_id=scratch.application_id, text=text, parts=parts)
            show_unasked(planned, text, as_json=as_json)
            return
        done = runs.drill(recovery, runner(scratch, logs), requester(), savepoint_id=savepoint)
    entry = done.entry
    if as_json:
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
        f"{entry.rows:,}",
        entry.restore_id or "-",
    )


def _of(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.1f} s"
