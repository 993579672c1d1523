"""A plan is carried out as it was approved, or not at all."""

from __future__ import annotations

from streams_recovery.core.errors import PlanChanged


def check_approved(current: str, approved: str, *, next_step: str = "nothing was changed; look at the new plan") -> None:
    """Compare the hash of the plan as it is under the lock with that of the plan somebody approved. Raises ``PlanChanged``."""
    if current != approved:
        raise PlanChanged(
            f"the plan changed after it was approved: {approved[:12]} became {current[:12]}",
            next_step=next_step,
            approved=approved,
            current=current,
        )
