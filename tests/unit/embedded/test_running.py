"""What `make up` leaves running has archived inputs, a clone and an application for the past, and can be shown."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from embedded.applications import NEXT, PAST, Applications
from embedded.ports import free_ports
from embedded.running import _known, _remember, _to_look_at, _variables_file
from embedded.showing import Shown, moment_text
from embedded.stack import APPLICATION, Ports
from streams_recovery.config.loader import load_all
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
