"""Lists of names are cut short, and say how many more there are."""

from __future__ import annotations

import pytest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.text.names import first_names

NAMES = [f"t{number}" for number in reversed(range(8))]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (NAMES[:2], "t6, t7"),
        (NAMES[3:], "t0, t1, t2, t3, t4"),
        (NAMES, "t0, t1, t2, t3, t4 and 3 more"),
        ({TopicPartition("in", number): 1 for number in (10, 9)}, "in-9, in-10"),
    ],
)
def test_the_first_names_in_order_and_how_many_more(names: list[str], text: str) -> None:
    assert first_names(names) == text


def test_as_many_as_are_asked_for() -> None:
    assert first_names(NAMES, 2) == "t0, t1 and 6 more"
