"""Savepoints that are killed, stopped in mid-step or rivalled: what exists is whole, and the next run puts everything back."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator

import pytest

from embedded.demo.checks import wait_counted
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.waiting import poll
from streams_recovery.operations import quiesce_record, savepoint, topic_holds
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.storage.append_log import AppendLog
from tests.support.leases import later
from tests.support.stack.changelogs import rows_in_the_savepoint, rows_on_the_cluster
from tests.support.stack.commands import Command, files_below, jobs_of
from tests.support.stack.savepoints import take
from tests.support.stack.stage import Stage, stage
from tests.support.stack.watch import Condition, topic_settings

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture(autouse=True)
def free(on: Stage) -> None:
    """No test begins under a lock that a failed one left."""
    holder = on.recovery.lock.holder()
    if holder is not None:
        on.recovery.lock.take_from(holder.owner)


def backup(on: Stage, *options: str, **variables: str) -> Command:
    return Command(on, "backup", "--json", "--logs", str(on.stack.directory / "logs"), *options, **variables)


def expiry_approval(on: Stage) -> str:
    """What approves the expiry that would be done now."""
    with Command(on, "expire", "--plan", "--json") as shown:
        approval: str = shown.result()["approve"]
    return approval


def lock_records(on: Stage) -> list[LockRecord]:
    return AppendLog(on.recovery.repository, on.recovery.layout.locks, LockRecord).read_all()


def check_whole(on: Stage, savepoint_id: str, before: dict[str, dict[str, str]]) -> Manifest:
    """The savepoint has every record of the changelogs up to its cut once, in order, and shows the topics' own settings."""
    found = on.recovery.savepoints.read(savepoint_id)
    stored, truth = rows_in_the_savepoint(on.recovery, found), rows_on_the_cluster(on.recovery, found)
    assert {tp: rows for tp, rows in stored.items() if rows != truth[tp]} == {}
    assert sum(map(len, stored.values())) > 0
    assert {topic.name: topic.config for topic in found.topics} == {topic.name: before[topic.name] for topic in found.topics}
    return found


def kill_at(on: Stage, phase: str, mode: str) -> tuple[Command, Condition]:
    """A run that was killed there. One that slipped through, its lock given back, is a savepoint like any other."""
    # A long commit interval holds a paused application long enough to be looked at.
    slowly = {"STREAMS_RECOVERY_COMMIT_INTERVAL_MS": "1500"} if mode == "pause" else {}
    for _ in range(5):
        on.await_running()
        on.generator.feed(300)
        watch = Condition(on)
        with backup(on, "--mode", mode, **slowly) as command:
            if command.kill_when(watch.moment(phase), near=watch.near(phase)) and on.recovery.lock.holder() is not None:
                return command, watch
    raise AssertionError(f"no run could be caught in {phase}")


DEEP = pytest.mark.deep


