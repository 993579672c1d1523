"""Errors keep their facts wherever they travel, and each has its place: retry or not, and an exit code."""

from __future__ import annotations

import pickle
import traceback

import pytest

from streams_recovery.cli.maintenance import LEFT_BEHIND
from streams_recovery.cli.state import DIFFERENT, NOTHING_COMPARED
from streams_recovery.core import errors
from streams_recovery.core.errors import (
    EXIT_CODES,
    PermanentError,
    RecoveryError,
    Refused,
    TransientError,
    without_secret_causes,
)
from streams_recovery.core.jobs.spec import JobFailure
from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.preflight.findings import refused
from streams_recovery.core.repository.check import Cause
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
    for told in (pickle.loads(pickle.dumps(with_commands)), JobFailure.of(with_commands).as_error()):
        assert str(told).splitlines() == ["it broke. Next: run one", "    one", "    two"]
    for again in (pickle.loads(pickle.dumps(error)), JobFailure.of(error).as_error()):
        assert type(again) is kind
        assert str(again) == "it broke. Next: mend it"
        assert {name: str(value) for name, value in again.facts.items()} == {"topic": "t", "offset": "5"}


def test_exit_codes_tell_the_causes_apart() -> None:
    assert {kind.__name__: kind.exit_code for kind in CONCRETE if kind.exit_code not in (3, 7)} == {
        "ConfigInvalid": 2,
        "KeyUnavailable": 2,
        "NoRoom": 2,
        "StoreUnsuitable": 2,
        "NotFound": 4,
        "LockHeld": 5,
        "LockLost": 5,
        "VersionFailed": 14,
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


def test_a_secret_that_is_known_is_in_no_error_and_in_no_cause() -> None:
    remember_secrets(["a secret of a peer", "short"])
    error = Refused("the peer said a secret of a peer, and short", next_step="ask a secret of a peer")
    assert str(error) == "the peer said ***, and short. Next: ask ***"
    error.__cause__ = ValueError("the client repeats a secret of a peer")
    assert "a secret of a peer" in "".join(traceback.format_exception(error))
    without_secret_causes(error)
    assert "a secret of a peer" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("kind", CONCRETE)
def test_a_reason_that_ends_as_a_sentence_can_be_continued(kind: type[RecoveryError]) -> None:
    """A broker, a library or another error may have said it."""
    error = kind("The peer says no.", next_step="ask it")
    assert str(error) == "The peer says no. Next: ask it"
    assert str(refused("peer", error)) == "The peer says no: ask it"
