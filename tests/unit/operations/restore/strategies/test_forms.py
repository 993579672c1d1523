"""The fields of a request, its form and its command are the same: each is asked for, and each that is asked for is read."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
import typer

from streams_recovery.cli.app import app
from streams_recovery.core.forms import FieldKind, FormField, savepoint_field
from streams_recovery.core.restore.failover import TO
from streams_recovery.core.restore.request import Safeguards
from streams_recovery.core.words import is_id
from streams_recovery.operations.restore.strategies import STRATEGIES, RestoreRequest

ASKED = {kind: strategy for kind, strategy in STRATEGIES.items() if strategy.COMMAND is not None}
# The value of a field is made of these fields of the form; a scope of a DAG asks for the source.
MADE_OF = {
    "as_of": ("as_of", "by"),
    "cut_at": ("as_of", "by"),
    # What a plan found in the archive, which its approval is about.
    "archive_entry": (),
    "restore_id": ("restore",),
    "safeguards": tuple(one.name for one in fields(Safeguards)),
    "source": (),
}
COMMANDS = typer.main.get_command(app).commands


def test_there_are_forms() -> None:
    assert set(ASKED) == {"from_savepoint", "undo", "rebuild", "as_of_moment", "single_topics", "failover", "upgrade"}


@pytest.mark.parametrize("strategy", ASKED.values(), ids=ASKED)
def test_a_form_asks_for_each_field_of_its_request(strategy: type[RestoreRequest]) -> None:
    asked = [one.name for one in strategy.FORM]
    assert len(set(asked)) == len(asked)
    wanted = {name for field in fields(strategy) for name in MADE_OF.get(field.name, (field.name,))}
    # What is always so is not asked for: an undo replaces, and saves first; a rebuild has no archive to compare keys with.
    # Single topics replace no state, so there is nothing to guard, and no key of a store.
    # An upgrade replaces nothing, and its way back is not to be skipped.
    unguarded = {*MADE_OF["safeguards"], "compare_keys"}
    always = {"undo": {"replace", "safety"}, "rebuild": {"compare_keys"}, "single_topics": unguarded, "upgrade": unguarded}
    assert set(asked) == wanted - always.get(strategy.KIND, set())


@pytest.mark.parametrize("strategy", ASKED.values(), ids=ASKED)
def test_a_command_has_an_option_for_each_field_of_the_form(strategy: type[RestoreRequest]) -> None:
    options = {name: option for option in COMMANDS[strategy.COMMAND].params for name in option.opts}
    for field in strategy.FORM:
        if field.name == "confirm":
            assert "--approve" in options
        elif field.name == "restore":
            assert "restore_id" in options
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
    assert field.required is False or field.default or field is TO


def test_a_savepoint_is_an_id_or_a_word() -> None:
    savepoint = "20261121T012345Z-0123456789"
    assert is_id(savepoint)
    pattern = savepoint_field("live").pattern
    assert [text for text in (savepoint, "latest", "live", "none", "", f"{savepoint} ") if re.fullmatch(pattern, text)] == [
        savepoint,
        "latest",
        "live",
    ]
