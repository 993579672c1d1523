"""Only the whole hash approves a plan, and what a person copies tells afterwards which part has become another one.

Whose approval counts.
"""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.approval import (
    ApprovalRule,
    StatedPlan,
    approval,
    candidates,
    check_approved,
    different_parts,
    is_approved,
    outdated,
    pin_of,
    refusal,
    shown,
    unanswerable,
)
from streams_recovery.core.errors import PlanChanged
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.planned import ArchivedState, TopicToDelete
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.rollout.cutover import UpgradePlan
from tests.support.examples.restore_plan import PLAN, with_part

NAMES = ("the savepoint", "the offsets", "the topics", "the moment")
VALUE = st.one_of(st.none(), st.integers(0, 10**6), st.text(string.ascii_letters, max_size=5))
VALUES = st.tuples(*[VALUE] * len(NAMES)).map(lambda values: dict(zip(NAMES, values, strict=True)))

OF_THE_CUT = "the cut behind the savepoint that the state is of"


def stated(parts: dict[str, object], application_id: str = "shop") -> StatedPlan:
    return StatedPlan(application_id=application_id, text="the plan", parts=parts)


@given(VALUES)
def test_a_plan_is_approved_by_its_hash_and_by_what_is_copied(parts: dict[str, object]) -> None:
    plan = stated(parts)
    for approved in (plan.hash, approval(plan)):
        assert is_approved(plan, approved)
        check_approved(plan, approved)
    assert approval(plan).startswith(plan.hash)
    assert set(approval(plan)) <= set("0123456789abcdef"), "one word for a double click"


@given(entry=st.integers(0, 10**12 - 1))
def test_an_approval_says_of_which_cut_the_plan_is(entry: int) -> None:
    plan = with_part(PLAN, state=ArchivedState(entry=entry, at=5))
    assert pin_of(approval(plan)) == entry
    assert is_approved(plan, approval(plan))
    other = with_part(PLAN, state=ArchivedState(entry=entry + 1, at=5))
    assert not is_approved(other, approval(plan))
    # Of one entry in four thousand the few digits of this part are the same.
    assert set(different_parts(other, approval(plan))) <= {OF_THE_CUT}
    assert not is_approved(plan, f"{approval(plan)}0")
    assert not is_approved(plan, f"{plan.hash}x{entry + 1}")
    assert pin_of(approval(PLAN)) is None
    assert pin_of(f"{approval(PLAN)}xyz") is None


def test_a_plan_of_another_cut_names_what_differs() -> None:
    one, other = (with_part(PLAN, state=ArchivedState(entry=entry, at=5)) for entry in (7, 8))
    assert different_parts(other, approval(one)) == (OF_THE_CUT,)


@given(VALUES, VALUES)
def test_no_other_plan_is_approved_and_no_part_is_named_that_is_the_same(one: dict[str, object], other: dict[str, object]) -> None:
    changed = {name for name in NAMES if one[name] != other[name]}
    assert is_approved(stated(other), approval(stated(one))) == (not changed)
    assert set(different_parts(stated(other), approval(stated(one)))) <= changed


@given(VALUES, st.integers(0, 100))
def test_half_of_what_is_copied_approves_nothing(parts: dict[str, object], length: int) -> None:
    plan = stated(parts)
    whole = approval(plan)
    cut = whole[: length % len(whole)]
    assert is_approved(plan, cut) == (cut == plan.hash)


@given(VALUES, st.data())
def test_one_digit_that_is_another_one_approves_nothing(parts: dict[str, object], data: st.DataObject) -> None:
    plan = stated(parts)
    whole = approval(plan)
    at = data.draw(st.integers(0, len(whole) - 1))
    digit = data.draw(st.sampled_from(sorted(set("0123456789abcdef") - {whole[at]})))
    with pytest.raises(PlanChanged):
        check_approved(plan, whole[:at] + digit + whole[at + 1 :])


def test_the_refusal_names_the_parts_that_are_different() -> None:
    before, now = (stated({"the savepoint": number, "the offsets": 5, "the topics": topics}) for number, topics in ((1, "a"), (2, "b")))
    with pytest.raises(PlanChanged, match="Different are") as caught:
        check_approved(now, approval(before))
    assert caught.value.facts["current"] == now.hash
    assert caught.value.facts["different"] == ["the savepoint", "the topics"]


def test_the_beginning_of_a_hash_is_told_from_another_plan_s() -> None:
    plan = stated({"the savepoint": 1})
    with pytest.raises(PlanChanged, match="only the beginning of its hash: give the whole one"):
        check_approved(plan, plan.hash[:12])
    with pytest.raises(PlanChanged, match="is not the hash of a plan"):
        check_approved(plan, plan.hash[1:13])


@pytest.mark.parametrize(
    ("approved", "why"),
    [
        ("0", "'0' is not the hash of a plan"),
        ("another", "'another' is not the hash of a plan"),
        ("a" * 64, "the first 64 digits alone do not tell"),
        ("a" * 70, "what is different cannot be told"),
    ],
)
def test_what_tells_nothing_is_said_to_tell_nothing(approved: str, why: str) -> None:
    with pytest.raises(PlanChanged) as caught:
        check_approved(stated({"the savepoint": 1}), approved)
    assert why.lower() in caught.value.reason.lower()


def test_a_hash_that_was_cut_off_is_told_from_another_plan() -> None:
    plan = stated({"the savepoint": 1})
    with pytest.raises(PlanChanged, match="not copied completely"):
        check_approved(plan, approval(plan)[:-1])


