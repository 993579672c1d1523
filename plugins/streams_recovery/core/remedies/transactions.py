"""What to do about transactions that nobody has ended yet.

One that is open ends by itself: with its producer, or when its coordinator aborts it after ``transaction.timeout.ms``. Only one that its coordinator does not
have open on a partition hangs there, and nothing but an abort ends it.
"""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies.remedy import Remedy

EXAMPLES: Final[tuple[Remedy, ...]] = ()
