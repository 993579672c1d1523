"""What people are told about topics, members and records is done as it is told: then the program says it no more, and what it kept from running runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from streams_recovery.application.command import CommandApplication
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import QuiesceMode, TopicPartition
from streams_recovery.core.preflight.findings import PreflightFinding, blocking
from streams_recovery.core.remedies.groups import know_members
from streams_recovery.core.remedies.topics import LAG
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.writer import PartitionWriter, Producers
from streams_recovery.operations import preflight, restore, savepoint, topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.notices import advice
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import begun, publish, published, take
from tests.support.applications.small import (
    RUNNING,
    Small,
    asked,
    configured,
    configured_for,
    lose_state,
    says,
    small_application,
    surviving,
    with_policy,
)
from tests.support.applications.topic_records import delete_below, produce, state_of
from tests.support.examples.rows import batch_of
from tests.support.kafka.cleaner import EAGER
from tests.support.kafka.consumers import living
from tests.support.kafka.records import write
from tests.support.kafka.topic_settings import alter
from tests.support.programs.kafka_tools import done

pytestmark = [pytest.mark.kafka, pytest.mark.deep]

UNCLEAN, TIMES = "unclean.leader.election.enable", "message.timestamp.type"


def advised(recovery: RecoveryContext, topic: str, kind: str = "unclean-election") -> StatusFinding | None:
    return next((one for one in advice(recovery) if (one.kind, one.subject) == (kind, topic)), None)


def told(recovery: RecoveryContext, kind: str) -> list[PreflightFinding]:
    return [one for one in preflight.before_backup(recovery, QuiesceMode.STOP) if one.kind == kind]


def follow(found: StatusFinding | None) -> None:
    assert found is not None
    (command,) = found.remedies
    done(command)


@pytest.mark.remedy("topic-held")
@pytest.mark.parametrize("dies", [False, True], ids=["a savepoint that goes on", "a savepoint that is dead"])
def test_a_topic_that_is_held_is_changed_once_nobody_holds_it(small: Small, dies: bool) -> None:
    recovery, topic = small.recovery, small.changelog.topic
    alter(recovery.cluster, {topic: {UNCLEAN: "true"}})
    if dies:
        topic_holds.guard(recovery, "killed", recovery.cluster.describe_topics([topic]).values())
    else:
        ticket = begun(recovery)
        savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
    held = advised(recovery, topic)
    assert held is not None
    assert (held.remedies, "wait for its end" in held.text) == ((), True)
    if dies:
        publish(small)
    else:
        savepoint.finish(recovery, ticket)
    follow(advised(recovery, topic))
    assert advised(recovery, topic) is None
    assert recovery.cluster.describe_topics([topic])[topic].config.get(LAG) is None, "the hold is gone with its holder"
    brought_back(small)


def brought_back(small: Small) -> None:
    """A savepoint now, and its state from it."""
    expected, taken = state(small), published(small)
    lose_state(small)
    assert restored(small.recovery, taken) >= len(expected)
    assert state(small) == expected


def state(small: Small) -> dict[object, object]:
    """The newest value of each key in the changelog."""
    return dict(state_of(small.recovery, small.changelog))


@pytest.mark.remedy("topic-unattributed")
def test_a_topic_that_may_be_another_one_s_is_changed_once_the_configuration_says_whose_it_is(small: Small) -> None:
    name, config = f"{small.recovery.application_id}-eu-totals-changelog", {"cleanup.policy": "compact", UNCLEAN: "true"}
    small.recovery.cluster.create_topic(name, partitions=1, replication_factor=1, config=config)
    try:
        found = advised(small.recovery, name)
        assert found is not None
        assert (found.remedies, "whose topic this is" in found.text) == ((), True)
        answers: Sequence[Mapping[str, dict[str, object]]] = (
            {"stores": {"eu-totals": {"kind": "key-value"}}},
            {"topics": {"owned": [name]}},
        )
        for said in answers:
            (command,) = (one.remedies for one in [advised(configured_for(small, **said), name)] if one is not None)
        theirs = configured_for(small, topics={"foreign": [name]})
        assert advised(theirs, name) is None
        assert name not in {topic.name for topic in published(replace(small, recovery=theirs)).topics}
        done(*command)
        assert advised(small.recovery, name) is None
        assert name in {topic.name for topic in published(replace(small, recovery=configured_for(small, **answers[0]))).topics}
    finally:
        small.recovery.cluster.delete_topics([name])


def instances(small: Small, states: Sequence[Mapping[str, object]]) -> RecoveryContext:
    """With other answers of its status program."""
    verbs = small.recovery.config.runs.command
    assert verbs is not None
    changed = verbs.model_copy(update={"status": says(states)})
    return replace(small.recovery, application=CommandApplication(changed, small.recovery.application_id))


@pytest.mark.remedy("group-strangers")
def test_members_that_nobody_knows_are_stopped_or_made_known_or_waited_for(small: Small) -> None:
    """Each answer of the text, with the group's real members."""
    name, topic = small.recovery.application_id, small.input.topic
    one, two = ({**RUNNING[0], "name": each} for each in ("one", "two"))
    clients = [f"{name}-p{number}" for number in (1, 2)]
    with living(small.recovery, topic, f"{clients[0]}-StreamThread-1-consumer"):
        with living(small.recovery, topic, f"{clients[1]}-StreamThread-1-consumer"):
            (found,) = told(instances(small, [one]), "instances")
            assert found.remedy == know_members(found.next_step)
            assert found.next_step.startswith("streams-recovery groups describe")
            with pytest.raises(Refused, match="no known instance accounts for"):
                preflight.required_for_backup(instances(small, [one]), QuiesceMode.STOP)
            assert told(instances(small, [one, two]), "instances") == [], "it is added to the instances"
            assert told(instances(small, [{**one, "client_ids": clients}]), "instances") == [], "two clients run in one instance"
        assert told(instances(small, [one]), "instances") == [], "what ran there is stopped"
    with living(small.recovery, topic, f"{clients[1]}-StreamThread-1-consumer", static="dead"):
        pass
    # It died: nothing tells the broker.
    (found,) = told(small.recovery, "instances")
    assert "no instance is known to run" in found.text
    assert poll(lambda: not told(small.recovery, "instances") or None, seconds=60, interval=0.5)
    preflight.required_for_backup(small.recovery, QuiesceMode.STOP)
    brought_back(small)


