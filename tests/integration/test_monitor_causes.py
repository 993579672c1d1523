"""Causes of findings, each made on a real broker, application and repository: the finding comes with its cause, and is not there without it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.operations import maintenance, sandbox, savepoint, unfinished
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.in_place import Here, closed
from tests.support.applications.monitored import at, causes, limited, looked
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import begun, publish, take
from tests.support.applications.small import RUNNING, STOPPED, Small, asked, says, small_application, surviving
from tests.support.applications.topic_records import produce
from tests.support.kafka.consumers import member

pytestmark = pytest.mark.kafka
DAY = 24


@pytest.fixture
def calm(small: Small) -> Small:
    """With a savepoint that survives the loss of the cluster: nothing is found."""
    found = surviving(replace(small, recovery=limited(small)))
    publish(found)
    assert causes(found.recovery) == []
    return found


def kinds(found: list[str]) -> list[str]:
    return [cause.partition(":")[0] for cause in found]


@pytest.mark.deep
def test_input_that_is_not_read(calm: Small) -> None:
    produce(calm.recovery, calm.input, 5)
    assert causes(limited(calm, lag_records=6)) == []
    assert causes(limited(calm, lag_records=5)) == ["lag-high"]
    produce(calm.recovery, calm.input, 25)
    looked(at(calm.recovery, 0.25))
    produce(calm.recovery, calm.input, 25)
    assert causes(at(limited(calm, lag_growth=50), 0.5)) == ["lag-grows"], "about a hundred an hour"
    assert causes(at(limited(calm, lag_growth=150), 0.5)) == []


@pytest.mark.deep
def test_topics_that_are_large(calm: Small) -> None:
    assert causes(limited(calm, changelog_bytes=1)) == [f"changelog-large:{calm.changelog.topic}"]
    assert causes(limited(calm, repartition_bytes=1)) == [f"repartition-large:{calm.tail.topic}"]


@pytest.mark.deep
def test_changelogs_that_grow(calm: Small) -> None:
    produce(calm.recovery, calm.changelog, 5_000)
    looked(at(calm.recovery, 3))
    grown = at(calm.recovery, 7)
    assert "changelogs-grow" in causes(grown, growth_from_bytes=1, changelog_growth=0.001)
    assert "changelogs-grow" not in causes(grown, growth_from_bytes=1 << 40, changelog_growth=0.001)


@pytest.mark.deep
def test_a_repository_that_grows(calm: Small) -> None:
    produce(calm.recovery, calm.changelog, 500)
    publish(calm)
    looked(at(calm.recovery, 3))
    assert "repository-grows" in causes(at(calm.recovery, 7), growth_from_bytes=1, repository_growth=0.001)
    assert "repository-grows" not in causes(at(calm.recovery, 7), growth_from_bytes=1 << 40, repository_growth=0.001)


def test_a_disk_that_will_be_full(bootstrap: str) -> None:
    """In memory, where nobody else writes or deletes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place, small_application(bootstrap, Path(place)) as small:
        looked(limited(small))
        (Path(place) / "filler").write_bytes(os.urandom(16 << 20))
        looked(at(limited(small), 3))
        assert "disk-full-soon:repository" in causes(at(limited(small), 7), disk_full_within=3000 * 86_400.0)
        assert "disk-full-soon:repository" not in causes(at(limited(small), 7), disk_full_within=3600.0)


@pytest.mark.deep
def test_a_run_that_hangs_with_the_lock(calm: Small) -> None:
    calm.recovery.lock.acquire("savepoint somebody's", lease_seconds=9 * 3600, purpose="a savepoint")
    assert "lock-held-long" not in kinds(causes(at(calm.recovery, 5)))
    assert "lock-held-long" in kinds(causes(at(calm.recovery, 7)))


@pytest.mark.deep
def test_an_application_that_a_dead_run_left_paused(bootstrap: str, tmp_path: Path) -> None:
    with pausing(bootstrap, tmp_path) as small:
        recovery = limited(small)
        ticket = begun(recovery, QuiesceMode.PAUSE)
        assert savepoint.quiesce(recovery, ticket).still
        assert "quiesce-left" not in kinds(causes(recovery)), "its run has the lock"
        # As when its lease runs out.
        recovery.lock.release(ticket.lock)
        assert "quiesce-left" in kinds(causes(recovery))
        # The next run brings them back first.
        savepoint.finish(recovery, begun(recovery, QuiesceMode.PAUSE))
        assert "quiesce-left" not in kinds(causes(recovery))


@contextmanager
def pausing(bootstrap: str, directory: Path) -> Iterator[Small]:
    """An application that says it is paused once it is told to, and that it runs once it is told that."""
    state = directory / "state.json"
    become = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    states = {verb: json.dumps([RUNNING[0] | {"streams_state": word}]) for verb, word in (("pause", "PAUSED"), ("resume", "RUNNING"))}
    state.write_text(states["resume"])
    programs = {verb: [sys.executable, "-c", become, str(state), text] for verb, text in states.items()}
    with small_application(bootstrap, directory, programs={"status": ["cat", str(state)], **programs}) as small:
        yield small


