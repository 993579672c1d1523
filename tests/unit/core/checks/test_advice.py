"""Each rule speaks when its cause is there, and is silent without it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import replace

import pytest

from streams_recovery.config.loader import load_named
from streams_recovery.core.checks.catalogue import CHECKS
from streams_recovery.core.checks.check import Occasion, Severity
from streams_recovery.core.checks.facts import AdviceFacts, TopicFacts
from streams_recovery.core.kafka_types import Guarantee, StoreKind, TopicRole
from streams_recovery.core.named_transactions.way import CaptureWay, NamesFacts, SavepointWay, missing_guarantee, missing_in
from streams_recovery.core.names import store_kind
from streams_recovery.core.remedies.topics import widened
from streams_recovery.core.status.facts import advise
from streams_recovery.core.status.report import StatusFinding
from tests.support.examples.advice_facts import CHANGELOG, GOOD, INPUT, REPARTITION, with_broker, with_facts, with_topic
from tests.support.project import PROJECT

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
ADVICE = {
    (place.kind, severity) for check in CHECKS for place in check.places if place.asked is Occasion.ADVICE for severity in check.severities
}
OUTPUT = replace(CHANGELOG, name="totals", role=TopicRole.OUTPUT, archived=False)

HELD = SavepointWay(way=CaptureWay.PAUSE, missing=None)
NO_NAMES = missing_in(NamesFacts(tools=GOOD.tools, principal="User:me", version=1))

CASES: list[tuple[str, Severity, str, AdviceFacts]] = [
    ("input-retention", CRITICAL, "orders", with_topic(INPUT, retention_ms="3000000")),
    ("input-retention", WARNING, "orders", with_topic(INPUT, retention_ms="7200000")),
    ("input-retention", INFO, "orders", with_topic(INPUT, retention_bytes="1073741824")),
    ("changelog-policy", CRITICAL, CHANGELOG.name, with_topic(CHANGELOG, cleanup_policy="delete")),
    ("repartition-retention", CRITICAL, REPARTITION.name, with_topic(REPARTITION, retention_ms="86400000")),
    ("outputs-empty", WARNING, "totals", with_facts(topics=(*GOOD.topics, OUTPUT))),
    ("delete-retention", WARNING, CHANGELOG.name, with_topic(CHANGELOG, delete_retention_ms="3600000")),
    ("compaction-lag", WARNING, CHANGELOG.name, with_topic(CHANGELOG, min_compaction_lag_ms="172800000")),
    ("log-cleaner", CRITICAL, "", with_broker(log_cleaner_enable="false")),
    ("segment-size", INFO, CHANGELOG.name, with_topic(CHANGELOG, offsets=(400_000, 400_000, 400_000))),
    ("hot-partition", INFO, "orders", with_topic(INPUT, offsets=(1_000, 900_000, 1_200))),
    ("replication", WARNING, "orders", with_topic(INPUT, replicas=1, min_insync_replicas="1")),
    ("replication", INFO, "orders", with_topic(INPUT, replicas=2)),
    ("min-insync", WARNING, "orders", with_topic(INPUT, replicas=2, min_insync_replicas="1")),
    ("min-insync", WARNING, "orders", with_topic(INPUT, min_insync_replicas="1")),
    ("min-insync", WARNING, "orders", with_topic(INPUT, min_insync_replicas="3")),
    ("min-insync", WARNING, "orders", with_topic(INPUT, min_insync_replicas="4")),
    ("unclean-election", WARNING, "orders", with_topic(INPUT, unclean_leader_election_enable="true")),
    ("auto-topic-creation", WARNING, "", with_broker(auto_create_topics_enable="true")),
    ("offsets-retention", WARNING, "", with_broker(offsets_retention_minutes="1440")),
    ("offsets-retention", CRITICAL, "", with_facts(down_seconds=14 * 86_400.0)),
    ("transaction-timeout", WARNING, "", with_facts(streams=dict(GOOD.streams) | {"producer.transaction.timeout.ms": "600000"})),
    ("transaction-timeout", CRITICAL, "", with_facts(streams=dict(GOOD.streams) | {"transaction.timeout.ms": "1000000"})),
    ("transaction-timeout", CRITICAL, "", with_facts(commit_interval_ms=20_000)),
    ("session-timeout", INFO, "", with_facts(session_timeout_ms=300_000)),
    ("standbys", INFO, "", with_topic(CHANGELOG, offsets=(2_000_000, 2_000_000, 2_000_000), segment_bytes="1048576")),
    ("recovery-lag", WARNING, "", with_facts(streams={"acceptable.recovery.lag": "10000"})),
    ("recovery-lag", WARNING, "", with_facts(streams={"acceptable.recovery.lag": "5000000"}, pauses=False)),
    ("state-directory", WARNING, "/tmp/kafka-streams", with_facts(state_directories=("/tmp/kafka-streams", "/var/lib/orders"))),
    ("restore-consumer", WARNING, "restore.consumer.max.poll.records", with_facts(
        streams=dict(GOOD.streams) | {"restore.consumer.max.poll.records": "100"}
    )),
    ("rocksdb", INFO, "", replace(with_topic(CHANGELOG, offsets=(9_000_000, 9_000_000), segment_bytes="1048576"), standbys=1)),
    ("savepoint-way", INFO, "", with_facts(way=HELD)),
    ("savepoint-way", INFO, "", with_facts(way=replace(HELD, missing=NO_NAMES))),
    ("savepoint-way", WARNING, "", with_facts(way=SavepointWay(way=CaptureWay.LIVE, missing=NO_NAMES))),
    ("archive-one-place", WARNING, "", with_facts(archived_alone_seconds=3600.0)),
    ("settings-not-known", INFO, "", with_facts(streams={})),
    ("settings-not-readable", INFO, "", with_facts(unreadable=("secret",))),
    ("settings-not-readable", INFO, "", with_facts(brokers=replace(GOOD.brokers, settings={}))),
]  # fmt: skip


def test_there_is_no_advice_where_all_is_well() -> None:
    assert advise(GOOD) == ()


@pytest.mark.parametrize("way", [*CaptureWay])
def test_there_is_none_about_the_way_of_savepoints_where_nothing_can_be_done(way: CaptureWay) -> None:
    at_least_once = missing_guarantee(Guarantee.AT_LEAST_ONCE)
    assert advise(with_facts(way=SavepointWay(way=way, missing=at_least_once))) == ()


@pytest.mark.parametrize(("kind", "severity", "subject", "facts"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_a_cause_alone_brings_its_advice_and_no_other(kind: str, severity: Severity, subject: str, facts: AdviceFacts) -> None:
    (found,) = advise(facts)
    assert (found.kind, found.severity, found.subject) == (kind, severity, subject)
    assert found.runbook == f"advisor.md#{kind}"
    assert found.text.endswith(".")


def test_every_kind_of_advice_has_a_case_here_for_each_severity() -> None:
    assert {case[:2] for case in CASES} == ADVICE


def test_commands_are_whole_and_name_the_topic_and_the_brokers() -> None:
    (found,) = advise(with_topic(INPUT, retention_ms="7200000"))
    (command,) = found.remedies
    assert shlex.split(command) == [
        *("kafka-configs.sh", "--bootstrap-server", "broker-1:9092", "--command-config", "admin.properties", "--alter"),
        *("--entity-type", "topics", "--entity-name", "orders", "--add-config", "retention.ms=604800000"),
    ]


@pytest.mark.remedy("topic-retention", "topic-delete-retention", "topic-segments", "topic-election")
@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0] not in ("settings-not-known",)], ids=lambda case: f"{case[0]}-{case[1]}"
)
def test_what_the_command_sets_ends_the_advice(case: tuple[str, Severity, str, AdviceFacts]) -> None:
    _, _, subject, facts = case
    for found in advise(facts):
        settings = dict(setting.split("=", 1) for setting in set_by([found]))
        if not settings:
            continue
        plans = [json.loads(shlex.split(command)[1])["partitions"] for command in found.remedies if command.startswith("echo")]
        mended = [
            replace(
                one,
                settings=dict(one.settings) | settings,
                replicas=tuple(tuple(part["replicas"]) for part in plans[0]) if plans else one.replicas,
            )
            if one.name == subject
            else one
            for one in facts.topics
        ]
        assert advise(replace(facts, topics=tuple(mended))) == ()


@pytest.mark.remedy("group-standby-stop")
@pytest.mark.parametrize("protocol", ["classic", "consumer", "streams"])
def test_a_setting_of_the_group_is_changed_where_its_protocol_has_it(protocol: str) -> None:
    much = with_topic(CHANGELOG, offsets=(2_000_000, 2_000_000, 2_000_000), segment_bytes="1048576")
    facts = replace(much, group_kind=protocol, pauses=False, session_timeout_ms=300_000)
    standby, session = (one for kind in ("standbys", "session-timeout") for one in advise(facts) if one.kind == kind)
    settings = [[command.rpartition(" ")[2] for command in one.remedies] for one in (standby, session)]
    assert settings == [
        ["streams.num.standby.replicas=1"] if protocol == "streams" else [],
        [] if protocol == "classic" else [f"{protocol}.session.timeout.ms=45000"],
    ]
    assert ["in the application" in one.text for one in (standby, session)] == [protocol != "streams", protocol == "classic"]
    (paused,) = (one for one in advise(replace(facts, pauses=True)) if one.kind == "standbys")
    assert paused.remedies == (), "it would end when it is resumed"
    assert "set backup.consistency.mode to stop" in paused.text


def test_the_worst_comes_first() -> None:
    facts = replace(with_topic(INPUT, retention_ms="3000000"), brokers=with_broker(auto_create_topics_enable="true").brokers, streams={})
    assert [found.severity for found in advise(facts)] == [CRITICAL, WARNING, INFO]


def test_what_an_input_loses_depends_on_whether_it_is_archived() -> None:
    short = replace(INPUT, settings=dict(INPUT.settings) | {"retention.ms": "7200000"})
    (lost,) = advise(with_facts(topics=(short,)))
    (gap,) = advise(with_facts(topics=(replace(short, archived=True),)))
    assert "does not find the input since then" in lost.text
    assert "has a gap there" in gap.text


def test_without_a_schedule_an_interval_or_a_retention_nothing_is_said_of_them() -> None:
    assert advise(replace(with_topic(INPUT, retention_ms="1000"), interval_seconds=None)) == ()
    assert advise(with_topic(INPUT, retention_ms="-1")) == ()
    assert advise(with_topic(INPUT, cleanup_policy="compact", retention_ms="1000")) == ()


def test_a_small_or_an_even_topic_has_no_hot_partition() -> None:
    assert advise(with_topic(INPUT, offsets=(100, 90_000, 100))) == ()
    assert advise(with_topic(INPUT, offsets=(900_000, 900_000, 200_000))) == ()
    assert advise(with_topic(INPUT, offsets=(1, 900_000))) == ()


def test_only_what_commits_with_transactions_has_a_transaction_timeout() -> None:
    facts = with_facts(streams=dict(GOOD.streams) | {"transaction.timeout.ms": "1000000"}, guarantee=Guarantee.AT_LEAST_ONCE)
    assert advise(facts) == ()


def test_outputs_and_globals_have_advice_about_their_copies_too() -> None:
    output = replace(INPUT, name="totals", role=TopicRole.OUTPUT, replicas=((1,), (2,)), settings={})
    assert [(found.kind, found.subject) for found in advise(with_facts(topics=(output,)))] == [("replication", "totals")]


def test_replicas_are_added_where_there_are_few_and_the_leader_stays() -> None:
    three: dict[int, str | None] = dict.fromkeys((1, 2, 3))
    assert widened(((1,), (1,), (2,)), three, 2) == ((1, 3), (1, 2), (2, 3))
    assert widened(((1, 2, 3),), three, 3) == ((1, 2, 3),)
    assert widened(((1,),), {1: None, 2: None}, 3) == ((1, 2),), "there are no more brokers"


def test_new_replicas_go_to_racks_that_have_none_first() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "c"}
    assert widened(((1,),), racks, 3) == ((1, 4, 5),)
    assert widened(((1,), (1,), (1,)), {1: "a", 2: "a", 3: "b"}, 2) == ((1, 3),) * 3, "a rack counts more than a broker with little"
    assert widened(((1,),), {1: "a", 2: "a", 3: None}, 2) == ((1, 3),), "what does not say its rack may be in another one"


@pytest.mark.remedy("topic-replicas")
def test_the_commands_for_more_replicas_write_the_plan_and_carry_it_out() -> None:
    (found,) = advise(with_topic(INPUT, replicas=1, min_insync_replicas="1"))
    write, execute, verify = found.remedies
    _, plan, _, file = shlex.split(write)
    assert json.loads(plan)["partitions"][0] == {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}
    assert shlex.split(execute)[-4:] == [file, "--execute", "--throttle", "50000000"]
    assert shlex.split(verify)[-2:] == [file, "--verify"]
    assert "takes the limit of the copies away" in found.text
    many = replace(INPUT, replicas=((1,),) * 100, offsets=(5_000,) * 100, settings=dict(INPUT.settings) | {"min.insync.replicas": "1"})
    (text_only,) = advise(with_facts(topics=(many,)))
    assert text_only.remedies == ()


def test_an_output_that_is_archived_or_is_no_table_needs_no_advice() -> None:
    for silent in (replace(OUTPUT, archived=True), replace(OUTPUT, settings={**OUTPUT.settings, "cleanup.policy": "delete"})):
        assert advise(with_facts(topics=(*GOOD.topics, silent))) == ()


def changed(topic: TopicFacts, **settings: str) -> dict[str, str]:
    return dict(topic.settings) | {name.replace("_", "."): value for name, value in settings.items()}


def alone(topic: TopicFacts, brokers: int = 3, **settings: str) -> AdviceFacts:
    """Facts with nothing but this topic, with other settings."""
    return with_facts(
        topics=(replace(topic, settings=changed(topic, **settings)),),
        brokers=replace(GOOD.brokers, racks=dict.fromkeys(range(1, brokers + 1))),
    )


def tools_of(found: Iterable[StatusFinding]) -> list[str]:
    return [shlex.split(command)[0] for one in found for command in one.remedies]


def set_by(found: Iterable[StatusFinding]) -> list[str]:
    return [shlex.split(command)[-1] for one in found for command in one.remedies if command.startswith("kafka-configs.sh")]


@pytest.mark.fault("F104")
@pytest.mark.remedy("topic-compaction-lag")
def test_a_versioned_store_keeps_its_lag_which_its_history_needs() -> None:
    assert advise(alone(replace(CHANGELOG, store=StoreKind.VERSIONED), min_compaction_lag_ms="259200000")) == ()


@pytest.mark.remedy("topic-compaction-lag")
def test_a_lag_of_a_store_of_an_unknown_kind_has_no_command_unless_it_is_the_brokers() -> None:
    unknown = replace(CHANGELOG, store=StoreKind.UNKNOWN)
    (by_owner,) = advise(alone(replace(unknown, overrides=frozenset({"min.compaction.lag.ms"})), min_compaction_lag_ms="259200000"))
    assert by_owner.remedies == ()
    assert "its history is lost without min.compaction.lag.ms" in by_owner.text
    assert set_by(advise(alone(unknown, min_compaction_lag_ms="259200000"))) == ["min.compaction.lag.ms=0"]


@pytest.mark.fault("F104")
@pytest.mark.remedy("topic-policy")
@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        (StoreKind.KEY_VALUE, ["cleanup.policy=compact"]),
        (StoreKind.LIST, ["cleanup.policy=compact"]),
        (StoreKind.SUPPRESS, ["cleanup.policy=compact"]),
        (StoreKind.VERSIONED, ["cleanup.policy=compact"]),
        # Kafka's tool splits settings at commas that are in no brackets.
        (StoreKind.WINDOW, ["cleanup.policy=[compact,delete]"]),
        (StoreKind.SESSION, ["cleanup.policy=[compact,delete]"]),
        (StoreKind.UNKNOWN, []),
    ],
)
def test_a_changelog_gets_the_policy_of_its_kind_of_store(kind: StoreKind, policy: list[str]) -> None:
    (found,) = advise(alone(replace(CHANGELOG, store=kind), cleanup_policy="delete"))
    assert set_by([found]) == policy
    assert policy or "Write the kind of the store under `stores`" in found.text


@pytest.mark.fault("F104")
@pytest.mark.remedy("topic-retention-bytes")
def test_a_topic_that_nothing_but_its_size_bounds_keeps_that_limit() -> None:
    (found,) = advise(alone(INPUT, retention_bytes="1073741824", retention_ms="-1"))
    assert found.remedies == ()
    assert "Nothing else bounds it" in found.text
    (bounded,) = advise(alone(INPUT, retention_bytes="1073741824"))
    assert set_by([bounded]) == ["retention.bytes=-1"]
    assert "disks need room for all that comes within 7 days" in bounded.text
    assert "Ask whoever owns the topic first" in bounded.text


BROKEN = [case for case in CASES if case[2] in (CHANGELOG.name, REPARTITION.name, INPUT.name) and case[0] != "hot-partition"]


@pytest.mark.fault("F104")
@pytest.mark.remedy("topic-held")
@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case[0]}-{case[1]}")
def test_nothing_changes_a_topic_that_a_savepoint_or_a_restore_holds_now(case: tuple[str, Severity, str, AdviceFacts]) -> None:
    kind, _, subject, facts = case
    held = replace(facts, topics=tuple(replace(one, held=one.name == subject) for one in facts.topics))
    assert [(one.kind, one.remedies, "holds settings of this topic now" in one.text) for one in advise(held)] == [(kind, (), True)]


@pytest.mark.remedy("topic-unattributed")
@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case[0]}-{case[1]}")
def test_nothing_changes_a_topic_that_may_be_another_application_s(case: tuple[str, Severity, str, AdviceFacts]) -> None:
    kind, _, subject, facts = case
    nobody = replace(facts, topics=tuple(replace(one, attributed=one.name != subject) for one in facts.topics))
    assert [(one.kind, one.remedies, "Nothing but its name says" in one.text) for one in advise(nobody)] == [(kind, (), True)]


@pytest.mark.remedy("topic-min-insync")
def test_replicas_come_before_a_lower_number_in_sync_and_there_is_one_answer() -> None:
    (found,) = advise(with_topic(INPUT, replicas=1, min_insync_replicas="2"))
    assert (found.kind, found.severity) == ("min-insync", WARNING)
    assert "Do not lower min.insync.replicas" in found.text
    assert tools_of([found]) == ["echo", "kafka-reassign-partitions.sh", "kafka-reassign-partitions.sh"]
    single = replace(INPUT, replicas=((1,), (1,), (1,)))
    pair = advise(alone(single, brokers=2, min_insync_replicas="2"))
    assert set_by(pair) == ["min.insync.replicas=1"], "of two replicas one has to be enough, or no broker may be missing"
    assert tools_of(pair) == ["kafka-configs.sh", "echo", "kafka-reassign-partitions.sh", "kafka-reassign-partitions.sh"]
    assert set_by(advise(alone(single, brokers=1, min_insync_replicas="2"))) == ["min.insync.replicas=1"]


@pytest.mark.remedy("topic-min-insync")
def test_of_two_replicas_both_are_asked_for_only_once_there_is_a_third() -> None:
    (found,) = advise(with_topic(INPUT, replicas=2, min_insync_replicas="1"))
    assert tools_of([found]) == ["echo", "kafka-reassign-partitions.sh", "kafka-reassign-partitions.sh", "kafka-configs.sh"]
    assert (set_by([found]), "Once all have them, set min.insync.replicas=2" in found.text) == (["min.insync.replicas=2"], True)
    many = replace(INPUT, replicas=((1, 2),) * 100, settings=changed(INPUT, min_insync_replicas="1"))
    (in_parts,) = advise(with_facts(topics=(many,)))
    assert (in_parts.kind, in_parts.remedies) == ("min-insync", ()), "the setting alone would stop writes"
    assert advise(alone(INPUT, brokers=2)) == ()
    pair = replace(INPUT, replicas=((1, 2),) * 3)
    assert advise(alone(pair, brokers=2, min_insync_replicas="1")) == (), "no third broker, so nothing better can be had"


@pytest.mark.remedy("topic-repartition-retention")
def test_repartition_topics_of_faust_need_a_limit() -> None:
    (found,) = advise(replace(with_topic(REPARTITION, retention_ms="86400000"), deletes_read=False))
    assert found.remedies == ()
    assert "Nobody deletes what was read from it" in found.text


@pytest.mark.fault("F104")
@pytest.mark.remedy("topic-compaction-lag")
@pytest.mark.parametrize("declared", [True, False])
def test_the_versioned_store_of_the_demonstration_is_left_alone(declared: bool) -> None:
    config = load_named("order-processing", PROJECT / "include" / "configs", {})
    changelog = config.changelogs["order-versions"]
    # As Kafka Streams makes it: three days, and a day more. Without the configuration this proves the kind.
    made = {"cleanup.policy": "compact", "min.compaction.lag.ms": "345600000"}
    kind = store_kind(changelog, config.application.id, made, config.store_kind("order-versions") if declared else None)
    topic = replace(CHANGELOG, name=changelog, store=kind, overrides=frozenset(made))
    assert advise(alone(topic, min_compaction_lag_ms="345600000")) == ()
