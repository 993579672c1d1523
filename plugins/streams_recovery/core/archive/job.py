"""What an archiver is told, and what it leaves when it hands over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streams_recovery.core.archive.tick import TickLimits

# How long an archiver that says nothing is believed to be there. Well above what one look takes, well below what anybody wants to lose.
ARCHIVER_LEASE_SECONDS: Final = 90
# Even when nothing came: so that silence means that the archiver is gone.
HEARTBEAT_SECONDS: Final = 60
# A savepoint asks for its files joined; without savepoints they are joined as often.
JOIN_SECONDS: Final = 3600
# A file that was joined goes after this time: whoever was about to read it has read it.
REPLACED_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSpec:
    """Archive these ``topics`` every ``interval_seconds``, for ``hand_over_seconds``; then the next archiver begins. ``run`` is who archives."""

    application_id: str
    run: str
    topics: tuple[str, ...]
    interval_seconds: float
    hand_over_seconds: float
    limits: TickLimits
    compression_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveResult:
    """What one archiver has done: entries that it has added, and records that it has copied."""

    entries: int
    records: int
    seconds: float
