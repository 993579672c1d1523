"""What keeps a rescale from being done is refused by its plan, while the application runs: nothing has been stopped by then."""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_all, load_named
from streams_recovery.config.restore import Clone
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.transactions import Transactions
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore.strategies import Rescale
from tests.support.applications.counting import Counting, savepoint_here
from tests.support.applications.small import asked
from tests.support.applications.topic_records import abort, aborted, transaction

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture
def counting(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    """An application that counts, whose input is archived, at work, with a savepoint."""
    app = at_work(Counting(bootstrap=bootstrap, directory=tmp_path))
    yield app
    assert app.running
    app.tidy()


def at_work(app: Counting) -> Counting:
    app.configure(topics={"inputs": [app.input.topic], "outputs": [app.output.topic], "include": [app.input.topic]})
    app.build()
    app.worked("abcab")
    savepoint_here(app)
    app.start()
    return app


def planned(app: Counting, recovery: RecoveryContext, **wanted: Any) -> str:
    return restore.plan(recovery, asked(recovery, Rescale, replace=True, partitions=f"{app.input.topic}=3", **wanted)).text


def refused(app: Counting, why: str, **wanted: Any) -> Refused:
    with app.recovery() as recovery, pytest.raises(Refused, match=why) as found:
        planned(app, recovery, **wanted)
    return found.value


def grow(app: Counting) -> None:
    """As ``kafka-topics --alter`` does."""
    admin = AdminClient({"bootstrap.servers": app.bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(app.input.topic, 3)])[app.input.topic].result(30)


def test_an_input_that_was_grown_may_have_no_unread_record_and_may_end_with_markers(counting: Counting) -> None:
    grow(counting)
    with counting.recovery() as recovery:
        aborted(recovery, counting.input)
    end = counting.end(counting.input)
    assert end > (counting.committed() or end)
    with counting.recovery() as recovery:
        text = planned(counting, recovery)
    assert "Nothing in them may be unread" in text
    # Of topics that get another number, that they have another number is no news.
    assert "invalid partitions" not in text
    # It would be given what was taken back.
    counting.configure(application={"id": counting.id, "guarantee": "at_least_once"})
    assert refused(counting, "grown have unread records").facts["unread"] == {str(counting.input): 4}
    counting.configure(application={"id": counting.id, "guarantee": "exactly_once_v2"})
    counting.feed("z")
    # What the savepoint has, and what has come since, are two questions.
    assert refused(counting, "grown have unread records").facts["unread"] == {str(counting.input): 5}
    with counting.recovery() as recovery:
        assert planned(counting, recovery, savepoint=counting.savepoints()[-1])


def test_an_input_that_has_another_name_here_is_not_placed_anew(counting: Counting) -> None:
    counting.configure(restore={"topic_map": {counting.input.topic: f"{counting.id}.other"}})
    refused(counting, f"{counting.input.topic} has another name here")
    grow(counting)
    refused(counting, f"{counting.input.topic} has another name here")


def test_metadata_that_cannot_be_joined_is_refused_by_the_plan(bootstrap: str, tmp_path: Path) -> None:
    app = Counting(bootstrap=bootstrap, directory=tmp_path)
    app.configure(topics={"inputs": [app.input.topic], "outputs": [app.output.topic], "include": [app.input.topic]})
    app.build()
    grow(app)
    inputs = [TopicPartition(app.input.topic, number) for number in range(3)]
    with app.recovery() as recovery:
        recovery.cluster.create_topic(app.changelog.topic, partitions=3, replication_factor=1, config={"cleanup.policy": "compact"})
        app.worked("abcab")
        moved = base64.b64encode(struct.pack(">bq", 2, 1_790_000_000_000)).decode()
        texts = (moved, "kept by another client", moved)
        offsets = {tp: CommittedOffset(offset=app.end(tp), metadata=text) for tp, text in zip(inputs, texts, strict=True)}
        recovery.groups.set_offsets(app.id, offsets)
        savepoint_here(app)
        with pytest.raises(Refused, match="cannot be joined"):
            restore.plan(recovery, asked(recovery, Rescale, replace=True, partitions=f"{app.input.topic}=2"))
        assert restore.plan(recovery, asked(recovery, Rescale, replace=True, partitions=f"{app.input.topic}=6"))
    app.tidy()


@dataclass(kw_only=True)
class Reading(Counting):
    """An application that reads the changelog of another one."""

    @property
    def input(self) -> TopicPartition:
        return TopicPartition(f"another-{self.id}-totals-changelog", 0)


def test_a_topic_that_has_the_state_of_another_application_is_not_created_again(bootstrap: str, tmp_path: Path) -> None:
    app = at_work(Reading(bootstrap=bootstrap, directory=tmp_path))
    other = f"another-{app.id}"
    with app.recovery() as recovery:
        assert app.input.topic in planned(app, recovery)
        recovery.groups.set_offsets(other, {app.output: CommittedOffset(offset=0, metadata="")})
        try:
            with pytest.raises(Refused, match=f"is a topic of application {other}, whose state it has"):
                planned(app, recovery)
        finally:
            recovery.groups.delete(other)
    app.tidy()


def test_another_application_that_writes_to_the_input_is_named(counting: Counting) -> None:
    feeder = Counting(bootstrap=counting.bootstrap, directory=counting.directory, name="feeder")
    feeder.configure(
        topics={"inputs": [feeder.input.topic], "outputs": [counting.input.topic]},
        runs={"kind": "command", "command": feeder.programs("fed")},
    )
    with open_context(
        load_named(counting.name, counting.directory, {}),
        EnvironmentConnections(counting.variables),
        applications=lambda: load_all(counting.directory, {}).applications,
    ) as recovery:
        assert f"application {feeder.id} writes to {counting.input.topic}: stop it too" in planned(counting, recovery)


def test_an_instance_that_nobody_here_can_stop_is_refused(counting: Counting) -> None:
    # How long it is waited for one that has died.
    counting.configure(application={"id": counting.id, "guarantee": "exactly_once_v2", "session_timeout_ms": 1_000})
    with closing(
        Consumer(
            {
                "bootstrap.servers": counting.bootstrap,
                "group.id": counting.id,
                "client.id": "elsewhere",
                "session.timeout.ms": 6_000,
                "log_level": 0,
            }
        )
    ) as consumer:
        consumer.subscribe([counting.input.topic])
        assert poll(lambda: consumer.poll(0.2) is None and (consumer.assignment() or None), seconds=30, interval=0.1)
        refused(counting, "elsewhere")


def test_a_savepoint_that_is_ahead_is_no_base(counting: Counting) -> None:
    counting.configure(
        backup={"survive_cluster_loss": False, "consistency": {"mode": "live", "require": "ahead_allowed", "timeout_seconds": 2}}
    )
    ahead = savepoint_here(counting, later=60_000)
    assert counting.newest().consistency is Consistency.AHEAD
    refused(counting, "ahead", savepoint=ahead)
    with counting.recovery() as recovery, pytest.raises(NotFound):
        planned(counting, recovery, savepoint="20200101T000000Z-0000000000")


def test_one_that_others_follow_by_the_old_numbers_is_refused(counting: Counting) -> None:
    with counting.recovery() as recovery:
        clone = recovery.config.model_copy(update={"clone": Clone(of="another")})
        object.__setattr__(recovery, "config", clone)
        with pytest.raises(Refused, match="a clone of another"):
            planned(counting, recovery)
    counting.configure(sites={"dr": {"connection": "kafka_dr", "runs": {"kind": "command", "command": counting.programs("elsewhere")}}})
    refused(counting, "at home at other sites too")


def test_a_transaction_that_its_producer_has_left_open_on_an_input_is_refused_by_the_plan(counting: Counting) -> None:
    with counting.recovery() as recovery, transaction(recovery) as producer:
        producer.produce(counting.input.topic, b"v", b"k", counting.input.partition)
        producer.flush(30)
        # One of a producer that is at work: the plan says to stop it.
        assert "written to in the last ten minutes" in planned(counting, recovery)
        later = Transactions(recovery.connection, now=lambda: time.time() + 601)
        with closing(later), pytest.raises(Refused, match="a transaction is open on") as found:
            planned(counting, replace(recovery, transactions=later))
        assert "kafka-transactions" in " ".join(str(one) for one in found.value.commands)
        abort(recovery, producer, counting.input)
        assert planned(counting, recovery)
