"""What `make up` leaves running is configured and can be shown and stopped, and the example starts as the stack prepares it and by hand."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from embedded import example
from embedded.applications import NEXT, PAST, Applications
from embedded.java import QUICK
from embedded.ports import free_ports
from embedded.running import _known, _remember, _to_look_at, _variables_file, down
from embedded.showing import Shown, moment_text
from embedded.stack import APPLICATION, CONFIGS, PROJECT, Ports, Stack
from streams_recovery.config.loader import load_all, load_named
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.words import parse_moment


@pytest.fixture
def stack(tmp_path: Path) -> Applications:
    """One that was up, of which only the files are left."""
    return Applications(directory=tmp_path, ports=Ports.of(free_ports(6)), guarantee="exactly_once_v2", schedule="0 * * * *", starts=False)


def test_all_of_it_is_configured(stack: Applications) -> None:
    found = load_all(Path(stack.variables["STREAMS_RECOVERY_CONFIG_DIR"]), stack.variables)
    assert (set(found.applications), found.broken) == ({APPLICATION, PAST, NEXT}, {})
    first, past, clone = (found.applications[name] for name in (APPLICATION, PAST, NEXT))
    assert first.backup.survive_cluster_loss
    assert first.drill is not None
    assert clone.clone is not None
    assert clone.clone.of == APPLICATION
    assert set(past.restore.topic_map) == {*first.topics.inputs, *first.topics.globals, *first.topics.outputs}
    assert [one.backup.schedule for one in (first, past, clone)] == ["0 * * * *", None, None], "of the others there is nothing to save yet"
    assert {one.retention.schedule for one in found.applications.values()} == {None}


def test_what_was_started_is_known_afterwards(stack: Applications) -> None:
    _remember(stack)
    assert _known(stack.directory) == stack


def test_a_terminal_gets_what_the_tasks_have(stack: Applications) -> None:
    file = _variables_file(stack)
    assert file.stat().st_mode & 0o077 == 0
    lines = (shlex.split(line)[0].split("=", 1) for line in file.read_text().splitlines())
    assert dict(lines) == stack.variables


def test_it_says_what_there_is_to_look_at() -> None:
    assert "make up SHOW=all" in _to_look_at(None)
    told = _to_look_at(Shown(before="one", moment="2026-11-21T12:00:00Z", after="two", drill="succeeded"))
    for word in ("one", "two", "2026-11-21T12:00:00Z", PAST, "succeeded"):
        assert word in told


def test_the_moment_is_one_that_a_restore_takes() -> None:
    moment = datetime(2026, 11, 21, 13, 0, 0, tzinfo=timezone(timedelta(hours=1)))
    assert moment_text(moment) == "2026-11-21T12:00:00Z"
    assert parse_moment(moment_text(moment)) == datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp() * 1000


# The example


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
