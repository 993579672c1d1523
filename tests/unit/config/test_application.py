"""Inputs by pattern: what may be written, and what a pattern means among the topics of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.application import Topics
from streams_recovery.config.loader import load
from streams_recovery.core.kafka_types import Profile
from tests.support.examples.configurations import APPLICATION, DRILL, MINIMAL, REPROCESS, refused, written

THERE = ("orders-eu", "orders-us", "orders", "all-orders-eu", "orders-global", "orders-foreign", "__consumer_offsets")


def test_what_a_pattern_means_depends_on_what_is_there() -> None:
    topics = Topics(inputs=("prices",), input_patterns=("orders-.*",), globals=("orders-global",), foreign=("orders-foreign",))
    assert topics.on(()).inputs == ("prices",)
    assert topics.on(THERE).inputs == ("prices", "orders-eu", "orders-us")
    assert topics.on(THERE).on(THERE) == topics.on(THERE)
    assert [name for name in (*THERE, "prices") if topics.reads(name)] == ["orders-eu", "orders-us", "prices"]
    plain = Topics(inputs=("prices",))
    assert plain.on(THERE) is plain


def test_savepoints_have_what_the_patterns_mean(tmp_path: Path) -> None:
    config = load(written(tmp_path, MINIMAL.replace("inputs: [orders-in]", 'input_patterns: ["in-.*"]')), {})
    assert config.declared(Profile.FULL).inputs == ()
    assert config.declared(Profile.FULL, ("in-b", "in-a", "out-a")).inputs == ("in-a", "in-b")


@pytest.mark.parametrize(
    ("topics", "why"),
    [
        ("{outputs: [totals]}", "name the topics that the application reads"),
        ("{input_patterns: ['orders-(']}", "cannot be read as a regular expression"),
        ("{input_patterns: ['\\p{Alpha}+']}", "cannot be read as a regular expression"),
        ("{input_patterns: ['" + "x" * 501 + "']}", "at most 500 characters"),
        ("{input_patterns: ['(a+)+$']}", "may take forever"),
        ("{input_patterns: ['.*']}", "they mean internal topics of orders too"),
        ("{input_patterns: ['orders-.*']}", "they mean internal topics of orders too"),
        ("{input_patterns: ['.*-repartition']}", "they mean internal topics of orders too"),
        ("{input_patterns: ['in-[a-z&&[^x]]+']}", "a set of characters within a set"),
        ("{input_patterns: ['in-[a-c[x-z]]+']}", "a set of characters within a set"),
    ],
)
def test_patterns_that_cannot_be_are_refused(tmp_path: Path, topics: str, why: str) -> None:
    assert why in refused(tmp_path, MINIMAL.replace("  inputs: [orders-in]\n", "").replace("topics:\n", f"topics: {topics}\n"))


def test_a_sandbox_has_no_topic_that_the_application_would_read(tmp_path: Path) -> None:
    def with_pattern(pattern: str) -> str:
        return APPLICATION.replace("inputs: [orders-in]", f"inputs: [orders-in], input_patterns: ['{pattern}']") + DRILL

    assert load(written(tmp_path, with_pattern("in-.*")), {}).drill is not None
    assert "drill-totals is a topic of the application itself" in refused(tmp_path, with_pattern("drill-totals"))
    assert "internal topics of drill-orders" in refused(tmp_path, with_pattern("drill-.*"))


def test_sets_of_characters_and_escaped_brackets_are_read_alike(tmp_path: Path) -> None:
    for pattern in (r"in-[a-z]+[0-9]", r"in-\[[a-z]", r"in-[a&b\[\]]"):
        topics = f"topics: {{input_patterns: ['{pattern}']}}\n"
        assert load(
            written(tmp_path, MINIMAL.replace("  inputs: [orders-in]\n", "").replace("topics:\n", topics)), {}
        ).topics.input_patterns == (pattern,)


def test_a_sandbox_cannot_rename_what_is_read_by_pattern(tmp_path: Path) -> None:
    text = APPLICATION.replace("inputs: [orders-in]", "inputs: [orders-in], input_patterns: ['in-.*']") + DRILL
    assert "in-eu is read by pattern" in refused(tmp_path, text.replace("topic_map: {totals", "topic_map: {in-eu: drill-in, totals"))


def test_an_interval_needs_inputs_with_names(tmp_path: Path) -> None:
    text = APPLICATION.replace("inputs: [orders-in]", "inputs: [orders-in], input_patterns: ['in-.*']") + REPROCESS
    assert "has no name of its own in an interval" in refused(tmp_path, text)
