"""The fields of requests: each request is asked for by its form, and a default is a value that its field takes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.forms import CONFIRM, FieldKind, Form, FormField, asked_for, reason_field, request_of
from streams_recovery.core.outputs.comparison import OutputsOptions
from streams_recovery.core.sandbox.interval_log import ReprocessOptions
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.core.state.inspection import CompareRequest, LookUpRequest, compare_request
from streams_recovery.operations.rollout import CutoverRequest
from tests.support.examples.forms import takes

REQUESTS: tuple[Any, ...] = (CutoverRequest, SavepointRequest, CompareRequest, LookUpRequest, ReprocessOptions, OutputsOptions)
# Who asks is a fact of the run.
NOT_ASKED = {"run_id", "requested_by"}
NAMES = tuple[str, ...]


@pytest.mark.parametrize("request_type", REQUESTS)
def test_a_form_asks_for_each_field_of_its_request(request_type: Any) -> None:
    asked = [one.name for one in request_type.FORM]
    assert len(set(asked)) == len(asked)
    hints = get_type_hints(request_type)
    for name, found in asked_for(request_type).items():
        assert bool(found) is (name not in NOT_ASKED), name
        # The names of stores are one text, with commas.
        assert all(takes(one, hints[name]) or (hints[name], one.kind) == (NAMES, FieldKind.TEXT) for one in found), name


@pytest.mark.parametrize("field", [one for request in REQUESTS for one in request.FORM], ids=lambda one: one.name)
def test_a_default_is_a_value_that_the_field_takes(field: FormField) -> None:
    if field.kind is FieldKind.CHOICE:
        assert (field.default or "") in field.choices
    if field.pattern and isinstance(field.default, str):
        assert re.fullmatch(field.pattern, field.default)
    assert field.title
    assert field.required is False or field.default


def test_a_length_of_time_may_be_left_out_and_is_a_duration() -> None:
    [lateness] = [one for one in ReprocessOptions.FORM if one.name == "lateness"]
    texts = ("", "PT1H", "P1DT2H3M4S", "1h", "PT1H ", "T1H", "P1H")
    assert [text for text in texts if re.fullmatch(lateness.pattern, text)] == ["", "PT1H", "P1DT2H3M4S"]


def test_a_reason_says_what_it_is_kept_with_wherever_it_is_asked_for() -> None:
    field = reason_field("the pin")
    assert (field.name, field.title, field.option_name) == ("reason", "Reason", "--reason")
    assert field.help == field.option_help == "Kept with the pin."


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    careful: bool = True
    kept: tuple[str, ...] = ()


CAREFUL = FormField(name="careful", title="Careful", kind=FieldKind.SWITCH, default=True, rank=1)
KEPT = FormField(name="kept", title="Kept", kind=FieldKind.TOPICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    FORM = Form()
    reason: Annotated[str, reason_field("the test")]
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted(Base):
    """A request with a field of each sort."""

    colour: Annotated[
        Colour | None, FormField(title="Colour", kind=FieldKind.CHOICE, choices={"": "Any", "red": "Red", "blue": "Blue"})
    ] = None
    layers: Annotated[tuple[int, ...], FormField(name="layer", title="Layers", kind=FieldKind.NUMBERS)] = (1,)
    guards: Annotated[Guards, CAREFUL, KEPT]
    length: Annotated[float, FormField(title="Length")] = 2.0


METRES = {float: lambda asked, given: float(given.get(asked[0].name) or 7)}


def painted(**given: Any) -> Painted:
    return request_of(Painted, given, METRES, run_id="r1")


def test_a_form_has_what_the_fields_of_a_request_ask_for_in_their_order_and_by_rank() -> None:
    assert [one.name for one in Painted.FORM] == ["colour", "layer", "kept", "length", "careful", "reason"]
    assert [one.name for one in Base.FORM] == ["reason"]


@pytest.mark.parametrize(("field", "given"), [("kept", ["a", "b", "a"]), ("layer", [1, 1])])
def test_what_a_list_has_twice_is_refused(field: str, given: list[Any]) -> None:
    with pytest.raises(ConfigInvalid, match=f"`{field}` has {given[0]} more than once") as caught:
        painted(**{field: given})
    assert caught.value.facts == {"names": [str(given[0])]}


def test_a_request_is_made_of_what_was_given_and_else_is_as_its_type_has_it() -> None:
    empty = Painted(reason="", run_id="r1", guards=Guards())
    assert painted() == painted(colour=None, layer=None, kept=None, reason=None) == painted(colour="", unknown=1, run_id="r2") == empty
    assert painted(length=None).length == 7.0, "a reader is asked for what is asked for, and left out"
    assert painted(colour="blue", layer=[2, 3], careful=False, kept=["a", "b"], length="4", reason="why") == Painted(
        reason="why", run_id="r1", colour=Colour.BLUE, layers=(2, 3), guards=Guards(careful=False, kept=("a", "b")), length=4.0
    )


def test_a_name_of_a_topic_that_is_not_allowed_makes_no_request() -> None:
    with pytest.raises(ConfigInvalid, match=r"topic '\.\./x' is not allowed"):
        painted(kept=["../x"])


def test_the_confirmation_and_the_reason_end_a_form() -> None:
    assert CAREFUL.rank < CONFIRM.rank < reason_field("x").rank


def test_stores_to_compare_are_one_text() -> None:
    given = {"savepoint": "latest", "other": "live", "stores": "b, a,b,"}
    assert compare_request(given, run_id="r", requested_by="me") == CompareRequest(
        savepoint="latest", other="live", stores=("b", "a"), run_id="r", requested_by="me"
    )
    assert compare_request(given | {"stores": None}, run_id="r", requested_by="me").stores == ()
