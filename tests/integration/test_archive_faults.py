"""What may happen to an archiver, its logs, its store and its clock on a real broker: nothing is archived twice, and nothing is missing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Producer

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from embedded.stores.s3 import CREDENTIALS, S3Server, behind
from streams_recovery.core.archive.log import ArchiveEvent
from streams_recovery.core.archive.tick import ARCHIVER_LEASE_SECONDS
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.sites import SiteEntry
from streams_recovery.core.status.report import archive_status
from streams_recovery.core.waiting import poll
from streams_recovery.operations import archive
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.status import look as status_look
from streams_recovery.storage.site_log import site_log
from tests.support.applications.archiver import archiving, with_archive
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, rows_of, small_application
from tests.support.applications.topic_records import add_partitions, produce
from tests.support.kafka.three_brokers import Bouncer, ThreeBrokers
from tests.support.repository.golden import checked
from tests.support.spark.session import InSession
from tests.support.storage.s3_proxy import Proxy, s3_proxy

pytestmark = pytest.mark.spark
HOUR = 3_600_000


@pytest.fixture
def archived(small: Small) -> Small:
    return with_archive(small)


def offsets_of(recovery: RecoveryContext, base: Manifest, tp: TopicPartition) -> list[object]:
    """Those of the records that a restore of ``base`` would load, in the order of its files."""
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert behind.left == ()
    return [row["offset"] for row in rows_of(recovery, behind.manifest, tp)]


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def in_a_bucket(bootstrap: str, s3: S3Server, proxy: Proxy, tmp_path: Path) -> Iterator[Small]:
    with small_application(bootstrap, tmp_path, bucket=(behind(s3.bucket(), proxy.endpoint), CREDENTIALS)) as found:
        yield with_archive(found)


@pytest.mark.deep
@pytest.mark.fault("F65")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_brokers_that_go_and_come_back_cost_and_double_nothing(
    three: ThreeBrokers, in_session: InSession, tmp_path: Path, how: Literal["kill", "stop"]
) -> None:
    with small_application(three.bootstrap, tmp_path) as small:
        archived = with_archive(small)
        recovery, source = archived.recovery, archived.input
        base = published(archived)
        with archiving(recovery, in_session) as beside:
            with Bouncer(three, how) as bouncer:
                for _ in range(30):
                    produce(recovery, source, 5, **{"enable.idempotence": True})
                    # So that records come all through the coming and going.
                    time.sleep(1)
            assert len(set(bouncer.gone)) > 1, "leaders moved"
            beside.upto(source, 120)
        assert offsets_of(recovery, base, source) == list(range(5 + 30 * 5))
        assert checked(recovery, "full").good


@pytest.mark.fault("F65")
def test_a_broker_that_is_started_again_costs_and_doubles_nothing(
    own_broker: Callable[[], str], in_session: InSession, tmp_path: Path
) -> None:
    with small_application(own_broker(), tmp_path, tidy=False) as small:
        archived = with_archive(small)
        recovery, source = archived.recovery, archived.input
        base = published(archived)
        with archiving(recovery, in_session) as beside:
            produce(recovery, source, 5)
            own_broker()
            produce(recovery, source, 5)
            beside.upto(source, 120)
        assert offsets_of(recovery, base, source) == list(range(5 + 5 + 5))
        assert checked(recovery, "full").good


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[tuple[Small, Processes]]:
    """An application whose cluster can be ended, and what ends it."""
    with Processes(tmp_path / "processes") as processes:
        port, controller = free_ports(2)
        address = start_broker(processes, tmp_path / "broker", port=port, controller_port=controller)
        with small_application(address, tmp_path, tidy=False) as found:
            yield with_archive(found), processes


def moved(recovery: RecoveryContext, to: str) -> None:
    entry = SiteEntry(site=to, cluster_id="", arrived=True, before="primary", run="a failover", at=1, requested_by="", reason="", fences=())
    site_log(recovery.repository, recovery.layout).append(entry)


@pytest.mark.deep
@pytest.mark.fault("F94")
def test_an_archiver_whose_cluster_is_lost_keeps_its_lock_from_nobody_and_ends_once_the_application_is_elsewhere(
    lost: tuple[Small, Processes], in_session: InSession, caplog: pytest.LogCaptureFixture
) -> None:
    archived, processes = lost
    recovery, source = archived.recovery, archived.input
    published(archived)
    lock = archive.archive_lock(recovery)
    with archiving(recovery, in_session, patience=2, site="primary") as beside:
        produce(recovery, source, 3)
        beside.upto(source)
        # The archiver has the site from its log alone.
        beside.ahead += ARCHIVER_LEASE_SECONDS / 3 + 1
        produce(recovery, source, 3)
        beside.upto(source)
        processes.stop_all()
        assert poll(lambda: "nothing was archived" in caplog.text or None, seconds=60, interval=0.2)
        held = lock.holder()
        assert held is not None
        beside.ahead += ARCHIVER_LEASE_SECONDS / 3 + 1
        warned = caplog.text.count("nothing was archived")
        assert poll(lambda: caplog.text.count("nothing was archived") > warned + 1 or None, seconds=60, interval=0.2)
        assert lock.holder() == held, "it is not renewed while nothing succeeds"
        moved(recovery, "dr")
        beside.ahead += ARCHIVER_LEASE_SECONDS / 3 + 1
        assert beside.thread is not None
        beside.thread.join(60)
        assert not beside.thread.is_alive()
    assert lock.holder() is None
    assert archive.read_archive(recovery).event is ArchiveEvent.ENDED
    assert "belongs to the site dr by now" in caplog.text


@pytest.mark.fault("F94")
def test_an_archiver_whose_cluster_is_lost_at_its_hand_over_ends_as_any_other(
    lost: tuple[Small, Processes], in_session: InSession, caplog: pytest.LogCaptureFixture
) -> None:
    archived, processes = lost
    recovery, source = archived.recovery, archived.input
    published(archived)
    with archiving(recovery, in_session, patience=2) as beside:
        produce(recovery, source, 3)
        beside.upto(source)
        processes.stop_all()
    assert archive.archive_lock(recovery).holder() is None
    assert archive.read_archive(recovery).event is ArchiveEvent.ENDED
    assert "the next archiver joins them" in caplog.text


@pytest.mark.fault("F66")
def test_while_the_store_does_not_answer_records_wait_and_none_is_lost_or_copied_twice(
    in_a_bucket: Small, proxy: Proxy, in_session: InSession, caplog: pytest.LogCaptureFixture
) -> None:
    recovery, source = in_a_bucket.recovery, in_a_bucket.input
    base = published(in_a_bucket)
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 3)
        beside.upto(source)
        proxy.inject("refuse", lambda _request: True, times=1_000_000)
        produce(recovery, source, 4)
        assert poll(lambda: "nothing was archived" in caplog.text or None, seconds=120, interval=0.2)
        proxy.calm()
        beside.upto(source, 90)
        produce(recovery, source, 2)
        beside.upto(source)
    assert offsets_of(recovery, base, source) == list(range(5 + 3 + 4 + 2))
    assert checked(recovery, "full").good


@pytest.mark.fault("F67")
@pytest.mark.parametrize("step", [-HOUR, HOUR], ids=["back", "ahead"])
def test_a_clock_that_steps_changes_nothing_of_what_is_archived(archived: Small, in_session: InSession, step: int) -> None:
    recovery, source = archived.recovery, archived.input
    base, by = published(archived), [0]
    with archiving(recovery, in_session, clock=lambda: wall_clock() + by[0]) as beside:
        produce(recovery, source, 3)
        beside.upto(source)
        by[0] = step
        produce(recovery, source, 4)
        seen = beside.upto(source)
        assert seen.at is not None
        told = archive_status(seen, base, archive.archived_behind(recovery, base), recovery.clock())
        assert not told.working, "nobody can tell when it was last heard of"
        by[0] = 0
        produce(recovery, source, 2)
        beside.upto(source)
    assert offsets_of(recovery, base, source) == list(range(5 + 3 + 4 + 2))


@pytest.mark.fault("F68")
def test_a_partition_that_is_added_is_archived_from_its_first_record_on(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    added = TopicPartition(source.topic, 1)
    with archiving(recovery, in_session) as beside:
        produce(recovery, source, 3)
        beside.upto(source)
        add_partitions(recovery, source.topic, 2)
        produce(recovery, added, 4)
        found = beside.upto(added)
        produce(recovery, source, 2)
        beside.upto(source)
    assert (found.newest[added].start, found.newest[added].end, found.newest[added].anew) == (0, 4, "")
    behind = archive.archived_behind(recovery, base)
    assert behind is not None
    assert behind.left == (f"{added} was added since the savepoint",)
    taken = published(archived)
    assert [row["offset"] for row in rows_of(recovery, taken, added)] == list(range(4))
    assert [row["offset"] for row in rows_of(recovery, taken, source)] == list(range(5 + 3 + 2))


@pytest.mark.deep
@pytest.mark.fault("F69")
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_what_is_behind_an_open_transaction_waits_for_its_end_and_is_not_promised_before(
    archived: Small, in_session: InSession, commits: bool
) -> None:
    recovery, source = archived.recovery, archived.input
    base = published(archived)
    producer = Producer({**recovery.connection.client_config(), "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    with archiving(recovery, in_session) as beside:
        producer.begin_transaction()
        producer.produce(source.topic, b"open", b"open", source.partition)
        assert producer.flush(30) == 0
        opened_at = recovery.clock()
        produce(recovery, source, 3)
        waiting = beside.once(lambda found: found.waiting > 0)
        # Time in which it looks again, and again finds nothing that it may copy.
        time.sleep(3)
        still = archive.read_archive(recovery)
        assert still.newest[source].end == 5
        assert waiting.safe_at is None or waiting.safe_at <= opened_at
        assert still.safe_at is None or still.safe_at <= opened_at, "what was committed behind it is not archived"
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
        ended_at = recovery.clock()
        produce(recovery, source, 1)
        beside.upto(source)
        beside.once(lambda found: found.safe_at is not None and found.safe_at >= ended_at)
    # The last one is before or behind the marker that ends the transaction.
    assert offsets_of(recovery, base, source)[:-1] == [*range(5), *([5] if commits else []), 6, 7, 8]
    assert archive.read_archive(recovery).event is ArchiveEvent.ENDED


@pytest.mark.deep
def test_retention_that_comes_near_is_told_of_what_is_not_archived(archived: Small, in_session: InSession) -> None:
    recovery, source = archived.recovery, archived.input
    published(archived)
    recovery.cluster.change_configs(
        [source.topic], lambda config: {} if config.get("retention.ms") == "86400000" else {"retention.ms": "86400000"}
    )
    produce(recovery, source, 1)
    later = replace(recovery, clock=lambda: wall_clock() + 20 * HOUR)

    def told() -> list[str]:
        return [found.kind for found in status_look.observe(later, None).findings if found.kind == "input-expires"]

    assert told() == ["input-expires"]
    with archiving(recovery, in_session) as beside:
        beside.upto(source)
    assert told() == []
