"""The list of the kinds of restores: what a plan and its evidence have beside what all have. Each is a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_args

from streams_recovery.core.codec import LEFT_OUT, SPREAD, Spread
from streams_recovery.core.restore.parts.interval import IntervalPart
from streams_recovery.core.restore.parts.moment import MomentPart
from streams_recovery.core.restore.parts.move import MovePart
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.parts.upgrade import UpgradePart

# In the order in which a stored plan is asked for its kind: the last two are known by what no other one has.
RestorePart = IntervalPart | MomentPart | TopicsPart | MovePart | UpgradePart | RescalePart | RebuildPart | SavepointPart
PARTS: Final[tuple[type[RestorePart], ...]] = get_args(RestorePart)


def part_of(stored: Mapping[str, Any]) -> type[RestorePart]:
    """The kind of a stored plan, or of stored evidence."""
    return next((kind for kind in PARTS if kind.is_stored(stored)), SavepointPart)


# A plan has the fields of all kinds, and those of other kinds are null, or left out where there were plans before there was the kind.
_LATER: Final = frozenset(one.name for kind in PARTS for one in fields(kind) if one.metadata == LEFT_OUT)
IN_PLAN: Final = {SPREAD: Spread(tuple(dict.fromkeys(one.name for kind in PARTS for one in fields(kind))), part_of, _LATER)}
IN_EVIDENCE: Final = {SPREAD: Spread(tuple(dict.fromkeys(name for kind in PARTS for name in kind.KEPT)), part_of, _LATER)}
