"""What every restore is asked: what it may replace and give up. The strategies themselves are in ``operations/restore/strategies``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

LATEST = "latest"
NO_STATE = "none"


class OutputPolicy(enum.StrEnum):
    """What a rebuild does with outputs. ``keep``: results are written behind those that are there. ``recreate``: the topics are made anew, empty."""

    KEEP = "keep"
    RECREATE = "recreate"


class SafetyPolicy(enum.StrEnum):
    """Whether what is there is saved before it is replaced. ``required``: without a safety savepoint nothing is destroyed. ``best_effort``: one
    that cannot be taken is noted, and the restore goes on. ``skip``: none is taken, and there is no way back.
    """

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """What keeps a restore from destroying more than is meant. ``replace`` allows internal topics that hold records to be deleted, and ``delete`` names
    those among them that nothing proves to be the application's. ``replace``, ``safety`` other than ``required`` and offsets that disagree with the
    state need the application id typed as ``confirm``.
    """

    replace: bool = False
    delete: tuple[str, ...] = ()
    safety: SafetyPolicy = SafetyPolicy.REQUIRED
    confirm: str = ""
