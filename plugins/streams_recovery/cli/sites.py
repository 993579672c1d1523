"""The command for the sites of an application: which there are, and which one it belongs to."""

from __future__ import annotations

from typing import Annotated

import typer

from streams_recovery.cli.approval import reason_of
from streams_recovery.cli.context import option, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.screen import line, print_json
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core import codec
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.forms import reason_field
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.failover import LOST
from streams_recovery.core.status.report import SitesStatus
from streams_recovery.core.words import moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.site_correction import SiteCorrection, correct, plan_correction
from streams_recovery.operations.status.stored import sites_now


@asks(without=("logs",))
def sites(
    call: Call,
    *,
    to: Annotated[
        str | None,
        typer.Option("--set", metavar="SITE", help="Record that the application belongs to this site: for one that was moved by hand."),
    ] = None,
    lost: Annotated[str, option(LOST)] = "",
    reason: Annotated[str, option(reason_field("the correction"))] = "",
) -> None:
    """List the sites of an application: where it belongs, fences, and what the monitor last found there. With --set correct the record."""
    # The record may name a site that is not configured any more: this one always is.
    with recovery_of(call.name, call.configs, PRIMARY) as recovery:
        if to is not None:
            _set(call, recovery, to, lost=lost, reason=reason_of(reason, plan_only=call.plan_only))
            return
        found = sites_now(recovery)
        configured = {PRIMARY: recovery.config.source.connection} | {
            site: section.connection for site, section in recovery.sites.written.sites.items()
        }
    if call.as_json:
        print_json({**codec.encode(found), "configured": configured})
        return
    print_table(("site", "connection", "application", "fence", "last look", "lacks"), (_row(found, *one) for one in configured.items()))
    if found.belongs not in configured:
        line(f"The application belongs to the site {found.belongs}, which is not configured")


def _row(found: SitesStatus, site: str, connection: str) -> tuple[str, ...]:
    fence = next((one for one in found.fences if one.site == site), None)
    standby = next((one for one in found.standbys if one.site == site), None)
    here = "moves here" if found.moving_to == site else "belongs here" if found.belongs == site else "-"
    fenced = "-" if fence is None else f"since {moment(fence.since)}" + (f", runs: {', '.join(fence.running)}" if fence.running else "")
    return (
        site,
        connection,
        here,
        fenced,
        "-" if standby is None else moment(standby.looked_at),
        "-" if standby is None else standby.problem or "; ".join(standby.lacks) or "nothing",
    )


def _set(call: Call, recovery: RecoveryContext, to: str, *, lost: str, reason: str) -> None:
    run = requester()
    found = plan_correction(recovery, to, lost=lost)
    text = _text(recovery.application_id, found)
    planned = StatedPlan(
        application_id=recovery.application_id,
        text=text,
        parts={
            "the site (`--set`)": to,
            "where it came from": found.before,
            "what cannot be reached (`--lost`)": [found.before, found.lost],
        },
    )
    if not call.agreed(planned, text, typed=recovery.application_id):
        return
    entry = correct(recovery, found, lost=lost, run_id=run.run_id, requested_by=run.requested_by, reason=reason)
    if call.as_json:
        print_json(entry)
    else:
        line(f"{recovery.application_id} belongs to the site {entry.site}, and came from {entry.before}")


def _text(application_id: str, found: SiteCorrection) -> Markdown:
    fence = md(" {} cannot be asked, and is **fenced**: what is left there is stopped once it answers again.", code(found.before))
    lines = [
        md(
            "Record that {} belongs to the site {}, and came from {}. Nothing is moved, stopped or started.{}",
            code(application_id),
            code(found.to),
            code(found.before),
            fence if found.lost else md(""),
        ),
        *(md("Not known: {}", one) for one in found.unseen),
    ]
    return joined(md("{}\n\n", one) for one in lines)
