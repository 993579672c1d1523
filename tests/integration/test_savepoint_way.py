"""Which way a savepoint takes, and why not by the names of transactions, on brokers and with clients that give them names and that do not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Partition
from typer.testing import CliRunner

from embedded.broker import BrokerExtras, start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.cli.app import app
from streams_recovery.core.kafka_types import CommittedOffset, QuiesceMode, TopicPartition
from streams_recovery.core.named_transactions.way import CaptureWay, Condition, Missing, SavepointWay
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.operations import preflight
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint_way import missing_for_names, savepoint_way
from streams_recovery.operations.status.look import observe
from streams_recovery.operations.status.notices import advice
from tests.support.applications.named_counts import NamedCounts, named_counts
from tests.support.applications.named_recovery import named_recovery
from tests.support.applications.small import configured, with_policy
from tests.support.kafka.access_rules import Rules
from tests.support.kafka.secured_broker import ADMIN, Secured
from tests.support.programs.kafka_tools import follow
from tests.support.programs.kafka_versions import kafka

pytestmark = pytest.mark.kafka


@pytest.fixture
def of_version(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A broker with this level of transaction.version, or the newest one of a Kafka that has none."""
    level = str(request.param)
    port, controller = free_ports(2)
    extras = (
        BrokerExtras(format_arguments=("--feature", f"transaction.version={level}")) if level in "01" else BrokerExtras(jars=kafka(level))
    )
    with Processes(tmp_path / "of-version") as processes:
        yield start_broker(processes, tmp_path / "of-version" / "broker", port=port, controller_port=controller, extras=extras)


def missing(recovery: RecoveryContext) -> Missing:
    found = missing_for_names(recovery)
    assert found is not None
    return found


def ways(recovery: RecoveryContext) -> list[SavepointWay]:
    return [savepoint_way(recovery, mode) for mode in (QuiesceMode.LIVE, QuiesceMode.PAUSE, QuiesceMode.STOP)]