@pytest.mark.remedy("group-standby-stop")
def test_an_application_that_pauses_gets_a_second_copy_of_its_state_once_it_is_stopped_instead(bootstrap: str, tmp_path: Path) -> None:
    """That none can be paused with one is shown with real instances elsewhere."""
    with small_application(bootstrap, tmp_path, programs={"pause": ["true"], "resume": ["true"]}, consistency={"mode": "pause"}) as small:
        batch = batch_of([(1, b"k%d" % number, b"v", None) for number in range(10_000)])
        end = small.recovery.cluster.high_watermarks([small.changelog])[small.changelog]
        with PartitionWriter(Producers(small.recovery.connection), small.changelog, expected_end=end) as writer:
            for _ in range(300):
                writer.write(batch)
            writer.finish()
        told_now = advised(small.recovery, "", "standbys")
        assert told_now is not None
        assert told_now.remedies == ()
        assert "set backup.consistency.mode to stop, and look here again" in told_now.text
        stops = with_policy(small.recovery, mode=QuiesceMode.STOP)
        again = advised(stops, "", "standbys")
        assert again is not None
        assert "Set num.standby.replicas=1 in the application, and write it as application.standby_replicas" in again.text
        copied = configured(stops, application={"standby_replicas": 1})
        assert advised(replace(stops, config=copied), "", "standbys") is None
        assert blocking(preflight.before_backup(replace(stops, config=copied), QuiesceMode.STOP)) == ()


