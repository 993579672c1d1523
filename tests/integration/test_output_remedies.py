"""What people are told to do about outputs that two may write, or that come twice, on a real broker: it is done, and what was blocked goes on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import Refused
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.operations import preflight
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.rollout import CutoverStep
from tests.support.applications.counting import Counting, restore_here, savepoint_here
from tests.support.applications.pair import Both, cloned, request, roles, switched
from tests.support.applications.restore_steps import restored
from tests.support.applications.topic_records import commit

pytestmark = [pytest.mark.kafka, pytest.mark.deep]
CUT_OVER, ROLL_BACK = CutoverStep
# Four of the changelog, three of the repartition topic that nobody had read.
ROWS = 4 + 3


@pytest.fixture
def beside(both: Both) -> Both:
    cloned(both)
    return both


def forge(recovery: RecoveryContext, role: Role, other: str) -> None:
    """An entry as somebody writes it who may create objects."""
    recovery.ownership.append(OwnershipEntry(role=role, other=other, run="them", at=1, offsets={}, again={}, tail={}))


def told(recovery: RecoveryContext, manifest: Manifest | None) -> list[PreflightFinding]:
    """What the preflight of a restore says of who writes the outputs."""
    return [one for one in preflight.before_restore(recovery, manifest, replacing=True) if one.kind == "outputs-transferred"]


def carry_out(both: Both, verb: str) -> Result:
    return CliRunner().invoke(app, [verb, "next", "--reason", "test"], env=both.variables, input=f"{both.clone_id}\n")


@pytest.mark.remedy("outputs-roll-back", "outputs-log")
@pytest.mark.fault("F63")
def test_a_clone_that_writes_is_rolled_back_before_a_restore_and_one_that_does_not_holds_nothing_up(beside: Both) -> None:
    old, newest = beside.old, beside.old.savepoints.latest()
    assert newest is not None
    switched(beside, request(CUT_OVER))
    with beside.clone() as clone:
        for one in (old, clone):
            (blocker,) = told(one, newest)
            assert (blocker.severity, blocker.remedy.kind.id) == (PreflightSeverity.BLOCKING, "outputs-roll-back")
    done = carry_out(beside, "roll-back")
    assert done.exit_code == 0, done.output
    with beside.clone() as clone:
        assert told(old, newest) == told(clone, newest) == []
    assert restored(old, newest) == ROWS

    # The same record, which is not so.
    forge(old, Role.RETIRED, "nobody")
    (warned,) = told(old, newest)
    assert (warned.severity, warned.remedy.kind.id) == (PreflightSeverity.WARNING, "outputs-log")
    # Where to look is where it is, and the run that nobody knows is named.
    [log] = re.findall(r"writes to (\S+) of the repository", warned.next_step)
    assert "run them" in warned.text
    assert b'"them"' in old.repository.get(max(old.repository.sizes(log)))
    assert restored(old, newest) == ROWS


@pytest.mark.remedy("outputs-one-writer")
@pytest.mark.fault("F63")
@pytest.mark.parametrize("named", ["the application", "nobody"])
def test_of_two_that_might_write_one_is_left_and_either_may_be_it(beside: Both, named: str) -> None:
    old, newest = beside.old, beside.old.savepoints.latest()
    with beside.clone() as clone:
        forge(clone, Role.LIVE, old.application_id if named == "the application" else "nobody")
        (blocker,) = told(clone, None)
        assert (blocker.severity, blocker.remedy.kind.id) == (PreflightSeverity.BLOCKING, "outputs-one-writer")
    # A cut-over would stop both, and be finished by nothing.
    refused = carry_out(beside, "cut-over")
    assert isinstance(refused.exception, Refused)
    assert (beside.started_with("old"), beside.started_with("next")) == ("", beside.own)

    done = carry_out(beside, "roll-back")
    assert done.exit_code == 0, done.output
    assert (beside.started_with("old"), beside.started_with("next")) == ("", None)
    assert roles(beside) == (Role.LIVE, Role.STANDBY)
    with beside.clone() as clone:
        assert told(clone, None) == told(old, newest) == []
        clone.application.start()
        # It has read as far as before.
        commit(clone, {beside.small.input: 5})
    done = carry_out(beside, "cut-over")
    assert done.exit_code == 0, done.output
    assert (beside.started_with("old"), beside.started_with("next")) == (None, beside.small.output.topic)


@pytest.mark.remedy("outputs-again")
def test_results_come_twice_behind_those_that_are_there_as_their_readers_are_told(bootstrap: str, tmp_path: Path) -> None:
    """To tell them is a matter of people: that what they are told comes true is shown here."""
    counting = Counting(bootstrap=bootstrap, directory=tmp_path)
    counting.configure()
    counting.build()
    counting.worked("aab")
    saved = savepoint_here(counting)
    assert again(counting) == []
    counting.worked("abc")
    before = counting.rows(counting.output)
    (warned,) = again(counting)
    assert f"{counting.output} offsets 3 to 5; 3 offsets in all" in warned.text
    restore_here(counting, saved, replace=True)
    assert counting.rows(counting.output) == before + before[3:]
    assert counting.state() == counting.truth() == {"a": 3, "b": 2, "c": 1}
    savepoint_here(counting)
    assert again(counting) == [], "they have come"
    counting.tidy()


def again(counting: Counting) -> list[PreflightFinding]:
    with counting.recovery() as recovery:
        found = preflight.before_restore(recovery, recovery.savepoints.latest(), replacing=True)
    return [one for one in found if one.remedy.kind.id == "outputs-again"]
