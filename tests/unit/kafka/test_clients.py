from __future__ import annotations

import pytest
from kafka import errors as pure

from streams_recovery.core.errors import BrokerUnavailable, NotFound, TransientError
from streams_recovery.kafka import errors
from tests.support.kafka.scripted_clients import Script, ScriptedClients


def test_what_passes_is_asked_again() -> None:
    clients = ScriptedClients(pure=Script(ask=[pure.NotCoordinatorError("g"), pure.KafkaConnectionError("lost"), "answer"]))
    assert clients.patiently("asking", clients.pure.ask) == "answer"
    assert len(clients.pure.asked) == 3


def test_what_stays_is_an_error_when_the_time_is_up() -> None:
    clients = ScriptedClients(pure=Script(ask=[pure.NotCoordinatorError("g")] * 50), timeout=0.2)
    with pytest.raises(TransientError, match="asking failed"):
        clients.patiently("asking", clients.pure.ask)
    assert 2 <= len(clients.pure.asked) <= 4


def test_what_will_not_change_is_asked_once() -> None:
    clients = ScriptedClients(pure=Script(ask=[pure.UnknownTopicOrPartitionError("t")]))
    with pytest.raises(NotFound):
        clients.patiently("asking", clients.pure.ask)
    assert len(clients.pure.asked) == 1


def test_a_cluster_that_never_answered_is_not_asked_again() -> None:
    clients = ScriptedClients()
    calls: list[int] = []

    def ask() -> None:
        calls.append(1)
        raise errors.unavailable(clients.connection, "refused", timeout=1, connected=False)

    with pytest.raises(BrokerUnavailable, match="nowhere:1"):
        clients.patiently("asking", ask)
    assert calls == [1]
