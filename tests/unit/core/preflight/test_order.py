"""A preflight tells what to mend in the order in which it is mended, and each blocker ends with one command or one line of YAML."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from documentation.remedies import EXAMPLES
from streams_recovery.core.checks.catalogue import CHECKS
from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.errors import Refused
from streams_recovery.core.preflight.findings import (
    STAGES,
    PreflightFinding,
    PreflightSeverity,
    Stage,
    blocking,
    blocking_finding,
    in_order,
    refused,
    required,
    warning,
)
from streams_recovery.core.remedies.remedy import AS_REFUSED, Remedy, as_refused
from tests.support.project import PROJECT

AGAIN = "streams-recovery preflight orders --for backup"
# Who makes a finding, and the argument that is its kind.
MAKERS = ("warning", "blocking_finding", "refused", "PreflightFinding")
# What it is given in variables, by these values.
IN_VARIABLES = {"hold", "unfinished", "site", "topics", "outputs", "managed-elsewhere", "autoscaler", "store", "keys"}


def kinds_in_code() -> Iterator[str]:
    """The kinds of findings that are written where findings are made."""
    for path in (PROJECT / "plugins" / "streams_recovery").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # One of two may be chosen where it is called.
            if isinstance(node, ast.Call) and {one.id for one in ast.walk(node.func) if isinstance(one, ast.Name)} & {*MAKERS}:
                given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "kind")]
                yield from (str(one.value) for one in given if isinstance(one, ast.Constant))


def test_each_kind_of_finding_has_its_place_and_each_place_its_kind() -> None:
    asked = {kind for check in CHECKS for one in (Occasion.SAVEPOINT, Occasion.RESTORE) for kind in check.kinds(one)}
    # Told before a run by its own line and not as a finding, when it is only info.
    assert {*asked, *kinds_in_code(), *IN_VARIABLES} == {*STAGES}


SETTINGS = [one for one in EXAMPLES if one.setting]


@pytest.mark.parametrize("remedy", SETTINGS, ids=lambda one: one.kind.id)
def test_a_setting_is_a_line_of_yaml_whose_key_and_value_the_configuration_takes(remedy: Remedy) -> None:
    ((path, value),) = yaml.safe_load(remedy.setting).items()
    assert remedy.commands == ()
    schema = json.loads((PROJECT / "include" / "configs" / "application.schema.json").read_text(encoding="utf-8"))
    found = schema
    for key in path.split("."):
        found = resolved(schema, found)["properties"][key]
    found = resolved(schema, found)
    assert value in found.get("enum", [value, *found.get("examples", [])])


def resolved(schema: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    for one in (found, *found.get("anyOf", ())):
        if "$ref" in one:
            return resolved(schema, schema["$defs"][one["$ref"].rpartition("/")[2]])
    return found


kinds, remedies = st.sampled_from(sorted(STAGES)), st.sampled_from(EXAMPLES)
findings = st.builds(
    lambda make, kind, remedy: make(kind, "it is so", remedy), st.sampled_from([warning, blocking_finding]), kinds, remedies
)


@given(st.lists(findings, max_size=12))
def test_blockers_come_first_in_the_order_of_their_stages_and_each_ends_with_one_step(found: list[PreflightFinding]) -> None:
    told = in_order(found, AGAIN)
    assert sorted((one.kind, one.severity) for one in told) == sorted((one.kind, one.severity) for one in found)
    assert [*told] == sorted(told, key=lambda one: (one.severity is not PreflightSeverity.BLOCKING, STAGES[one.kind]))
    for one in blocking(told):
        assert one.next_step == (one.remedy.commands[0] if one.remedy.commands else one.remedy.setting) != ""
        assert one.text.endswith(one.remedy.sentence), "the words are told too"


def test_what_is_mended_first_comes_first() -> None:
    made = [blocking_finding(kind, "x", as_refused("y")) for kind in ("store", "instances", "topics", "hold", "acl")]
    assert [one.kind for one in in_order(made, AGAIN)] == ["acl", "hold", "topics", "instances", "store"]
    assert list(Stage) == sorted(Stage)


def test_a_refusal_keeps_its_command_or_its_setting() -> None:
    error = Refused("it is held", next_step="take it back", setting="backup.consistency.mode: stop")
    assert refused("update-held", error).next_step == "backup.consistency.mode: stop"
    assert refused("update-held", error.then("kubectl rollout undo x")).next_step == "kubectl rollout undo x"
    (again,) = in_order([refused("update-held", Refused("it is held", next_step="take it back"))], AGAIN)
    assert (again.text, again.next_step, again.remedy.kind) == ("it is held. Take it back", AGAIN, AS_REFUSED)


def test_a_run_that_cannot_begin_names_them_in_that_order() -> None:
    made = [blocking_finding("store", "no store", as_refused("b")), blocking_finding("acl", "no right", as_refused("a", "grant it"))]
    with pytest.raises(Refused) as caught:
        required(made, "a savepoint of orders")
    assert caught.value.facts["kinds"] == ["acl", "store"]
    assert caught.value.commands == ("grant it",)
