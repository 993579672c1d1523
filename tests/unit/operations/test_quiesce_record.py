"""An application that is let go after a pause, and one that does not survive it, also when strange objects lie beside the record of it.

Programs answer for its instance; no broker is asked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.config.runs import ProcessRuns
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, LockLost, NotFound, Refused
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.savepoint.cut import QuiesceRecord
from streams_recovery.core.scheduled_run import RunEntry, ScheduledRun
from streams_recovery.core.words import command
from streams_recovery.operations import quiesce_record, savepoint
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.renewed_lock import HeldLock
from streams_recovery.operations.restore.open import note, plan_left
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.operations.unfinished import dismiss, needed_savepoints
from tests.support.applications.unreachable import opened, running, stopped
from tests.support.leases import later

# Answers with the first of the states in a file, and takes it away as long as there is another one.
STATUS = """
import json, sys
path = sys.argv[1]
states = open(path).read().split()
if len(states) > 1:
    open(path, "w").write(" ".join(states[1:]))
gone = states[0] == "gone"
one = {"name": "one", "state": "gone" if gone else "running", "streams_state": None if gone else states[0], "closed_cleanly": None, "detail": ""}
print(json.dumps([one | json.loads(sys.argv[2])]))
"""


@contextmanager
def application(
    directory: Path,
    states: Sequence[str],
    started: Sequence[str] = ("RUNNING",),
    *,
    known: Mapping[str, object] | None = None,
    **sections: object,
) -> Iterator[RecoveryContext]:
    """One whose instance is seen in these states, one after the other, and in others once it was started again."""
    (directory / "states").write_text(" ".join(states))
    (directory / "status.py").write_text(STATUS)
    start = f"open({str(directory / 'states')!r}, 'w').write({' '.join(started)!r}); open({str(directory / 'started')!r}, 'a').write('x')"
    config = {
        "version": 1,
        "name": "app",
        "application": {"id": "app", "guarantee": "exactly_once_v2"},
        "topics": {"inputs": ["in"]},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": False},
        "runs": {
            "kind": "command",
            "command": {
                "status": [sys.executable, "-I", "-S", str(directory / "status.py"), str(directory / "states"), json.dumps(known or {})],
                "stop": ["false"],
                "start": [sys.executable, "-I", "-S", "-c", start],
                "wipe": ["false"],
                "pause": ["true"],
                "resume": ["true"],
            },
        },
        **sections,
    }
    (directory / "app.yaml").write_text(json.dumps(config))
    nowhere = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})}
    with open_context(load_named("app", directory, {}), EnvironmentConnections(nowhere)) as recovery:
        yield recovery


def test_an_application_that_goes_on_after_a_pause_is_let_go(tmp_path: Path) -> None:
    with application(tmp_path, ["RUNNING"]) as recovery:
        assert quiesce_record.resume(recovery, QuiesceMode.PAUSE, ("one",)) == ("one",)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("end", [["PENDING_ERROR", "ERROR", "gone"], ["gone"]], ids=["fails", "is gone"])
@pytest.mark.parametrize("seen", [2, 3], ids=["at once", "after it was seen working"])
def test_one_that_ends_after_it_was_resumed_is_started_again_and_told_of(tmp_path: Path, end: list[str], seen: int) -> None:
    # The resume itself looks twice.
    with (
        application(tmp_path, ["RUNNING"] * seen + end) as recovery,
        pytest.raises(ApplicationNotReady, match="were started again") as caught,
    ):
        quiesce_record.resume(recovery, QuiesceMode.PAUSE, ("one",))
    assert caught.value.facts == {"instances": ["one"]}
    assert (tmp_path / "started").read_text() == "x"


def test_only_the_limit_of_the_way_that_is_chosen_bounds_a_start(tmp_path: Path) -> None:
    instance = {"name": "one", "url": "http://127.0.0.1:9", "state_directory": str(tmp_path / "state")}
    unused = ProcessRuns.model_validate(
        {"directory": str(tmp_path), "command": ["java"], "instances": [instance], "start_timeout_seconds": 1}
    )
    with application(tmp_path, ["gone"], ["CREATED"] * 6 + ["RUNNING"]) as recovery:
        runs = recovery.config.runs.model_copy(update={"process": unused})
        slow = replace(recovery, config=recovery.config.model_copy(update={"runs": runs}))
        assert quiesce_record.resume(slow, QuiesceMode.STOP, ("one",)) == ("one",)


def test_an_instance_that_fails_does_not_work(tmp_path: Path) -> None:
    with application(tmp_path, ["ERROR"]) as recovery:
        assert quiesce_record.working(recovery, ("one",)) is None


@pytest.mark.parametrize("consistency", [{"mode": "pause"}, {"mode": "live", "fallback": "pause"}, {"mode": "stop", "fallback": "pause"}])
def test_standby_replicas_and_a_pause_are_refused_in_a_configuration(tmp_path: Path, consistency: dict[str, str]) -> None:
    sections = {
        "application": {"id": "app", "guarantee": "exactly_once_v2", "standby_replicas": 1},
        "backup": {"survive_cluster_loss": False, "consistency": consistency},
    }
    with pytest.raises(ConfigInvalid, match="KAFKA-20731"), application(tmp_path, ["RUNNING"], **sections):
        pass


@pytest.mark.parametrize("consistency", [{}, {"mode": "stop"}, {"mode": "live", "fallback": "stop"}])
def test_and_a_pause_that_only_a_run_asks_for_before_anything_is_touched(tmp_path: Path, consistency: dict[str, str]) -> None:
    sections = {
        "application": {"id": "app", "guarantee": "exactly_once_v2", "standby_replicas": 1},
        "backup": {"survive_cluster_loss": False, "consistency": consistency},
    }
    with application(tmp_path, ["RUNNING"], **sections) as recovery:
        with pytest.raises(Refused, match="KAFKA-20731"):
            savepoint.begin(recovery, SavepointRequest(run_id="r", requested_by="test", reason="", mode=QuiesceMode.PAUSE))
        assert recovery.lock.holder() is None


def test_a_pause_that_is_not_offered_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    programs = {verb: ["false"] for verb in ("status", "stop", "start", "wipe")}
    with application(tmp_path, ["RUNNING"], runs={"kind": "command", "command": programs}) as recovery:
        with pytest.raises(Refused, match=r"runs\.command has no pause"):
            savepoint.begin(recovery, SavepointRequest(run_id="r", requested_by="test", reason="", mode=QuiesceMode.PAUSE))
        assert recovery.lock.holder() is None


HOUR = 3_600_000


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("known", "age", "run", "back"),
    [
        ({"stopped_here": True}, 0, None, True),
        ({"stopped_here": True}, 99 * HOUR, None, True),
        ({"stopped_here": False}, 0, None, False),
        ({}, HOUR, None, True),
        ({}, 25 * HOUR, None, False),
        ({}, -HOUR, None, False),
        ({"stopped_here": True}, 0, "ended", False),
        ({"stopped_here": True}, 0, "begins", True),
    ],
)
def test_a_record_starts_only_what_is_proven_to_be_down_because_of_a_run(
    tmp_path: Path, known: dict[str, bool], age: int, run: str | None, back: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with application(tmp_path, ["gone"], known=known, run={"schedule": "0 * * * *"} if run else {}) as recovery:
        record = QuiesceRecord(kind="begins", run="them", mode=QuiesceMode.STOP, instances=("one", "no such"), at=recovery.clock() - age)
        quiesce_record.quiesce_log(recovery).append(record)
        if run is not None:
            begun = ScheduledRun(run_id="r", started_at=1, until=None, ends={}, before={}, gone={}, instances=())
            quiesce_record.run_log(recovery).append(RunEntry(kind="ended" if run == "ended" else "begins", at=1, run=begun))
        assert quiesce_record.at_work(recovery) == (("one",) if back else ())
        assert quiesce_record.resume_abandoned(recovery) == (("one",) if back else ())
        assert (tmp_path / "started").exists() is back
        assert quiesce_record.left(recovery) is None
    assert ("left stopped although a record says" in caplog.text) is not back


@pytest.mark.fault("F63")
def test_a_record_of_no_instance_that_there_is_starts_nothing(tmp_path: Path) -> None:
    with application(tmp_path, ["gone"]) as recovery:
        quiesce_record.begin(recovery, "them", QuiesceMode.STOP, ("two",))
        assert quiesce_record.resume_abandoned(recovery) == ()
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("touched", [False, True], ids=["somebody else has stopped it", "the savepoint fell back to a stop"])
def test_a_live_savepoint_brings_back_only_what_it_has_held_after_all(tmp_path: Path, touched: bool) -> None:
    with application(tmp_path, ["gone"]) as recovery:
        ticket = savepoint.Ticket(
            application_id="app",
            savepoint_id="20261121T012345Z-0123456789",
            request=SavepointRequest(run_id="r", requested_by="me", reason="", mode=None),
            mode=QuiesceMode.LIVE,
            fallback=QuiesceMode.STOP,
            lock=recovery.lock.acquire("savepoint r", lease_seconds=60, purpose="test"),
            mark=1,
            started_at=0,
            running=("one",),
            safety=False,
            expected=(),
        )
        if touched:
            quiesce_record.begin(recovery, ticket.savepoint_id, QuiesceMode.STOP, ("one",))
        assert savepoint.resume(recovery, ticket).instances == (("one",) if touched else ())
        assert quiesce_record.left(recovery) is None
    assert (tmp_path / "started").exists() is touched


def junk(recovery: RecoveryContext, prefix: str, number: int | None = None) -> None:
    """An object that is no entry, by default as the newest one."""
    behind = number or len(list(recovery.repository.keys(prefix))) + 1
    recovery.repository.create(f"{prefix}{behind:012}.json", b"{}")


@pytest.mark.fault("F63")
def test_an_entry_of_what_stood_still_that_cannot_be_read_is_passed_over(recovery: RecoveryContext) -> None:
    stopped(recovery)
    junk(recovery, recovery.layout.quiesce_records)
    assert quiesce_record.resume_abandoned(recovery) == ("one",)
    assert (running(recovery), quiesce_record.left(recovery)) == (True, None)
    junk(recovery, recovery.layout.quiesce_records)
    assert quiesce_record.left(recovery) is None


@pytest.mark.fault("F63")
@pytest.mark.parametrize("number", [None, 900], ids=["unreadable", "with a number far ahead"])
def test_a_strange_record_of_the_lock_leaves_nobody_held(recovery: RecoveryContext, number: int | None) -> None:
    ticket = HeldLock(lock=recovery.lock.acquire("savepoint", lease_seconds=60, purpose="a test"))
    junk(recovery, recovery.layout.locks, number)
    quiesce_record.check_may_resume(recovery, ticket)
    quiesce_record.check_may_resume(later(recovery), ticket)


@pytest.mark.fault("F63")
def test_but_not_while_a_restore_is_unfinished(recovery: RecoveryContext) -> None:
    ticket = opened(recovery)
    note(recovery, ticket, Phase.DESTROYING)
    junk(recovery, recovery.layout.locks)
    with pytest.raises(Damaged, match=recovery.layout.locks):
        quiesce_record.check_may_resume(recovery, ticket)


@pytest.mark.fault("F83")
def test_of_a_restore_that_an_undelete_brought_back_by_half_everybody_says_that_to_dismiss_it_is_the_way_out(
    recovery: RecoveryContext,
) -> None:
    ticket = opened(recovery)
    note(recovery, ticket, Phase.DESTROYING)
    recovery.repository.delete([key for key in recovery.repository.keys(recovery.layout.artifacts) if ticket.restore_id in key])
    for ask in (lambda: plan_left(recovery, ticket.restore_id), lambda: needed_savepoints(recovery)):
        with pytest.raises(NotFound, match="nobody can go on with it") as caught:
            ask()
        assert caught.value.commands == (command("dismiss", recovery.config.name, ticket.restore_id),)
    recovery.lock.release(ticket.lock)
    dismiss(recovery, ticket.restore_id)
    assert needed_savepoints(recovery) == frozenset()
    with pytest.raises(NotFound, match="there is no restore"):
        plan_left(recovery, "20261121T012345Z-0123456789")


@pytest.mark.fault("F63")
def test_nor_while_another_run_had_the_lock_as_far_as_it_can_be_read(recovery: RecoveryContext) -> None:
    ticket = HeldLock(lock=recovery.lock.acquire("savepoint", lease_seconds=60, purpose="a test"))
    after = later(recovery)
    after.lock.acquire("somebody", lease_seconds=60, purpose="a test")
    junk(recovery, recovery.layout.locks)
    with pytest.raises(LockLost, match="the newest record is of somebody"):
        quiesce_record.check_may_resume(after, ticket)
    quiesce_record.check_may_resume(later(after), ticket)