@pytest.mark.remedy("restore-partitions")
def test_a_topic_with_other_partitions_is_replaced_or_another_savepoint_is_chosen(small: Small) -> None:
    recovery, topic = small.recovery, small.changelog.topic
    expected, before = state(small), published(small)
    recovery.cluster.delete_topics([topic])
    recovery.cluster.create_topic(topic, partitions=3, replication_factor=1, config={"cleanup.policy": "compact"})
    produce(recovery, small.changelog, 2)
    after = published(small, changed_state=ChangedState.INTENDED)
    recovery.cluster.delete_topics([topic])
    recovery.cluster.create_topic(topic, partitions=3, replication_factor=1, config={"cleanup.policy": "compact"})
    with pytest.raises(Refused, match="has 3 partitions, 1 in savepoint") as caught:
        restore.plan(recovery, asked(recovery, savepoint=before.savepoint_id))
    assert "deploy the version of the application that the savepoint was taken of" in str(caught.value)
    other = restore.plan(recovery, asked(recovery, savepoint=after.savepoint_id, replace=True))
    assert not [one for one in other.warnings if "partitions" in one]
    # As the version that it was taken of asks for: the small application has no code that could be deployed.
    assert restored(recovery, before) > 0
    assert recovery.cluster.describe_topics([topic])[topic].partitions == 1
    assert [one for one in preflight.before_restore(recovery, before) if one.kind == "partitions"] == []
    assert state(small) == expected


@pytest.mark.remedy("topic-timestamps")
def test_times_are_the_application_s_once_the_topics_are_set_so(small: Small) -> None:
    recovery, topic = small.recovery, small.changelog.topic
    alter(recovery.cluster, {topic: {TIMES: "LogAppendTime"}})
    (found,) = told(recovery, "timestamps")
    alter(recovery.cluster, {topic: dict([found.next_step.split()[1].split("=")])})
    assert told(recovery, "timestamps") == []
    alter(recovery.cluster, {topic: {TIMES: "LogAppendTime"}})
    before = published(small)
    lose_state(small)
    (again,) = [one for one in preflight.before_restore(recovery, before) if one.kind == "timestamps"]
    assert "after the restore" in again.next_step
    restored(recovery, before)


def strange(small: Small, tp: TopicPartition) -> int:
    """A record that cannot be kept, and one behind it. Returns its offset."""
    offset = small.recovery.cluster.high_watermarks([tp])[tp]
    write(small.recovery.connection, tp, [(1, b"k0", b"strange", [("na\0me", b"1")]), (2, b"k9", b"v9", None)])
    return offset


@pytest.mark.remedy("record-header")
@pytest.mark.parametrize("answer", ["deleted", "left out"])
def test_an_input_with_a_record_that_cannot_be_kept_is_saved_from_behind_it_or_left_out(small: Small, answer: str) -> None:
    found = surviving(small) if answer == "deleted" else small
    included = configured_for(found, topics={"include": [small.input.topic]})
    offset = strange(small, small.input)
    with pytest.raises(Refused, match=f"the record at offset {offset} has a header") as caught:
        take(found, recovery=included)
    assert "up to this one where nobody needs them, or leave the topic out of savepoints (topics.exclude" in caught.value.next_step
    if answer == "deleted":
        delete_below(small.recovery, small.input, offset + 1)
    else:
        included = configured_for(found, topics={"include": [small.input.topic], "exclude": [small.input.topic]})
    saved = published(found, recovery=included).topic(small.input.topic)
    assert saved is not None
    assert (saved.archived, saved.rows) == ((True, 1) if answer == "deleted" else (False, 0))


@pytest.mark.remedy("record-header")
def test_a_changelog_gets_rid_of_a_record_that_cannot_be_kept_by_a_newer_one_of_its_key(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    alter(recovery.cluster, {tp.topic: EAGER})
    offset = strange(small, tp)
    with pytest.raises(Refused, match=f"the record at offset {offset} has a header") as caught:
        take(small)
    assert "let it write the key of that record again, and the log cleaner removes the record" in caught.value.next_step
    # The application is corrected, and goes on: segments end.
    produce(recovery, tp, 4)

    def cleaned() -> bool | None:
        produce(recovery, tp, 1)
        return first_from(recovery, tp, offset) > offset or None

    assert poll(cleaned, seconds=60, interval=0.5)
    brought_back(small)


def first_from(recovery: RecoveryContext, tp: TopicPartition, offset: int) -> int:
    """Where the first record from ``offset`` on is."""
    consumer = Consumer(recovery.connection.client_config(**{"group.id": "nobody-s", "enable.auto.commit": False}))
    try:
        consumer.assign([ClientPartition(tp.topic, tp.partition, offset)])
        message = consumer.poll(30)
        assert message is not None
        return int(message.offset() or 0)
    finally:
        consumer.close()
