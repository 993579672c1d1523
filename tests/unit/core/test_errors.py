"""Errors keep their facts wherever they travel, and each has its place: retry or not, and an exit code."""

from __future__ import annotations

import pickle

import pytest

from streams_recovery.core import errors
from streams_recovery.core.errors import PermanentError, RecoveryError, TransientError
from streams_recovery.core.jobs import JobFailure

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RecoveryError)]
CONCRETE = [kind for kind in KINDS if kind not in (RecoveryError, TransientError, PermanentError)]


@pytest.mark.parametrize("kind", CONCRETE)
def test_every_error_is_either_worth_a_retry_or_not(kind: type[RecoveryError]) -> None:
    assert issubclass(kind, TransientError) != issubclass(kind, PermanentError)
    assert (kind.exit_code == 7) == issubclass(kind, TransientError)


@pytest.mark.parametrize("kind", CONCRETE)
def test_nothing_is_lost_between_processes(kind: type[RecoveryError]) -> None:
    error = kind("it broke.", next_step="mend it", topic="t", offset=5)
    for again in (pickle.loads(pickle.dumps(error)), JobFailure.of(error).as_error()):
        assert type(again) is kind
        assert str(again) == "it broke. Next: mend it"
        assert {name: str(value) for name, value in again.facts.items()} == {"topic": "t", "offset": "5"}


def test_exit_codes_tell_the_causes_apart() -> None:
    assert {kind.__name__: kind.exit_code for kind in CONCRETE if kind.exit_code not in (3, 7)} == {
        "ConfigInvalid": 2,
        "NotFound": 4,
        "LockHeld": 5,
        "LockLost": 5,
        "Damaged": 6,
        "OffsetsGone": 6,
        "GuardLost": 6,
        "EntryUnreadable": 6,
        "Altered": 6,
    }
