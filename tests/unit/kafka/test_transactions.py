from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.admin._transactions import PartitionProducerState, ProducerState, TransactionDescription, TransactionListing, TransactionState
from kafka.errors import TopicAuthorizationFailedError, TransactionalIdNotFoundError
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.savepoint.writers import ProducerProgress, Writers
from streams_recovery.kafka.application_logs import ApplicationLogs
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.transactions import Transactions
from tests.support.kafka.scripted_clients import Script, ScriptedClients

TP = TopicPartition("t", 0)


OWN, OTHERS = "app-0b0a7c52-6d3e-4b5c-9e6f-0123456789ab-1", "billing-1"


def producer(producer_id: int, *, epoch: int = -1, start: int = -1) -> ProducerState:
    return ProducerState(producer_id, 0, 0, 0, epoch, start)


def transactions(producers: list[ProducerState], later: list[ProducerState] | None = None, **answers: list[object]) -> Transactions:
    """Whose partition has ``producers``, and when it is asked again those of ``later``, or still these."""
    opened = Transactions(KafkaConnection(bootstrap_servers="nowhere:1", properties={}), now=lambda: 1000.0)
    looks = [{PurePartition("t", 0): PartitionProducerState(seen)} for seen in (producers, producers if later is None else later)]
    opened._clients = ScriptedClients(pure=Script(describe_producers=looks, **answers))
    return opened


def test_of_one_whose_id_this_connection_does_not_see_nobody_says_that_it_hangs() -> None:
    (found,) = transactions([producer(7, start=40)], list_transactions=[{1: []}]).blocking([TP])
    assert (found.transactional_id, found.state, found.hanging, found.age_seconds) == (None, None, False, None)
    owner = "its transactional id has expired, or this connection may not see it"
    assert str(found) == f"t-0: producer 7 ({owner}), of unknown age, from offset 40"


def described(state: TransactionState, *, producer_id: int = 7, partition: int = 0) -> dict[str, list[object]]:
    description = TransactionDescription(2, state, producer_id, 0, 60_000, 400_000, {PurePartition("t", partition)})
    return {"list_transactions": [{1: [TransactionListing("app-1", 7, state)]}], "describe_transactions": [{"app-1": description}]}


@pytest.mark.parametrize(
    ("coordinator", "hanging"),
    [
        (described(TransactionState.ONGOING), False),
        (described(TransactionState.PREPARE_COMMIT), False),
        (described(TransactionState.PREPARE_ABORT), False),
        (described(TransactionState.PREPARE_EPOCH_FENCE), False),
        (described(TransactionState.PREPARE_COMMIT, partition=1), False),
        (described(TransactionState.UNKNOWN), False),
        (described(TransactionState.EMPTY), True),
        (described(TransactionState.COMPLETE_COMMIT), True),
        (described(TransactionState.COMPLETE_ABORT), True),
        (described(TransactionState.ONGOING, partition=1), True),
        (described(TransactionState.ONGOING, producer_id=8), True),
    ],
)
def test_it_hangs_where_its_coordinator_does_not_have_it_open(coordinator: dict[str, list[object]], hanging: bool) -> None:
    (found,) = transactions([producer(7, start=40)], **coordinator).blocking([TP])
    assert (found.hanging, found.age_seconds) == (hanging, None if hanging else 600.0)
    assert found.state == coordinator["list_transactions"][0][1][0].state.value


@pytest.mark.parametrize(
    "later",
    [
        [],
        [producer(7)],
        [producer(7, start=41)],
        [producer(8, start=40)],
        [ProducerState(7, 1, 0, 0, -1, 40)],
        [ProducerState(7, 0, 9, 0, -1, 40)],
    ],
)
def test_what_ends_between_the_question_to_its_leader_and_the_one_to_its_coordinator_does_not_hang(later: list[ProducerState]) -> None:
    assert transactions([producer(7, start=40)], later, **described(TransactionState.COMPLETE_COMMIT)).blocking([TP]) == ()


def test_an_id_that_expires_while_it_is_looked_up_is_told_without_its_age() -> None:
    listed = {1: [TransactionListing("app-1", 7, TransactionState.ONGOING)]}
    (found,) = transactions(
        [producer(7, start=40)], list_transactions=[listed], describe_transactions=[TransactionalIdNotFoundError("app-1")]
    ).blocking([TP])
    assert (found.transactional_id, found.hanging, found.age_seconds) == ("app-1", False, None)


def test_of_several_ids_one_that_expires_leaves_the_others_known() -> None:
    listed = {1: [TransactionListing(f"app-{number}", number, TransactionState.ONGOING) for number in (7, 8)]}
    description = TransactionDescription(2, TransactionState.ONGOING, 8, 0, 60_000, 400_000, {PurePartition("t", 0)})
    gone = TransactionalIdNotFoundError("app-7")
    found = transactions(
        [producer(7, start=40), producer(8, start=41)],
        list_transactions=[listed],
        describe_transactions=[gone, gone, {"app-8": description}],
    ).blocking([TP])
    assert [(one.transactional_id, one.age_seconds) for one in found] == [("app-7", None), ("app-8", 600.0)]


