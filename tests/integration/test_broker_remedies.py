"""What people are told about brokers is done on brokers of their own: replicas, racks, their settings and their disks. The run that was refused then passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.broker import BrokerExtras, start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core.checks.facts import AUTO_CREATE
from streams_recovery.operations import preflight
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.notices import advice
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, lose_state, reopened, small_application
from tests.support.applications.topic_records import state_of
from tests.support.kafka.racks import RACKS, Racked, racked
from tests.support.programs.kafka_tools import done, follow

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racked]:
    with racked(tmp_path_factory.mktemp("racked")) as found:
        yield found


@pytest.fixture
def small(cluster: Racked, tmp_path: Path) -> Iterator[Small]:
    with small_application(cluster.bootstrap, tmp_path) as found:
        yield found


def racks_of(small: Small) -> list[str]:
    return sorted(RACKS[broker] for broker in small.recovery.cluster.replicas([small.changelog.topic])[small.changelog])


@pytest.mark.remedy("topic-replicas")
def test_new_replicas_are_in_racks_that_had_none_and_come_back_with_the_state(small: Small, tmp_path: Path) -> None:
    recovery, topic = small.recovery, small.changelog.topic

    def found() -> list[tuple[str, ...]]:
        return [one.remedies for one in advice(recovery) if (one.kind, one.subject) == ("replication", topic)]

    (leader,) = recovery.cluster.replicas([topic])[small.changelog]
    (commands,) = found()
    follow(commands, tmp_path)
    assert found() == []
    assert racks_of(small) == ["a", "b", "c"]
    assert recovery.cluster.replicas([topic])[small.changelog][0] == leader
    expected, taken = state_of(recovery, small.changelog), published(small)
    lose_state(small)
    restored(recovery, taken)
    assert racks_of(small) == ["a", "b", "c"]
    assert state_of(recovery, small.changelog) == expected


@pytest.mark.remedy("broker-auto-create")
def test_brokers_that_create_topics_do_not_after_the_setting_and_a_restart(tmp_path: Path) -> None:
    with Processes(tmp_path / "processes") as processes:
        port, controller = free_ports(2)

        def start(value: str) -> str:
            processes.stop_all()
            extras = BrokerExtras(settings={AUTO_CREATE: value})
            return start_broker(processes, tmp_path / "broker", port=port, controller_port=controller, extras=extras)

        with small_application(start("true"), tmp_path, tidy=False) as small:
            (found,) = [one for one in preflight.before_backup(small.recovery) if one.kind == AUTO_CREATE]
            assert found.next_step == "set auto.create.topics.enable=false in server.properties of every broker and restart them one by one"
            assert [one.kind for one in advice(small.recovery) if found.next_step[1:] in one.text] == ["auto-topic-creation"]
            refused = done_or_said(small.recovery, f"--add-config {AUTO_CREATE}=false")
            assert "Cannot update these configs dynamically" in refused, "that is why it says where"
            expected, taken = state_of(small.recovery, small.changelog), published(small)
            start("false")
            with reopened(small) as later:
                assert AUTO_CREATE not in {one.kind for one in preflight.before_backup(later.recovery)}
                assert "auto-topic-creation" not in {one.kind for one in advice(later.recovery)}
                lose_state(later)
                restored(later.recovery, taken)
                assert state_of(later.recovery, small.changelog) == expected


def done_or_said(recovery: RecoveryContext, change: str) -> str:
    with pytest.raises(AssertionError) as caught:
        brokers(recovery, change)
    return str(caught.value)


def brokers(recovery: RecoveryContext, change: str) -> None:
    """A setting of all brokers, as an administrator sets it."""
    servers = recovery.connection.bootstrap_servers
    done(f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type brokers --entity-default {change}")
