"""What to do about topics: their settings, their replicas, and the disks that they are on."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies.remedy import Remedy

EXAMPLES: Final[tuple[Remedy, ...]] = ()
