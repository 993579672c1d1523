"""An expiry for people."""

from __future__ import annotations

from streams_recovery.core.plan_text import moment
from streams_recovery.upkeep.expiring import ExpirePlan


def expiry_text(plan: ExpirePlan) -> str:
    """The plan as markdown, every savepoint with its reason."""
    lines = [
        f"### Expiry of savepoints of `{plan.application_id}`",
        "",
        f"{len(plan.keep)} stay, {len(plan.expire)} expire; {len(plan.files)} files with {plan.bytes:,} bytes are past their grace period and go.",
        "",
        "| savepoint | captured | decision |",
        "|---|---|---|",
        *(f"| {d.savepoint_id} | {moment(d.captured_at)} | stays: {', '.join(d.why_kept)} |" for d in plan.keep),
        *(f"| {d.savepoint_id} | {moment(d.captured_at)} | **expires** |" for d in plan.expire),
        *(f"| {savepoint_id} | before a restore | **expires** |" for savepoint_id in plan.expire_safety),
    ]
    return "\n".join([*lines, "", f"> **Warning:** {plan.blocked}"] if plan.blocked else lines)
