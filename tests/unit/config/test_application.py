"""Inputs by pattern, and what Faust cannot do: refused when a configuration is loaded, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Profile, QuiesceMode, TopicRole
from streams_recovery.core.savepoint.topology import Topics
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


# Faust

COMMAND = {"kind": "command", "command": {verb: ["true"] for verb in ("status", "stop", "start", "wipe", "pause", "resume")}}
PODS = {
    "kind": "kubernetes",
    "kubernetes": {"namespace": "apps", "workload": "deployment/words", "port": 8080, "state_directory": "/var/state/words"},
}


def configured(directory: Path, **sections: Any) -> ApplicationConfig:
    text: dict[str, Any] = {
        "version": 1,
        "application": {"id": "words", "kind": "faust", "guarantee": "at_least_once"},
        "topics": {"inputs": ["said"]},
        "storage": {"backend": "filesystem", "path": "/var/lib/savepoints"},
        "backup": {"survive_cluster_loss": False},
        "runs": COMMAND,
    }
    for name, section in sections.items():
        text[name] = {**text.get(name, {}), **section}
    path = directory / "words.yaml"
    path.write_text(json.dumps(text))
    return load(path, {})


def test_faust_is_stopped_though_it_has_programs_that_pause(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert config.quiesce_mode is QuiesceMode.STOP
    assert config.application.commit_interval_seconds == 2.8
    assert config.internal_role("words.count-said-Word.text-repartition") is TopicRole.REPARTITION
    assert configured(tmp_path, backup={"consistency": {"mode": "stop"}}).quiesce_mode is QuiesceMode.STOP


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"backup": {"consistency": {"mode": "pause"}}}, "nothing that pauses a worker"),
        ({"backup": {"consistency": {"mode": "live"}}}, "mode live is not possible with Faust"),
        ({"application": {"guarantee": "exactly_once_v2"}}, "exactly_once_v2 of Faust is not supported"),
        ({"clone": {"of": "words-old"}}, "clone: not possible with Faust: names of Faust's repartition topics come from the code"),
        ({"drill": {"application_id": "drill-words", "command": COMMAND["command"]}}, "drill: not possible with Faust"),
        ({"stores": {"minutes": {"kind": "window"}}}, "the key of a windowed one is JSON"),
        ({"stores": {"minutes": {"source": "said"}}}, "restores a table from its changelog only"),
        ({"restore": {"topic_map": {"said": "said-then"}}}, "said cannot have another name"),
        ({"topics": {"input_patterns": ["said-.*"]}}, "topics.input_patterns: no test has brought an application of Faust back"),
        ({"application": {"topology_command": ["true"]}}, "Faust has no Topology#describe()"),
        (
            {
                "sites": {
                    "west": {
                        "connection": "west",
                        "runs": {**COMMAND, "command": {**COMMAND["command"], "status": ["w"]}},
                        "topic_map": {"said": "x"},
                    }
                }
            },
            "sites.west.topic_map: said cannot have another name",
        ),
        ({"runs": PODS}, "kind kubernetes does not know where Faust has its local state"),
        ({"topics": {"inputs": ["other.count-in-key-repartition"]}}, "is an internal topic of words"),
        ({"topics": {"owned": ["said"]}}, "is not called like an internal topic"),
    ],
)
def test_what_faust_cannot_do_is_refused_with_the_reason(tmp_path: Path, sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        configured(tmp_path, **sections)
    assert said in caught.value.reason


def test_a_repartition_topic_can_be_named(tmp_path: Path) -> None:
    named = "words.count-said-Word.text-repartition"
    assert configured(tmp_path, topics={"owned": [named]}).topics.owned == (named,)


def test_a_drill_that_is_switched_off_is_none(tmp_path: Path) -> None:
    section = {"enabled": False, "application_id": "drill-words", "command": COMMAND["command"]}
    assert configured(tmp_path, drill=section).drill is not None
