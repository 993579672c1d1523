"""Whose approval counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.approvers import ApprovalRule, candidates, outdated, refusal, shown, unanswerable

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
