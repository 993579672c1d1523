"""Ends of logs, their settings and directories, as a broker tells them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from kafka.protocol.admin import DescribeLogDirsResponse

from streams_recovery.core.errors import NotFound, PermanentError, Refused, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.topic_settings import topic_defaults
from streams_recovery.kafka import logs
from streams_recovery.kafka.logs import LogDir, directories_of
from tests.support.kafka.scripted_clients import Script, ScriptedClients, offsets, refusal

TPS = [TopicPartition("t", number) for number in range(3)]
NOT_LEADER = refusal(KafkaError.NOT_LEADER_FOR_PARTITION)
UNKNOWN = refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)


def led(leaders: dict[int, int]) -> Any:
    """Metadata of the topic's partitions, by their leaders."""
    partitions = {number: SimpleNamespace(leader=leader, replicas=[10, 4]) for number, leader in leaders.items()}
    return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})


def ask(clients: ScriptedClients) -> dict[TopicPartition, int]:
    return logs.list_offsets(clients, TPS, logs.LATEST, IsolationLevel.READ_UNCOMMITTED)


def test_all_partitions_are_one_request() -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: 11, 2: 12})])
    assert ask(ScriptedClients(librdkafka=client)) == {TPS[0]: 10, TPS[1]: 11, TPS[2]: 12}
    assert len(client.asked) == 1


def test_only_those_that_were_not_ready_are_asked_again() -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: NOT_LEADER, 2: 12}), offsets({1: 21})])
    assert ask(ScriptedClients(librdkafka=client)) == {TPS[0]: 10, TPS[1]: 21, TPS[2]: 12}


@pytest.mark.fault("F5")
@pytest.mark.parametrize("answer", [OFFSET_INVALID, refusal(KafkaError._TRANSPORT), refusal(KafkaError._DESTROY_BROKER)], ids=str)
def test_one_whose_broker_goes_away_while_it_is_asked_is_asked_again_and_no_offset_is_made_up(answer: object) -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: answer, 2: 12}), offsets({1: 21})], list_topics=[None])
    assert ask(ScriptedClients(librdkafka=client)) == {TPS[0]: 10, TPS[1]: 21, TPS[2]: 12}


@pytest.mark.fault("F5")
@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._TIMED_OUT])
def test_one_that_has_another_leader_by_now_is_asked_for_with_fresh_metadata(code: int) -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: refusal(code), 2: 12}), offsets({1: 21})], list_topics=[None])
    assert ask(ScriptedClients(librdkafka=client)) == {TPS[0]: 10, TPS[1]: 21, TPS[2]: 12}
    assert [verb for verb, _, _ in client.asked] == ["list_offsets", "list_topics", "list_offsets"]


@pytest.mark.parametrize("answer", [OFFSET_INVALID, NOT_LEADER], ids=["never has an offset", "stays without a leader"])
def test_one_whose_offset_never_comes_is_named(answer: object) -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: answer, 2: 12})] * 50)
    with pytest.raises(TransientError, match="t-1"):
        ask(ScriptedClients(librdkafka=client, timeout=0.15))


def test_one_that_is_not_known_yet_is_asked_for_with_fresh_metadata() -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: UNKNOWN, 2: NOT_LEADER}), offsets({1: 21, 2: 22})], list_topics=[led({})])
    assert ask(ScriptedClients(librdkafka=client)) == {TPS[0]: 10, TPS[1]: 21, TPS[2]: 22}
    assert [verb for verb, _, _ in client.asked] == ["list_offsets", "list_topics", "list_offsets"]


def test_one_that_stays_unknown_is_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_UNKNOWN_SECONDS", 0.15)
    client = Script(list_offsets=[offsets({0: 10, 1: UNKNOWN, 2: 12})] * 50, list_topics=[led({0: 1, 2: 1})] * 50)
    with pytest.raises(NotFound, match="t-1"):
        ask(ScriptedClients(librdkafka=client, timeout=60))


