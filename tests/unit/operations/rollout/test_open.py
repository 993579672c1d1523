"""What is left to do after a cut-over that failed, by the repository alone: no broker answers here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, closed_cleanly
from streams_recovery.config.restore import Clone
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.operations import rollout
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, HeldLock
from streams_recovery.operations.rollout import CutoverStep, CutoverTicket
from tests.support.applications.unreachable import application

CUT_OVER = "streams-recovery cut-over next --reason 'a new version'"
ROLL_BACK = "streams-recovery roll-back next --reason 'a new version'"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RecoveryContext, RecoveryContext]]:
    """An application, and one that is its clone by its configuration."""
    places = tmp_path / "old", tmp_path / "next"
    for place in places:
        place.mkdir()
    with application(places[0]) as old, application(places[1]) as clone:
        yield old, replace(clone, config=clone.config.model_copy(update={"name": "next", "clone": Clone(of="app")}))


def opened(pair: tuple[RecoveryContext, RecoveryContext], step: CutoverStep, *, restore_first: bool = False) -> CutoverTicket:
    old, clone = (HeldLock(lock=one.lock.acquire("run", lease_seconds=LEASE_SECONDS, purpose="a test")) for one in pair)
    return CutoverTicket(
        step=step,
        run="run",
        requested_by="somebody",
        reason="a new version",
        plan_hash="",
        old=old,
        clone=clone,
        running=(),
        restore_first=restore_first,
        started_at=1,
    )


def retire(old: RecoveryContext) -> None:
    old.ownership.append(OwnershipEntry(role=Role.RETIRED, other="app", run="another", at=1, offsets={}, again={}, tail={}))


def test_before_the_outputs_changed_hands_it_can_be_taken_again(pair: tuple[RecoveryContext, RecoveryContext]) -> None:
    assert rollout.abandon(*pair, opened(pair, CutoverStep.CUT_OVER)).commands == (CUT_OVER,)


def test_behind_that_it_can_be_finished_or_taken_back(pair: tuple[RecoveryContext, RecoveryContext]) -> None:
    retire(pair[0])
    left = rollout.abandon(*pair, opened(pair, CutoverStep.CUT_OVER))
    assert (left.roles["app"], left.commands) == (Role.STANDBY, (CUT_OVER, ROLL_BACK))
    assert "streams-recovery" not in left.next_step


@pytest.mark.parametrize(("restore_first", "option"), [(False, ""), (True, " --restore-first")])
@pytest.mark.parametrize("retired", [False, True])
def test_a_way_back_is_finished_as_it_was_begun(
    pair: tuple[RecoveryContext, RecoveryContext], option: str, *, restore_first: bool, retired: bool
) -> None:
    if retired:
        retire(pair[0])
    ticket = opened(pair, CutoverStep.ROLL_BACK, restore_first=restore_first)
    assert rollout.abandon(*pair, ticket).commands == (f"{ROLL_BACK}{option}",)


def test_after_another_run_has_taken_over_nothing_is_left_to_do(pair: tuple[RecoveryContext, RecoveryContext]) -> None:
    ticket = opened(pair, CutoverStep.CUT_OVER)
    for one in pair:
        one.lock.release(ticket.old.lock)
    assert rollout.abandon(*pair, ticket).commands == ()


def instance(state: InstanceState, *, clean: bool | None) -> InstanceStatus:
    return InstanceStatus(name="one", state=state, streams_state=None, closed_cleanly=clean, detail="")


@pytest.mark.parametrize(
    ("instances", "clean"),
    [
        ((), False),
        ((instance(InstanceState.UNKNOWN, clean=None),), False),
        ((instance(InstanceState.RUNNING, clean=None),), False),
        ((instance(InstanceState.GONE, clean=True), instance(InstanceState.GONE, clean=None)), False),
        ((instance(InstanceState.GONE, clean=True), instance(InstanceState.GONE, clean=False)), False),
        ((instance(InstanceState.GONE, clean=True), instance(InstanceState.GONE, clean=True)), True),
    ],
)
def test_a_clean_close_is_something_that_was_seen(instances: tuple[InstanceStatus, ...], clean: bool) -> None:
    assert closed_cleanly(instances) is clean
    assert StopReport(instances=instances).clean is clean
