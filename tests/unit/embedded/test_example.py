"""The example's configuration starts it as the stack prepares it, and by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from embedded import example
from embedded.java import QUICK
from embedded.running import down
from embedded.stack import APPLICATION, CONFIGS, PROJECT, Ports, Stack
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import ConfigInvalid


def command(**variables: str) -> tuple[str, ...]:
    runs = load_named(APPLICATION, CONFIGS, {f"STREAMS_RECOVERY_{name}": value for name, value in variables.items()}).runs
    assert runs.process is not None
    return runs.process.command


def test_by_hand_java_is_given_the_source_file() -> None:
    found = command(CLASSPATH="/somewhere/jars/*")
    assert found[0] == "java"
    assert found[-3:] == ("-cp", "/somewhere/jars/*", "examples/order_processing/OrderProcessing.java")
    assert (PROJECT / found[-1]).exists()
    assert not any("SharedArchiveFile" in word for word in found)


def test_the_stack_names_a_compiled_class_and_an_archive() -> None:
    found = command(CLASSPATH="/a.jar:/b.jar", EXAMPLE="OrderProcessing", EXAMPLE_CLASSES="-XX:SharedArchiveFile=/c.jsa")
    assert found[-4:] == ("-XX:SharedArchiveFile=/c.jsa", "-cp", "/a.jar:/b.jar", "OrderProcessing")


def test_the_flags_are_those_that_the_archive_is_made_with() -> None:
    flags = [word for word in command() if re.match(r"-XX:[+\-\w]", word)]
    assert flags == list(QUICK)


def test_what_runs_can_be_stopped_when_the_example_does_not_compile_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "SOURCE", tmp_path / "Missing.java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    ports = Ports(broker=1, controller=2, instances=(3, 4), airflow=5, drill=6)
    with pytest.raises(ConfigInvalid, match="no Java was found"):
        Stack(directory=tmp_path, ports=ports, guarantee="exactly_once_v2").config()
    (tmp_path / "stack.json").write_text(json.dumps({"ports": ports.numbers, "guarantee": "exactly_once_v2"}))
    assert down(tmp_path) == 0