@pytest.mark.deep
def test_a_restore_that_is_late_and_one_that_was_left_half_way(calm: Small) -> None:
    recovery = calm.recovery
    ticket = opened(recovery, asked(recovery, replace=True))
    assert not {"restore-unfinished", "restore-over-deadline"} & {*kinds(causes(recovery))}
    assert f"restore-over-deadline:{ticket.restore_id}" in causes(at(calm.recovery, 0.002), restore_time=2.0)
    saved(recovery, ticket)
    loaded(recovery, ticket)
    recovery.lock.release(ticket.lock)
    given_up = causes(recovery)
    assert f"restore-unfinished:{ticket.restore_id}" in given_up
    assert "restore-over-deadline" not in kinds(given_up)
    unfinished.dismiss(recovery, ticket.restore_id)
    assert "restore-unfinished" not in kinds(causes(recovery))


@pytest.mark.deep
def test_input_that_was_set_aside(here: Here) -> None:
    restore_id = closed(here)
    assert "quarantine-left" not in kinds(causes(here.recovery))
    assert f"quarantine-left:{restore_id}" in causes(at(here.recovery, DAY + 1))


@pytest.mark.deep
def test_a_repository_that_lost_a_file_and_one_that_nobody_has_checked(calm: Small) -> None:
    recovery = calm.recovery
    checked(recovery)
    assert causes(recovery) == []
    recovery.repository.delete([next(iter(recovery.repository.keys(recovery.layout.segments)))])
    assert causes(recovery) == [], "nobody has looked"
    checked(recovery)
    assert causes(recovery) == ["check-failed"]
    assert "check-overdue" in causes(at(recovery, 9 * DAY))


@pytest.mark.deep
def test_a_savepoint_that_finds_the_one_before_it_not_whole_says_so_and_what_shares_with_it_is_told_of(calm: Small) -> None:
    recovery, before = calm.recovery, calm.recovery.savepoints.ids()
    recovery.repository.delete([next(key for key in recovery.repository.keys(recovery.layout.segments) if "changelog" in key)])
    assert causes(recovery) == []
    done = take(calm)
    assert any(f"savepoint {before[-1]} is not whole" in warning and before[-1] in warning for warning in done.warnings)
    (found,) = [one for one in looked(recovery).findings if one.kind == "check-failed"]
    assert before[-1] in found.text
    assert done.savepoint_id not in found.text, "it was copied anew"
    assert not any("is not whole" in warning for warning in take(calm).warnings)


def checked(recovery: RecoveryContext) -> None:
    ticket = maintenance.plan_check(recovery, savepoint="all", level="structure", run_id="test")
    maintenance.conclude_check(recovery, ticket, None)


@pytest.mark.deep
def test_a_drill_that_failed(calm: Small) -> None:
    recovery = calm.recovery
    sandbox.conclude(recovery, run_id="run 1", requested_by="test", began_at=recovery.clock(), ticket=None, report=None, left=())
    assert causes(recovery) == ["drill-failed"]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("states", "with_member", "found"),
    [
        ([("a", "running", "ERROR"), ("b", "running", "RUNNING")], True, "instance-in-error:a"),
        ([("a", "gone", None), ("b", "running", "RUNNING")], True, "instances-gone"),
        ([("a", "gone", None), ("b", "gone", None)], True, "group-members-unknown"),
        ([("a", "running", "RUNNING"), ("b", "running", "RUNNING")], False, "group-empty"),
        ([("a", "running", "RUNNING"), ("b", "running", "RUNNING")], True, None),
        ([("a", "gone", None), ("b", "gone", None)], False, "application-down"),
    ],
    ids=["in error", "one is gone", "strangers", "nobody reads", "all run", "all stopped"],
)
def test_instances_and_the_group(
    bootstrap: str, tmp_path: Path, states: list[tuple[str, str, str | None]], with_member: bool, found: str | None
) -> None:
    said = [STOPPED[0] | {"name": name, "state": state, "streams_state": streams} for name, state, streams in states]
    about_them = {"application-down", "instance-in-error", "instances-gone", "group-members-unknown", "group-empty"}
    with small_application(bootstrap, tmp_path, programs={"status": says(said)}) as small:
        if with_member:
            with member(small.recovery, small.recovery.application_id, small.input.topic):
                assert about(small, about_them) == ([found] if found else [])
        else:
            assert about(small, about_them) == ([found] if found else [])


def about(small: Small, wanted: set[str]) -> list[str]:
    """What a look finds of these kinds."""
    return sorted(one.cause for one in looked(limited(small)).findings if one.kind in wanted)
