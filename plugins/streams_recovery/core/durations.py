"""ISO 8601 durations, as Kafka's own tools accept them."""

from __future__ import annotations

import re
from datetime import timedelta

from streams_recovery.core.errors import ConfigInvalid

_FORM = re.compile(r"P(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?")


def milliseconds(text: str) -> int:
    """Milliseconds of ``P7D``, ``PT6H`` or ``P1DT2H30M``. Raises ``ConfigInvalid``, also for months and years, whose length varies."""
    found = _FORM.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ConfigInvalid(f"{text[:80]!r} is not a duration", next_step="write it like P7D, PT6H or P1DT2H30M")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) // timedelta(milliseconds=1)