CHANGES = {
    "application_id": ("another", "the application"),
    "source_application_id": ("another", "the savepoint (`--source`, `--savepoint`)"),
    "savepoint_id": ("20261122T012345Z-0123456789", "the savepoint (`--source`, `--savepoint`)"),
    "captured_at": (1, "the savepoint (`--source`, `--savepoint`)"),
    "consistency": (Consistency.AHEAD, "the savepoint (`--source`, `--savepoint`)"),
    "safety": (SafetyPolicy.SKIP, "what is saved first (`--safety`)"),
    "delete": ((TopicToDelete(name="t", topic_id="i"),), "topics that are deleted (`--delete`)"),
    "create": ((), "topics that are created, and those that they replace"),
    "offsets": ((), "the offsets that are set"),
    "strategy": ("earliest", "how the input offsets are chosen (`--offsets`)"),
    "part": (RebuildPart(inputs_from="20261122T012345Z-0123456789"), "the savepoint of the inputs (`--inputs-from`)"),
    "offsets_kept": ((TopicPartition("returns", 0),), "the inputs that keep their offsets (`--input-topics`)"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_restore_that_became_another_one_says_in_what(field: str) -> None:
    value, part = CHANGES[field]
    assert different_parts(replace(PLAN, **{field: value}), approval(PLAN)) == (part,)


def test_every_field_that_the_hash_covers_is_in_a_part() -> None:
    assert PLAN.parts["something else"] == {}, "a new field of the plan needs a name that an operator knows"
    shown = {"observed", "warnings", "offsets_agree", "evidence"}
    named = sum(len(part) for part in PLAN.parts.values() if isinstance(part, list))
    # Stored with a rescale only.
    assert named == len(codec.encode(PLAN).keys() - shown | {"rescaled"})


def test_an_upgrade_is_approved_like_everything_else() -> None:
    plan = UpgradePlan(old="old", clone="new", outputs={"a": "b"}, running=("one",), warnings=())
    check_approved(replace(plan, running=(), warnings=("w",)), approval(plan))
    assert different_parts(replace(plan, outputs={}), approval(plan)) == ("the outputs that are transferred",)


NAME = st.sampled_from(["anna", "bert", "cleo"])
RULES = st.builds(ApprovalRule, approvers=st.lists(NAME, unique=True).map(tuple), exclude_trigger=st.booleans())


@given(RULES, st.none() | NAME)
def test_whoever_may_be_asked_may_approve_and_no_other_name_on_the_list(rule: ApprovalRule, trigger: str | None) -> None:
    if unanswerable(rule, trigger, cleared=False) is None:
        for name in rule.approvers:
            allowed = refusal(rule, triggered_by=trigger, approved_by=name, cleared=False) is None
            assert allowed == (name in candidates(rule, trigger))


@given(RULES, st.none() | NAME, st.none() | NAME, st.booleans())
def test_without_a_rule_everybody_may_and_with_one_nobody_unknown(
    rule: ApprovalRule, trigger: str | None, approver: str | None, cleared: bool
) -> None:
    why = refusal(rule, triggered_by=trigger, approved_by=approver, cleared=cleared)
    if not rule.restricts:
        assert (why, unanswerable(rule, trigger, cleared=cleared)) == (None, None)
    elif approver is None:
        assert why is not None
    elif why is None:
        assert approver in rule.approvers or not rule.approvers
        assert not (rule.exclude_trigger and (approver == trigger or cleared))


@pytest.mark.parametrize(
    ("rule", "trigger", "said"),
    [
        (ApprovalRule(exclude_trigger=True), None, "it is not known who triggered"),
        (ApprovalRule(exclude_trigger=True, approvers=("anna",)), "anna", "nobody else is among its approvers"),
        (ApprovalRule(approvers=("anna",)), "anna", None),
        (ApprovalRule(exclude_trigger=True), "anna", None),
    ],
)
def test_a_question_that_nobody_could_answer_is_not_put(rule: ApprovalRule, trigger: str | None, said: str | None) -> None:
    found = unanswerable(rule, trigger, cleared=False)
    assert (found is None) if said is None else (found is not None and said in found)


def test_a_refusal_says_who_and_why() -> None:
    rule = ApprovalRule(approvers=("anna", "bert"), exclude_trigger=True)
    assert refusal(rule, triggered_by="anna", approved_by="anna", cleared=False) == "anna triggered this run and must not approve it"
    assert refusal(rule, triggered_by="anna", approved_by="cleo", cleared=False) == "cleo is not among the approvers: anna, bert"


def test_whoever_has_cleared_a_run_may_be_anybody() -> None:
    told = unanswerable(ApprovalRule(exclude_trigger=True), "anna", cleared=True)
    assert told is not None
    assert told.endswith("Trigger a new run")
    assert refusal(ApprovalRule(exclude_trigger=True), triggered_by="anna", approved_by="bert", cleared=True) == told
    assert unanswerable(ApprovalRule(approvers=("anna",)), "anna", cleared=True) is None, "who is named may do both"


def test_an_approval_counts_for_the_plan_that_was_read_only() -> None:
    approved = shown("Replace 3 topics.", "1.0")
    assert outdated(approved, plan="Replace 3 topics.", software="1.0") is None
    assert (
        outdated(approved, plan="Replace 4 topics.", software="1.0")
        == "the plan was made again after it was approved, and is another one now"
    )
    assert outdated(approved, plan="", software="1.0") is not None, "a plan that is gone"


@pytest.mark.parametrize(("approved", "before"), [(shown("Replace 3 topics.", "1.0"), "1.0"), ({}, "another version")])
def test_an_approval_does_not_outlive_an_update_of_this_software(approved: dict[str, str], before: str) -> None:
    assert outdated(approved, plan="Replace 3 topics.", software="1.1") == (
        f"the plan was shown by {before} of this software, and this is 1.1: it was updated while the run waited"
    )
