"""All offsets of a group are replaced, or none: against a coordinator that refuses, forgets to answer and stores the wrong thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors as pure
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import (
    ApplicationRunning,
    BrokerUnavailable,
    Damaged,
    NotFound,
    OffsetsUnstable,
    RecoveryError,
    Refused,
    TransientError,
)
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.offset_commit import read_committed_offsets
from tests.support.kafka.scripted_clients import Script, ScriptedClients, future

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
A, B, C, _ = PARTITIONS
Stored = dict[TopicPartition, CommittedOffset]
GONE = pure.UnknownTopicOrPartitionError


def known(offset: int, metadata: str = "AgAA", epoch: int | None = None) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=epoch)


class Coordinator:
    """Both admin clients of a cluster with one group. ``refuses`` answers a code for a partition, ``spoils`` stores other metadata than was sent,
    ``loses_answer`` acts without answering. Offsets whose topics it does not know it ``forgets`` at the second deletion, or the third. All goes well again
    once somebody has read what became of the writes, unless ``forever``.
    """

    def __init__(self, stored: Stored, **faults: Any) -> None:
        self.stored = dict(stored)
        self.exists = bool(stored)
        self.refuses: Mapping[TopicPartition, type[pure.KafkaError]] = faults.get("refuses", {})
        self.silent: Iterable[TopicPartition] = faults.get("silent", ())
        self.spoils: Iterable[TopicPartition] = faults.get("spoils", ())
        self.loses_answer: bool = faults.get("loses_answer", False)
        self.forever: bool = faults.get("forever", False)
        self.forgets: int = faults.get("forgets", 0)
        self.looked = False
        self.members: list[str] = []
        self.joins: bool = faults.get("joins", False)
        self.writes: list[dict[PurePartition, OffsetAndMetadata]] = []

    @property
    def _faulty(self) -> bool:
        return self.forever or not self.looked

    def list_groups(self) -> list[dict[str, str]]:
        state = "Stable" if self.members else "Empty"
        return [{"group_id": "g", "group_type": "classic", "group_state": state}] if self.exists else []

    def describe_consumer_groups(self, *_: object, **__: object) -> dict[str, Any]:
        members = [
            SimpleNamespace(member_id=f"{name}-1", client_id=name, host="/h", group_instance_id=None, assignment=None)
            for name in self.members
        ]
        return {"g": future(SimpleNamespace(state=ConsumerGroupState.STABLE if members else ConsumerGroupState.EMPTY, members=members))}

    def list_group_offsets(self, asked: dict[str, list[PurePartition]]) -> dict[str, Any]:
        self.looked = bool(self.writes)
        nothing = OffsetAndMetadata(-1, "", -1)
        return {"g": {tp: _pure(found) if (found := self.stored.get(TopicPartition(*tp))) else nothing for tp in asked["g"]}}

    def list_consumer_group_offsets(self, asked: list[Any], **_: object) -> dict[str, Any]:
        items = []
        for tp in asked[0].topic_partitions:
            found = self.stored.get(TopicPartition(tp.topic, tp.partition))
            items.append(SimpleNamespace(topic=tp.topic, partition=tp.partition, offset=found.offset if found else -1001, error=None))
        return {"g": future(SimpleNamespace(topic_partitions=items))}

    def alter_group_offsets(self, _group: str, sent: dict[PurePartition, OffsetAndMetadata]) -> dict[PurePartition, type[pure.KafkaError]]:
        self.writes.append(sent)
        if self.joins:
            self.members = ["late"]
        if self.members:
            return dict.fromkeys(sent, pure.UnknownMemberIdError)
        refuses = self.refuses if self._faulty else {}
        for tp, value in sent.items():
            if TopicPartition(*tp) not in refuses:
                spoilt = self._faulty and TopicPartition(*tp) in self.spoils
                epoch = value.leader_epoch if value.leader_epoch >= 0 else None
                self.stored[TopicPartition(*tp)] = known(value.offset, value.metadata + ("\0" if spoilt else ""), epoch)
        self.exists = True
        if self.loses_answer and self._faulty:
            raise pure.KafkaTimeoutError("lost")
        silent = self.silent if self._faulty else ()
        return {tp: refuses.get(TopicPartition(*tp), pure.NoError) for tp in sent if TopicPartition(*tp) not in silent}

    def delete_group_offsets(self, _group: str, partitions: list[PurePartition]) -> dict[PurePartition, type[pure.KafkaError]]:
        self.writes.append({})
        if self.forgets and self.writes.count({}) == self.forgets:
            self.stored = {tp: found for tp, found in self.stored.items() if self.refuses.get(tp) is not GONE}
        refuses = self.refuses if self._faulty else {}
        if pure.NonEmptyGroupError in refuses.values():
            raise pure.NonEmptyGroupError
        for tp in partitions:
            if TopicPartition(*tp) not in refuses:
                self.stored.pop(TopicPartition(*tp), None)
        return {tp: refuses.get(TopicPartition(*tp), pure.NoError) for tp in partitions}

    def delete_groups(self, _groups: list[str]) -> dict[str, str]:
        assert not self.stored
        self.exists = False
        return {"g": "OK"}

    def close(self) -> None:
        pass


def _pure(found: CommittedOffset) -> OffsetAndMetadata:
    return OffsetAndMetadata(found.offset, found.metadata, -1 if found.leader_epoch is None else found.leader_epoch)


def groups(coordinator: Coordinator) -> ConsumerGroups:
    opened = ConsumerGroups(KafkaConnection(bootstrap_servers="nowhere:1", properties={}))
    opened._clients = ScriptedClients(librdkafka=coordinator, pure=coordinator, timeout=1.0)
    return opened


offset = st.builds(known, st.integers(0, 9), st.sampled_from(["", "AgAA"]), st.none())
before_and_wanted = st.tuples(
    st.dictionaries(
        st.sampled_from(PARTITIONS), st.builds(known, st.integers(0, 9), st.sampled_from(["", "AgAA"]), st.sampled_from([None, 3]))
    ),
    st.dictionaries(st.sampled_from(PARTITIONS), st.none() | offset, min_size=1),
)
some = st.sets(st.sampled_from(PARTITIONS))
REFUSALS = [
    pure.UnknownTopicOrPartitionError,
    pure.OffsetMetadataTooLargeError,
    pure.TopicAuthorizationFailedError,
    pure.NonEmptyGroupError,
]


@pytest.mark.fault("F43")
@given(states=before_and_wanted, refused=st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from(REFUSALS)), spoilt=some, silent=some)
@pytest.mark.parametrize("loses_answer", [False, True])
def test_whatever_goes_wrong_the_group_has_all_of_the_new_offsets_or_all_of_the_old_ones(
    states: tuple[Stored, dict[TopicPartition, CommittedOffset | None]],
    refused: dict[TopicPartition, type[pure.KafkaError]],
    spoilt: set[TopicPartition],
    silent: set[TopicPartition],
    loses_answer: bool,
) -> None:
    before, wanted = states
    coordinator = Coordinator(before, refuses=refused, spoils=spoilt, silent=silent, loses_answer=loses_answer)
    failed: RecoveryError | None = None
    try:
        groups(coordinator).set_offsets("g", wanted)
    except RecoveryError as error:
        failed = error
    if failed is None:
        assert coordinator.stored == {tp: found for tp, found in {**before, **wanted}.items() if found is not None}
        return
    assert "as they were before" in str(failed)
    assert coordinator.stored == before
    assert coordinator.exists == bool(before)


def test_offsets_are_sent_without_the_leader_epoch_of_the_old_log() -> None:
    coordinator = Coordinator({})
    groups(coordinator).set_offsets("g", {A: known(5, epoch=3), B: known(6)})
    assert coordinator.writes == [
        {PurePartition(*A): OffsetAndMetadata(5, "AgAA", -1), PurePartition(*B): OffsetAndMetadata(6, "AgAA", -1)}
    ]


def test_what_was_stored_differently_is_damage_and_is_named() -> None:
    with pytest.raises(Damaged) as caught:
        groups(Coordinator({A: known(1)}, spoils=[B])).set_offsets("g", {A: known(5), B: known(5)})
    assert caught.value.facts["wanted"] == {"t-1": "5 'AgAA'"}
    assert caught.value.facts["found"] == {"t-1": r"5 'AgAA\x00'"}
    assert "t-0" not in str(caught.value)


def test_the_worst_of_several_reasons_decides_and_all_are_told() -> None:
    refuses = {A: pure.CoordinatorLoadInProgressError, B: pure.UnknownTopicOrPartitionError}
    with pytest.raises(NotFound) as caught:
        groups(Coordinator({}, refuses=refuses)).set_offsets("g", {A: known(1), B: known(1), C: known(1)})
    assert caught.value.facts["offsets"] == 3
    assert caught.value.facts["refused"] == {"t-0": "CoordinatorLoadInProgressError", "t-1": "UnknownTopicOrPartitionError"}
    with pytest.raises(TransientError):
        groups(Coordinator({}, refuses={A: pure.CoordinatorLoadInProgressError})).set_offsets("g", {A: known(1)})


def test_a_partition_without_an_answer_was_not_set() -> None:
    with pytest.raises(RecoveryError) as caught:
        groups(Coordinator({}, silent=[B])).set_offsets("g", {A: known(1), B: known(1)})
    assert (caught.value.facts["offsets"], list(caught.value.facts["refused"])) == (2, ["t-1"])


@pytest.mark.fault("F43")
def test_a_member_that_joined_meanwhile_is_named_and_its_group_is_left_alone() -> None:
    coordinator = Coordinator({A: known(1)}, joins=True)
    with pytest.raises(ApplicationRunning, match="a member joined") as caught:
        groups(coordinator).set_offsets("g", {A: known(5), B: known(5)})
    assert caught.value.facts["group"] == "g"
    assert caught.value.facts["members"]
    assert ("late on /h" in caught.value.reason, "UnknownMemberIdError" in caught.value.reason) == (True, True)
    assert coordinator.stored == {A: known(1)}
    assert len(coordinator.writes) == 1, "nothing was sent to a group that is in use"


@pytest.mark.parametrize("code", [pure.NonEmptyGroupError, pure.GroupSubscribedToTopicError])
def test_a_member_that_forbids_a_deletion_is_told_too(code: type[pure.KafkaError]) -> None:
    coordinator = Coordinator({A: known(1)}, refuses={A: code})
    with pytest.raises(ApplicationRunning, match=code.__name__):
        groups(coordinator).set_offsets("g", {A: None, B: known(5)})
    assert coordinator.stored == {A: known(1)}


def test_offsets_on_a_topic_that_is_gone_are_removed_once_the_broker_has_forgotten_them() -> None:
    coordinator = Coordinator({A: known(1), B: known(2), C: known(3)}, refuses={A: GONE, B: GONE}, forever=True, forgets=2)
    groups(coordinator).set_offsets("g", {A: None, B: None, C: known(5)})
    assert coordinator.stored == {C: known(5)}


def test_what_the_broker_forgot_with_its_topic_is_no_damage_when_another_removal_is_refused() -> None:
    refused = {A: GONE, B: pure.TopicAuthorizationFailedError}
    coordinator = Coordinator({A: known(4), B: known(5), C: known(6)}, refuses=refused, forgets=2, forever=True)
    with pytest.raises(RecoveryError) as caught:
        groups(coordinator).set_offsets("g", {A: None, B: None, C: None})
    assert not isinstance(caught.value, Damaged)
    assert (caught.value.facts["left"], caught.value.facts["gone"]) == ({}, [str(A)])
    assert coordinator.stored == {B: known(5), C: known(6)}


def test_offsets_that_the_broker_neither_removes_nor_forgets_are_told() -> None:
    before = {A: known(1), B: known(2), C: known(3)}
    coordinator = Coordinator(before, refuses={A: GONE}, forever=True)
    with pytest.raises(NotFound, match=r"1 of 3 offsets were not taken.*as they were before") as caught:
        groups(coordinator).set_offsets("g", {A: None, B: None, C: known(5)})
    assert caught.value.facts["refused"] == {"t-0": "UnknownTopicOrPartitionError"}
    assert coordinator.stored == before


def test_what_cannot_be_put_back_is_told_for_every_partition() -> None:
    coordinator = Coordinator({A: known(1)}, spoils=[A, B], forever=True)
    with pytest.raises(Damaged, match="could not be put back") as caught:
        groups(coordinator).set_offsets("g", {A: known(5), B: known(6)})
    assert caught.value.facts["left"] == {"t-0": "1 'AgAA\\x00'"}
    assert B not in coordinator.stored


def test_a_broker_that_is_gone_for_good_leaves_the_outcome_open_and_says_so() -> None:
    coordinator = Coordinator({A: known(1)}, loses_answer=True, forever=True)
    with pytest.raises((Damaged, BrokerUnavailable), match=r"t-0 had 1 'AgAA', now unknown"):
        groups(coordinator).set_offsets("g", {A: known(5)})


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


def test_still_offsets_are_read_once() -> None:
    found, client = read([raw((5, "m"), (-1, ""))] * 2, [settled(5, -1001)])
    assert found == {A: known(5, "m"), B: None}
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
    assert found == {A: known(60, "later"), B: known(70, "later")}
    everything = {"g": [PurePartition("t", 0), PurePartition("t", 1)]}
    assert [args for _, args, _ in client.asked] == [(everything,)] * 4


def test_partitions_that_do_not_settle_are_named() -> None:
    unstable = [settled(5, -1001, code=KafkaError.UNSTABLE_OFFSET_COMMIT, at=1) for _ in range(50)]
    with pytest.raises(OffsetsUnstable, match="t-1") as caught:
        read([raw((5, "m"), (7, "n"))] * 100, list(unstable), timeout=0.1)
    assert caught.value.facts["partitions"] == ["t-1"]


@pytest.mark.parametrize(
    ("pure", "librdkafka", "error", "said"),
    [
        ([raw((number, ""), (7, "")) for number in range(100)], [settled(1, 7) for _ in range(50)], OffsetsUnstable, "kept changing"),
        ([raw((5, ""), (7, ""))], [settled(5, -1001, code=KafkaError.GROUP_AUTHORIZATION_FAILED, at=1)], Refused, "t-1"),
        ([raw((5, ""))], [], RecoveryError, "leaves out t-1"),
    ],
    ids=["offsets that never stand still", "an error of one partition", "an answer that leaves a partition out"],
)
def test_what_are_no_offsets_is_an_error(pure: list[object], librdkafka: list[object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        read(pure, librdkafka, timeout=0.1 if error is OffsetsUnstable else 5.0)


def test_leader_epochs_are_kept_when_there_is_one() -> None:
    answer = {"g": {PurePartition("t", 0): OffsetAndMetadata(5, "", 3), PurePartition("t", 1): OffsetAndMetadata(6, None, None)}}
    found, _ = read([answer, answer], [settled(5, 6)])
    assert found == {A: known(5, "", epoch=3), B: known(6, "")}
