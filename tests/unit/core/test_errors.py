"""Errors keep their facts wherever they travel, and each has its place: retry or not, and an exit code."""

from __future__ import annotations

import pickle

import pytest

from streams_recovery.cli.maintenance import LEFT_BEHIND
from streams_recovery.cli.state import DIFFERENT, NOTHING_COMPARED
from streams_recovery.core import errors
from streams_recovery.core.errors import EXIT_CODES, PermanentError, RecoveryError, TransientError
from streams_recovery.core.jobs import JobFailure
from streams_recovery.core.repository.check_findings import Cause
from tests.support.project import PROJECT

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RecoveryError)]
CONCRETE = [kind for kind in KINDS if kind not in (RecoveryError, TransientError, PermanentError)]


@pytest.mark.parametrize("kind", CONCRETE)
def test_every_error_is_either_worth_a_retry_or_not(kind: type[RecoveryError]) -> None:
    assert issubclass(kind, TransientError) != issubclass(kind, PermanentError)
    assert (kind.exit_code == 7) == issubclass(kind, TransientError)


@pytest.mark.parametrize("kind", CONCRETE)
def test_nothing_is_lost_between_processes(kind: type[RecoveryError]) -> None:
    error = kind("it broke.", next_step="mend it", topic="t", offset=5)
    with_commands = kind("it broke", next_step="run one").then("one", "two")
    assert str(pickle.loads(pickle.dumps(with_commands))).splitlines() == ["it broke. Next: run one", "    one", "    two"]
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
        "Forged": 6,
    }


def test_every_exit_code_has_its_meaning_and_the_page_has_the_same_table() -> None:
    known = {code for code, _ in EXIT_CODES}
    assert {str(kind.exit_code) for kind in KINDS} <= known
    assert {str(code) for code in (LEFT_BEHIND, DIFFERENT, NOTHING_COMPARED)} <= known
    first, last = next(code for code, _ in EXIT_CODES if " to " in code).split(" to ")
    assert {cause.exit_code for cause in Cause} == set(range(int(first), int(last) + 1))
    page = (PROJECT / "docs" / "command-line.md").read_text()
    assert [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES] == page.split("|---|---|\n", 1)[1].split("\n\n", 1)[0].splitlines()
