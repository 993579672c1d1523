"""Requests of a restore: stored as what they are, and the same savepoint from the plan on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.offsets.strategies import EXACT
from streams_recovery.core.restore.point_in_time import AsOf, CutBy
from streams_recovery.core.restore.request import (
    LATEST,
    NO_STATE,
    AsOfMoment,
    FromSavepoint,
    Rebuild,
    RestoreRequest,
    Safeguards,
    SafetyPolicy,
    Undo,
    pinned,
)

GIVEN_UP = Safeguards(replace=True, delete=("app-old-changelog",), safety=SafetyPolicy.SKIP, confirm="app")
MOMENT = AsOf(moment=7, by=CutBy.POSITION)
REQUESTS = [
    FromSavepoint(reason="a", source="other", savepoint="one", allow_ahead=True, safeguards=GIVEN_UP),
    Undo(reason="b", restore_id="r", allow_damaged=True),
    Rebuild(reason="c", offsets=EXACT, inputs_from=LATEST, accept_gap=True),
    AsOfMoment(reason="d", as_of=MOMENT, in_place=True, groups=("readers",)),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    request: RestoreRequest


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.KIND)
def test_a_stored_request_is_read_as_what_it_was(request_: RestoreRequest) -> None:
    held = Holder(request=request_)
    found = codec.loads(Holder, codec.dumps(held), where="ticket")
    assert found == held
    assert type(found.request) is type(request_)


def test_two_strategies_with_the_same_fields_are_stored_as_two() -> None:
    undo = codec.encode(Holder(request=Undo(reason="a")))
    assert undo["request"]["kind"] == "undo"
    with pytest.raises(Damaged, match=r"ticket\.request"):
        codec.decode(Holder, {"request": undo["request"] | {"kind": "from_savepoint"}}, where="ticket")


@pytest.mark.parametrize("wrong", [{}, {"kind": "restore"}, {"kind": None}, {"kind": ["undo"]}, "undo", []])
def test_what_is_no_request_is_damage(wrong: object) -> None:
    with pytest.raises(Damaged, match=r"ticket\.request: expected an object whose kind is one of"):
        codec.decode(Holder, {"request": wrong}, where="ticket")


PLANNED = {"savepoint_id": "20261122", "undone": "r7", "inputs_from": "20261121"}


def test_latest_is_what_it_was_when_the_plan_was_made() -> None:
    assert pinned(FromSavepoint(reason=""), **PLANNED) == FromSavepoint(reason="", savepoint="20261122")
    assert pinned(Undo(reason=""), **PLANNED) == Undo(reason="", restore_id="r7")
    assert pinned(Rebuild(reason="", offsets=EXACT, inputs_from=LATEST), **PLANNED) == Rebuild(
        reason="", offsets=EXACT, inputs_from="20261121"
    )
    moment = AsOfMoment(reason="", as_of=MOMENT)
    assert pinned(moment, **PLANNED) == replace(moment, savepoint="20261122")


def test_what_was_named_stays_and_so_does_what_was_not_asked_for() -> None:
    asked: tuple[RestoreRequest, ...] = (
        FromSavepoint(reason="", savepoint="one"),
        Undo(reason="", restore_id="r1"),
        Rebuild(reason="", offsets=EXACT),
        Rebuild(reason="", offsets=EXACT, inputs_from="two"),
        AsOfMoment(reason="", as_of=MOMENT, savepoint=NO_STATE),
    )
    assert [pinned(one, **PLANNED) for one in asked] == list(asked)
