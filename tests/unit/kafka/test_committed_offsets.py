from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import OffsetsUnstable, RecoveryError, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.committed_offsets import read_committed_offsets
from tests.support.kafka.scripted_clients import Script, ScriptedClients, future

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def raw(*found: tuple[int, str]) -> dict[str, dict[PurePartition, OffsetAndMetadata]]:
    return {"g": {PurePartition("t", number): OffsetAndMetadata(*item, -1) for number, item in enumerate(found)}}


class Item:
    """One partition of a settled answer. Its metadata must not be looked at: the client reads past its end."""

    def __init__(self, partition: int, offset: int, code: int) -> None:
        self.topic, self.partition, self.offset = "t", partition, offset
        self.error = KafkaError(code, "scripted") if code else None

    @property
    def metadata(self) -> str:
        raise UnicodeDecodeError("utf-8", b"x\xb6", 1, 2, "bytes behind the metadata")


def settled(*offsets: int, code: int = 0, at: int = 0) -> dict[str, Any]:
    items = [Item(number, offset, code if number == at else 0) for number, offset in enumerate(offsets)]
    return {"g": future(SimpleNamespace(topic_partitions=items))}


def read(pure: list[object], librdkafka: list[object], timeout: float = 5.0) -> tuple[dict[TopicPartition, CommittedOffset | None], Script]:
    client = Script(list_group_offsets=pure)
    clients = ScriptedClients(pure=client, librdkafka=Script(list_consumer_group_offsets=librdkafka), timeout=timeout)
    return read_committed_offsets(clients, "g", [A, B]), client


def at(offset: int, metadata: str) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=None)


def test_still_offsets_are_read_once() -> None:
    found, client = read([raw((5, "m"), (-1, ""))] * 2, [settled(5, -1001)])
    assert found == {A: at(5, "m"), B: None}
    assert len(client.asked) == 2


@pytest.mark.parametrize(
    ("pure", "librdkafka"),
    [
        # A commit between the first and the second question, or between the second and the third, whatever it changes.
        ([raw((5, "m"), (7, "n")), raw((6, "m"), (7, "n"))], [settled(6, 7)]),
        ([raw((5, "m"), (7, "n")), raw((6, "m"), (7, "n"))], [settled(5, 7)]),
        ([raw((5, "m"), (7, "n")), raw((5, "new"), (7, "n"))], [settled(5, 7)]),
        # Out and back, seen by the settled answer only.
        ([raw((5, "m"), (7, "n"))] * 2, [settled(6, 7)]),
        # A transaction over the second partition; the first is fine, and changes meanwhile.
        ([raw((5, "m"), (7, "n"))] * 2, [settled(5, -1001, code=KafkaError.UNSTABLE_OFFSET_COMMIT, at=1)]),
    ],
)
def test_offsets_that_move_are_all_asked_for_again(pure: list[object], librdkafka: list[object]) -> None:
    found, client = read([*pure, *[raw((60, "later"), (70, "later"))] * 2], [*librdkafka, settled(60, 70)])
    assert found == {A: at(60, "later"), B: at(70, "later")}
    everything = {"g": [PurePartition("t", 0), PurePartition("t", 1)]}
    assert [args for _, args, _ in client.asked] == [(everything,)] * 4


def test_partitions_that_do_not_settle_are_named() -> None:
    unstable = [settled(5, -1001, code=KafkaError.UNSTABLE_OFFSET_COMMIT, at=1) for _ in range(50)]
    with pytest.raises(OffsetsUnstable, match="t-1") as caught:
        read([raw((5, "m"), (7, "n"))] * 100, list(unstable), timeout=0.1)
    assert caught.value.facts["partitions"] == ["t-1"]


def test_offsets_that_never_stand_still_are_an_error() -> None:
    with pytest.raises(OffsetsUnstable, match="kept changing"):
        read([raw((number, ""), (7, "")) for number in range(100)], [settled(1, 7) for _ in range(50)], timeout=0.1)


def test_another_error_of_one_partition_is_an_error() -> None:
    with pytest.raises(Refused, match="t-1"):
        read([raw((5, ""), (7, ""))], [settled(5, -1001, code=KafkaError.GROUP_AUTHORIZATION_FAILED, at=1)])


def test_an_answer_that_leaves_a_partition_out_is_an_error() -> None:
    with pytest.raises(RecoveryError, match="leaves out t-1"):
        read([raw((5, ""))], [])


def test_leader_epochs_are_kept_when_there_is_one() -> None:
    answer = {"g": {PurePartition("t", 0): OffsetAndMetadata(5, "", 3), PurePartition("t", 1): OffsetAndMetadata(6, None, None)}}
    found, _ = read([answer, answer], [settled(5, 6)])
    assert found == {A: CommittedOffset(offset=5, metadata="", leader_epoch=3), B: at(6, "")}
