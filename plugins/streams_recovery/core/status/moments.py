"""The moment in an id."""

from __future__ import annotations

from datetime import UTC, datetime

from streams_recovery.core.ids import time_of


def moment_of(text: str) -> int:
    """Milliseconds since the epoch; ids have whole seconds."""
    return round(datetime.strptime(time_of(text), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
