"""An application's own word counts; where it has not given it, the configuration does, and that is said."""

from __future__ import annotations

import pytest

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.savepoint.assumptions import commit_interval, of_pause, of_stop

CLOSED = ApplicationKind.KAFKA_STREAMS.dialect.closed


@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    ("reported", "wanted"),
    [
        ({"a": 30_000, "b": 30_000}, 30_000),  # the configuration says 100, and nothing of the last half minute is committed
        ({"a": 50, "b": 70}, 70),
        ({"a": None, "b": None}, 100),
        ({"a": 50, "b": None}, 100),
        ({"a": 300, "b": None}, 300),
        ({}, 100),
    ],
)
def test_a_pause_lasts_as_long_as_the_application_itself_says(reported: dict[str, int | None], wanted: int) -> None:
    assert commit_interval(reported, 100) == wanted


def test_a_pause_does_not_last_as_long_as_an_instance_likes() -> None:
    assert commit_interval({"a": 3_600_000}, 100) == 3_600_000
    with pytest.raises(Refused, match="b reports a commit interval of 3600001 ms") as caught:
        commit_interval({"a": 50, "b": 3_600_001, "c": None}, 100)
    assert caught.value.facts["intervals"] == {"b": 3_600_001}


def test_what_a_pause_rests_on_is_said() -> None:
    (said,) = of_pause(Guarantee.AT_LEAST_ONCE, {"b": None, "a": None, "c": 5}, 30_000)
    assert said.startswith("its label assumes that a, b commits every 30000 ms")
    assert of_pause(Guarantee.AT_LEAST_ONCE, {"a": 5}, 30_000) == ()
    assert of_pause(Guarantee.EXACTLY_ONCE_V2, {"a": None}, 30_000) == (), "an open transaction would show"


def test_what_a_stop_rests_on_is_said() -> None:
    (said,) = of_stop(Guarantee.AT_LEAST_ONCE, ["b", "a"], CLOSED)
    assert said.startswith("its label assumes that a, b closed Kafka Streams before it ended")
    assert of_stop(Guarantee.AT_LEAST_ONCE, [], CLOSED) == ()
    assert of_stop(Guarantee.EXACTLY_ONCE_V2, ["a"], CLOSED) == ()
