"""Which topics a resumed restore may find otherwise than they were when its plan was approved."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from streams_recovery.core.errors import PlanChanged
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations.restore.target_checks import check_same_targets
from tests.support.examples.restore_plan import PLAN, TOPIC

OUTPUT = replace(TOPIC, name="totals")


def plan(*names: str) -> RestorePlan:
    return replace(PLAN, delete=(), create=tuple(replace(OUTPUT, name=name) for name in names))


@pytest.mark.fault("F3")
def test_an_empty_topic_that_was_to_be_created_may_be_there_now() -> None:
    check_same_targets(plan("totals", "sums"), plan("sums"), empty={"totals"})


@pytest.mark.parametrize(
    ("approved", "now", "empty", "named"),
    [
        (["totals", "sums"], ["sums"], [], "totals"),
        (["totals", "sums"], ["sums"], ["sums"], "totals"),
        (["totals"], ["totals", "orders"], [], "orders"),
        # An input that was to stay as it was is another one now.
        (["totals"], ["totals", "orders"], ["orders"], "orders"),
    ],
)
def test_nothing_else_may_be_created_than_was_approved(
    approved: Collection[str], now: Collection[str], empty: Collection[str], named: str
) -> None:
    with pytest.raises(PlanChanged, match="would be created") as caught:
        check_same_targets(plan(*approved), plan(*now), empty=empty)
    assert caught.value.facts == {"topics": [named]}
