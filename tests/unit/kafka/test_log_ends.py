from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError

from streams_recovery.core.errors import NotFound, Refused, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import log_ends
from tests.support.kafka.scripted_clients import Script, ScriptedClients, offsets, refusal

TPS = [TopicPartition("t", number) for number in range(3)]
NOT_LEADER = refusal(KafkaError.NOT_LEADER_FOR_PARTITION)
UNKNOWN = refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)


def ask(clients: ScriptedClients) -> dict[TopicPartition, int]:
    return log_ends.list_offsets(clients, TPS, log_ends.LATEST, IsolationLevel.READ_UNCOMMITTED)


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


def test_one_that_never_has_an_offset_is_named() -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: OFFSET_INVALID, 2: 12})] * 50)
    with pytest.raises(TransientError, match="t-1"):
        ask(ScriptedClients(librdkafka=client, timeout=0.15))


def test_one_that_is_not_known_yet_is_asked_for_with_fresh_metadata() -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: UNKNOWN, 2: NOT_LEADER}), offsets({1: 21, 2: 22})], list_topics=[None])
    assert ask(ScriptedClients(librdkafka=client)) == {TPS[0]: 10, TPS[1]: 21, TPS[2]: 22}
    assert [verb for verb, _, _ in client.asked] == ["list_offsets", "list_topics", "list_offsets"]


def test_one_that_stays_unknown_is_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "_UNKNOWN_SECONDS", 0.15)
    client = Script(list_offsets=[offsets({0: 10, 1: UNKNOWN, 2: 12})] * 50, list_topics=[None] * 50)
    with pytest.raises(NotFound, match="t-1"):
        ask(ScriptedClients(librdkafka=client, timeout=60))


def test_one_that_stays_without_a_leader_is_named() -> None:
    client = Script(list_offsets=[offsets({0: 10, 1: 11, 2: NOT_LEADER})] * 50)
    with pytest.raises(TransientError, match="t-2"):
        ask(ScriptedClients(librdkafka=client, timeout=0.15))


def test_a_missing_right_is_told_at_once_whatever_else_is_wrong() -> None:
    refused = refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    client = Script(list_offsets=[offsets({0: UNKNOWN, 1: refused, 2: NOT_LEADER})])
    with pytest.raises(Refused, match="t-1"):
        ask(ScriptedClients(librdkafka=client))
