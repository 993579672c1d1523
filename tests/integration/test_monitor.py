"""The monitor on a real broker and repository: each cause is made, found, and over when it is undone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicRole
from streams_recovery.core.status.report import Health
from streams_recovery.operations import restore, savepoint
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.status import log as status_log
from streams_recovery.operations.status import look as status_look
from streams_recovery.operations.status import notices as status_notices
from streams_recovery.operations.status.notices import Notice
from tests.support.applications.monitored import at, causes, limited, looked
from tests.support.applications.savepoint_steps import begun, publish
from tests.support.applications.small import RUNNING, Small, asked, configured_for, lose, lose_state, says, small_application, surviving
from tests.support.applications.topic_records import abort, add_partitions, commit, delete_below, produce, produce_at, recreate, transaction

pytestmark = pytest.mark.kafka


@pytest.fixture
def calm(small: Small) -> Small:
    """However full the disk of the tests is."""
    return replace(small, recovery=limited(small))


@pytest.fixture
def saved(calm: Small) -> Small:
    """With a savepoint that survives the loss of the cluster."""
    found = surviving(calm)
    publish(found)
    return found


@pytest.mark.deep
def test_of_an_application_that_is_down_that_is_found_and_all_is_known_of_it(saved: Small) -> None:
    recovery = saved.recovery
    report = looked(recovery)
    assert [(one.cause, one.severity) for one in report.findings] == [("application-down", Severity.WARNING), ("not-sealed", Severity.INFO)]
    assert report.health is Health.ATTENTION
    assert {name: part.problem for name, part in report.parts.items()} == dict.fromkeys(("repository", "cluster", "disks", "application"))
    topics = {topic.name: topic for topic in report.topics}
    assert set(topics) == set(saved.topics)
    entry = topics[saved.input.topic]
    assert (entry.role, entry.partitions, entry.records, entry.lag) == (TopicRole.INPUT, 1, 5, 1)
    assert all((topic.disk_bytes or 0) > 0 for topic in report.topics)
    assert report.newest_exact is not None
    assert report.newest_exact.survives_cluster_loss
    assert (report.newest_exact.new_bytes or 0) > 0
    assert report.estimate is not None
    assert report.estimate.total > 0
    assert any(disk.name.startswith("broker ") for disk in report.disks)
    assert status_log.newest(recovery.repository, recovery.layout) == report


@pytest.mark.deep
def test_a_look_changes_nothing_and_takes_no_lock(saved: Small) -> None:
    recovery = saved.recovery
    ticket = begun(recovery)
    try:
        before = recovery.cluster.describe_topics(saved.topics)
        assert [one.kind for one in looked(recovery).findings] == ["not-sealed"], "whoever has the lock may have stopped it"
        assert recovery.cluster.describe_topics(saved.topics) == before
        assert recovery.lock.holds(ticket.lock)
    finally:
        savepoint.finish(recovery, ticket)


@pytest.mark.deep
def test_input_that_comes_while_nothing_runs_is_trouble_until_it_is_processed(saved: Small) -> None:
    looked(saved.recovery)
    produce(saved.recovery, saved.input, 5)
    (found,) = [one for one in looked(at(saved.recovery, 0.1)).findings if one.kind == "application-down"]
    assert (found.kind, found.severity, found.numbers["grown"]) == ("application-down", Severity.CRITICAL, 5.0)


def test_without_a_savepoint_that_is_what_is_found(small: Small) -> None:
    assert "no-savepoint" in causes(small.recovery)


def test_a_target_is_not_in_use_until_something_of_it_exists_and_what_was_lost_is_no_target(calm: Small) -> None:
    nothing = configured_for(
        calm, application={"id": f"{calm.recovery.application_id}x"}, topics={"outputs": ["not-there-yet"]}, backup={"schedule": None}
    )
    report = looked(nothing)
    assert (report.health, report.findings) == (Health.UNUSED, ())
    calm.recovery.groups.set_offsets(nothing.application_id, {calm.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
    assert causes(nothing) == ["no-savepoint", "topic-missing"]
    calm.recovery.groups.delete(nothing.application_id)
    assert causes(nothing) == ["no-savepoint", "topic-missing"]


@pytest.mark.deep
def test_a_savepoint_gets_old_and_a_new_one_ends_that(saved: Small) -> None:
    monitor: dict[str, object] = {"objectives": {"newest_age": "PT2H", "recovery_time": None}}
    recovery = configured_for(saved, monitor=monitor)
    assert causes(at(recovery, 1.9)) == []
    assert causes(at(recovery, 2.1)) == ["savepoint-too-old"]
    publish(saved)
    assert causes(recovery) == []


@pytest.mark.deep
def test_a_run_that_published_nothing_is_found_until_the_next_savepoint(saved: Small) -> None:
    savepoint.finish(saved.recovery, begun(saved.recovery))
    assert causes(saved.recovery) == ["savepoint-failed"]
    publish(saved)
    assert causes(saved.recovery) == []


@pytest.mark.deep
def test_a_guard_and_a_lock_of_a_run_that_hangs(saved: Small) -> None:
    begun(saved.recovery)
    assert causes(saved.recovery) == []
    # Its lease has run out by then, as that of a run that was killed.
    assert "guard-left:" in " ".join(causes(at(saved.recovery, 7)))


@pytest.mark.deep
@pytest.mark.parametrize("gone", [lose_state, lose], ids=["the state", "everything"])
def test_topics_that_are_gone_are_named(saved: Small, gone: Callable[[Small], None]) -> None:
    gone(saved)
    (found,) = [one for one in status_look.observe(saved.recovery, None).findings if one.kind == "topic-missing"]
    lost = [saved.changelog.topic, saved.tail.topic, *([saved.input.topic] if gone is lose else [])]
    assert all(name in found.text for name in lost)
    assert found.numbers["topics"] >= len(lost)
    assert (saved.input.topic in found.text) == (gone is lose)


@pytest.mark.deep
def test_input_that_was_deleted_before_it_was_read_or_saved(calm: Small) -> None:
    recovery, tp = calm.recovery, calm.input
    publish(calm)
    assert [cause for cause in causes(recovery) if cause.startswith("input-")] == []
    produce(recovery, tp, 5)
    delete_below(recovery, tp, 7)
    found = {one.cause: one for one in looked(recovery).findings}
    assert found[f"input-lost:{tp.topic}"].numbers == {"offsets": 3}
    assert found[f"input-lost-unread:{tp.topic}"].numbers == {"offsets": 3}


@pytest.mark.deep
def test_retention_that_comes_near_is_found_before_it_deletes(saved: Small) -> None:
    recovery, tp = saved.recovery, saved.input
    recovery.cluster.change_configs(
        [tp.topic], lambda config: {} if config.get("retention.ms") == "86400000" else {"retention.ms": "86400000"}
    )
    day = at(configured_for(saved, monitor={"objectives": {"newest_age": "P7D", "recovery_time": None}}), 20)
    assert causes(day) == [], "nothing came since the savepoint: nothing can be lost"
    produce(recovery, tp, 1)
    assert causes(day) == [f"input-expires:{tp.topic}"]
    publish(saved)
    assert causes(recovery) == []


def keeps_a_week(recovery: RecoveryContext, topic: str) -> None:
    week = {"retention.ms": "604800000"}
    recovery.cluster.change_configs([topic], lambda config: {} if config.get("retention.ms") == week["retention.ms"] else week)


def expires_in_hours(recovery: RecoveryContext) -> list[int]:
    return [round(one.numbers["seconds_left"] / 3600) for one in looked(recovery).findings if one.kind == "input-expires"]


@pytest.mark.deep
def test_retention_that_comes_near_what_was_not_read_is_found_however_new_the_savepoint(calm: Small) -> None:
    recovery, tp = calm.recovery, calm.input
    keeps_a_week(recovery, tp.topic)
    produce_at(recovery, tp.topic, wall_clock() - 166 * 3_600_000)
    produce(recovery, tp, 1)
    commit(recovery, {tp: 5})
    assert expires_in_hours(recovery) == [2], "there is no savepoint at all"
    publish(calm)
    assert expires_in_hours(recovery) == [2], "the savepoint goes on where the application has read, and has no input"
    commit(recovery, {tp: 6})
    assert expires_in_hours(recovery) == [2], "a restore of the savepoint reads it again"
    publish(calm)
    assert expires_in_hours(recovery) == []
    commit(recovery, {tp: 5})
    assert expires_in_hours(recovery) == [2], "somebody has set the group back behind the savepoint"


@pytest.mark.deep
def test_input_that_was_aborted_is_not_what_is_needed_first(calm: Small) -> None:
    recovery, tp = calm.recovery, calm.input
    keeps_a_week(recovery, tp.topic)
    with transaction(recovery) as producer:
        producer.produce(tp.topic, b"v", b"k", tp.partition, timestamp=wall_clock() - 166 * 3_600_000)
        producer.flush(30)
        abort(recovery, producer, tp)
    commit(recovery, {tp: 5})
    assert expires_in_hours(recovery) == [], "nothing but what was aborted is left"
    produce_at(recovery, tp.topic, wall_clock() - 165 * 3_600_000)
    assert expires_in_hours(recovery) == [3]


@pytest.mark.deep
def test_a_transaction_that_stays_open(saved: Small) -> None:
    recovery, tp = saved.recovery, saved.input
    with transaction(recovery) as producer:
        producer.produce(tp.topic, b"v", b"k", tp.partition)
        producer.flush(30)
        time.sleep(1.5)
        (open_one,) = recovery.transactions.blocking([tp])
        assert causes(recovery, transaction_age=1.0) == [f"transaction-long:{open_one.transactional_id}"]
        producer.abort_transaction(30)
    assert causes(recovery) == []


def test_instances_that_run_without_a_group(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(RUNNING)}) as small:
        assert "group-empty" in causes(small.recovery)


@pytest.mark.deep
def test_a_disk_that_fills(saved: Small) -> None:
    recovery = configured_for(saved, monitor={"limits": {"disk_free": 0.999999}})
    found = causes(recovery)
    assert "disk-space-low:repository" in found
    assert any(cause.startswith("disk-space-low:broker ") for cause in found)


@pytest.mark.way("monitor")
def test_alerts_of_a_real_look_are_told_once(calm: Small) -> None:
    told: list[str] = []

    def tell(notices: Iterable[Notice]) -> None:
        told.extend(f"{one.news} {one.finding.cause}" for one in notices if one.finding.kind != "application-down")

    for run in ("one", "two"):
        status_notices.tell_news(calm.recovery, looked(calm.recovery).findings, run=run, tell=tell)
    assert told == ["raised no-savepoint"]
    publish(calm)
    later = at(calm.recovery, 0.5)
    status_notices.tell_news(later, looked(later).findings, run="three", tell=tell)
    assert told == ["raised no-savepoint", "over no-savepoint"]


def refused(small: Small) -> tuple[str, ...]:
    """What the plan of a restore of the newest savepoint is refused for, all of which the status says."""
    with pytest.raises(Refused) as error:
        restore.plan(small.recovery, asked(small.recovery, replace=True))
    found = {one.kind: one for one in looked(small.recovery).findings}
    problems = tuple(error.value.facts["problems"])
    assert found["restore-refused"].severity is Severity.CRITICAL
    assert all(problem in found["restore-refused"].text for problem in problems)
    return problems


@pytest.mark.deep
def test_an_input_that_was_created_again_since_the_newest_savepoint(calm: Small) -> None:
    publish(calm)
    assert "restore-refused" not in causes(calm.recovery)
    recreate(calm.recovery, calm.input.topic)
    produce(calm.recovery, calm.input, 3)
    (problem,) = refused(calm)
    assert "is not the topic of the savepoint" in problem


@pytest.mark.deep
def test_an_input_that_was_given_a_partition_since_the_newest_savepoint(calm: Small) -> None:
    publish(calm)
    add_partitions(calm.recovery, calm.input.topic, 2)
    (problem,) = refused(calm)
    assert problem == f"input {calm.input.topic} has 2 partitions, 1 at the savepoint"
    publish(calm)
    assert "restore-refused" not in causes(calm.recovery)
