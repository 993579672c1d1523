"""Requests of a restore: stored as what they are, the same savepoint from the plan on, and each field asked for by form and command."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final, get_args, get_type_hints

import pytest

from streams_recovery.cli import advice as advices
from streams_recovery.cli.advice import advice
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, NotExact, NotFound
from streams_recovery.core.forms import FieldKind, FormField, asked_for, savepoint_field
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.restore import interval
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.planned import ArchivedInput, ArchivedState
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import NO_STATE, OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import ReadOn
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import LATEST, is_id, new_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import (
    STRATEGIES,
    AsOfMoment,
    Failover,
    FromSavepoint,
    Rebuild,
    Rescale,
    RestoreRequest,
    RestoreTopics,
    Undo,
    UpgradeInPlace,
    undo_refused,
)
from tests.support.command_line import command
from tests.support.examples.forms import takes
from tests.support.examples.restore_plan import PLAN, with_part
from tests.support.project import PROJECT
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
    ArtifactRef | None: ArtifactRef(key="placed", sha256="a" * 64),
    tuple[int, ...]: (3,),
    int | None: 5,
    ReadOn: ReadOn.END,
    interval.IntervalSlice: interval.IntervalSlice(interval=interval.Interval(start=1, end=2), overlap=3, tables=("a",)),
}
PLANNED = replace(PLAN, savepoint_id=SECOND)
REBUILT = replace(PLANNED, part=RebuildPart(inputs_from="20261121T030000Z-0000000009"))


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
    pinned = filled(strategy, only_needed=True).pinned(recovery, REBUILT if strategy is Rebuild else PLANNED)
    if isinstance(pinned, Rescale):
        assert pinned.derived == PLANNED.savepoint_id, "the run takes its savepoint itself, and what was made of it is restored"
        return
    assert latest(pinned) == []
    assert filled(strategy).pinned(recovery, PLANNED) == filled(strategy), "what was named stays"


def test_latest_is_what_it_was_when_the_plan_was_made(recovery: RecoveryContext) -> None:
    assert FromSavepoint(reason="").pinned(recovery, PLANNED) == FromSavepoint(reason="", savepoint=SECOND, archive_entry=0, state_entry=0)
    taken_by = recovery.savepoints.read(SECOND).provenance.run_id
    assert Undo(reason="").pinned(recovery, PLANNED) == Undo(reason="", restore_id=taken_by)
    rebuild = Rebuild(reason="", offsets=EXACT)
    assert replace(rebuild, inputs_from=LATEST).pinned(recovery, REBUILT) == replace(
        rebuild, inputs_from=str(REBUILT.part.inputs_from), archive_entry=0
    )
    moment = AsOfMoment(reason="", as_of=VALUES[AsOf])
    assert moment.pinned(recovery, PLANNED) == replace(moment, savepoint=SECOND, archive_entry=0, state_entry=0)


def test_an_undo_is_offered_only_where_it_would_be_planned(golden: OpenGolden) -> None:
    recovery = golden("good")
    before = recovery.savepoints.read(SECOND)
    for run, label in (("r-exact", Consistency.EXACT), ("r-ahead", Consistency.AHEAD)):
        proof = replace(before.proof, reasons=("offsets moved",) if label is Consistency.AHEAD else ())
        taken = replace(before.provenance, run_id=run)
        saved = replace(
            before, savepoint_id=new_id(before.captured_at, run), consistency=label, proof=proof, provenance=taken, parent_id=None
        )
        recovery.safety.publish(saved)
    assert undo_refused(recovery, "r-exact") is None
    refused = undo_refused(recovery, "r-ahead")
    assert isinstance(refused, NotExact)
    assert "set `allow_ahead`" in str(refused), "as in the form of Airflow"
    assert "set `--allow-ahead`" in advice(refused.next_step), "and on the command line as its option"
    assert isinstance(undo_refused(recovery, "r-none"), NotFound)


def test_messages_call_a_field_of_a_request_what_its_reader_can_write() -> None:
    # Of a name that stands in the text itself the command line could make no option.
    named = re.compile(r"\b(allow_ahead|allow_damaged|in_place|as_of)\b|`(replace|delete|safety)`|\bagain with replace\b")
    asked = {one.name for one in advices._ASKED}
    for path in (PROJECT / "plugins/streams_recovery/operations").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        steps = "".join(
            ast.unparse(one.value) for one in ast.walk(ast.parse(text)) if isinstance(one, ast.keyword) and one.arg == "next_step"
        )
        assert named.findall(steps) == [], path
        assert {name.lower() for name in re.findall(r"([A-Z_]+)\.shown", text)} <= asked, path


def test_what_was_not_asked_for_is_not_there_afterwards(recovery: RecoveryContext) -> None:
    rebuild, moment = Rebuild(reason="", offsets=EXACT), AsOfMoment(reason="", as_of=VALUES[AsOf], savepoint=NO_STATE)
    assert (rebuild.pinned(recovery, PLANNED), moment.pinned(recovery, PLANNED)) == (
        replace(rebuild, archive_entry=0),
        replace(moment, archive_entry=0, state_entry=0),
    )
    archived = with_part(PLANNED, archived=ArchivedInput(entry=7, safe_at=1, records=2))
    for request in (FromSavepoint(reason=""), rebuild):
        assert request.pinned(recovery, archived).archive_entry == 7
    cut = with_part(PLANNED, state=ArchivedState(entry=9, at=1))
    for request in (FromSavepoint(reason=""), Failover(reason="", to="dr"), AsOfMoment(reason="", as_of=VALUES[AsOf])):
        assert request.pinned(recovery, cut).state_entry == 9


ASKED = {kind: strategy for kind, strategy in STRATEGIES.items() if strategy.COMMAND is not None}
# What a plan found in the archive, which its approval is about, the savepoint that a rescale has made, and what the drill of one has placed.
PLANNED_ONLY = {"archive_entry", "state_entry", "derived", "placed"}
# What is always so is not asked for: an undo and a rescale replace, and save first; a rebuild has no archive to compare keys with. Single topics replace no
# state, so there is nothing to guard, and no key of a store. An upgrade replaces nothing, and its way back is not to be skipped.
ALWAYS = {
    Undo: {"replace", "safety"},
    Rescale: {"replace", "safety"},
    Rebuild: {"compare_keys"},
    RestoreTopics: {"safeguards", "compare_keys"},
    UpgradeInPlace: {"safeguards", "compare_keys"},
}


def test_there_are_forms() -> None:
    assert set(ASKED) == {"from_savepoint", "undo", "rebuild", "as_of_moment", "single_topics", "failover", "upgrade", "rescale"}


@pytest.mark.parametrize("strategy", ASKED.values(), ids=ASKED)
def test_a_form_asks_for_each_field_of_its_request(strategy: type[RestoreRequest]) -> None:
    asked = [one.name for one in strategy.FORM]
    assert len(set(asked)) == len(asked)
    by_field = asked_for(strategy)
    guards = {one.name for one in fields(Safeguards)} if by_field["safeguards"] else set()
    unasked = {name for name, found in by_field.items() if not found} | (guards - set(asked))
    assert unasked - PLANNED_ONLY == ALWAYS.get(strategy, set())
    assert {one.name for one in by_field["safeguards"]} <= guards


@pytest.mark.parametrize("strategy", ASKED.values(), ids=ASKED)
def test_a_form_takes_the_values_of_the_type_of_each_field(strategy: type[RestoreRequest]) -> None:
    hints = get_type_hints(strategy) | get_type_hints(Safeguards)
    for name, asked in asked_for(strategy).items():
        for one in asked:
            assert takes(one, hints[one.name] if name == "safeguards" else hints[name]), name


@pytest.mark.parametrize("strategy", ASKED.values(), ids=ASKED)
def test_a_command_has_an_option_for_each_field_of_the_form(strategy: type[RestoreRequest]) -> None:
    options = {name: option for option in command(strategy.COMMAND).params for name in option.opts}
    for field in strategy.FORM:
        if field.name == "confirm":
            assert "--approve" in options
        elif field.name == "restore":
            assert options["restore"].metavar == "[RESTORE]"
        else:
            option = options[field.option_name]
            # The savepoint of one command is the base of a moment, too.
            assert option.help == field.option_help or field.title == "Base"
            if field.kind is FieldKind.CHOICE:
                assert [one.value for one in type(option.default)] == [*field.choices]


@pytest.mark.parametrize("field", [one for strategy in ASKED.values() for one in strategy.FORM], ids=lambda one: one.name)
def test_a_default_is_a_value_that_the_field_takes(field: FormField) -> None:
    if field.kind is FieldKind.CHOICE:
        assert field.default in field.choices
    if field.pattern and isinstance(field.default, str):
        assert re.fullmatch(field.pattern, field.default)
    assert field.title
    # Where an application is to go nobody can say for a person.
    # What a restore is of, and where an application is to go, nobody can say for a person.
    assert field.required is False or field.default or field.name in ("to", "topics")


@pytest.mark.parametrize("field", [one for strategy in ASKED.values() for one in strategy.FORM if one.name == "savepoint"])
def test_form_and_command_say_the_same_of_which_savepoint_is_the_latest(field: FormField) -> None:
    latest = str(field.help).split(". ")[0].removeprefix("latest: ")
    # Base: in place of a savepoint a moment has one that had read nothing later.
    assert field.option_help == f"Id, or `latest` for {latest}." or field.title == "Base"


def test_a_savepoint_is_an_id_or_a_word() -> None:
    savepoint = "20261121T012345Z-0123456789"
    assert is_id(savepoint)
    pattern = savepoint_field("live").pattern
    assert [text for text in (savepoint, "latest", "live", "none", "", f"{savepoint} ") if re.fullmatch(pattern, text)] == [
        savepoint,
        "latest",
        "live",
    ]
