from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.kafka.configs import Changes, missing_changes, same_value, topic_defaults


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("compact,delete", "compact, delete", True),
        ("compact,delete", "delete,compact", False),
        ("007", "7", True),
        ("0.5", "0.50", True),
        ("-1", "-1", True),
        ("true", "TRUE", True),
        ("9223372036854775807", "9223372036854775806", False),
        ("zstd", "ZSTD", False),
        (None, None, True),
        (None, "", False),
        ("x", None, False),
    ],
)
def test_values_are_compared_as_a_broker_reads_them(left: str | None, right: str | None, same: bool) -> None:
    assert same_value(left, right) is same
    assert same_value(right, left) is same


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_never_rounded(left: int, right: int) -> None:
    assert same_value(str(left), str(right)) is (left == right)


def test_what_has_not_arrived_is_named() -> None:
    changes: Changes = {"a": {"x": "1", "y": None, "z": "2"}, "b": {"x": None}, "absent": {"x": "1", "gone": None}}
    overrides = {"a": {"x": "01", "y": "5", "other": "9"}, "b": {"other": "1"}}
    assert missing_changes(overrides, changes) == {"a": ["y", "z"], "absent": ["x"]}


def test_nothing_is_missing_when_all_has_arrived() -> None:
    assert missing_changes({"a": {"x": "1"}}, {"a": {"x": "1", "y": None}}) == {}


@pytest.mark.parametrize(
    ("broker", "retention"),
    [
        ({"log.retention.hours": "168"}, "604800000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "5"}, "300000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "5", "log.retention.ms": "7"}, "7"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({"log.retention.hours": "168", "log.retention.ms": "-1"}, "-1"),
        ({}, "-1"),
    ],
)
def test_what_a_topic_without_overrides_has(broker: dict[str, str], retention: str) -> None:
    settings = {**broker, "log.cleanup.policy": "compact,delete", "log.cleaner.min.compaction.lag.ms": "60000"}
    expected = {"cleanup.policy": "compact,delete", "retention.ms": retention, "min.compaction.lag.ms": "60000"}
    assert topic_defaults(settings) == expected