@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    ("phase", "mode"),
    [
        pytest.param("begin", "pause", marks=DEEP),
        pytest.param("quiesce", "pause", marks=DEEP),
        ("quiesce", "stop"),
        pytest.param("capture", "pause", marks=DEEP),
        pytest.param("capture", "stop", marks=DEEP),
        pytest.param("resume", "pause", marks=DEEP),
        pytest.param("resume", "stop", marks=DEEP),
        pytest.param("copy", "pause", marks=DEEP),
        pytest.param("verify", "pause", marks=DEEP),
        pytest.param("publish", "pause", marks=DEEP),
        pytest.param("finish", "pause", marks=DEEP),
    ],
)
def test_killed_at_any_phase_and_the_next_run_completes_and_puts_everything_back(on: Stage, phase: str, mode: str) -> None:
    recovery, before = on.recovery, topic_settings(on)
    killed, watch = kill_at(on, phase, mode)
    ids, published = watch.ids, [path.parent.name for path in watch.new("savepoints/*/*")]
    assert len(published) == (phase in ("publish", "finish"))
    assert recovery.savepoints.ids() == [*ids, *published]
    holder = recovery.lock.holder()
    assert holder is not None
    assert re.fullmatch(r"savepoint cli-[0-9a-f]{32}", holder.owner)
    if phase not in ("publish", "finish"):
        assert topic_holds.outstanding(recovery) != ()
    if phase == "quiesce":
        assert watch.held()
    assert (quiesce_record.left(recovery) is not None) == (phase in ("quiesce", "capture", "resume"))
    assert poll(lambda: None if jobs_of(on) else True, seconds=60), "a job outlived the run it belongs to"
    assert list(killed.temporary.glob("*.secrets")) == []
    orphans = set(watch.new("segments/**/*.parquet"))

    # Its process is proven dead from here, so nobody waits for its lease to end.
    summary = take(on, recovery, f"after {phase} {mode}")
    assert summary.consistency == "exact"
    assert recovery.savepoints.ids() == [*ids, *published, summary.savepoint_id]
    taken = [record for record in lock_records(on) if record.kind == "acquire"][-1]
    assert taken.took_over_from == holder.owner
    assert on.held() == []
    assert quiesce_record.left(recovery) is None
    assert len(on.await_running()) == 2
    assert topic_settings(on) == before
    for savepoint_id in (*published, summary.savepoint_id):
        found = check_whole(on, savepoint_id, before)
    named = {watch.root.parent / file.key for _, file in found.files()}
    if phase in ("copy", "verify"):
        assert orphans, "it had copied something"
    assert (orphans <= named) if published else not (orphans & named)


@DEEP
def test_a_savepoint_without_news_takes_seconds_and_no_job(on: Stage) -> None:
    wait_counted(on.recovery, on.generator.sent, seconds=180)
    assert poll(lambda: True if take(on, on.recovery, f"settled {time.monotonic_ns()}").new_records == 0 else None, seconds=900)
    log = on.stack.directory / "logs" / "backup.log"
    watch, size = Condition(on), log.stat().st_size
    with backup(on) as command:
        summary = command.result()
    assert (summary["new_records"], summary["fetched"], summary["consistency"]) == (0, 0, "exact")
    assert summary["records"] > 0
    assert "copy_records: nothing to do" in command.err
    assert log.stat().st_size == size
    assert watch.new("segments/**/*.parquet") == []


@pytest.mark.fault("F14")
def test_of_two_at_once_the_second_is_told_who_and_how_long_and_how_to_break_it(on: Stage) -> None:
    on.generator.feed(200)
    before, ids, instances, watch = topic_settings(on), on.recovery.savepoints.ids(), on.await_running(), Condition(on)
    with backup(on) as first:
        assert first.stop_when(lambda: bool(watch.new("work/*/backup-spec.*")), near=watch.near("begin"))
        time.sleep(1)
        held, records, state = topic_settings(on), len(lock_records(on)), files_below(watch.root)
        for verb, options in (("backup", ["--mode", "stop"]), ("expire", ["--approve", expiry_approval(on)])):
            with Command(on, verb, *options) as second:
                said = second.refused(5)
            found, ages = re.search(r"LockHeld: (savepoint cli-\w{32}) holds the lock", said), re.search(r"(\d+) s old\D+(\d+) s", said)
            assert found, said
            assert ages, said
            assert int(ages[1]) >= 1
            assert LEASE_SECONDS - 120 < int(ages[2]) <= LEASE_SECONDS
            assert f"streams-recovery unlock order-processing '{found[1]}'" in second.err.splitlines()[-1]
            assert second.out == ""
        assert (topic_settings(on), len(lock_records(on)), files_below(watch.root)) == (held, records, state)
        first.signal(signal.SIGCONT)
        summary = first.result()
    assert on.recovery.savepoints.ids() == [*ids, summary["savepoint_id"]]
    assert on.instances() == instances
    assert (on.held(), topic_settings(on)) == ([], before)
    check_whole(on, summary["savepoint_id"], before)


