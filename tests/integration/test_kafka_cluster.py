"""Topics, configurations and log ends on a real broker."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from embedded.ports import free_ports
from streams_recovery.core.errors import BrokerUnavailable, NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.topic_holds.compaction_guard import MAX_COMPACTION_LAG, MIN_COMPACTION_LAG, UNLIMITED
from streams_recovery.kafka import clients, logs
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from tests.support.kafka.quotas import quota
from tests.support.kafka.topic_settings import alter
from tests.support.project import PROJECT

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(connection: KafkaConnection) -> Iterator[KafkaCluster]:
    with KafkaCluster(connection, timeout=20) as opened:
        yield opened


@pytest.fixture
def new_topic(cluster: KafkaCluster) -> Iterator[Callable[..., str]]:
    made: list[str] = []

    def make(*, partitions: int = 2, name: str | None = None, **config: str) -> str:
        name = name or f"it.cluster_{uuid.uuid4().hex[:8]}"
        cluster.create_topic(
            name, partitions=partitions, replication_factor=1, config={key.replace("_", "."): value for key, value in config.items()}
        )
        made.append(name)
        return name

    yield make
    cluster.delete_topics(made)


def test_a_topic_that_was_created_again_is_not_the_one_to_delete(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    before = cluster.describe_topics([name := new_topic()])[name].topic_id
    cluster.delete_exactly({name: before})
    assert not cluster.describe_topics([name])
    after = cluster.create_topic(name, partitions=1, replication_factor=1, config={}).topic_id
    cluster.delete_exactly({name: before})
    assert cluster.describe_topics([name])[name].topic_id == after != before


@pytest.mark.fault("F115")
def test_topics_are_deleted_as_fast_as_a_quota_allows(connection: KafkaConnection, new_topic: Callable[..., str]) -> None:
    # The controller allows eleven changes of partitions at once where it allows one a second.
    names = [new_topic(partitions=13), new_topic(partitions=13)]
    slow = KafkaConnection(bootstrap_servers=connection.bootstrap_servers, properties={"client.id": f"slow-{names[0]}"})
    with quota(connection, f"slow-{names[0]}", "controller_mutation_rate", 1.0), KafkaCluster(slow, timeout=20) as cluster:
        began = time.monotonic()
        cluster.delete_topics(names)
        assert time.monotonic() - began > 1
        assert not {*names} & {*cluster.topic_names()}


def produce(connection: KafkaConnection, topic: str, partition: int, count: int, **settings: object) -> Producer:
    producer = Producer(connection.client_config(**settings))
    if "transactional.id" in settings:
        producer.init_transactions(20)
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition, timestamp=1_700_000_000_000 + number)
    assert producer.flush(20) == 0
    return producer


def test_create_describe_and_delete(cluster: KafkaCluster) -> None:
    name = f"it.with.dots_and_underscores-{uuid.uuid4().hex[:8]}"
    created = cluster.create_topic(name, partitions=3, replication_factor=1, config={"cleanup.policy": "compact", "retention.ms": "-1"})
    try:
        assert (created.name, created.partitions, created.replication_factor) == (name, 3, 1)
        assert created.config == {"cleanup.policy": "compact", "retention.ms": "-1"}
        assert created.leader_epochs == (0, 0, 0)
        assert cluster.describe_topics([name]) == {name: created}
        assert name in cluster.topic_names()
    finally:
        cluster.delete_topics([name])
    assert cluster.describe_topics([name]) == {}
    assert name not in cluster.topic_names()


def test_a_new_topic_answers_for_all_its_partitions_at_once(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    for _ in range(5):
        name = new_topic(partitions=4)
        assert set(cluster.high_watermarks([TopicPartition(name, number) for number in range(4)]).values()) == {0}


def test_topic_id_is_the_one_kafka_shows_and_changes_when_a_topic_is_made_again(
    cluster: KafkaCluster, connection: KafkaConnection, new_topic: Callable[..., str]
) -> None:
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient

    name = new_topic()
    first = cluster.describe_topics([name])[name].topic_id
    client = AdminClient({"bootstrap.servers": connection.bootstrap_servers})
    shown = client.describe_topics(TopicCollection([name]))[name].result().topic_id
    # librdkafka uses the other base64 alphabet.
    assert first == str(shown).replace("+", "-").replace("/", "_")
    cluster.delete_topics([name])
    again = cluster.create_topic(name, partitions=2, replication_factor=1, config={})
    assert again.topic_id != first


def test_absent_topics_are_absent_from_the_answer(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    assert set(cluster.describe_topics([name, f"{name}-absent"])) == {name}
    assert cluster.describe_topics([]) == {}


def test_names_that_overlap_are_told_apart(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    short = new_topic(retention_ms="1000000")
    longer = new_topic(name=f"{short}-eu", retention_ms="2000000")
    assert {name: topic.config for name, topic in cluster.describe_topics([short, longer]).items()} == {
        short: {"retention.ms": "1000000"},
        longer: {"retention.ms": "2000000"},
    }
    cluster.delete_topics([short])
    assert set(cluster.describe_topics([short, longer])) == {longer}


def test_creating_what_exists_or_cannot_be_is_refused(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    with pytest.raises(Refused, match=f"{name} already exists"):
        cluster.create_topic(name, partitions=1, replication_factor=1, config={})
    with pytest.raises(Refused, match=r"(?i)replication"):
        cluster.create_topic(f"{name}-x", partitions=1, replication_factor=9, config={})
    with pytest.raises(Refused, match=r"cleanup\.policy"):
        cluster.create_topic(f"{name}-x", partitions=1, replication_factor=1, config={"cleanup.policy": "never"})
    assert cluster.describe_topics([f"{name}-x"]) == {}


def test_many_topics_are_created_together_each_with_its_own_shape(cluster: KafkaCluster) -> None:
    names = [f"many-{uuid.uuid4().hex}" for _ in range(12)]
    wanted = {name: (1 + number % 3, 1, {"retention.ms": str(1000 + number)}) for number, name in enumerate(names)}
    made = cluster.create_topics(wanted)
    try:
        assert {name: (topic.partitions, 1, topic.config) for name, topic in made.items()} == wanted
        assert cluster.log_starts([TopicPartition(name, topic.partitions - 1) for name, topic in made.items()]).keys() != {}
        with pytest.raises(Refused, match=f"{names[3]} already exists"):
            cluster.create_topics({f"{names[0]}-more": (1, 1, {}), names[3]: (1, 1, {})})
    finally:
        cluster.delete_topics([*names, f"{names[0]}-more"])
    assert cluster.create_topics({}) == {}


def test_what_would_not_be_created_is_known_before_and_nothing_is(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    fine: tuple[int, int, dict[str, str]] = (1, 1, {"retention.ms": "-1"})
    wanted = {f"{name}-a": fine, f"{name}-b": (1, 9, {}), f"{name}-c": (1, 1, {"cleanup.policy": "never"}), name: fine}
    refused = cluster.refused_topics(wanted)
    assert set(refused) == {f"{name}-b", f"{name}-c"}
    assert "cleanup.policy" in refused[f"{name}-c"]
    assert cluster.describe_topics(list(wanted)).keys() == {name}
    assert cluster.refused_topics({}) == {}


@pytest.mark.fault("F84")
def test_settings_that_a_cluster_does_not_take_are_known_before_by_name_and_value(
    cluster: KafkaCluster, new_topic: Callable[..., str]
) -> None:
    fine, unknown, wrong = ("retention.ms", "-1"), ("message.format.version", "2.8"), ("cleanup.policy", "never")
    asked = f"asked-{uuid.uuid4().hex}"
    refused = cluster.refused_settings(asked, [fine, unknown, wrong, ("cleanup.policy", "compact")], replicas=1)
    assert set(refused) == {unknown, wrong}
    assert "message.format.version" in refused[unknown]
    assert asked not in cluster.topic_names()


def test_deleting_is_harmless_to_repeat(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    cluster.delete_topics([name, f"{name}-absent"])
    cluster.delete_topics([name])
    cluster.delete_topics([])


def test_overrides_are_set_and_removed_and_others_stay(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    compacted = new_topic(cleanup_policy="compact,delete", max_compaction_lag_ms="600000")
    other = new_topic(retention_ms="1000000")

    alter(cluster, {compacted: {MIN_COMPACTION_LAG: str(UNLIMITED), MAX_COMPACTION_LAG: None}, other: {MIN_COMPACTION_LAG: str(UNLIMITED)}})
    held = cluster.describe_topics([compacted, other])
    assert held[compacted].config == {"cleanup.policy": "compact,delete", MIN_COMPACTION_LAG: str(UNLIMITED)}
    assert held[other].config == {"retention.ms": "1000000", MIN_COMPACTION_LAG: str(UNLIMITED)}

    alter(cluster, {compacted: {MIN_COMPACTION_LAG: None, MAX_COMPACTION_LAG: "600000"}, other: {MIN_COMPACTION_LAG: None}})
    released = cluster.describe_topics([compacted, other])
    assert released[compacted].config == {"cleanup.policy": "compact,delete", MAX_COMPACTION_LAG: "600000"}
    assert released[other].config == {"retention.ms": "1000000"}


def test_an_override_that_equals_the_default_is_an_override(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    name = new_topic(cleanup_policy="delete")
    assert cluster.default_cleanup_policy() == "delete"
    assert cluster.describe_topics([name])[name].config == {"cleanup.policy": "delete"}


def test_settings_the_broker_does_not_accept_are_refused(cluster: KafkaCluster, new_topic: Callable[..., str]) -> None:
    name = new_topic(max_compaction_lag_ms="600000")
    with pytest.raises(Refused, match=r"max\.compaction\.lag\.ms"):
        alter(cluster, {name: {MIN_COMPACTION_LAG: str(UNLIMITED)}})
    with pytest.raises(NotFound):
        alter(cluster, {f"{name}-absent": {MIN_COMPACTION_LAG: str(UNLIMITED)}})


def test_log_start_and_end(cluster: KafkaCluster, connection: KafkaConnection, new_topic: Callable[..., str]) -> None:
    name = new_topic(retention_ms="-1")
    produce(connection, name, 1, 7)
    tps = [TopicPartition(name, 0), TopicPartition(name, 1)]
    assert cluster.log_starts(tps) == {tps[0]: 0, tps[1]: 0}
    assert cluster.high_watermarks(tps) == {tps[0]: 0, tps[1]: 7}
    assert cluster.last_stable_offsets(tps) == {tps[0]: 0, tps[1]: 7}
    assert cluster.offsets_for_times(tps, 1_700_000_000_003) == {tps[0]: None, tps[1]: 3}
    assert cluster.offsets_for_times(tps, 1_800_000_000_000) == {tps[0]: None, tps[1]: None}
    assert cluster.newest_timestamps(tps) == {tps[0]: None, tps[1]: 1_700_000_000_006}
    assert cluster.high_watermarks([]) == {}


def test_an_open_transaction_holds_back_the_stable_end_only(
    cluster: KafkaCluster, connection: KafkaConnection, new_topic: Callable[..., str]
) -> None:
    name = new_topic(partitions=1, retention_ms="-1")
    tp = TopicPartition(name, 0)
    produce(connection, name, 0, 4)
    producer = produce(connection, name, 0, 3, **{"transactional.id": f"txn-{name}"})
    assert cluster.high_watermarks([tp]) == {tp: 7}
    assert cluster.last_stable_offsets([tp]) == {tp: 4}
    producer.commit_transaction(20)
    # The marker takes an offset of its own, and is written after the producer has its answer.
    deadline = time.monotonic() + 10
    while cluster.last_stable_offsets([tp]) != {tp: 8}:
        assert time.monotonic() < deadline
    assert cluster.high_watermarks([tp]) == {tp: 8}


def test_offsets_of_a_partition_that_does_not_exist_are_an_error(
    cluster: KafkaCluster, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_UNKNOWN_SECONDS", 0.5)
    name = new_topic()
    with pytest.raises(NotFound, match=f"{name}-9"):
        cluster.high_watermarks([TopicPartition(name, 0), TopicPartition(name, 9)])
    with pytest.raises(NotFound, match=f"{name}-absent-0"):
        cluster.log_starts([TopicPartition(f"{name}-absent", 0), TopicPartition(name, 0)])


def test_groups_are_listed_with_their_kind(cluster: KafkaCluster, connection: KafkaConnection, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    members = {
        protocol: Consumer(connection.client_config(**{"group.id": f"{name}.{protocol}", "group.protocol": protocol}))
        for protocol in ("classic", "consumer")
    }
    try:
        for member in members.values():
            member.subscribe([name])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not all(member.assignment() for member in members.values()):
            for member in members.values():
                member.poll(0.1)
        kinds = cluster.groups()
        assert {protocol: kinds[f"{name}.{protocol}"] for protocol in members} == {"classic": "classic", "consumer": "consumer"}
    finally:
        for member in members.values():
            member.close()
        remove_groups(connection, [f"{name}.{protocol}" for protocol in members])


def remove_groups(connection: KafkaConnection, group_ids: list[str]) -> None:
    from streams_recovery.kafka.groups import ConsumerGroups

    with ConsumerGroups(connection, timeout=20) as groups:
        for group_id in group_ids:
            groups.wait_empty(group_id, 20, settle=0)
            groups.delete(group_id)


def test_cluster_id_is_stable(cluster: KafkaCluster) -> None:
    assert len(cluster.cluster_id()) == 22
    assert cluster.cluster_id() == cluster.cluster_id()


def test_a_closed_cluster_connects_again(connection: KafkaConnection) -> None:
    with KafkaCluster(connection, timeout=20) as opened:
        first = opened.cluster_id()
        opened.groups()
        opened.close()
        assert opened.cluster_id() == first
        opened.groups()


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["cluster_id", "topic_names", "groups", "default_cleanup_policy"])
def test_a_broker_that_is_down_is_said_in_one_sentence(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    connection = KafkaConnection.from_extra({"bootstrap.servers": address}, where="nobody")
    with KafkaCluster(connection, timeout=1.0) as opened, pytest.raises(BrokerUnavailable) as caught:
        getattr(opened, verb)()
    assert address in str(caught.value)
    assert "within 1 s" in str(caught.value)
    assert verb == "groups" or "Connection refused" in str(caught.value)
    assert "\n" not in str(caught.value)
    # A client of an earlier test in this process may still look for a broker that is gone.
    assert [
        line
        for line in capfd.readouterr().err.splitlines()
        if not line.lower().startswith(("no node available for metadata", "metadata refresh", "connection failed"))
    ] == []


@pytest.mark.timeout(120)
def test_a_long_timeout_does_not_make_a_dead_cluster_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clients.REACH_SECONDS <= 10
    monkeypatch.setattr(clients, "REACH_SECONDS", 1.0)
    connection = KafkaConnection.from_extra({"bootstrap.servers": "127.0.0.1:1"}, where="nobody")
    with KafkaCluster(connection, timeout=300) as opened, pytest.raises(BrokerUnavailable):
        opened.topic_names()


def test_log_directories_have_the_sizes_of_topics_and_the_space_of_their_disks(
    cluster: KafkaCluster, connection: KafkaConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=1)
    produce(connection, topic, 0, 10)
    (found,) = cluster.log_dirs({topic: 1})
    assert found.topics.keys() == {topic}
    assert found.topics[topic] > 0
    assert found.total_bytes is not None
    assert found.free_bytes is not None
    assert 0 < found.free_bytes <= found.total_bytes


# Clients that tell what ours are told to keep to themselves.
_ENDING = """
import sys, uuid
from examples.order_processing import generator
from streams_recovery.kafka import logs
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.connection import KafkaConnection


