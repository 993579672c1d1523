"""Restore requests: one type for each strategy. The defaults replace nothing and accept no loss."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import ClassVar

from streams_recovery.core.offsets.strategy import EXACT, OffsetStrategy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.sandbox.interval import IntervalSlice

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """``reason`` is stored with the report. With ``compare_keys`` changelogs are also compared key by key if all records were already found equal."""

    reason: str
    safeguards: Safeguards = Safeguards()
    compare_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSavepoint(_Request):
    """Restore a savepoint. ``source`` is the application id of the savepoint, empty for the application's own. ``savepoint`` is an id, or ``latest``:
    the newest ``exact`` one, or the newest of any label with ``allow_ahead``.
    """

    KIND: ClassVar = "from_savepoint"
    source: str = ""
    savepoint: str = LATEST
    allow_ahead: bool = False
    allow_damaged: bool = False
    offsets: OffsetStrategy = EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(_Request):
    """Restore the state from before the restore ``restore_id``, from its safety savepoint. ``latest`` is the last restore that has one."""

    KIND: ClassVar = "undo"
    restore_id: str = LATEST
    allow_ahead: bool = False
    allow_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild(_Request):
    """Restore no state: the application builds it again from its input. ``accept_gap`` allows that older input is gone. If the cluster has lost
    inputs, globals or outputs, they are first created from the savepoint ``inputs_from``: an id, ``latest``, or empty for none.
    """

    KIND: ClassVar = "rebuild"
    offsets: OffsetStrategy
    outputs: OutputPolicy = OutputPolicy.KEEP
    accept_gap: bool = False
    inputs_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfMoment(_Request):
    """The application as of a moment: the state of a savepoint, and the archived input from there to the moment. ``savepoint`` is the id of the base,
    or ``latest``: the newest one that had read nothing later, or ``none``: all state is built from the archived input. ``source`` is as in
    ``FromSavepoint``. With ``in_place`` the application's own inputs are cut at the moment, so their later records are removed for every reader.
    ``groups`` names each other group that has read them, which allows changing its offsets.
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
    """Process the input of an interval again. ``savepoint`` is the base: ``latest`` is the newest one that had read nothing of the interval, and
    ``none`` is no state.
    """

    KIND: ClassVar = "interval"
    slice: IntervalSlice
    source: str
    savepoint: str = LATEST


RestoreRequest = FromSavepoint | Undo | Rebuild | AsOfMoment | Interval


def pinned(request: RestoreRequest, *, savepoint_id: str | None, undone: str | None, inputs_from: str | None) -> RestoreRequest:
    """The request with planned ids in place of ``latest``, because there may be a newer one now: a restore's own safety savepoint is one. ``undone``
    is the restore whose safety savepoint was planned, None for other requests.
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
