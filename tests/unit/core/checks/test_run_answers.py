"""Answers of programs, judged field by field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.core import codec
from streams_recovery.core.checks.run_answers import FIELDS, wrong_after, wrong_form, wrong_sense

GONE = {"name": "one", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 1"}
UP = {"name": "one", "state": "running", "streams_state": "RUNNING", "closed_cleanly": None, "detail": "pid 1"}
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=3) | st.integers(), max_size=2)


def test_every_field_of_an_instance_is_judged() -> None:
    assert set(FIELDS) == {one.name for one in fields(InstanceStatus)}
    needed = {name for name, (is_needed, _, _) in FIELDS.items() if is_needed}
    assert needed == {"name", "state", "streams_state", "closed_cleanly", "detail"}


@given(st.sampled_from([GONE, UP]), st.sampled_from(sorted(FIELDS)), VALUES)
def test_what_has_the_right_form_can_be_read_and_nothing_else(one: dict[str, Any], name: str, value: object) -> None:
    answer = {**codec.encode(InstanceStatus(**{**UP, "state": InstanceState.RUNNING})), **one, name: value}
    wrong = wrong_form([answer])
    assert all(found.where == f"[0].{name}" for found in wrong)
    if not wrong:
        assert codec.decode(tuple[InstanceStatus, ...], [answer], where="an answer")


@pytest.mark.parametrize("found", [None, {}, [], "gone", 3])
def test_what_is_no_list_of_instances_is_one_fault(found: object) -> None:
    [wrong] = wrong_form(found)
    assert "a list with every instance" in str(wrong)


def test_each_fault_is_named_with_its_field() -> None:
    wrong = wrong_form([{**UP, "state": "up", "closed": True}, 7, {name: value for name, value in GONE.items() if name != "detail"}])
    assert [str(one) for one in wrong] == [
        '[0].state: expected one of running, gone, unknown, got "up"',
        "[0].closed: expected no such field, got true",
        "[1]: expected an object with the fields of an instance, got 7",
        "[2].detail: expected text, got no such field",
    ]


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({**GONE, "streams_state": "RUNNING"}, "one.streams_state"),
        ({**GONE, "closed_cleanly": None}, "one.closed_cleanly"),
        ({**UP, "closed_cleanly": False}, "one.closed_cleanly"),
        ({**UP, "streams_state": "up"}, "one.streams_state"),
        ({**UP, "streams_state": None}, "one.streams_state"),
        ({**UP, "stopped_here": True}, "one.stopped_here"),
    ],
)
def test_what_contradicts_itself_is_told(changed: dict[str, object], where: str) -> None:
    assert [one.where for one in wrong_sense([changed])] == [where]


def test_what_is_right_is_not_blamed() -> None:
    right = [GONE, {**UP, "name": "two"}, {**UP, "name": "three", "streams_state": None, "silent": True}]
    assert wrong_form(right) == wrong_sense(right) == ()
    assert [one.where for one in wrong_sense([GONE, GONE])] == ["one.name"]


@pytest.mark.parametrize(
    ("verb", "answer", "where"),
    [
        ("stop", GONE, []),
        ("stop", UP, ["one.state"]),
        ("stop", {**GONE, "closed_cleanly": False, "stopped_here": False}, ["one.closed_cleanly", "one.stopped_here"]),
        ("start", UP, []),
        ("start", {**UP, "streams_state": "REBALANCING"}, ["one.streams_state"]),
        ("start", GONE, ["one.state"]),
        ("pause", {**UP, "streams_state": "PAUSED"}, []),
        ("pause", UP, ["one.streams_state"]),
        ("resume", UP, []),
        ("resume", {**UP, "streams_state": "PAUSED"}, ["one.streams_state"]),
        ("stop", {**GONE, "name": "other"}, ["one"]),
    ],
)
def test_what_a_verb_has_to_reach(verb: str, answer: dict[str, object], where: list[str]) -> None:
    assert [one.where for one in wrong_after(verb, [answer], ["one"])] == where
