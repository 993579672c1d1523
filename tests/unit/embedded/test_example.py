"""The example's configuration starts it as the stack prepares it, and by hand."""

from __future__ import annotations

import re

from embedded.java import QUICK
from embedded.stack import APPLICATION, CONFIGS, PROJECT
from streams_recovery.config.loader import load_named


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
