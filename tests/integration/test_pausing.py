"""Mode pause on a real broker, with an application that says of itself what it keeps ready for others."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from streams_recovery.core.errors import ApplicationNotReady, NotExact, Refused
from streams_recovery.core.group_members import UnknownMembers
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.preflight.findings import PreflightSeverity
from streams_recovery.core.waiting import poll
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.preflight import before_backup
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import begun, take
from tests.support.applications.small import RUNNING, STOPPED, configured_for, lose_state, says, small_application, with_policy
from tests.support.kafka.consumers import joining, living

# Puts what the status program prints next in place of what it prints now.
PAUSE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(pathlib.Path(sys.argv[2]).read_text())"

# The same, and keeps what the status program printed until then.
PAUSE_AND_KEEP = f"import shutil, sys; shutil.copy(sys.argv[1], sys.argv[3]); {PAUSE}"

# Prints what stands in a file, and leaves a letter in another for each time.
TELL_AND_COUNT = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text()); pathlib.Path(sys.argv[2]).open('a').write('x')"
# Once whether it moves, once for standby tasks; the third is after the pause.
LOOKS_WITHOUT_WAITING = 2


def standing(
    *, standby_tasks: int | None, paused: bool = False, commit_interval_ms: int | None = None, streams_state: str = "RUNNING"
) -> str:
    state = {
        "streams_state": "PAUSED" if paused else streams_state,
        "standby_tasks": standby_tasks,
        "commit_interval_ms": commit_interval_ms,
    }
    return json.dumps([RUNNING[0] | state])


def become(file: Path, text: str) -> None:
    """In one go: the status program may read the file meanwhile."""
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").replace(file)


@pytest.mark.fault("F51")
@pytest.mark.parametrize(
    ("before", "after_a_second", "refused"),
    [(3, 3, True), (3, 0, False), (0, 0, False), (None, None, False)],
    ids=["they stay", "they are warmed up", "none", "it does not tell"],
)
def test_an_application_with_standby_tasks_is_paused_only_once_they_are_gone(
    bootstrap: str, tmp_path: Path, before: int | None, after_a_second: int | None, refused: bool
) -> None:
    now, paused = tmp_path / "now.json", tmp_path / "paused.json"
    now.write_text(standing(standby_tasks=before))
    paused.write_text(standing(standby_tasks=0, paused=True))
    programs = {"status": ["cat", str(now)], "pause": [sys.executable, "-c", PAUSE, str(now), str(paused)], "resume": ["true"]}
    with small_application(bootstrap, tmp_path, programs=programs) as small:
        ticket = begun(small.recovery, QuiesceMode.PAUSE)
        later = threading.Timer(1.0, lambda: become(now, standing(standby_tasks=after_a_second)))
        if before != after_a_second:
            later.start()
        try:
            if refused:
                with pytest.raises(ApplicationNotReady, match=r"one has 3: .*KAFKA-20731") as error:
                    savepoint.quiesce(small.recovery, ticket)
                assert "mode to stop" in error.value.next_step
                assert json.loads(now.read_text())[0]["streams_state"] == "RUNNING"
            else:
                assert savepoint.quiesce(small.recovery, ticket).still
        finally:
            savepoint.finish(small.recovery, ticket)


@pytest.mark.deep
@pytest.mark.parametrize("later", ["RUNNING", "REBALANCING"], ids=["it ends", "it lasts"])
def test_an_application_is_paused_once_every_task_has_its_owner_or_the_time_is_up(bootstrap: str, tmp_path: Path, later: str) -> None:
    """Without that, an application that was just started again has instances that join during every attempt at a cut."""
    now, paused, before = (tmp_path / f"{name}.json" for name in ("now", "paused", "before"))
    now.write_text(standing(standby_tasks=0, streams_state="REBALANCING"))
    paused.write_text(standing(standby_tasks=0, paused=True))
    pause = [sys.executable, "-c", PAUSE_AND_KEEP, str(now), str(paused), str(before)]
    with small_application(bootstrap, tmp_path, programs={"status": ["cat", str(now)], "pause": pause, "resume": ["true"]}) as small:
        ticket = begun(small.recovery, QuiesceMode.PAUSE)
        threading.Timer(1.0, lambda: become(now, standing(standby_tasks=0, streams_state=later))).start()
        try:
            assert savepoint.quiesce(small.recovery, ticket).still
        finally:
            savepoint.finish(small.recovery, ticket)
    assert json.loads(before.read_text())[0]["streams_state"] == later


@pytest.mark.deep
def test_an_application_is_paused_once_its_group_has_no_rebalance(bootstrap: str, tmp_path: Path) -> None:
    """The instances say that they run: only the broker knows that one has not joined again."""
    now, paused, before, looks = (tmp_path / f"{name}.json" for name in ("now", "paused", "before", "looks"))
    now.write_text(standing(standby_tasks=0))
    paused.write_text(standing(standby_tasks=0, paused=True))
    programs = {
        "status": [sys.executable, "-c", TELL_AND_COUNT, str(now), str(looks)],
        "pause": [sys.executable, "-c", PAUSE_AND_KEEP, str(now), str(paused), str(before)],
        "resume": ["true"],
    }
    with small_application(bootstrap, tmp_path, programs=programs) as small:
        recovery = with_policy(small.recovery, timeout_seconds=120)
        ticket = begun(recovery, QuiesceMode.PAUSE)
        looks.write_text("")
        with rebalancing(recovery, small.input.topic) as first:

            def end_it() -> None:
                poll(lambda: len(looks.read_text()) >= LOOKS_WITHOUT_WAITING + 3 or None, seconds=120)
                become(now, standing(standby_tasks=None))
                first.close()

            ending = threading.Thread(target=end_it)
            ending.start()
            try:
                assert savepoint.quiesce(recovery, ticket).still
                assert json.loads(before.read_text())[0]["standby_tasks"] is None
            finally:
                looks.write_text("enough to end it")
                ending.join()
                savepoint.finish(recovery, ticket)


@contextmanager
def rebalancing(recovery: RecoveryContext, topic: str) -> Iterator[Consumer]:
    """A group that waits for its first member, which is given here, to join again: librdkafka does so when it is polled, and it is not. Whoever closes it
    ends the rebalance.
    """
    # Two threads of the one instance there is.
    client = "small-StreamThread-{}-consumer".format
    first = joining(recovery, recovery.application_id, topic, client=client(1), on_revoke=lambda _consumer, _partitions: None)
    while not first.assignment():
        first.poll(0.2)
    second = joining(recovery, recovery.application_id, topic, client=client(2))
    try:
        while recovery.groups.describe(recovery.application_id).state != "PreparingRebalance":
            second.poll(0.1)
        yield first
    finally:
        second.close()


@pytest.mark.deep
@pytest.mark.fault("F41")
@pytest.mark.parametrize("reported", [1_500, None])
def test_a_pause_lasts_for_the_commit_interval_that_the_application_reports(bootstrap: str, tmp_path: Path, reported: int | None) -> None:
    """The configuration says 200 ms. Shorter than the real one, a pause would show offsets that are not committed yet, and nothing would tell."""
    now, paused, resumed = (tmp_path / f"{name}.json" for name in ("now", "paused", "resumed"))
    resumed.write_text(standing(standby_tasks=0, commit_interval_ms=reported))
    now.write_text(resumed.read_text())
    paused.write_text(standing(standby_tasks=0, paused=True, commit_interval_ms=reported))
    become = [sys.executable, "-c", PAUSE, str(now)]
    programs = {"status": ["cat", str(now)], "pause": [*become, str(paused)], "resume": [*become, str(resumed)]}
    with small_application(bootstrap, tmp_path, programs=programs, guarantee="at_least_once") as small:
        config = small.recovery.config
        configured = config.model_copy(update={"application": config.application.model_copy(update={"commit_interval_ms": 200})})
        summary = take(small, mode=QuiesceMode.PAUSE, recovery=replace(small.recovery, config=configured))
        held = small.recovery.savepoints.read(summary.savepoint_id).proof.held_seconds
        assumed = [warning for warning in summary.warnings if "its label assumes" in warning]
    if reported:
        assert held >= 1.5
        assert assumed == []
    else:
        (said,) = assumed
        assert "one commits every 200 ms, as application.commit_interval_ms says" in said


@pytest.mark.deep
@pytest.mark.fault("F41")
@pytest.mark.parametrize("reported_closed", [True, False])
def test_a_stop_that_only_the_exit_status_speaks_for_is_said(bootstrap: str, tmp_path: Path, reported_closed: bool) -> None:
    stopped = says([STOPPED[0] | {"reported_closed": reported_closed}])
    with small_application(bootstrap, tmp_path, programs={"status": stopped, "stop": stopped}, guarantee="at_least_once") as small:
        warnings = take(small).warnings
    assert any("assumes that one closed Kafka Streams before it ended" in warning for warning in warnings) is not reported_closed


@pytest.mark.fault("F73")
def test_a_paused_application_whose_group_rebalances_through_the_cut_is_not_exact(bootstrap: str, tmp_path: Path) -> None:
    """Kafka Streams commits nothing until every task has its owner: what it had processed may be in no offset."""
    now = tmp_path / "now.json"
    now.write_text(standing(standby_tasks=0, paused=True, commit_interval_ms=200))
    programs = {"status": ["cat", str(now)], "pause": ["true"], "resume": ["true"]}
    with small_application(bootstrap, tmp_path, programs=programs, guarantee="at_least_once", consistency={"attempts": 1}) as small:
        recovery = small.recovery
        with rebalancing(recovery, small.input.topic) as first:
            ticket = begun(recovery, QuiesceMode.PAUSE)
            held = savepoint.quiesce(recovery, ticket)
            assert not held.still
            assert held.why_not.startswith("the consumer group was in state PreparingRebalance, and Kafka Streams commits nothing")
            first.close()
        # One that begins after the look shows in the second one.
        seen = replace(held, still=True, why_not="", members=("small group",))
        with rebalancing(recovery, small.input.topic) as first:
            at_work = replace(
                seen, members=tuple(sorted(one.member_id for one in recovery.groups.describe(recovery.application_id).members))
            )
            with pytest.raises(NotExact, match="commits nothing while it rebalances"):
                savepoint.capture(recovery, ticket, at_work)
            first.close()
        savepoint.finish(recovery, ticket)


@pytest.mark.fault("F73")
def test_a_process_that_nobody_knows_is_not_paused_so_an_application_that_works_at_least_once_is_not_either(
    bootstrap: str, tmp_path: Path
) -> None:
    now = tmp_path / "now.json"
    now.write_text(standing(standby_tasks=0, commit_interval_ms=200))
    programs = {"status": ["cat", str(now)], "pause": ["false"], "resume": ["true"]}
    with small_application(bootstrap, tmp_path, programs=programs, guarantee="at_least_once") as small:
        recovery, topic = small.recovery, small.input.topic
        with living(recovery, topic, "small-1-StreamThread-1-consumer"):
            ticket = begun(recovery, QuiesceMode.PAUSE)
            with living(recovery, topic, "small-2-StreamThread-1-consumer"):
                with pytest.raises(UnknownMembers, match="nothing was stopped"):
                    savepoint.quiesce(recovery, ticket)
                (found,) = [one for one in before_backup(recovery, QuiesceMode.PAUSE) if one.kind == "instances"]
                assert found.severity is PreflightSeverity.BLOCKING
            savepoint.finish(recovery, ticket)


@pytest.mark.fault("F74")
@pytest.mark.remedy("savepoint-guarantee")
def test_a_program_that_works_at_least_once_is_found_before_it_is_paused_as_one_that_works_exactly_once(
    bootstrap: str, tmp_path: Path
) -> None:
    now, paused = tmp_path / "now.json", tmp_path / "paused.json"
    now.write_text(standing(standby_tasks=0, commit_interval_ms=200))
    paused.write_text(standing(standby_tasks=0, paused=True, commit_interval_ms=200))
    programs = {"status": ["cat", str(now)], "pause": [sys.executable, "-c", PAUSE, str(now), str(paused)], "resume": ["true"]}
    with small_application(bootstrap, tmp_path, programs=programs, guarantee="exactly_once_v2") as small:
        # As Kafka Streams writes at least once: the broker remembers such a producer.
        producer = Producer(small.recovery.connection.client_config(**{"enable.idempotence": True}))
        producer.produce(small.changelog.topic, b"value", b"key", partition=0)
        producer.flush()
        with pytest.raises(Refused, match="has been written without transactions"):
            begun(small.recovery, QuiesceMode.PAUSE)
        found = {mode: [one.kind for one in before_backup(small.recovery, mode) if one.kind == "guarantee"] for mode in QuiesceMode}
        assert found == {QuiesceMode.STOP: [], QuiesceMode.PAUSE: ["guarantee"], QuiesceMode.LIVE: ["guarantee"]}
        (told,) = [one for one in before_backup(small.recovery, QuiesceMode.PAUSE) if one.kind == "guarantee"]
        assert told.next_step == "application.guarantee: at_least_once"
        honest = configured_for(small, application={"guarantee": "at_least_once"})
        assert [one.kind for mode in QuiesceMode for one in before_backup(honest, mode) if one.kind == "guarantee"] == []
        # What was refused is taken, and is exact by the way in which such a program has to be held.
        saved = take(small, mode=QuiesceMode.PAUSE, recovery=honest).savepoint_id
        assert honest.savepoints.read(saved).consistency is Consistency.EXACT
        lose_state(small)
        # Five of the changelog, and three of the repartition topic that nobody had read.
        assert restored(honest, honest.savepoints.read(saved)) == 5 + 3
