"""Whether the tables that a manifest names can be those of its partitions. Nothing is read for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.archive_facts import ArchiveFacts
from streams_recovery.core.repository.range_table import MOST_RANGES
from streams_recovery.core.repository.ranges import TableRef

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES: Final = 512 << 20


def check_tables(topics: Iterable[tuple[str, Sequence[TableRef], Sequence[ArchiveFacts]]], *, where: str) -> None:
    """Raise ``Damaged`` for a hash that is none, a size that nobody would read, and tables that hold more or fewer ranges than the partitions have."""
    total = 0
    for name, tables, partitions in topics:
        held = sum(table.ranges for table in tables)
        total += held
        check_refs(name, tables, where=where)
        counted = held == sum(facts.ranges for facts in partitions) and all(facts.possible for facts in partitions)
        if not counted or total > MOST_RANGES:
            raise _damaged(name, tables, where)


def check_refs(topic: str, tables: Sequence[TableRef], *, where: str) -> None:
    """The same of the tables alone, those of one topic."""
    named = len({table.sha256 for table in tables}) == len(tables) and all(_SHA256.fullmatch(table.sha256) for table in tables)
    if not named or not all(0 < table.bytes <= _MOST_BYTES and table.ranges > 0 for table in tables):
        raise _damaged(topic, tables, where)


def _damaged(topic: str, tables: Sequence[TableRef], where: str) -> Damaged:
    return Damaged(
        f"{where} names tables of {topic} that cannot be: {sum(table.ranges for table in tables)} ranges in {len(tables)} tables",
        next_step="do not use this savepoint; verify the repository and choose another one",
        where=where,
        topic=topic,
    )
