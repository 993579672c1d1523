"""All remedies. Each is made for an example by the function that people get theirs from, so the page of remedies has the words that are shown."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies import access, groups, locks, remedy, restores, room, savepoints, topics, transactions
from streams_recovery.core.remedies.remedy import Remedy, RemedyKind

EXAMPLES: Final[tuple[Remedy, ...]] = (
    *transactions.EXAMPLES,
    *groups.EXAMPLES,
    *topics.EXAMPLES,
    *restores.EXAMPLES,
    *locks.EXAMPLES,
    *access.EXAMPLES,
    *savepoints.EXAMPLES,
    *room.EXAMPLES,
    *remedy.EXAMPLES,
)
ALL: Final[tuple[RemedyKind, ...]] = tuple(dict.fromkeys(one.kind for one in EXAMPLES))