def test_the_age_is_the_clock_s_distance_from_the_start() -> None:
    listed = {1: [], 2: [TransactionListing("app-1", 7, TransactionState.ONGOING)]}
    description = TransactionDescription(2, TransactionState.ONGOING, 7, 0, 60_000, 400_000, {PurePartition("t", 0)})
    (found,) = transactions([producer(7, start=40)], list_transactions=[listed], describe_transactions=[{"app-1": description}]).blocking(
        [TP]
    )
    assert (found.state, found.age_seconds) == ("Ongoing", 600.0)


def test_how_far_producers_have_come_does_not_depend_on_the_order_they_are_told_in() -> None:
    one, other = ProducerState(7, 0, 41, 0, -1, -1), ProducerState(5, 2, 3, 0, -1, -1)
    [found] = transactions([one, other]).written([TP]).values()
    assert found == transactions([other, one]).written([TP])[TP]
    assert [(seen.producer_id, seen.producer_epoch, seen.last_sequence) for seen in found] == [(5, 2, 3), (7, 0, 41)]
    assert found != transactions([one._replace(last_sequence=42), other]).written([TP])[TP]


def test_nothing_is_looked_up_when_nothing_is_open() -> None:
    assert transactions([producer(7, epoch=3)]).blocking([TP]) == ()


def test_an_answer_that_leaves_a_partition_out_is_an_error() -> None:
    with pytest.raises(RecoveryError, match="leaves out t-1"):
        transactions([]).transactional_writers([TP, TopicPartition("t", 1)])


SEVEN = ProducerProgress(producer_id=7, producer_epoch=0, last_sequence=0, last_timestamp=0)


@pytest.mark.parametrize(
    ("producers", "writers"),
    [
        ([], Writers(transactional=(), other=())),
        ([producer(7)], Writers(transactional=(), other=(SEVEN,))),
        ([producer(7, epoch=0)], Writers(transactional=(7,), other=())),
        ([producer(7, start=0)], Writers(transactional=(7,), other=())),
        ([producer(9, epoch=2), producer(7), producer(8, start=5)], Writers(transactional=(8, 9), other=(SEVEN,))),
    ],
)
def test_a_writer_is_transactional_that_has_ended_or_begun_a_transaction(producers: list[ProducerState], writers: Writers) -> None:
    assert transactions(producers).transactional_writers([TP])[TP] == writers


@pytest.mark.parametrize(
    ("of_output", "listed", "shared"),
    [
        ([], {}, False),
        ([producer(7, epoch=3)], {}, False),
        ([producer(9, epoch=3)], {9: OWN}, False),
        ([producer(9, start=4)], {9: OTHERS}, True),
        ([producer(7, epoch=3), producer(9, epoch=3)], {9: OTHERS}, True),
        ([producer(9, epoch=3)], {}, True),
        ([producer(7, epoch=3), producer(9)], {}, True),
    ],
    ids=["nobody", "who writes changelogs", "an own id", "another id", "both", "an id that is not seen", "without transactions"],
)
def test_an_output_is_shared_where_a_writer_is_not_proven_the_application_s(
    of_output: list[ProducerState], listed: dict[int, str], shared: bool
) -> None:
    """Producer 7 writes the changelog."""
    listing = [{1: [TransactionListing(name, one, TransactionState.ONGOING) for one, name in listed.items()]}]
    assert shared_by([leaders({1: of_output, 0: []})], listing) == ({"out"} if shared else set())


def test_an_output_that_may_not_be_read_is_taken_for_shared() -> None:
    """The savepoint needs no right on it: it has the state alone."""
    assert shared_by([TopicAuthorizationFailedError("out")]) == {"out"}


def leaders(producers: dict[int, list[ProducerState]], topic: str = "out") -> dict[PurePartition, PartitionProducerState]:
    return {PurePartition(topic, number): PartitionProducerState(seen) for number, seen in producers.items()}


def shared_by(of_outputs: list[object], listing: list[object] | None = None) -> frozenset[str]:
    """What is shared of an output with two partitions, while producer 7 writes the changelog."""
    opened = Transactions(KafkaConnection(bootstrap_servers="nowhere:1", properties={}))
    script = Script(describe_producers=[leaders({0: [producer(7, epoch=3)]}, "changelog"), *of_outputs], list_transactions=listing or [])
    opened._clients = ScriptedClients(pure=script)
    nobody, cluster = cast("Any", None), cast("Any", SimpleNamespace(high_watermarks=lambda partitions: dict.fromkeys(partitions, 9)))
    logs = ApplicationLogs(
        application_id="app", cluster=cluster, groups=nobody, transactions=opened, read=(), clock=lambda: 0, patience=1.0, loads=tuple
    )
    return logs.shared([TopicPartition("out", 0), TopicPartition("out", 1)], [TopicPartition("changelog", 0)])
