"""What Faust cannot do is refused when a configuration is loaded, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import QuiesceMode, TopicRole

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


def test_it_is_stopped_though_it_has_programs_that_pause(tmp_path: Path) -> None:
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
def test_what_it_cannot_do_is_refused_with_the_reason(tmp_path: Path, sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        configured(tmp_path, **sections)
    assert said in caught.value.reason


def test_a_repartition_topic_can_be_named(tmp_path: Path) -> None:
    named = "words.count-said-Word.text-repartition"
    assert configured(tmp_path, topics={"owned": [named]}).topics.owned == (named,)


def test_a_drill_that_is_switched_off_is_none(tmp_path: Path) -> None:
    section = {"enabled": False, "application_id": "drill-words", "command": COMMAND["command"]}
    assert configured(tmp_path, drill=section).drill is not None
