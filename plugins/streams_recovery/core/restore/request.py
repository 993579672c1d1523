"""What every restore request says: what it may replace and give up. The defaults replace nothing and accept no loss. The strategies themselves are in
``operations/restore/strategies``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

LATEST = "latest"
NO_STATE = "none"


class OutputPolicy(enum.StrEnum):
    """What a rebuild does with outputs. ``keep``: results are appended to the existing records. ``recreate``: the topics are deleted and created
    again, empty.
    """

    KEEP = "keep"
    RECREATE = "recreate"


class SafetyPolicy(enum.StrEnum):
    """Whether the present state is saved before it is replaced. ``required``: without a safety savepoint nothing is destroyed. ``best_effort``: if it
    cannot be taken, that is noted and the restore continues. ``skip``: none is taken, so there is no undo.
    """

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """Protection against unintended loss. ``replace`` allows deleting internal topics that contain records. ``delete`` names such topics that are not
    proven to belong to the application. ``replace``, ``safety`` other than ``required``, and offsets that disagree with the state need the
    application id typed as ``confirm``.
    """

    replace: bool = False
    delete: tuple[str, ...] = ()
    safety: SafetyPolicy = SafetyPolicy.REQUIRED
    confirm: str = ""
