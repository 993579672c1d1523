"""Outputs of the demonstration beside what their orders cause: a result twice, a missing one and a wrong one are seen."""

from __future__ import annotations

import pytest

from embedded.demo.outputs import Compared, compared
from examples.order_processing.orders import World
from examples.order_processing.truth import FINAL_MS, Result, result, results

ONCE, LAST, OTHER = Result("a", "1"), Result("a", "2"), Result("b", "1")
EXPECTED = {ONCE: False, LAST: True}
WORLD = World(seed=1, customers=2, products=3, start_ms=10 * FINAL_MS, step_ms=FINAL_MS // 4)


@pytest.mark.parametrize(
    ("found", "twice", "missing", "of_no_order"),
    [
        ([ONCE, LAST], 0, 0, 0),
        ([LAST], 0, 0, 0),
        ([ONCE, LAST, ONCE], 1, 0, 0),
        ([LAST, LAST, LAST], 2, 0, 0),
        ([ONCE], 0, 1, 0),
        ([LAST, OTHER, OTHER], 1, 0, 2),
        ([], 0, 1, 0),
    ],
)
def test_each_result_must_be_there_once(found: list[Result], twice: int, missing: int, of_no_order: int) -> None:
    seen = compared(found, EXPECTED)
    assert seen == Compared(records=len(found), twice=twice, missing=missing, of_no_order=of_no_order)
    assert seen.right == (bool(found) and not twice and not missing and not of_no_order)


def test_orders_cause_a_total_each_and_a_count_of_each_window_that_is_over_in_its_partition() -> None:
    found = results(WORLD, range(10), lambda key: int(key[2:]))
    totals, final = found["customer-totals"], found["order-counts-final"]
    assert len(totals) == 10
    assert all(totals.values())
    first = WORLD.customer(0)
    assert result(first, {"count": 1, "cents": WORLD.order(0)["cents"]}) in totals
    assert [sum(must for one, must in found["enriched-orders"].items() if one.key == f"c-{number}") for number in range(2)] == [1, 1]
    starts = {int(one.key.split("@")[1]) for one in final}
    assert starts == {10 * FINAL_MS, 11 * FINAL_MS}, "the third window is open"
    assert sum(int(one.value) for one in final) == 8