@pytest.mark.remedy("lock-take")
def test_a_dead_run_s_lock_is_taken_by_name_and_the_next_run_brings_the_application_back(on: Stage) -> None:
    before = topic_settings(on)
    kill_at(on, "quiesce", "pause")
    holder = on.recovery.lock.holder()
    assert holder is not None
    with Command(on, "unlock", "savepoint somebody") as wrong:
        assert holder.owner in wrong.refused(3)
    assert on.recovery.lock.holder() == holder
    with Command(on, "unlock", holder.owner, "--plan") as shown:
        assert shown.wait() == 0, shown.err
    with Command(on, "unlock", holder.owner, "--approve", shown.err.split()[-1]) as right:
        assert right.wait() == 0, right.err
    assert "order-processor-1, order-processor-2 may still be held (mode pause)" in right.err
    with backup(on) as after:
        summary = after.result()
    assert summary["consistency"] == "exact"
    assert (on.held(), topic_settings(on)) == ([], before)
    assert len(on.await_running()) == 2


@pytest.mark.fault("F16")
@DEEP
def test_a_run_that_slept_past_its_lease_publishes_nothing_and_changes_nothing(on: Stage) -> None:
    on.generator.feed(200)
    before, watch = topic_settings(on), Condition(on)
    with backup(on) as sleeper:
        assert sleeper.stop_when(watch.moment("verify"), near=watch.near("verify"))
        summary = take(on, later(on.recovery), "while it slept")
        instances, state = on.await_running(), files_below(watch.root)
        sleeper.signal(signal.SIGCONT)
        said = sleeper.refused(5)
    assert re.search(r"LockLost: savepoint cli-\w{32} no longer holds", said)
    # Where it slept behind the first look at its lock, it has stored the tables of its ranges: by their content, and no manifest names them. Where it slept
    # while it wrote to renew that lock, it has removed what it had begun to write.
    kept = {name: size for name, size in files_below(watch.root).items() if name in state or not name.startswith("ranges/")}
    assert kept == {name: size for name, size in state.items() if name in kept or "#" not in name}, "not one object more"
    assert [path.parent.name for path in watch.new("savepoints/*/*")] == [summary.savepoint_id]
    assert on.instances() == instances
    assert (on.held(), topic_settings(on)) == ([], before)
    check_whole(on, summary.savepoint_id, before)


@pytest.mark.fault("F16")
@DEEP
def test_a_run_that_wakes_while_another_holds_the_application_does_not_let_it_go(on: Stage) -> None:
    recovery, before, watch = later(on.recovery), topic_settings(on), Condition(on)
    on.await_running()
    with backup(on, STREAMS_RECOVERY_COMMIT_INTERVAL_MS="1500") as sleeper:
        assert sleeper.stop_when(watch.moment("quiesce"), near=watch.near("quiesce"))
        ticket = savepoint.begin(recovery, SavepointRequest(run_id="awake", requested_by="test", reason="", mode=QuiesceMode.PAUSE))
        assert watch.going(), "what the sleeper had left paused was brought back first"
        try:
            try:
                quiesced = savepoint.quiesce(recovery, ticket)
                guarded = topic_settings(on)
                sleeper.signal(signal.SIGCONT)
                # Where it slept while a pause was answered, it misses the answer first (7); else it misses the lock (5).
                assert sleeper.wait() in (5, 7), sleeper.err
                assert "no longer holds the lock" in sleeper.err
                assert watch.held()
                assert topic_settings(on) == guarded != before
                assert savepoint.capture(recovery, ticket, quiesced).consistency == "exact"
            finally:
                savepoint.resume(recovery, ticket)
        finally:
            savepoint.finish(recovery, ticket)
    assert len(on.await_running()) == 2
    assert (on.held(), topic_settings(on)) == ([], before)
    assert watch.new("savepoints/*/*") == []
