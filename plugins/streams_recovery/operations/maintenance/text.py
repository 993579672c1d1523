"""An expiry for people."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.repository.announcement import outlook_text
from streams_recovery.core.repository.retention import Decision
from streams_recovery.core.timestamps import moment
from streams_recovery.operations.maintenance.contents import Leftovers
from streams_recovery.operations.maintenance.expire import ExpirePlan


def expiry_text(plan: ExpirePlan) -> Markdown:
    """The plan, every savepoint with its reason."""
    leaving = ", ".join(decision.savepoint_id for decision in plan.keep if decision.until is not None)
    released = md("> **Warning:** pins of {} were released. `savepoints keep` sets one again.", leaving)
    return joined(
        [
            md("### Expiry of savepoints of {}", code(plan.application_id)),
            md(""),
            md(
                "{} stay, {} expire; {} files with {:,} bytes are past their grace period and go.",
                len(plan.keep),
                len(plan.expire),
                len(plan.files),
                plan.bytes,
            ),
            *_leftovers(plan.leftovers),
            md(""),
            outlook_text(plan.outlook),
            md(""),
            md("| savepoint | captured | survives the loss of the cluster | decision |"),
            md("|---|---|---|---|"),
            *(_row(decision, md("stays: {}", ", ".join(decision.why_kept))) for decision in plan.keep),
            *(_row(decision, md("**expires**")) for decision in plan.expire),
            *(md("| {} | before a restore | - | **expires** |", savepoint_id) for savepoint_id in plan.expire_safety),
            *([md(""), released] if leaving else []),
            *([md(""), md("> **Warning:** {}", plan.blocked)] if plan.blocked else []),
        ]
    )


def _leftovers(found: Leftovers) -> Iterator[Markdown]:
    if found.work:
        yield md("")
        yield md("The work of {:,} runs that are over goes, with {:,} bytes.", len(found.work), sum(work.bytes for work in found.work))
    if found.staged:
        yield md("")
        yield md("{:,} files of writers that were killed go, with {:,} bytes.", len(found.staged), sum(file.bytes for file in found.staged))
    for one in found.kept:
        yield md("")
        yield md("The work of run {} stays: {}.", one.run, one.why)


def _row(decision: Decision, what: Markdown) -> Markdown:
    survives = "yes" if decision.survives_cluster_loss else "no"
    return md("| {} | {} | {} | {} |", decision.savepoint_id, moment(decision.captured_at), survives, what)