class Telling(KafkaConnection):
    def client_config(self, **more):
        return {"bootstrap.servers": self.bootstrap_servers, **more}


def ours():
    with Clients(Telling(bootstrap_servers=sys.argv[1], properties={}), timeout=20) as clients:
        assert logs.read_broker_settings(clients, int(sys.argv[2]))


def the_generators():
    generator.INPUTS, generator.OUTPUTS = (f"ended-{uuid.uuid4().hex}",), ()
    generator.create_topics(sys.argv[1], partitions=1)


for _ in range(60):
    globals()[sys.argv[3]]()
"""


@pytest.mark.deep
@pytest.mark.parametrize("whose", ["ours", "the_generators"])
def test_clients_end_without_a_word_and_with_nothing_left_to_serve(cluster: KafkaCluster, connection: KafkaConnection, whose: str) -> None:
    command = [sys.executable, "-c", _ENDING, connection.bootstrap_servers, str(cluster.broker_ids()[0]), whose]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_thread_that_was_there_before_keeps_no_client_from_ending(connection: KafkaConnection) -> None:
    begun, over = threading.Event(), threading.Event()
    # As execnet and other libraries do: Python does not know of it as a thread of its own.
    _thread.start_new_thread(lambda: (begun.set(), over.wait()), ())
    begun.wait()
    try:
        with KafkaCluster(connection, timeout=30) as cluster:
            cluster.broker_ids()
            began = time.monotonic()
        assert time.monotonic() - began < clients.SETTLING_SECONDS / 2
    finally:
        over.set()
