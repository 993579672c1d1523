"""What a person asks a restore for: one type for each strategy. What is not said replaces nothing and gives nothing up."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import ClassVar

from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.sandbox.interval import IntervalSlice

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """``reason`` is kept with the report. With ``compare_keys`` changelogs are also compared key by key where every record was found equal already."""

    reason: str
    safeguards: Safeguards = Safeguards()
    compare_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSavepoint(_Request):
    """All that a savepoint holds. ``source`` is the application id whose savepoint it is, empty for the application's own. ``savepoint`` is an id, or
    ``latest``: the newest ``exact`` one, or the newest of any label with ``allow_ahead``.
    """

    KIND: ClassVar = "from_savepoint"
    source: str = ""
    savepoint: str = LATEST
    allow_ahead: bool = False
    allow_damaged: bool = False
    offsets: OffsetStrategy = EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(_Request):
    """What was there before the restore ``restore_id``, from its safety savepoint; ``latest`` is the last restore that has one."""

    KIND: ClassVar = "undo"
    restore_id: str = LATEST
    allow_ahead: bool = False
    allow_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild(_Request):
    """No state: the application builds it again from its input. With ``accept_gap`` also where older input is gone. Inputs, globals and outputs that the
    cluster has lost are made from the savepoint ``inputs_from`` first, an id or ``latest``; empty is for none.
    """

    KIND: ClassVar = "rebuild"
    offsets: OffsetStrategy
    outputs: OutputPolicy = OutputPolicy.KEEP
    accept_gap: bool = False
    inputs_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfMoment(_Request):
    """The application as it was at a moment: the state of a savepoint and the archived input from there to the moment. ``savepoint`` is the id of the
    base, or ``latest``: the newest one that had read nothing later, or ``none``: all state is built from the archived input. ``source`` as above.
    With ``in_place`` the application's own inputs are cut at the moment, which takes their later records away from everybody: ``groups`` names each
    other group that has read them, to say that it may be moved.
    """

    KIND: ClassVar = "as_of_moment"
    as_of: AsOf
    source: str = ""
    savepoint: str = LATEST
    allow_ahead: bool = False
    in_place: bool = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(_Request):
    """The input of an interval, processed again. ``savepoint`` is the base as above: ``latest`` is the newest one that had read nothing of the interval,
    and ``none`` is no state at all.
    """

    KIND: ClassVar = "interval"
    slice: IntervalSlice
    source: str
    savepoint: str = LATEST


RestoreRequest = FromSavepoint | Undo | Rebuild | AsOfMoment | Interval


def pinned(request: RestoreRequest, *, savepoint_id: str | None, undone: str | None, inputs_from: str | None) -> RestoreRequest:
    """The request with what was planned in place of ``latest``, of which there may be a newer one by now: a restore's own safety savepoint is one.
    ``undone`` is the restore whose safety savepoint was planned, None unless it is one.
    """
    match request:
        case Undo(restore_id=restore_id) if restore_id == LATEST and undone is not None:
            return replace(request, restore_id=undone)
        case Rebuild(inputs_from=named) if named == LATEST and inputs_from is not None:
            return replace(request, inputs_from=inputs_from)
        case FromSavepoint(savepoint=named) | AsOfMoment(savepoint=named) | Interval(savepoint=named) if (
            named == LATEST and savepoint_id is not None
        ):
            return replace(request, savepoint=savepoint_id)
    return request
