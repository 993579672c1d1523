"""Who writes the outputs: an application, or its clone. Entries of a numbered log, of which the newest one counts; pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from streams_recovery.core.errors import Refused


class Role(enum.StrEnum):
    """``live``: it writes the outputs that others read. ``standby``: a clone that writes outputs of its own. ``retired``: its clone writes the outputs, so
    it must not run.
    """

    LIVE = "live"
    STANDBY = "standby"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipEntry:
    """One entry of an application's log: what it has been since ``at``, and towards which ``other`` application id. ``offsets`` are what it had committed
    on its inputs then, ``again`` counts the input whose output comes twice by this step, and ``tail`` what it had not read of its repartition topics;
    all by ``<topic> <partition>``.
    """

    role: Role
    other: str
    run: str
    at: int
    offsets: dict[str, int]
    again: dict[str, int]
    tail: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUpTo:
    """One entry of a clone's log: the old application has processed everything that input below these offsets of the clone, by ``<topic> <partition>``,
    had caused.
    """

    offsets: dict[str, int]


def role_of(last: OwnershipEntry | None, *, is_clone: bool) -> Role:
    """What an application is, by its newest entry. Without one a clone is a standby, and any other application is live."""
    if last is not None:
        return last.role
    return Role.STANDBY if is_clone else Role.LIVE


def require_startable(last: OwnershipEntry | None, application_id: str) -> None:
    """Raise ``Refused`` for an application whose clone writes the outputs: two would write them, each once for every record."""
    if last is not None and last.role is Role.RETIRED:
        raise Refused(
            f"{application_id} transferred its outputs to {last.other} (run {last.run}), so it must not be started",
            next_step=f"to go back to it, run streams_clone of {last.other} with the step roll_back, or `streams-recovery roll-back` with its configuration",
            other=last.other,
        )
