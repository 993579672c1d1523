"""Whose approval of a plan counts, and for which plan. Users are compared by the names that Airflow knows them by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """``approvers`` may approve, or anybody when there are none. With ``exclude_trigger`` never the one who triggered the run: nor a run that was cleared,
    because whoever cleared it has begun it once more, and Airflow tells no task who that was.
    """

    approvers: tuple[str, ...] = ()
    exclude_trigger: bool = False

    @property
    def restricts(self) -> bool:
        """Whether an answer depends on who gives it."""
        return bool(self.approvers) or self.exclude_trigger


def candidates(rule: ApprovalRule, triggered_by: str | None) -> tuple[str, ...]:
    """Who may approve this run, of those that are named."""
    return tuple(name for name in rule.approvers if not (rule.exclude_trigger and name == triggered_by))


def unanswerable(rule: ApprovalRule, triggered_by: str | None, *, cleared: bool) -> str | None:
    """Why no approval of this run could count, None when one could."""
    if rule.exclude_trigger and cleared:
        return "this run was cleared, and it is not known by whom: that user must not approve it either. Trigger a new run"
    if rule.exclude_trigger and not triggered_by:
        return "it is not known who triggered this run, and that user must not approve it"
    if rule.approvers and not candidates(rule, triggered_by):
        return f"{triggered_by} triggered this run, and nobody else is among its approvers"
    return None


def refusal(rule: ApprovalRule, *, triggered_by: str | None, approved_by: str | None, cleared: bool) -> str | None:
    """Why an approval does not count, None when it does."""
    if not rule.restricts:
        return None
    if why := unanswerable(rule, triggered_by, cleared=cleared):
        return why
    if not approved_by:
        return "it is not known who approved this plan"
    if rule.exclude_trigger and approved_by == triggered_by:
        return f"{approved_by} triggered this run and must not approve it"
    if rule.approvers and approved_by not in rule.approvers:
        return f"{approved_by} is not among the approvers: {', '.join(rule.approvers)}"
    return None


def shown(text: str, software: str) -> dict[str, str]:
    """What an approval is bound to: the plan as the person has read it, and the version of this software that has made it."""
    return {"plan": hashlib.sha256(text.encode()).hexdigest(), "software": software}


def outdated(approved: Mapping[str, object], *, plan: str, software: str) -> str | None:
    """Why an approval of what was ``approved`` does not count for this plan, None when it does."""
    now = shown(plan, software)
    if approved.get("software") != now["software"]:
        before = approved.get("software") or "another version"
        return f"the plan was shown by {before} of this software, and this is {software}: it was updated while the run waited"
    if approved.get("plan") != now["plan"]:
        return "the plan was made again after it was approved, and is another one now"
    return None