def commit_as_before(bootstrap: str, counts: NamedCounts, offset: int) -> None:
    """A transaction of a client that knows no names: librdkafka keeps the epoch of its producer."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": counts.id})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{counts.id}-old"})
    producer.init_transactions(30)
    producer.begin_transaction()
    read = counts.inputs[0]
    producer.send_offsets_to_transaction([Partition(read.topic, read.partition, offset)], consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()


def told(recovery: RecoveryContext, mode: QuiesceMode | None = None) -> list[PreflightFinding]:
    return [one for one in preflight.before_backup(recovery, mode) if one.kind == "savepoint-way"]


def said_in_preflight(extra: Mapping[str, object], directory: Path) -> str:
    kafka = json.dumps({"conn_type": "kafka", "extra": dict(extra)})
    shown = CliRunner().invoke(
        app, ["preflight", "named", "--configs", str(directory)], env={"AIRFLOW_CONN_KAFKA_DEFAULT": kafka, "COLUMNS": "400"}
    )
    return next(line for line in shown.stdout.splitlines() if line.startswith("way: "))


@pytest.mark.remedy("transaction-client")
@pytest.mark.remedy("savepoint-live")
def test_transactions_of_a_client_from_4_on_have_names_and_of_an_older_one_not(bootstrap: str, tmp_path: Path) -> None:
    extra = {"bootstrap.servers": bootstrap}
    with named_counts(bootstrap, tmp_path, "classic") as counts, named_recovery(extra, counts.id, tmp_path) as recovery:
        commit_as_before(bootstrap, counts, 0)
        old = missing(recovery)
        assert (old.condition, "Kafka Streams 4.0 or newer" in str(old.remedy)) == (Condition.CLIENTS, True)
        assert [one.way for one in ways(recovery)] == [CaptureWay.LIVE, CaptureWay.PAUSE, CaptureWay.STOP]
        (warned,) = told(recovery)
        assert "has kept its epoch" in warned.text
        assert told(recovery, QuiesceMode.STOP) == [], "what could be better is advice"
        with counts.reader() as reader, counts.feeding(100):
            counts.start()
            counts.await_work(reader)
            found = ways(recovery)
            assert told(recovery) == []
            assert said_in_preflight(extra, tmp_path) == f"way: {found[0].text}"
            assert observe(recovery, None).savepoint_way == found[0].text
            loop: dict[str, object] = {"outputs": [*recovery.config.topics.outputs, counts.inputs[0].topic]}
            looped = savepoint_way(replace(recovery, config=configured(recovery, topics=loop)))
            assert (looped.missing is not None and looped.missing.condition, looped.way) == (Condition.LOOPS, CaptureWay.LIVE)
            # As the application was held before somebody followed the advice.
            (advised,) = [one for one in advice(with_policy(recovery, mode=QuiesceMode.STOP)) if one.kind == "savepoint-way"]
            assert "set backup.consistency.mode: live" in advised.text.lower()
            assert [one for one in advice(recovery) if one.kind == "savepoint-way"] == []
        assert [one.way for one in found] == [CaptureWay.NAMES, CaptureWay.PAUSE, CaptureWay.STOP], "who had no names is gone"
        assert ["nothing would be held" in one.text for one in found] == [False, True, True]
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        producer.produce(counts.changelogs[0].topic, b"value", b"key", 0)
        assert producer.flush(30) == 0
        loaded = savepoint_way(recovery)
        assert (loaded.missing is not None and loaded.missing.condition, loaded.way) == (Condition.WRITERS, CaptureWay.LIVE)
        commit_as_before(bootstrap, counts, 1)
        assert missing(recovery).condition is Condition.CLIENTS, "and is there again"
        counts.processes.stop(counts.instances.pop())
        recovery.groups.wait_empty(counts.id, 60)
        recovery.groups.set_offsets(counts.id, {counts.inputs[0]: CommittedOffset(offset=2, metadata="")})
        by_hand = missing(recovery)
        assert (by_hand.condition, str(counts.inputs[0]) in by_hand.text) == (Condition.ONLY_TRANSACTIONS, True)


@pytest.mark.parametrize(
    "of_version", ["1", pytest.param("0", marks=pytest.mark.deep), pytest.param("3.9.1", marks=pytest.mark.deep)], indirect=True
)
@pytest.mark.remedy("transaction-version")
def test_a_cluster_that_gives_no_names_says_so_and_how_it_does(of_version: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    extra = {"bootstrap.servers": of_version}
    with named_recovery(extra, "nobody", tmp_path) as recovery:
        found = missing(recovery)
        level = request.node.callspec.params["of_version"]
        assert (found.condition, f"is {level if level in '01' else 0}:" in found.text) == (Condition.VERSION, True)
        assert savepoint_way(recovery).way is CaptureWay.LIVE
        assert found.remedy is not None
        if level in "01":
            follow(found.remedy.commands, tmp_path)
            now = missing_for_names(recovery)
            assert now is None or now.condition is Condition.READABLE, "no group has committed, so there is no topic for it yet"


@pytest.mark.remedy("transaction-offsets-topic")
def test_a_user_without_the_right_to_read_the_offsets_topic_is_told_so(secured: Secured, tmp_path: Path) -> None:
    rules, name = Rules(secured), tmp_path.name.replace("_", "-")
    read = TopicPartition(f"{name}.in", 0)
    with named_recovery(secured.extra(ADMIN), name, tmp_path) as admin:
        admin.cluster.create_topic(read.topic, partitions=1, replication_factor=1, config={})
        # The first commit of any group makes the topic.
        admin.groups.set_offsets(name, {read: CommittedOffset(offset=0, metadata="")})
    try:
        with named_recovery(secured.extra("backup"), name, tmp_path) as recovery:
            found = missing(recovery)
            assert (found.condition, "User:backup may not read it" in found.text) == (Condition.READABLE, True)
            assert found.remedy is not None
            (command,) = found.remedy.commands
            seen = rules.apply(command.replace(" --operation Read", ""))
            assert missing(recovery).condition is Condition.READABLE, "to see it is not to read it"
            rules.remove(seen)
            rules.apply(command)
            assert missing(recovery).condition is Condition.ONLY_TRANSACTIONS, "it is read: the offset was set by hand"
    finally:
        rules.remove_all("backup")
        rules.close()
