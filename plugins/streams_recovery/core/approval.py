"""A plan is carried out as it was approved, or not at all.

A plan is identified by its hash. The approval that a person copies is the hash, followed by a few digits for each part of the plan. Only the whole
hash decides. The digits behind it tell afterwards which part is another one: an option that was not given again, or a fact that changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from streams_recovery.core import codec
from streams_recovery.core.errors import PlanChanged

_HASH_DIGITS, _PART_DIGITS = 64, 3
_TRY = "nothing was changed; look at the plan as it is now, and approve that one"


class Approvable(Protocol):
    """A plan that a person approves. ``hash`` covers everything that it does. ``parts`` are the same things by what an operator calls them, in an order
    that never changes.
    """

    @property
    def hash(self) -> str:
        """64 hexadecimal digits."""

    @property
    def parts(self) -> Mapping[str, object]:
        """What the plan does. All values can be encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPlan:
    """A plan that is told in a text, for what needs no further value of its own. ``parts`` are what it does; ``text`` is Markdown."""

    application_id: str
    text: str
    parts: Mapping[str, object]

    @property
    def hash(self) -> str:
        """Identifies what is done."""
        return hash_of([self.application_id, dict(self.parts)])


def hash_of(done: object) -> str:
    """The hash of what a plan does."""
    return hashlib.sha256(codec.dumps(done)).hexdigest()


def approval(plan: Approvable) -> str:
    """What a person copies to approve this plan."""
    return plan.hash + "".join(_digits(part) for part in plan.parts.values())


def is_approved(plan: Approvable, approved: str) -> bool:
    """True when ``approved`` is this plan's hash, or its approval. Half of one is not enough."""
    return approved in (plan.hash, approval(plan))


def different_parts(plan: Approvable, approved: str) -> tuple[str, ...]:
    """The parts in which the plan that was approved differs from this one, as far as the approval tells."""
    known = approved[_HASH_DIGITS:]
    if len(known) != _PART_DIGITS * len(plan.parts):
        return ()
    seen = (known[start : start + _PART_DIGITS] for start in range(0, len(known), _PART_DIGITS))
    return tuple(name for (name, part), digits in zip(plan.parts.items(), seen, strict=True) if _digits(part) != digits)


def check_approved(plan: Approvable, approved: str, *, next_step: str = _TRY) -> None:
    """Compare the plan as it is now with what somebody approved. Raises ``PlanChanged``, which says what is different."""
    if is_approved(plan, approved):
        return
    parts = different_parts(plan, approved)
    raise PlanChanged(
        f"this plan was not approved: {_why(plan, approved, parts)}",
        next_step=next_step,
        approved=approved,
        current=plan.hash,
        different=list(parts),
    )


def _why(plan: Approvable, approved: str, parts: tuple[str, ...]) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{_HASH_DIGITS},}}", approved):
        return f"{approved[:20]!r} is not the hash of a plan"
    changed = f"it is {plan.hash[:12]}, and {approved[:12]} was approved"
    if approved.startswith(plan.hash):
        return "its hash was not copied completely"
    if parts:
        return f"{changed}. Different are: {'; '.join(parts)}"
    if len(approved) == _HASH_DIGITS:
        return f"{changed}. The first {_HASH_DIGITS} digits alone do not tell what is different"
    return f"{changed}. What is different cannot be told"


def _digits(part: object) -> str:
    return hash_of(part)[:_PART_DIGITS]
