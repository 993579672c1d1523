"""One way back, one file: from what a person asks for to what is restored. A rebuild has no state to load, and makes its plan itself."""

from __future__ import annotations

from typing import assert_never

from streams_recovery.core.restore.request import AsOfMoment, FromSavepoint, Interval, Undo
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.source import RestoreSource
from streams_recovery.operations.restore.strategies import as_of_moment, from_savepoint, interval, undo


def resolve(recovery: RecoveryContext, request: FromSavepoint | Undo | AsOfMoment | Interval) -> RestoreSource:
    """What to restore, and where the inputs go on. Changes nothing; raises what the strategy does."""
    match request:
        case FromSavepoint():
            return from_savepoint.resolve(recovery, request)
        case Undo():
            return undo.resolve(recovery, request)
        case AsOfMoment():
            return as_of_moment.resolve(recovery, request)
        case Interval():
            return interval.resolve(recovery, request)
    assert_never(request)
