"""Requests of a restore: stored as what they are, and the same savepoint from the plan on."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final, get_args, get_type_hints

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.restore import interval
from streams_recovery.core.restore.plan import ArchivedInput
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import NO_STATE, OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import ReadOn
from streams_recovery.core.words import LATEST
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import STRATEGIES, AsOfMoment, FromSavepoint, Rebuild, RestoreRequest, Undo
from tests.support.examples.restore_plan import PLAN
from tests.support.repository.golden import SECOND, OpenGolden

# A value of each type that a field has, other than its default.
VALUES: Final[dict[Any, Any]] = {
    str: "one",
    bool: True,
    tuple[str, ...]: ("readers",),
    Safeguards: Safeguards(replace=True, delete=("app-old-changelog",), safety=SafetyPolicy.SKIP, confirm="app"),
    OffsetStrategy: EXACT,
    OutputPolicy: OutputPolicy.RECREATE,
    AsOf: AsOf(moment=7, by=CutBy.POSITION),
    AsOf | None: AsOf(moment=7, by=CutBy.POSITION),
    tuple[int, ...]: (3,),
    int | None: 5,
    ReadOn: ReadOn.END,
    interval.IntervalSlice: interval.IntervalSlice(interval=interval.Interval(start=1, end=2), overlap=3, tables=("a",)),
}
PLANNED = replace(PLAN, savepoint_id=SECOND, inputs_from="20261121T030000Z-0000000009")


def filled(strategy: type[RestoreRequest], *, only_needed: bool = False) -> RestoreRequest:
    """A request with a value in every field, or only in those that have no default."""
    hints = get_type_hints(strategy)
    wanted = [one.name for one in fields(strategy) if not only_needed or (one.default is MISSING and one.default_factory is MISSING)]
    return strategy(**{name: VALUES[hints[name]] for name in wanted})


def latest(request: RestoreRequest) -> list[str]:
    """Fields that say ``latest``."""
    return [field.name for field in fields(request) if getattr(request, field.name) == LATEST]


@pytest.fixture
def recovery(golden: OpenGolden) -> RecoveryContext:
    """Of an application whose second savepoint is a safety savepoint as well."""
    found = golden("good")
    return replace(found, safety=found.savepoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    request: RestoreRequest


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("only_needed", [False, True])
def test_a_stored_request_is_read_as_what_it_was(strategy: type[RestoreRequest], *, only_needed: bool) -> None:
    held = Holder(request=filled(strategy, only_needed=only_needed))
    found = codec.loads(Holder, codec.dumps(held), where="ticket")
    assert found == held
    assert type(found.request) is strategy


def test_each_strategy_is_stored_by_a_name_of_its_own() -> None:
    assert len(STRATEGIES) == len(get_args(RestoreRequest))
    undo = codec.encode(Holder(request=Undo(reason="a")))
    assert undo["request"]["kind"] == "undo"
    with pytest.raises(Damaged, match=r"ticket\.request"):
        codec.decode(Holder, {"request": undo["request"] | {"kind": "from_savepoint"}}, where="ticket")


@pytest.mark.parametrize("wrong", [{}, {"kind": "restore"}, {"kind": None}, {"kind": ["undo"]}, "undo", []])
def test_what_is_no_request_is_damage(wrong: object) -> None:
    with pytest.raises(Damaged, match=r"ticket\.request: expected an object"):
        codec.decode(Holder, {"request": wrong}, where="ticket")


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_nothing_is_latest_any_more_once_it_was_planned(recovery: RecoveryContext, strategy: type[RestoreRequest]) -> None:
    assert latest(filled(strategy, only_needed=True).pinned(recovery, PLANNED)) == []
    assert filled(strategy).pinned(recovery, PLANNED) == filled(strategy), "what was named stays"


def test_latest_is_what_it_was_when_the_plan_was_made(recovery: RecoveryContext) -> None:
    assert FromSavepoint(reason="").pinned(recovery, PLANNED) == FromSavepoint(reason="", savepoint=SECOND, archive_entry=0)
    taken_by = recovery.savepoints.read(SECOND).provenance.run_id
    assert Undo(reason="").pinned(recovery, PLANNED) == Undo(reason="", restore_id=taken_by)
    rebuild = Rebuild(reason="", offsets=EXACT)
    assert replace(rebuild, inputs_from=LATEST).pinned(recovery, PLANNED) == replace(
        rebuild, inputs_from=str(PLANNED.inputs_from), archive_entry=0
    )
    moment = AsOfMoment(reason="", as_of=VALUES[AsOf])
    assert moment.pinned(recovery, PLANNED) == replace(moment, savepoint=SECOND, archive_entry=0)


def test_what_was_not_asked_for_is_not_there_afterwards(recovery: RecoveryContext) -> None:
    rebuild, moment = Rebuild(reason="", offsets=EXACT), AsOfMoment(reason="", as_of=VALUES[AsOf], savepoint=NO_STATE)
    assert (rebuild.pinned(recovery, PLANNED), moment.pinned(recovery, PLANNED)) == (
        replace(rebuild, archive_entry=0),
        replace(moment, archive_entry=0),
    )
    archived = replace(PLANNED, archived=ArchivedInput(entry=7, safe_at=1, records=2))
    for request in (FromSavepoint(reason=""), rebuild):
        assert request.pinned(recovery, archived).archive_entry == 7
