"""How many tables a topic has: few, and what is written again stays logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streams_recovery.core.repository.ranges import TableRef

MOST_TABLES: Final = 16


def kept_tables(tables: Sequence[TableRef], new: int) -> int:
    """How many of ``tables``, the oldest first, stay as they are when ``new`` ranges are written; the others become a part of the new table.

    A table is absorbed by one that is at least as large. So of n ranges none is written again more than log2 n times, but for those that would make a
    17th table.
    """
    kept, size = len(tables), new
    while kept and (tables[kept - 1].ranges <= size or kept >= MOST_TABLES):
        kept -= 1
        size += tables[kept].ranges
    return kept
