"""An expiry for people."""

from __future__ import annotations

from streams_recovery.core.repository.retention import Decision
from streams_recovery.core.text.deletion import outlook_text
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations.maintenance.expire import ExpirePlan


def expiry_text(plan: ExpirePlan) -> str:
    """The plan as markdown, every savepoint with its reason."""
    lines = [
        f"### Expiry of savepoints of `{plan.application_id}`",
        "",
        f"{len(plan.keep)} stay, {len(plan.expire)} expire; {len(plan.files)} files with {plan.bytes:,} bytes are past their grace period and go.",
        "",
        outlook_text(plan.outlook),
        "",
        "| savepoint | captured | survives the loss of the cluster | decision |",
        "|---|---|---|---|",
        *(_row(decision, f"stays: {', '.join(decision.why_kept)}") for decision in plan.keep),
        *(_row(decision, "**expires**") for decision in plan.expire),
        *(f"| {savepoint_id} | before a restore | - | **expires** |" for savepoint_id in plan.expire_safety),
    ]
    leaving = [decision.savepoint_id for decision in plan.keep if decision.until is not None]
    if leaving:
        lines += ["", f"> **Warning:** pins of {', '.join(leaving)} were released. `savepoints keep` sets one again."]
    return "\n".join([*lines, "", f"> **Warning:** {plan.blocked}"] if plan.blocked else lines)


def _row(decision: Decision, what: str) -> str:
    survives = "yes" if decision.survives_cluster_loss else "no"
    return f"| {decision.savepoint_id} | {moment(decision.captured_at)} | {survives} | {what} |"
