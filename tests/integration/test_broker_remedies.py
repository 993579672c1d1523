"""What people are told about brokers is done on brokers of their own: replicas, racks, their settings and their disks. The run that was refused then passes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from embedded.broker import BrokerExtras, start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core.checks.facts import AUTO_CREATE
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.waiting import poll
from streams_recovery.kafka import permissions
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.offset_commit import read_unsettled
from streams_recovery.operations import preflight, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import dry_run
from streams_recovery.operations.status.notices import advice
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, asked, configured_for, lose_state, reopened, small_application, surviving
from tests.support.applications.topic_records import produce, state_of
from tests.support.kafka.racks import RACKS, Racked, racked
from tests.support.kafka.topic_settings import alter
from tests.support.programs.kafka_tools import done, follow

pytestmark = [pytest.mark.kafka, pytest.mark.deep]
IN_SYNC = "min.insync.replicas"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racked]:
    with racked(tmp_path_factory.mktemp("racked")) as found:
        yield found


@pytest.fixture
def small(cluster: Racked, tmp_path: Path) -> Iterator[Small]:
    with small_application(cluster.bootstrap, tmp_path) as found:
        yield found


def told(recovery: RecoveryContext, manifest: Manifest, kind: str) -> list[PreflightFinding]:
    """What a restore of it is told beforehand."""
    return [one for one in dry_run.before_restore(recovery, manifest) if one.kind == kind]


def racks_of(small: Small) -> list[str]:
    return sorted(RACKS[broker] for broker in small.recovery.cluster.replicas([small.changelog.topic])[small.changelog])


def made_again(small: Small, replicas: int, **config: str) -> None:
    """Its changelog with as many replicas, and what it had."""
    recovery, topic = small.recovery, small.changelog.topic
    recovery.cluster.delete_topics([topic])
    settings = {"cleanup.policy": "compact", **{key.replace("_", "."): value for key, value in config.items()}}
    recovery.cluster.create_topic(topic, partitions=1, replication_factor=replicas, config=settings)
    produce(recovery, small.changelog, 4)


@pytest.mark.deep
@pytest.mark.remedy("topic-replicas")
def test_new_replicas_are_in_racks_that_had_none_and_come_back_with_the_state(small: Small, tmp_path: Path) -> None:
    recovery, topic = small.recovery, small.changelog.topic

    def found() -> list[tuple[str, ...]]:
        return [one.remedies for one in advice(recovery) if (one.kind, one.subject) == ("replication", topic)]

    made_again(small, 1)
    (leader,) = recovery.cluster.replicas([topic])[small.changelog]
    (commands,) = found()
    follow(commands, tmp_path)
    assert found() == []
    assert racks_of(small) == ["a", "b", "c"]
    assert recovery.cluster.replicas([topic])[small.changelog][0] == leader
    expected, taken = state_of(recovery, small.changelog), published(small)
    lose_state(small)
    restored(recovery, taken)
    assert racks_of(small) == ["a", "b", "c"]
    assert state_of(recovery, small.changelog) == expected


@pytest.mark.deep
@pytest.mark.fault("F5")
@pytest.mark.parametrize("question", ["rights on a group", "offsets of a group"])
def test_a_question_to_a_coordinator_that_falls_silent_is_answered_by_its_successor(cluster: Racked, question: str) -> None:
    """librdkafka asks the first, kafka-python the second. What each knows of the coordinator is from before."""
    with Clients(KafkaConnection(bootstrap_servers=cluster.bootstrap, properties={}), timeout=40) as clients:
        group, coordinator = next(
            (name, node)
            for name in (f"{question}-{number}" for number in range(100))
            if (node := clients.patiently("asking", partial(clients.coordinators, [name]))[name]) != 1
        )

        def ask() -> object:
            if question == "rights on a group":
                return permissions.on_group(clients, group)
            return read_unsettled(clients, group, [TopicPartition("__consumer_offsets", 0)])

        before = ask()
        with cluster.silenced(coordinator):
            assert ask() == before


@pytest.mark.deep
@pytest.mark.remedy("restore-replicas")
def test_topics_with_more_replicas_than_brokers_are_made_with_fewer_or_once_a_broker_is_up(small: Small, cluster: Racked) -> None:
    recovery = small.recovery
    made_again(small, len(RACKS))
    expected, taken = state_of(recovery, small.changelog), published(small)
    lose_state(small)
    cluster.stop(4)
    try:
        assert poll(lambda: True if len(recovery.cluster.broker_ids()) == 3 else None, seconds=60)
        assert 4 not in recovery.cluster.racks(), "one that is down gets no replica"
        (blocked,) = told(recovery, taken, "replication")
        assert blocked.severity is PreflightSeverity.BLOCKING
        assert blocked.next_step.startswith("bring up 1 more, or let a restore make topics with 3 (restore.replication_factor: 3,")
        with pytest.raises(Refused, match="3 brokers are up"):
            restore.plan(recovery, asked(recovery, savepoint=taken.savepoint_id))
        fewer = configured_for(small, restore={"replication_factor": 3})
        assert told(fewer, taken, "replication") == []
        restored(fewer, taken)
        assert (len(racks_of(small)), state_of(recovery, small.changelog)) == (3, expected)
    finally:
        cluster.start(4)
    assert poll(lambda: True if len(recovery.cluster.broker_ids()) == 4 else None, seconds=60)
    assert told(recovery, taken, "replication") == []
    restored(recovery, taken)
    assert (len(racks_of(small)), state_of(recovery, small.changelog)) == (4, expected)


@pytest.mark.deep
@pytest.mark.remedy("restore-min-insync")
@pytest.mark.parametrize("where", ["the topic", "the brokers"])
def test_topics_that_ask_for_more_replicas_in_sync_than_they_get_are_made_with_more_or_set_to_ask_for_fewer(
    small: Small, where: str
) -> None:
    recovery, topic, own = small.recovery, small.changelog.topic, where == "the topic"
    made_again(small, 1, **({"min_insync_replicas": "2"} if own else {}))
    expected, taken = state_of(recovery, small.changelog), published(small)
    lose_state(small)
    if not own:
        brokers(recovery, f"--add-config {IN_SYNC}=2")
    try:
        (found,) = told(recovery, taken, "min-insync")
        assert found.next_step.startswith(
            "let the restore make 3 replicas (restore.replication_factor: 3), or set min.insync.replicas=1 on the"
        )
        assert ("the savepoint itself has that setting" in found.next_step) is own
        more = configured_for(small, restore={"replication_factor": 3})
        assert told(more, taken, "min-insync") == []
        restored(more, taken)
        assert (len(racks_of(small)), state_of(recovery, small.changelog)) == (3, expected)
        # The other way: as many replicas as it had, and the setting afterwards.
        restored(recovery, taken)
        alter(recovery.cluster, {topic: {IN_SYNC: "1"}})
        assert (len(racks_of(small)), state_of(recovery, small.changelog)) == (1, expected)
        assert [one for one in advice(recovery) if (one.kind, one.subject) == ("min-insync", topic)] == []
        assert recovery.cluster.describe_topics([topic])[topic].config[IN_SYNC] == "1"
    finally:
        if not own:
            # They do not let it be taken away again.
            brokers(recovery, f"--add-config {IN_SYNC}=1")


def brokers(recovery: RecoveryContext, change: str) -> None:
    """A setting of all brokers, as an administrator sets it."""
    done(
        f"kafka-configs.sh --bootstrap-server {recovery.connection.bootstrap_servers} --alter --entity-type brokers --entity-default {change}"
    )


@pytest.mark.remedy("broker-auto-create")
def test_brokers_that_create_topics_do_not_after_the_setting_and_a_restart(tmp_path: Path) -> None:
    with Processes(tmp_path / "processes") as processes:
        port, controller = free_ports(2)

        def start(value: str) -> str:
            processes.stop_all()
            extras = BrokerExtras(settings={AUTO_CREATE: value})
            return start_broker(processes, tmp_path / "broker", port=port, controller_port=controller, extras=extras)

        with small_application(start("true"), tmp_path, tidy=False) as small:
            (found,) = [one for one in preflight.before_backup(small.recovery) if one.kind == AUTO_CREATE]
            assert found.next_step == "set auto.create.topics.enable=false in server.properties of every broker and restart them one by one"
            assert [one.kind for one in advice(small.recovery) if found.next_step[1:] in one.text] == ["auto-topic-creation"]
            refused = done_or_said(small.recovery, f"--add-config {AUTO_CREATE}=false")
            assert "Cannot update these configs dynamically" in refused, "that is why it says where"
            expected, taken = state_of(small.recovery, small.changelog), published(small)
            start("false")
            with reopened(small) as later:
                assert AUTO_CREATE not in {one.kind for one in preflight.before_backup(later.recovery)}
                assert "auto-topic-creation" not in {one.kind for one in advice(later.recovery)}
                lose_state(later)
                restored(later.recovery, taken)
                assert state_of(later.recovery, small.changelog) == expected


def done_or_said(recovery: RecoveryContext, change: str) -> str:
    with pytest.raises(AssertionError) as caught:
        brokers(recovery, change)
    return str(caught.value)


@pytest.mark.remedy("room-brokers")
def test_a_state_that_does_not_fit_on_the_disks_of_another_cluster_fits_once_they_are_larger(bootstrap: str, tmp_path: Path) -> None:
    """A broker with a small file system of its own, which is made larger."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounted(disk, "size=12m"):
        pytest.skip("NOT checked: only root can make a small file system")
    try:
        with Processes(tmp_path / "processes") as processes, small_application(bootstrap, tmp_path) as found:
            small = surviving(found)
            producer = Producer(small.recovery.connection.client_config())
            for number in range(160):
                producer.produce(small.changelog.topic, os.urandom(100_000), b"large%d" % number, 0)
            assert producer.flush(30) == 0
            expected, taken = state_of(small.recovery, small.changelog), published(small)
            port, controller = free_ports(2)
            there = start_broker(processes, disk / "broker", port=port, controller_port=controller)
            with reopened(small, KafkaConnection(bootstrap_servers=there, properties={})) as site:

                def said() -> list[PreflightSeverity]:
                    return [one.severity for one in preflight.before_failover(site.recovery, taken) if one.remedy.kind.id == "room-brokers"]

                assert said() == [PreflightSeverity.BLOCKING]
                assert mounted(disk, "remount,size=24m")
                assert said() == [PreflightSeverity.WARNING], "it fits, and little is left"
                assert mounted(disk, "remount,size=100m")
                assert said() == []
                restored(site.recovery, taken)
                assert state_of(site.recovery, small.changelog) == expected
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def mounted(disk: Path, how: str) -> bool:
    return subprocess.run(["mount", "-t", "tmpfs", "-o", how, "none", str(disk)], capture_output=True, check=False).returncode == 0
