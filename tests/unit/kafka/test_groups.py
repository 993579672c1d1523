from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState
from kafka import errors as pure
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import ApplicationRunning, Damaged, NotFound, RecoveryError
from streams_recovery.core.model import CommittedOffset, TopicPartition
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from tests.unit.kafka.scripted import Script, ScriptedClients, future

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WANTED = {tp: CommittedOffset(offset=5, metadata="AgAA", leader_epoch=3) for tp in (A, B)}


def groups(librdkafka: Script, client: Script, timeout: float = 5.0) -> ConsumerGroups:
    opened = ConsumerGroups(KafkaConnection(bootstrap_servers="nowhere:1", properties={}))
    opened._clients = ScriptedClients(librdkafka=librdkafka, pure=client, timeout=timeout)
    return opened


def listed(state: str, kind: str = "classic") -> list[dict[str, str]]:
    return [{"group_id": "g", "group_type": kind, "group_state": state}]


def described(state: ConsumerGroupState, *clients: str) -> dict[str, Any]:
    members = [SimpleNamespace(member_id=f"{name}-1", client_id=name, host="/h", group_instance_id=None) for name in clients]
    return {"g": future(SimpleNamespace(state=state, members=members))}


def raw(*metadata: str | None) -> dict[str, Any]:
    found = {
        PurePartition("t", number): OffsetAndMetadata(-1 if text is None else 5, text or "", -1) for number, text in enumerate(metadata)
    }
    return {"g": found}


def settled(*offsets: int) -> dict[str, Any]:
    items = [SimpleNamespace(topic="t", partition=number, offset=offset, error=None) for number, offset in enumerate(offsets)]
    return {"g": future(SimpleNamespace(topic_partitions=items))}


@pytest.mark.parametrize(
    ("state", "answer", "empty"),
    [
        ("Empty", ConsumerGroupState.EMPTY, True),
        ("", ConsumerGroupState.EMPTY, True),
        ("Dead", ConsumerGroupState.DEAD, True),
        ("Stable", ConsumerGroupState.STABLE, False),
        # What a client says of a group whose protocol it does not speak, or that changed between the two questions.
        ("Stable", ConsumerGroupState.DEAD, False),
        ("Stable", ConsumerGroupState.EMPTY, False),
        ("Empty", ConsumerGroupState.STABLE, False),
        ("Assigning", ConsumerGroupState.UNKNOWN, False),
        ("Reconciling", ConsumerGroupState.UNKNOWN, False),
    ],
)
def test_a_group_is_empty_only_when_both_answers_say_so(state: str, answer: ConsumerGroupState, empty: bool) -> None:
    found = groups(Script(describe_consumer_groups=[described(answer)]), Script(list_groups=[listed(state)])).describe("g")
    assert found.empty is empty


@pytest.mark.parametrize(("kind", "state", "empty"), [("streams", "Stable", False), ("streams", "Dead", False), ("streams", "Empty", True)])
def test_kinds_that_cannot_be_described_are_taken_as_listed(kind: str, state: str, empty: bool) -> None:
    found = groups(Script(), Script(list_groups=[listed(state, kind)])).describe("g")
    assert (found.kind, found.state, found.empty) == (kind, state, empty)


def setting(answers: dict[int, type[pure.KafkaError]], read_back: dict[str, Any], *more: object) -> tuple[ConsumerGroups, Script]:
    client = Script(
        list_groups=[[], *more],
        list_group_offsets=[raw(None, None), raw(None, None), read_back],
        alter_group_offsets=[{PurePartition("t", number): kind for number, kind in answers.items()}],
    )
    idle = described(ConsumerGroupState.STABLE, "late")
    return groups(Script(list_consumer_group_offsets=[settled(-1001, -1001)], describe_consumer_groups=[idle]), client), client


def test_offsets_are_sent_without_the_leader_epoch_of_the_old_log() -> None:
    opened, client = setting({0: pure.NoError, 1: pure.NoError}, raw("AgAA", "AgAA"))
    opened.set_offsets("g", WANTED)
    (sent,) = (args[1] for verb, args, _ in client.asked if verb == "alter_group_offsets")
    assert sent == {PurePartition("t", 0): OffsetAndMetadata(5, "AgAA", -1), PurePartition("t", 1): OffsetAndMetadata(5, "AgAA", -1)}


@pytest.mark.parametrize("found", [("AgAA", "AgAA\0"), ("AgAA", ""), ("AgAA", None), ("AgAA", "AgAa")])
def test_what_was_stored_differently_is_damage(found: tuple[str | None, ...]) -> None:
    opened, _ = setting({0: pure.NoError, 1: pure.NoError}, raw(*found))
    with pytest.raises(Damaged, match=r"t-1: wanted 5 'AgAA'") as caught:
        opened.set_offsets("g", WANTED)
    assert "t-0" not in str(caught.value)
    assert caught.value.facts["wrong"] == 1


def test_the_worst_of_several_reasons_decides_and_all_are_told() -> None:
    opened, _ = setting({0: pure.CoordinatorLoadInProgressError, 1: pure.UnknownTopicOrPartitionError}, {})
    with pytest.raises(NotFound, match=r"0 of 2 .*t-0 \(CoordinatorLoadInProgressError\), t-1 \(UnknownTopicOrPartitionError\)"):
        opened.set_offsets("g", WANTED)


def test_a_partition_without_an_answer_was_not_set() -> None:
    opened, _ = setting({0: pure.NoError}, {})
    with pytest.raises(RecoveryError, match="1 of 2 offsets were set, these were not: t-1"):
        opened.set_offsets("g", WANTED)


def test_a_member_that_joined_meanwhile_is_named() -> None:
    opened, _ = setting({0: pure.UnknownMemberIdError, 1: pure.UnknownMemberIdError}, {}, listed("Stable"))
    with pytest.raises(ApplicationRunning, match="late on /h"):
        opened.set_offsets("g", WANTED)


def test_a_deletion_is_repeated_while_the_coordinator_moves() -> None:
    client = Script(delete_groups=[{"g": "NotCoordinatorError"}, {"g": "OK"}])
    groups(Script(), client).delete("g")
    assert len(client.asked) == 2


def test_a_deletion_that_was_not_done_is_an_error() -> None:
    with pytest.raises(RecoveryError, match="GroupAuthorizationFailedError"):
        groups(Script(), Script(delete_groups=[{"g": "GroupAuthorizationFailedError"}])).delete("g")
    with pytest.raises(RecoveryError, match="SomethingNew"):
        groups(Script(), Script(delete_groups=[{"g": "SomethingNew"}])).delete("g")


def test_a_group_that_flickers_is_not_empty() -> None:
    states = [ConsumerGroupState.EMPTY, ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE] * 30
    words = {ConsumerGroupState.EMPTY: "Empty", ConsumerGroupState.STABLE: "Stable"}
    client = Script(list_groups=[listed(words[state]) for state in states])
    answers = [described(state, *([] if state is ConsumerGroupState.EMPTY else ["late"])) for state in states]
    with pytest.raises(ApplicationRunning, match="late on /h"):
        groups(Script(describe_consumer_groups=answers), client).wait_empty("g", 0.5, settle=0.5)


def test_a_group_that_stays_empty_is_looked_at_more_than_once() -> None:
    client = Script(list_groups=[listed("Empty")] * 9)
    answers = [described(ConsumerGroupState.EMPTY)] * 9
    assert groups(Script(describe_consumer_groups=answers), client).wait_empty("g", 5, settle=0).empty
    assert len(client.asked) == 2