@pytest.mark.fault("F5")
@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._NOENT, KafkaError._UNKNOWN_PARTITION])
def test_one_that_nobody_leads_is_waited_for_and_then_told_with_its_brokers_and_never_as_missing(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(logs, "_UNKNOWN_SECONDS", 0.0)
    answers = [offsets({0: 10, 1: refusal(code), 2: 12})]
    found = Script(list_offsets=[*answers, offsets({1: 21})], list_topics=[led({0: 1, 1: -1, 2: 1})])
    assert ask(ScriptedClients(librdkafka=found)) == {TPS[0]: 10, TPS[1]: 21, TPS[2]: 12}
    client = Script(list_offsets=answers * 50, list_topics=[led({0: 1, 1: -1, 2: 1})] * 50)
    with pytest.raises(TransientError, match="t-1 has no leader now; the replicas are on brokers 4, 10") as caught:
        ask(ScriptedClients(librdkafka=client, timeout=0.15))
    assert caught.value.facts["partitions"] == {"t-1": [10, 4]}
    assert "brokers 4, 10 run" in caught.value.next_step


def test_a_missing_right_is_told_at_once_whatever_else_is_wrong() -> None:
    refused = refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    client = Script(list_offsets=[offsets({0: UNKNOWN, 1: refused, 2: NOT_LEADER})])
    with pytest.raises(Refused, match="t-1"):
        ask(ScriptedClients(librdkafka=client))


RESULT = DescribeLogDirsResponse.DescribeLogDirsResult
TOPIC = RESULT.DescribeLogDirsTopic
PARTITION = TOPIC.DescribeLogDirsPartition


def result(**changes: Any) -> Any:
    partitions = [PARTITION(partition_index=at, partition_size=100 + at, offset_lag=0, is_future_key=False) for at in range(3)]
    return RESULT(**{"error_code": 0, "log_dir": "/data", "topics": [TOPIC(name="orders-in", partitions=partitions)], **changes})


def answered(*results: Any, version: int = 4, code: int = 0) -> list[LogDir]:
    sent = DescribeLogDirsResponse(throttle_time_ms=0, error_code=code, results=list(results)).encode(version=version)
    return list(directories_of(1, DescribeLogDirsResponse.decode(sent, version=version)))


def test_sizes_of_all_partitions_are_added_up_and_the_space_is_that_of_the_disk() -> None:
    (found,) = answered(result(total_bytes=1000, usable_bytes=400))
    logs = {TopicPartition("orders-in", at): 100 + at for at in range(3)}
    assert found == LogDir(broker=1, path="/data", total_bytes=1000, free_bytes=400, logs=logs)
    assert found.topics == {"orders-in": 303}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_broker_does_not_tell_the_space(version: int) -> None:
    (found,) = answered(result(), version=version)
    assert (found.total_bytes, found.free_bytes, found.topics) == (None, None, {"orders-in": 303})


@pytest.mark.parametrize(("version", "code"), [(1, 0), (4, 31)], ids=["by an empty answer", "by its code"])
def test_a_broker_that_refuses_is_no_empty_broker(version: int, code: int) -> None:
    with pytest.raises(Refused, match="ClusterAuthorizationFailed"):
        answered(version=version, code=code)


def test_a_directory_that_cannot_be_read_is_named() -> None:
    with pytest.raises(PermanentError, match="broker 1 cannot read /data: KafkaStorageError"):
        answered(result(error_code=56))


@pytest.mark.parametrize(
    ("broker", "retention"),
    [
        ({"log.retention.hours": "168"}, "604800000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "5"}, "300000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "5", "log.retention.ms": "7"}, "7"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({"log.retention.hours": "168", "log.retention.ms": "-1"}, "-1"),
        ({}, None),
    ],
)
def test_what_a_topic_without_overrides_has(broker: dict[str, str], retention: str | None) -> None:
    settings = {**broker, "log.cleanup.policy": "compact,delete", "log.cleaner.min.compaction.lag.ms": "60000"}
    expected = {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "60000"}
    expected |= {} if retention is None else {"retention.ms": retention}
    assert topic_defaults(settings) == expected
