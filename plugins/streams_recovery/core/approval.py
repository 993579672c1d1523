"""A plan is carried out exactly as it was approved, or not at all.

A hash identifies a plan. The approval that a person copies is the hash, followed by a few digits for each part of the plan. Only the complete hash
decides. The digits after it only show which part differs: an option that was not given again, or a fact that changed. A plan from an archive would change every
minute, because newer input comes. So its approval ends with the archive entry that it is made of, and the restore is planned with that entry again.

A rule may restrict who approves. Users are compared by the names that Airflow knows them by.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from streams_recovery.core import codec
from streams_recovery.core.errors import PlanChanged
from streams_recovery.core.escaping import Markdown

_HASH_DIGITS, _PART_DIGITS = 64, 3
# Of a hash, where a plan is shown.
_SHOWN_DIGITS = 12
_PIN = "x"


class Approvable(Protocol):
    """A plan that a person approves. ``hash`` covers everything that the plan does. ``parts`` are the same, each under a name for operators, always
    in the same order.
    """

    @property
    def hash(self) -> str:
        """64 hexadecimal digits."""

    @property
    def parts(self) -> Mapping[str, object]:
        """The parts of the plan by name. All values can be encoded as JSON."""


@runtime_checkable
class PinnedPlan(Protocol):
    """A plan with a source that is renewed every minute, such as an archive. ``pin`` is the number of that source, None for a plan without one."""

    @property
    def pin(self) -> int | None:
        """The number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPlan:
    """A plan that consists of a text. ``parts`` are what the plan does; ``text`` is for people."""

    application_id: str
    text: Markdown
    parts: Mapping[str, object]

    @property
    def hash(self) -> str:
        """SHA-256 over the application and the parts."""
        return hash_of([self.application_id, dict(self.parts)])


def hash_of(done: object) -> str:
    """The hash of what a plan does."""
    return hashlib.sha256(codec.dumps(done)).hexdigest()


def approval(plan: Approvable) -> str:
    """The text that a person copies to approve this plan."""
    pin = plan.pin if isinstance(plan, PinnedPlan) else None
    return _whole(plan) + ("" if pin is None else f"{_PIN}{pin}")


def pin_of(approved: str) -> int | None:
    """The pin in an approval (see ``PinnedPlan``), None for the approval of a plan without one."""
    number = approved.partition(_PIN)[2]
    return int(number) if re.fullmatch(r"[0-9]{1,12}", number) else None


def is_approved(plan: Approvable, approved: str) -> bool:
    """True when ``approved`` is this plan's complete hash, or its complete approval."""
    return approved in (plan.hash, _whole(plan), approval(plan))


def _whole(plan: Approvable) -> str:
    return plan.hash + "".join(_digits(part) for part in plan.parts.values())


def different_parts(plan: Approvable, approved: str) -> tuple[str, ...]:
    """Names of the parts that differ between the approved plan and this one. Empty if the approval does not show it."""
    known = approved.partition(_PIN)[0][_HASH_DIGITS:]
    if len(known) != _PART_DIGITS * len(plan.parts):
        return ()
    seen = (known[start : start + _PART_DIGITS] for start in range(0, len(known), _PART_DIGITS))
    return tuple(name for (name, part), digits in zip(plan.parts.items(), seen, strict=True) if _digits(part) != digits)


def check_approved(plan: Approvable, approved: str) -> None:
    """Raise ``PlanChanged`` unless ``approved`` approves this plan. The error says which parts differ."""
    if is_approved(plan, approved):
        return
    parts = different_parts(plan, approved)
    raise PlanChanged(
        f"this plan was not approved: {_why(plan, approved, parts)}",
        next_step="nothing was changed; read the present plan, and approve that one",
        approved=approved,
        current=plan.hash,
        different=list(parts),
    )


def _why(plan: Approvable, approved: str, parts: tuple[str, ...]) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{_HASH_DIGITS},}}", approved.partition(_PIN)[0]):
        if len(approved) >= _SHOWN_DIGITS and plan.hash.startswith(approved):
            return f"{approved!r} is only the beginning of its hash: give the whole one, which stands in the command below the plan"
        return f"{approved[:20]!r} is not the hash of a plan"
    changed = f"it is {plan.hash[:_SHOWN_DIGITS]}, and {approved[:_SHOWN_DIGITS]} was approved"
    if approved.startswith(plan.hash):
        return "its hash was not copied completely"
    if parts:
        return f"{changed}. Different are: {'; '.join(parts)}"
    if len(approved) == _HASH_DIGITS:
        return f"{changed}. The first {_HASH_DIGITS} digits alone do not tell what is different"
    return f"{changed}. What is different cannot be told"


def _digits(part: object) -> str:
    return hash_of(part)[:_PART_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """``approvers`` may approve, or anybody when there are none. With ``exclude_trigger`` the person who triggered the run may not. Then no answer counts in a
    run that was cleared: clearing a run triggers it again, and Airflow does not tell a task which person cleared it.
    """

    approvers: tuple[str, ...] = ()
    exclude_trigger: bool = False

    @property
    def restricts(self) -> bool:
        """True if it depends on the person whether an answer counts."""
        return bool(self.approvers) or self.exclude_trigger


def candidates(rule: ApprovalRule, triggered_by: str | None) -> tuple[str, ...]:
    """The named approvers who may approve this run."""
    return tuple(name for name in rule.approvers if not (rule.exclude_trigger and name == triggered_by))


def unanswerable(rule: ApprovalRule, triggered_by: str | None, *, cleared: bool) -> str | None:
    """The reason why no approval of this run could count, None when one could."""
    if rule.exclude_trigger and cleared:
        return "this run was cleared, and it is not known by whom: that user must not approve it either. Trigger a new run"
    if rule.exclude_trigger and not triggered_by:
        return "it is not known who triggered this run, and that user must not approve it"
    if rule.approvers and not candidates(rule, triggered_by):
        return f"{triggered_by} triggered this run, and nobody else is among its approvers"
    return None


def refusal(rule: ApprovalRule, *, triggered_by: str | None, approved_by: str | None, cleared: bool) -> str | None:
    """The reason why an approval does not count, None when it does."""
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
    """Facts that an approval is bound to: the plan as the person has read it, and the version of this software that has made it."""
    return {"plan": hashlib.sha256(text.encode()).hexdigest(), "software": software}


def outdated(approved: Mapping[str, object], *, plan: str, software: str) -> str | None:
    """The reason why an approval of what was ``approved`` does not count for this plan, None when it does."""
    now = shown(plan, software)
    if approved.get("software") != now["software"]:
        before = approved.get("software") or "another version"
        return f"the plan was shown by {before} of this software, and this is {software}: it was updated while the run waited"
    if approved.get("plan") != now["plan"]:
        return "the plan was made again after it was approved, and is another one now"
    return None
