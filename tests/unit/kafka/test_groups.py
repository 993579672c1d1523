from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from streams_recovery.core.errors import ApplicationRunning, RecoveryError
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from tests.support.kafka.scripted_clients import Script, ScriptedClients, future


def groups(librdkafka: Script, client: Script, timeout: float = 5.0) -> ConsumerGroups:
    opened = ConsumerGroups(KafkaConnection(bootstrap_servers="nowhere:1", properties={}))
    opened._clients = ScriptedClients(librdkafka=librdkafka, pure=client, timeout=timeout)
    return opened


def listed(state: str, kind: str = "classic") -> list[dict[str, str]]:
    return [{"group_id": "g", "group_type": kind, "group_state": state}]


def described(state: ConsumerGroupState, *clients: str) -> dict[str, Any]:
    members = [
        SimpleNamespace(member_id=f"{name}-1", client_id=name, host="/h", group_instance_id=None, assignment=None) for name in clients
    ]
    return {"g": future(SimpleNamespace(state=state, members=members))}


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


@pytest.mark.parametrize(("kind", "state", "empty"), [("later", "Stable", False), ("later", "Empty", True)])
def test_kinds_that_cannot_be_described_are_taken_as_listed(kind: str, state: str, empty: bool) -> None:
    found = groups(Script(), Script(list_groups=[listed(state, kind)])).describe("g")
    assert (found.kind, found.state, found.empty) == (kind, state, empty)


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
