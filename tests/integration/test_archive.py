"""An archiver on a real broker: what it copies while records come, what becomes of it when it is killed, and what savepoints and restores make of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from embedded import spark_start
from streams_recovery.core.archive.log import ArchiveEntry, ArchiveEvent
from streams_recovery.core.archive.tick import REPLACED_SECONDS
from streams_recovery.core.errors import LockHeld, Refused
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.waiting import poll
from streams_recovery.operations import archive, maintenance, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies.as_of_moment import BaseSavepointFinder, RequestedBase
from streams_recovery.operations.status import look as status_look
from streams_recovery.operations.status.info import application_info
from streams_recovery.storage.lock import ApplicationLock
from tests.support.applications.archiver import Archiver, archiving, with_archive
from tests.support.applications.rebuilds import rebuild
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, asked, configured, lose, rows_of
from tests.support.applications.topic_records import produce
from tests.support.project import PROJECT
from tests.support.repository.golden import checked
from tests.support.spark.session import InSession

pytestmark = pytest.mark.spark


@pytest.fixture
def archived(small: Small) -> Small:
    return with_archive(small)


@contextmanager
def torn_object(recovery: RecoveryContext, key: str) -> Iterator[None]:
    """An object of a repository in a directory that is cut short for a while."""
    path = Path(str(recovery.repository.location.path)) / key
    whole = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(whole[:-10])
    try:
        yield
    finally:
        path.write_bytes(whole)


@pytest.mark.deep
def test_what_comes_is_archived_behind_the_savepoint(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    moments = []
    with archiving(recovery, in_session) as beside:
        for _ in range(3):
            produce(recovery, source, 7)
            found = beside.upto(source)
            moments.append(recovery.clock())
            time.sleep(0.01)
            behind = archive.archived_behind(recovery, base)
            assert behind is not None
            assert behind.left == ()
    assert found.newest[source].end == 26
    ended = archive.read_archive(recovery)
    assert ended.event is ArchiveEvent.ENDED
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert behind.records == 21
    rows = rows_of(recovery, behind.manifest, source)
    assert [row["offset"] for row in rows] == list(range(26))
    assert ended.newest[source].files == 1, "joined at the end"
    later = replace(recovery, clock=lambda: recovery.clock() + 30 * 86_400_000)
    joined = {key for key in recovery.repository.keys(recovery.layout.segments) if f"/{source.topic}/" in key}
    joined -= {file.key for tp, file in behind.manifest.files() if tp == source}
    assert len(joined) == 3
    assert {key for key in maintenance.plan_expiry(later).files if key.endswith(".parquet")} == joined, "what the archive has stays"
    for number, moment in enumerate(moments[:2], 1):
        assert as_of(recovery, moment) == 5 + 7 * number
    assert as_of(recovery, moments[0], archive_entry=ended.recorded) == 12
    with pytest.raises(Refused, match="is archived up to"):
        as_of(recovery, moments[0], archive_entry=0)


def as_of(recovery: RecoveryContext, at: int, **more: int) -> int:
    """How many records of the input belong to a moment, by what was archived behind the savepoint."""
    search = BaseSavepointFinder(
        recovery=recovery,
        wanted=RequestedBase(source=recovery.application_id, savepoint="latest"),
        as_of=AsOf(moment=at, by=CutBy.TIMESTAMP),
        **more,
    )
    _, found = search.with_state()
    assert search.archived(found) is not None
    return sum(cut.rows.rows for cut in search.cuts(found).values())


@pytest.mark.way("archive")
def test_a_savepoint_takes_what_is_archived_and_copies_only_state(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        for _ in range(3):
            produce(recovery, source, 7)
            beside.upto(source)
        produce(archived.recovery, archived.changelog, 3)
        small_files = {file.key for log in archive.read_archive(recovery).newest.values() for one in log.ranges if (file := one.file)}
        assert len(small_files) == 3
        taken = published(archived)
        assert taken.parent_id == base.savepoint_id
        before = archive.read_archive(recovery)
        produce(recovery, source, 4)
        beside.upto(source)
        assert archive.archived_behind(recovery, taken) is not None
    image = taken.topic(source.topic)
    assert image is not None
    assert [file.rows for file in image.partitions[0].files()] == [5, 21], "joined before it was taken"
    assert [*image.partitions[0].files()][1:] == [one.file for one in before.newest[source].ranges], "taken and not copied"
    assert not small_files & {file.key for _, file in taken.files()}
    assert before.newest[source].end == 26
    behind = archive.archived_behind(recovery, taken)
    assert behind is not None
    assert [row["offset"] for row in rows_of(recovery, behind.manifest, source)] == list(range(30))
    assert checked(recovery, "full").good
    # And without an archiver the rest is copied, behind what it has left.
    produce(recovery, source, 2)
    last = published(archived)
    assert [row["offset"] for row in rows_of(recovery, last, source)] == list(range(32))
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 1)
        beside.upto(source)
    behind = archive.archived_behind(recovery, last)
    assert behind is not None
    assert (behind.records, behind.left) == (1, ())


@pytest.mark.deep
def test_a_lost_cluster_comes_back_with_all_that_was_archived(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 9)
        found = beside.upto(source)
        seen = status_look.observe(recovery, None)
    assert found.newest[source].end == 14
    assert seen.archive is not None
    assert (seen.archive.working, seen.archive.left_count, seen.loss_seconds) == (True, 0, 0.0), (
        "the cluster has nothing that is not archived"
    )
    produce(recovery, source, 1)
    lost = status_look.observe(recovery, None).loss_seconds
    assert lost is not None
    assert lost > 0, "a record came, and nobody has archived it"
    lose(archived)
    asked_for = asked(recovery)
    planned = restore.plan(recovery, asked_for)
    assert planned.part.archived is not None
    assert planned.part.archived.records == 9
    told = application_info(recovery)
    assert told.recovery_point is not None
    assert base.captured_at < planned.part.archived.safe_at <= told.recovery_point, (
        "what is promised without a cluster is what a restore brings back"
    )
    again = restore.plan(recovery, rebuild(recovery, inputs_from="latest"))
    assert (again.part.archived, again.rows) == (planned.part.archived, 14)
    assert any("inputs end where the archive ends" in warning for warning in again.warnings)
    assert "9 records of inputs and globals were archived behind the savepoint" in planned.text
    assert restore.plan(recovery, replace(asked_for, archive_entry=0)).part.archived is None
    [torn] = list(recovery.repository.keys(recovery.layout.archive))[-1:]
    with torn_object(recovery, torn):
        without = restore.plan(recovery, asked_for)
        assert without.part.archived is None
        assert any("because the archive cannot be read" in warning for warning in without.warnings)
    ticket = opened(recovery, asked_for)
    newest = archive.archive_log(recovery).last()
    assert newest is not None
    assert newest.event is ArchiveEvent.KEPT, "what the plan names stays"
    saved(recovery, ticket)
    assert loaded(recovery, ticket) == 14 + 4 + 3
    assert recovery.cluster.high_watermarks([source])[source] == 14
    restore.abandon(recovery, ticket)


@pytest.mark.fault("F64")
def test_a_second_archiver_is_refused_and_one_that_was_killed_is_followed(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 3)
        beside.upto(source)
        with pytest.raises(LockHeld), archiving(recovery, in_session):
            pass
    lock = ApplicationLock(recovery.repository, recovery.layout.archiving, lambda: recovery.clock() - 10_000)
    ticket = lock.acquire("dead", lease_seconds=1, purpose="archiving")
    assert lock.holds(ticket)
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 3)
        beside.upto(source)
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert [row["offset"] for row in rows_of(recovery, behind.manifest, source)] == list(range(11))


@pytest.mark.fault("F68")
def test_a_topic_that_is_made_again_leaves_what_was_archived_of_it(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 4)
        beside.upto(source)
        recovery.cluster.delete_topics([source.topic])
        recovery.cluster.create_topic(source.topic, partitions=1, replication_factor=1, config={})
        produce(recovery, source, 2)
        beside.upto(source)
        assert poll(lambda: len(archive.read_archive(recovery).logs[source]) == 2 or None, seconds=30, interval=0.2)
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert [row["offset"] for row in rows_of(recovery, behind.manifest, source)] == list(range(9))
    assert archive.read_archive(recovery).newest[source].start == 0


@pytest.mark.deep
@pytest.mark.parametrize("used", [True, False])
def test_files_that_were_joined_go_an_hour_later_unless_somebody_uses_what_was_there(
    archived: Small, in_session: InSession, used: bool
) -> None:
    recovery, source = archived.recovery, archived.input
    published(archived)
    with archiving(recovery, in_session) as beside:
        for _ in range(2):
            produce(recovery, source, 5)
            beside.upto(source)
        parts = {file.key for log in archive.read_archive(recovery).newest.values() for one in log.ranges if (file := one.file)}
        assert len(parts) == 2
        # Which has them joined.
        published(archived)
        if used:
            assert archive.keep_files(recovery, "a restore") is not None
        joined = archive.read_archive(recovery).number
        beside.ahead = REPLACED_SECONDS + 1
        beside.once(lambda found: found.number > joined)
        produce(recovery, source, 1)
        beside.upto(source)
        poll(lambda: used or not parts & keys(recovery) or None, seconds=10)
        assert parts & keys(recovery) == (parts if used else set())
    assert checked(recovery, "full").good


@pytest.mark.fault("F98")
def test_what_a_restore_was_promised_of_an_archiver_before_stays_when_the_next_one_joins_and_removes_entries(
    archived: Small, in_session: InSession
) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    log = archive.archive_log(recovery)
    with archiving(recovery, in_session) as beside:
        for _ in range(2):
            produce(recovery, source, 5)
            beside.upto(source)
        promised = archive.keep_files(recovery, "a restore")
        assert promised is not None
    # More than an archiver leaves, and the newest asks for what is there: the next one joins and tidies at once.
    for _ in range(1_001):
        log.append(ArchiveEntry(event=ArchiveEvent.ASKED, run="asks", at=recovery.clock(), cluster_id=promised.cluster_id))
    produce(recovery, source, 5)
    with archiving(recovery, in_session) as beside:
        beside.once(lambda found: found.answered == "asks")
        beside.upto(source)
    assert promised.keys <= archive.archived_files(recovery), "expiry is told of them"
    assert promised.keys <= keys(recovery)
    there = archive.archived_behind(recovery, base, upto=promised.number)
    assert there is not None
    assert [row["offset"] for row in rows_of(recovery, there.manifest, source)] == list(range(15))


def keys(recovery: RecoveryContext) -> set[str]:
    return {file.key for file in recovery.repository.listed(recovery.layout.segments)}


@pytest.mark.deep
def test_a_limit_of_bytes_holds_for_each_look(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    config = configured(recovery, archive={"enabled": True, "interval": "PT1S", "throttle": {"bytes_per_second": 5_000}})
    recovery = replace(recovery, config=config)
    published(archived)
    producer = Producer(recovery.connection.client_config())
    for _ in range(30):
        producer.produce(source.topic, b"x" * 1_000, partition=source.partition)
    assert producer.flush(30) == 0
    with archiving(recovery, in_session) as beside:
        beside.upto(source)
    entries = [entry for entry in archive.archive_log(recovery).readable_back() if entry.event is ArchiveEvent.COPIED]
    bytes_of_each = [one.file.payload_bytes for entry in entries for log in entry.logs for one in log.ranges if one.file is not None]
    assert sum(bytes_of_each) >= 30_000
    assert max(bytes_of_each) <= 5_000


def command(archived: Small, directory: Path, *more: str) -> subprocess.Popen[str]:
    """``streams-recovery archive`` of the application, as a service starts it."""
    plain = json.loads((directory / "small.yaml").read_text())
    plain |= {"backup": plain["backup"] | {"survive_cluster_loss": True}, "archive": {"enabled": True, "interval": "PT1S"}}
    (directory / "small.yaml").write_text(json.dumps(plain))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": archived.recovery.connection.bootstrap_servers}}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "STREAMS_RECOVERY"))},
        **spark_start.environment(),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
    }
    arguments = [sys.executable, "-m", "streams_recovery", "archive", "small", "--configs", str(directory), "--logs", str(directory), *more]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.deep
@pytest.mark.fault("F64")
def test_the_command_hands_over_and_one_that_is_killed_leaves_what_it_had_recorded(archived: Small, tmp_path: Path) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    process = command(archived, tmp_path)
    produce(recovery, source, 4)
    beside = Archiver(recovery)
    assert beside.upto(source, 90).event is ArchiveEvent.COPIED
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    second = command(archived, tmp_path, "--for", "2")
    said, _ = second.communicate(timeout=90)
    assert second.returncode == LockHeld.exit_code, said
    assert "archiving" in said
    (printed,) = [line.strip() for line in said.splitlines() if "unlock" in line]
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert [row["offset"] for row in rows_of(recovery, behind.manifest, source)] == list(range(9))
    lock = archive.archive_lock(recovery)
    held = lock.holder()
    assert held is not None
    assert printed == f"streams-recovery unlock small {held.owner} --configs {tmp_path}"
    assert lock.take_from(held.owner)
    third = command(archived, tmp_path, "--for", "2")
    said, _ = third.communicate(timeout=90)
    assert third.returncode == 0, said
    assert archive.read_archive(recovery).event is ArchiveEvent.ENDED
