"""What is found before a savepoint or a restore: settings that keep no state, too few brokers, unknown members, and too little room."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.checks.catalogue import before_run
from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.facts import AUTO_CREATE, BrokerFacts, Facts, TopicFacts
from streams_recovery.core.checks.runs import HOLD, MEMBERS, ROOM, MemberFacts, PauseFacts, Room
from streams_recovery.core.checks.savepoints import HANGING, UNATTRIBUTED, AttributionGaps, HangingFacts
from streams_recovery.core.group_members import KnownInstance, Roll, roll
from streams_recovery.core.kafka_types import GroupMember, Profile, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.preflight.checks import (
    before_restore,
    bytes_to_make,
    loses_unread,
    lost_with_cluster,
    not_exactly_once,
    to_be_made,
    unmatched,
    written_again,
)
from streams_recovery.core.preflight.findings import ApplicationFacts, PreflightFinding, PreflightSeverity, as_findings
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.remedies.topics import IN_SYNC, UNCLEAN
from streams_recovery.core.remedies.transactions import HangingTransaction
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.failover import fewer_replicas
from streams_recovery.core.restore.outputs_behind import outputs_behind
from streams_recovery.core.savepoint.topology import Declared
from streams_recovery.core.topic_settings import LOG_APPEND, TIMESTAMP_TYPE
from tests.support.examples.savepoints import image, manifest_of, segment, topic

SAFE = {IN_SYNC: "2", UNCLEAN: "false", TIMESTAMP_TYPE: "CreateTime", "max.message.bytes": "1048588"}
BROKERS = {
    "log.message.timestamp.type": "CreateTime",
    "message.max.bytes": "1048588",
    IN_SYNC: "2",
    UNCLEAN: "false",
    AUTO_CREATE: "false",
}
NAME = "orders-totals-changelog"
TOOLS = KafkaTools("k:9092", secured=False)
IDLE = ApplicationFacts(application_id="orders", group_kind="classic")


def cluster(brokers: int = 3, level: int | None = 30, **settings: str) -> BrokerFacts:
    return BrokerFacts(
        racks=dict.fromkeys(range(brokers)),
        settings=BROKERS | {key.replace("_", "."): value for key, value in settings.items()},
        metadata_level=level,
    )


def existing(role: TopicRole = TopicRole.CHANGELOG, *, partitions: int = 1, replicas: int = 3, **settings: str) -> TopicFacts:
    changed = SAFE | {key.replace("_", "."): value for key, value in settings.items()}
    return TopicFacts(
        name=NAME,
        role=role,
        store=StoreKind.KEY_VALUE,
        held=False,
        attributed=True,
        replicas=(tuple(range(replicas)),) * partitions,
        settings=changed,
        overrides=frozenset(),
        archived=role.internal,
        offsets=(),
    )


def before_backup(there: BrokerFacts, topics: list[TopicFacts], *, survives: bool = False) -> tuple[PreflightFinding, ...]:
    return as_findings(before_run(Occasion.SAVEPOINT, Facts(tools=TOOLS, topics=tuple(topics), brokers=there, survives=survives)))


def saved(*, replicas: int = 3, payload: int = 10, stored: int = 100, group: str = "classic", **config: str) -> Manifest:
    piece = segment(0, 10, [1, 2, 3])
    assert piece.file is not None
    piece = dataclasses.replace(piece, file=dataclasses.replace(piece.file, payload_bytes=payload, bytes=stored))
    changelog = topic((image((piece,)),), name=NAME)
    overrides = {"cleanup.policy": "compact"} | {key.replace("_", "."): value for key, value in config.items()}
    changelog = dataclasses.replace(changelog, replication_factor=replicas, config=overrides)
    return dataclasses.replace(manifest_of(changelog), group_type=group)


def kinds(found: tuple[PreflightFinding, ...]) -> list[tuple[str, PreflightSeverity]]:
    return [(finding.kind, finding.severity) for finding in found]


def restoring(
    there: BrokerFacts, manifest: Manifest, topics: list[TopicFacts], application: ApplicationFacts, *, replacing: bool = False
) -> tuple[PreflightFinding, ...]:
    made = {one.name: one for one in manifest.topics}
    facts = Facts(tools=TOOLS, topics=tuple(to_be_made(name, one, there) for name, one in made.items()), brokers=there, survives=False)
    return before_restore(facts, manifest, made, topics, application, replacing=replacing)


def test_a_safe_cluster_has_no_findings() -> None:
    assert before_backup(cluster(), [existing()]) == ()
    assert restoring(cluster(), saved(), [existing()], IDLE) == ()
    assert restoring(cluster(), saved(), [], IDLE) == ()


def stopped_by_default(application_id: str, why: str | None) -> tuple[PreflightFinding, ...]:
    return as_findings(HOLD.ask(Occasion.SAVEPOINT, PauseFacts(application_id=application_id, no_pause_because=why)))


def strangers(found: Roll, *, refused: bool) -> tuple[PreflightFinding, ...]:
    return as_findings(MEMBERS.ask(Occasion.RESTORE, MemberFacts(name="o", group_id="orders", roll=found, refused=refused)))


def room(facts: Room) -> tuple[PreflightFinding, ...]:
    return as_findings(ROOM.ask(Occasion.SAVEPOINT, facts))


@pytest.mark.remedy("savepoint-hold")
def test_an_application_that_is_stopped_because_nobody_said_otherwise_is_told_of() -> None:
    assert stopped_by_default("app", None) == ()
    (only,) = stopped_by_default("app", "runs.command has no pause and no resume")
    assert only.severity is PreflightSeverity.WARNING
    assert "app is closed and started again for every savepoint, because it cannot be paused: runs.command has no pause" in only.text


def hanging(*found: HangingTransaction, waits_for: frozenset[str] = frozenset({NAME})) -> tuple[PreflightFinding, ...]:
    return as_findings(HANGING.ask(Occasion.SAVEPOINT, HangingFacts(tools=TOOLS, hanging=found, waits_for=waits_for)))


def test_each_transaction_that_hangs_blocks_with_the_command_that_ends_it() -> None:
    assert hanging() == ()
    known = [(2, 17, "CompleteCommit"), (3, 0, "Empty")]
    found = hanging(*(HangingTransaction(tp=TopicPartition(NAME, at), start_offset=start, state=state) for at, start, state in known))
    assert kinds(found) == [("transaction-hanging", PreflightSeverity.BLOCKING)] * 2
    assert f"hangs on {NAME}-2 from offset 17 on: its coordinator, in state CompleteCommit, does not have it open there." in found[0].text
    assert [("Stop its producer, then abort it." in one.text, "has committed" in one.text) for one in found] == [
        (True, True),
        (True, False),
    ]
    assert (found[1].is_command, found[1].next_step) == (
        True,
        f"kafka-transactions.sh --bootstrap-server k:9092 abort --topic {NAME} --partition 3 --start-offset 0",
    )


@pytest.mark.parametrize("waited", [True, False])
def test_only_one_on_what_a_savepoint_waits_for_is_said_to_keep_it_from_being_taken(waited: bool) -> None:
    one = HangingTransaction(tp=TopicPartition(NAME, 0), start_offset=0, state="Empty")
    (found,) = hanging(one, waits_for=frozenset({NAME} if waited else ()))
    assert ("no exact savepoint can be taken" in found.text) is waited


@pytest.mark.remedy("savepoint-attribution")
def test_topics_of_which_only_the_name_says_whose_they_are_are_told_of() -> None:
    def told_of(*topics: str) -> tuple[PreflightFinding, ...]:
        return as_findings(UNATTRIBUTED.ask(Occasion.RESTORE, AttributionGaps(name="orders", application_id="orders", topics=topics)))

    assert told_of() == ()
    (told,) = told_of("orders-eu-totals-changelog")
    assert kinds((told,)) == [("unattributed", PreflightSeverity.WARNING)]
    assert "name the stores of orders under `stores`" in told.next_step


@pytest.mark.remedy("savepoint-cluster-loss")
def test_records_that_no_savepoint_has_are_told_of_where_the_cluster_may_be_lost() -> None:
    declared = Declared(
        inputs=("orders",), outputs=(), globals=("rates",), include=(), exclude=(), stores={}, profile=Profile.FULL, all_read=False
    )
    (told,) = lost_with_cluster("orders", declared)
    assert ("rates" in told.text, "backup.survive_cluster_loss: true" in told.next_step) == (True, True)
    assert lost_with_cluster("orders", dataclasses.replace(declared, all_read=True)) == ()


@pytest.mark.remedy("savepoint-guarantee")
def test_a_program_that_works_at_least_once_is_told_of_and_blocks_where_nothing_else_is_wanted() -> None:
    assert not_exactly_once([], refused=True) == ()
    for refused, severity in ((True, PreflightSeverity.BLOCKING), (False, PreflightSeverity.WARNING)):
        assert kinds(not_exactly_once([TopicPartition(NAME, 0)], refused=refused)) == [("guarantee", severity)]


def test_a_finding_has_the_command_for_scripts_and_the_words_where_there_is_none() -> None:
    words = stopped_by_default("app", "it has no pause")[0].shown
    assert (words["severity"], words["is_command"]) == ("warning", False)
    assert words["remedy"] == "backup.consistency.mode: stop"
    assert "Set backup.consistency.mode to stop if that is intended" in str(words["text"])
    (hangs,) = hanging(HangingTransaction(tp=TopicPartition(NAME, 1), start_offset=0, state="Empty"))
    assert list(hangs.shown) == ["severity", "kind", "stage", "text", "remedy", "is_command"]
    assert (hangs.shown["is_command"], str(hangs.shown["remedy"]).startswith("kafka-transactions.sh")) == (True, True)


def test_one_broker_is_no_reason_to_complain_about_one_replica() -> None:
    assert before_backup(cluster(1), [existing(replicas=1, min_insync_replicas="1")]) == ()


@pytest.mark.parametrize(
    ("topic_facts", "says"),
    [
        (existing(replicas=1), "has one replica"),
        (existing(min_insync_replicas="1"), "min.insync.replicas=1"),
        (existing(unclean_leader_election_enable="true"), "unclean.leader.election.enable=true"),
        (existing(message_timestamp_type=LOG_APPEND), "times are part of the state"),
    ],
)
def test_unsafe_settings_warn_before_a_savepoint(topic_facts: TopicFacts, says: str) -> None:
    (only,) = before_backup(cluster(), [topic_facts])
    assert only.severity is PreflightSeverity.WARNING
    assert NAME in only.text
    assert says in only.text


def test_inputs_are_other_people_s_business_before_a_savepoint() -> None:
    careless = {"min_insync_replicas": "1", "unclean_leader_election_enable": "true", "message_timestamp_type": LOG_APPEND}
    assert before_backup(cluster(), [existing(TopicRole.INPUT, replicas=1, **careless)]) == ()


@pytest.mark.remedy("topic-timestamps")
@pytest.mark.parametrize("role", [TopicRole.CHANGELOG, TopicRole.REPARTITION])
def test_the_times_of_what_waits_between_two_parts_count_as_those_of_state_do(role: TopicRole) -> None:
    (one,) = before_backup(cluster(), [existing(role, message_timestamp_type=LOG_APPEND)])
    assert (one.kind, one.severity) == ("timestamps", PreflightSeverity.WARNING)


@pytest.mark.remedy("topic-replicas")
def test_of_partitions_that_differ_the_one_with_the_fewest_replicas_counts() -> None:
    uneven = dataclasses.replace(existing(partitions=2), replicas=((1, 2, 3), (2,)))
    (one,) = before_backup(cluster(), [uneven])
    assert "has one replica" in one.text


@pytest.mark.remedy("broker-auto-create")
def test_topics_on_first_use_are_warned_of() -> None:
    assert kinds(before_backup(cluster(auto_create_topics_enable="true"), [existing()])) == [(AUTO_CREATE, PreflightSeverity.WARNING)]
    assert kinds(restoring(cluster(auto_create_topics_enable="true"), saved(), [], IDLE)) == [(AUTO_CREATE, PreflightSeverity.WARNING)]


@pytest.mark.remedy("restore-partitions")
@pytest.mark.parametrize("partitions", [2, 7])
def test_an_internal_topic_with_other_partitions_blocks_a_restore(partitions: int) -> None:
    found = restoring(cluster(), saved(), [existing(partitions=partitions)], IDLE)
    assert kinds(found) == [("partitions", PreflightSeverity.BLOCKING)]
    assert f"{NAME} has {partitions} partitions, 1 in savepoint 20261121T012345Z-0123456789" in found[0].text
    assert "Existing internal topic has invalid partitions" in found[0].text
    replaced = restoring(cluster(), saved(), [existing(partitions=partitions)], IDLE, replacing=True)
    assert kinds(replaced) == [("partitions", PreflightSeverity.WARNING)]


@pytest.mark.remedy("restore-replicas")
def test_more_replicas_than_brokers_block_a_restore() -> None:
    found = restoring(cluster(2), saved(replicas=3), [], IDLE)
    assert ("replication", PreflightSeverity.BLOCKING) in kinds(found)
    assert "bring up 1 more" in found[0].next_step
    assert "restore.replication_factor: 2" in found[0].next_step


@pytest.mark.remedy("restore-min-insync")
@pytest.mark.parametrize("where", ["the topic", "the brokers"])
def test_more_replicas_in_sync_than_replicas_are_warned_of(where: str) -> None:
    there = cluster(min_insync_replicas="3") if where == "the brokers" else cluster()
    manifest = saved(replicas=2, **({"min_insync_replicas": "3"} if where == "the topic" else {}))
    found = restoring(there, manifest, [], IDLE)
    assert kinds(found) == [("min-insync", PreflightSeverity.WARNING)]
    assert ("a change of the brokers' does not help" in found[0].next_step) == (where == "the topic")
    assert "restore.replication_factor: 3" in found[0].next_step
    more, _ = fewer_replicas(manifest, factor=3, brokers=None)
    assert restoring(there, more, [], IDLE) == ()


@pytest.mark.remedy("topic-min-insync")
@pytest.mark.parametrize(
    ("copies", "brokers", "remedy"),
    [
        (3, 3, "set min.insync.replicas=2 on these topics"),
        (2, 3, "give these topics a third replica first, then set min.insync.replicas=2"),
        (2, 2, None),
    ],
)
def test_two_replicas_are_never_both_asked_for(copies: int, brokers: int, remedy: str | None) -> None:
    found = before_backup(cluster(brokers), [existing(replicas=copies, min_insync_replicas="1")])
    assert [one.next_step for one in found] == ([] if remedy is None else [remedy])


@pytest.mark.remedy("topic-replicas")
def test_a_single_replica_is_told_by_whether_the_topic_is_there() -> None:
    (there,) = before_backup(cluster(), [existing(replicas=1)])
    (to_be_made,) = restoring(cluster(), saved(replicas=1, min_insync_replicas="1"), [], IDLE)
    assert "`streams-recovery advise` has the commands" in there.next_step
    assert "restore.replication_factor: 3" in to_be_made.next_step


@pytest.mark.fault("F86")
def test_records_that_the_brokers_would_not_take_block_nothing_the_topic_is_made_to_take_them() -> None:
    assert restoring(cluster(message_max_bytes="1000000"), saved(payload=4_000_000, stored=3_600_000), [], IDLE) == ()


@pytest.mark.remedy("topic-timestamps")
@pytest.mark.fault("F31")
def test_a_restored_changelog_that_would_replace_times_is_warned_of() -> None:
    found = restoring(cluster(log_message_timestamp_type=LOG_APPEND), saved(), [], IDLE)
    assert kinds(found) == [("timestamps", PreflightSeverity.WARNING)]
    own = saved(message_timestamp_type="CreateTime")
    assert restoring(cluster(log_message_timestamp_type=LOG_APPEND), own, [], IDLE) == ()


@pytest.mark.fault("F52")
@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (25, None),
        (26, PreflightSeverity.BLOCKING),
        (27, PreflightSeverity.BLOCKING),
        (28, PreflightSeverity.WARNING),
        (29, PreflightSeverity.WARNING),
        (30, None),
        (None, None),
    ],
)
@pytest.mark.parametrize("now", ["absent", "classic", "streams"])
def test_offsets_for_a_streams_group_that_is_not_there_are_a_trap_on_some_releases(
    level: int | None, severity: PreflightSeverity | None, now: str
) -> None:
    application = ApplicationFacts(application_id="orders", group_kind=now)
    found = restoring(cluster(level=level), saved(group="streams"), [], application)
    trapped = severity is not None and now != "streams"
    assert kinds(found) == ([("group-trap", severity)] if trapped and severity else [])
    for one in found:
        # It would read by auto.offset.reset and write outputs again, with nothing saved.
        assert "Do not start the application to get its group back" in one.next_step
        assert "delete" not in one.next_step
    assert restoring(cluster(level=level), saved(group="classic"), [], application) == ()


@pytest.mark.remedy("group-strangers")
def test_members_of_a_process_that_nobody_configured_block_whatever_stops_and_are_warned_of_else() -> None:
    threads = [
        GroupMember(
            member_id=f"{process}{thread}", client_id=f"orders-{process}-StreamThread-{thread}-consumer", host="h", group_instance_id=None
        )
        for process in ("p1", "p2")
        for thread in (1, 2)
    ]
    pattern = ApplicationKind.KAFKA_STREAMS.dialect.members
    assert strangers(roll(threads, [KnownInstance(name="one"), KnownInstance(name="two")], threads=pattern), refused=True) == ()
    alone = roll(threads, [KnownInstance(name="one")], threads=pattern)
    for refused, severity in ((True, PreflightSeverity.BLOCKING), (False, PreflightSeverity.WARNING)):
        found = strangers(alone, refused=refused)
        assert kinds(found) == [("instances", severity)]
        assert "1 of orders-p1 at h; orders-p2 at h; 1 of its instances are known to run: one" in found[0].text


def test_settings_that_may_not_be_read_are_not_guessed() -> None:
    blind = BrokerFacts(racks=dict.fromkeys(range(3)), settings={}, metadata_level=None)
    unread = dataclasses.replace(existing(), settings={})
    assert before_backup(blind, [unread]) == ()
    assert restoring(blind, saved(), [unread], IDLE) == ()


def test_everything_is_told_at_once() -> None:
    manifest = saved(replicas=3, payload=4_000_000, stored=3_600_000, group="streams", unclean_leader_election_enable="true")
    found = restoring(cluster(2, 27, message_max_bytes="1000"), manifest, [existing(partitions=9)], IDLE)
    assert [kind for kind, severity in kinds(found) if severity is PreflightSeverity.BLOCKING] == [
        "partitions",
        "replication",
        "group-trap",
    ]
    assert [kind for kind, severity in kinds(found) if severity is PreflightSeverity.WARNING] == ["durability"]


@pytest.mark.remedy("outputs-again")
@pytest.mark.fault("F56")
def test_what_outputs_got_since_the_cut_is_named_because_it_will_come_again() -> None:
    output = topic((image((), end=10), dataclasses.replace(image((), end=5), partition=1)), name="out", role=TopicRole.OUTPUT)
    first, second = TopicPartition("renamed", 0), TopicPartition("renamed", 1)
    manifest = manifest_of(output)

    def told(ends: Mapping[TopicPartition, int]) -> tuple[PreflightFinding, ...]:
        return written_again(outputs_behind(manifest, {"renamed": output}, ends))

    (only,) = told({first: 13, second: 5})
    assert only.severity is PreflightSeverity.WARNING
    assert "renamed-0 offsets 10 to 12; 3 offsets in all" in only.text
    assert "renamed-1" not in only.text
    assert told({first: 10, second: 5}) == ()
    assert told({}) == ()


@pytest.mark.remedy("restore-unread-input")
def test_an_application_of_a_kind_that_loses_input_by_itself_is_warned_of() -> None:
    assert loses_unread("orders", ApplicationKind.KAFKA_STREAMS.dialect) == ()
    (found,) = loses_unread("words", ApplicationKind.FAUST.dialect)
    assert kinds((found,)) == [("unread-input", PreflightSeverity.WARNING)]
    assert "docs/faust.md" in found.next_step


ROWS = image((segment(0, 10, [1, 2, 3]),))


def saved_topic(
    name: str, role: TopicRole = TopicRole.INPUT, *, partitions: int = 2, archived: bool = False, replicas: int = 1
) -> TopicImage:
    images = tuple(dataclasses.replace(ROWS, partition=number) for number in range(partitions))
    return dataclasses.replace(topic(images, name=name), role=role, archived=archived, replication_factor=replicas)


def test_what_a_restore_writes_counts_with_its_replicas_and_only_what_it_makes() -> None:
    facts = ROWS.ranges.facts
    one = facts.rows * facts.payload_a_row
    assert one > 0
    state = saved_topic("state", TopicRole.CHANGELOG, archived=True, replicas=3)
    images = {"state": state, "in": saved_topic("orders", archived=True), "out": saved_topic("out", TopicRole.OUTPUT)}
    assert bytes_to_make(images, ()) == 2 * one * 3 + 2 * one
    assert bytes_to_make(images, ("in", "state")) == 2 * one * 3, "state is made again, an input that is there is not"


@pytest.mark.remedy("room-brokers")
@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_too_little_space_blocks_and_tight_space_warns(needed: int, free: int) -> None:
    severities = [one.severity for one in room(Room.for_topics(needed, free))]
    if free >= 2 * needed:
        assert severities == []
    else:
        assert severities == [PreflightSeverity.BLOCKING if free < needed else PreflightSeverity.WARNING]


@pytest.mark.remedy("room-repository", "room-spark")
@pytest.mark.fault("F90")
def test_a_disk_that_cannot_take_a_first_copy_blocks_and_one_that_hardly_can_is_told_of() -> None:
    assert room(Room.for_copy(100, 200, first=True)) == ()
    assert kinds(room(Room.for_copy(100, 199, first=True))) == [("space", PreflightSeverity.WARNING)]
    assert kinds(room(Room.for_copy(100, 20, first=True))) == [("space", PreflightSeverity.WARNING)], "what logs have as text is compressed"
    assert kinds(room(Room.for_copy(100, 9, first=True))) == [("space", PreflightSeverity.BLOCKING)]
    assert kinds(room(Room.for_copy(100, 9, first=False))) == [("space", PreflightSeverity.WARNING)], "it may copy little"
    assert room(Room.for_copy(0, 0, first=True)) == ()
    assert room(Room.for_spark("/scratch", 1 << 30, setting="spark.local.dir")) == ()
    (told,) = room(Room.for_spark("/scratch", 1000, setting="spark.local.dir"))
    assert told.text == "/scratch, where Spark keeps what does not fit into memory, has 1.0 kB free"


@pytest.mark.remedy("savepoint-output")
def test_compacted_outputs_that_no_savepoint_has_are_told_of_where_the_cluster_may_be_lost() -> None:
    table = existing(TopicRole.OUTPUT, cleanup_policy="compact")
    assert kinds(before_backup(cluster(), [table], survives=True)) == [("outputs-empty", PreflightSeverity.WARNING)]
    others = [
        existing(TopicRole.OUTPUT, cleanup_policy="delete"),
        existing(cleanup_policy="compact"),
        dataclasses.replace(table, archived=True),
    ]
    assert before_backup(cluster(), others, survives=True) == ()
    assert before_backup(cluster(), [table]) == (), "all that is lost with the cluster is told as one"


@pytest.mark.remedy("savepoint-include")
def test_patterns_that_mean_nothing_are_named_and_those_of_topics_that_are_only_read_are_not() -> None:
    declared = Declared(
        inputs=("orders",),
        outputs=("totals",),
        globals=(),
        include=("tot*", "nothing-*", "rates"),
        exclude=("none",),
        stores={},
        profile=Profile.FULL,
        all_read=True,
    )
    assert ["nothing-*" in one.text and "rates" in one.text and "tot*" not in one.text for one in unmatched(declared, ())] == [True]
    assert ["rates" in one.text for one in unmatched(declared, ["rates"])] == [False]
    assert unmatched(declared, ["rates", "nothing-1"]) == ()
