"""The fields of requests: each request is asked for by its form, and a default is a value that its field takes."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from streams_recovery.core.forms import FieldKind, FormField, reason_field
from streams_recovery.core.outputs.comparison import OutputsOptions
from streams_recovery.core.sandbox.interval_log import ReprocessOptions
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.core.state.inspection import CompareRequest, LookUpRequest

REQUESTS: tuple[Any, ...] = (SavepointRequest, CompareRequest, LookUpRequest, ReprocessOptions, OutputsOptions)
# Who asks is a fact of the run. A form asks for the interval itself, which a backfill has of its own.
NOT_ASKED = {"run_id", "requested_by"}
INTERVAL = {"from", "to"}


@pytest.mark.parametrize("request_type", REQUESTS)
def test_a_form_asks_for_each_field_of_its_request(request_type: Any) -> None:
    asked = [one.name for one in request_type.FORM]
    assert len(set(asked)) == len(asked)
    assert set(asked) - INTERVAL == {one.name for one in fields(request_type)} - NOT_ASKED


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
