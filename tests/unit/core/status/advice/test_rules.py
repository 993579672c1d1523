"""Each rule speaks when its cause is there, and is silent without it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import pytest

from streams_recovery.core.kafka_types import Guarantee, TopicRole
from streams_recovery.core.status.advice import ADVICE, advise
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.topics import widened
from streams_recovery.core.status.report import Severity
from tests.support.examples.advice_facts import CHANGELOG, GOOD, INPUT, REPARTITION, with_facts, with_topic
from tests.support.project import PROJECT

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
BROKER = dict(GOOD.broker)
OUTPUT = replace(CHANGELOG, name="totals", role=TopicRole.OUTPUT, archived=False)

CASES: list[tuple[str, Severity, str, AdviceFacts]] = [
    ("input-retention", CRITICAL, "orders", with_topic(INPUT, retention_ms="3000000")),
    ("input-retention", WARNING, "orders", with_topic(INPUT, retention_ms="7200000")),
    ("input-retention", INFO, "orders", with_topic(INPUT, retention_bytes="1073741824")),
    ("changelog-policy", CRITICAL, CHANGELOG.name, with_topic(CHANGELOG, cleanup_policy="delete")),
    ("repartition-retention", CRITICAL, REPARTITION.name, with_topic(REPARTITION, retention_ms="86400000")),
    ("outputs-empty", WARNING, "totals", with_facts(topics=(*GOOD.topics, OUTPUT))),
    ("delete-retention", WARNING, CHANGELOG.name, with_topic(CHANGELOG, delete_retention_ms="3600000")),
    ("compaction-lag", WARNING, CHANGELOG.name, with_topic(CHANGELOG, min_compaction_lag_ms="172800000")),
    ("log-cleaner", CRITICAL, "", with_facts(broker=BROKER | {"log.cleaner.enable": "false"})),
    ("segment-size", INFO, CHANGELOG.name, with_topic(CHANGELOG, offsets=(400_000, 400_000, 400_000))),
    ("hot-partition", INFO, "orders", with_topic(INPUT, offsets=(1_000, 900_000, 1_200))),
    ("replication", WARNING, "orders", with_topic(INPUT, replicas=1, min_insync_replicas="1")),
    ("replication", INFO, "orders", with_topic(INPUT, replicas=2, min_insync_replicas="1")),
    ("min-insync", WARNING, "orders", with_topic(INPUT, min_insync_replicas="1")),
    ("min-insync", WARNING, "orders", with_topic(INPUT, min_insync_replicas="3")),
    ("min-insync", CRITICAL, "orders", with_topic(INPUT, min_insync_replicas="4")),
    ("unclean-election", WARNING, "orders", with_topic(INPUT, unclean_leader_election_enable="true")),
    ("auto-topic-creation", WARNING, "", with_facts(broker=BROKER | {"auto.create.topics.enable": "true"})),
    ("offsets-retention", WARNING, "", with_facts(broker=BROKER | {"offsets.retention.minutes": "1440"})),
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
    ("settings-not-known", INFO, "", with_facts(streams={})),
    ("settings-not-readable", INFO, "", with_facts(unreadable=("secret",))),
    ("settings-not-readable", INFO, "", with_facts(broker={})),
]  # fmt: skip


def test_there_is_no_advice_where_all_is_well() -> None:
    assert advise(GOOD) == ()


@pytest.mark.parametrize(("kind", "severity", "subject", "facts"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_a_cause_alone_brings_its_advice_and_no_other(kind: str, severity: Severity, subject: str, facts: AdviceFacts) -> None:
    (found,) = advise(facts)
    assert (found.kind, found.severity, found.subject) == (kind, severity, subject)
    assert found.runbook == f"advisor.md#{kind}"
    assert found.text.endswith(".")


def test_every_rule_has_a_case_here_and_gives_its_kind() -> None:
    assert {case[0] for case in CASES} == set(ADVICE)
    for kind, _, _, facts in CASES:
        assert {finding.kind for finding in ADVICE[kind](facts)} == {kind}


def test_every_kind_has_a_section_and_every_section_a_kind() -> None:
    page = (PROJECT / "docs" / "advisor.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## (.+)$", page, re.MULTILINE)) == sorted(ADVICE)


def test_commands_are_whole_and_name_the_topic_and_the_brokers() -> None:
    (found,) = advise(with_topic(INPUT, retention_ms="7200000"))
    (command,) = found.remedies
    assert shlex.split(command) == [
        *("kafka-configs.sh", "--bootstrap-server", "broker-1:9092", "--command-config", "admin.properties", "--alter"),
        *("--entity-type", "topics", "--entity-name", "orders", "--add-config", "retention.ms=604800000"),
    ]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0] not in ("settings-not-known",)], ids=lambda case: f"{case[0]}-{case[1]}"
)
def test_what_the_command_sets_ends_the_advice(case: tuple[str, Severity, str, AdviceFacts]) -> None:
    _, _, subject, facts = case
    for found in advise(facts):
        for command in found.remedies:
            if not command.startswith("kafka-configs.sh"):
                continue
            setting, value = shlex.split(command)[-1].split("=")
            mended = tuple(
                replace(one, settings=dict(one.settings) | {setting: value}) if one.name == subject else one for one in facts.topics
            )
            assert advise(replace(facts, topics=mended)) == ()


def test_the_worst_comes_first() -> None:
    facts = replace(with_topic(INPUT, retention_ms="3000000"), broker=BROKER | {"auto.create.topics.enable": "true"}, streams={})
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
    assert widened(((1,), (1,), (2,)), (1, 2, 3), 2) == ((1, 3), (1, 2), (2, 3))
    assert widened(((1, 2, 3),), (1, 2, 3), 3) == ((1, 2, 3),)
    assert widened(((1,),), (1, 2), 3) == ((1, 2),), "there are no more brokers"


def test_the_commands_for_more_replicas_write_the_plan_and_carry_it_out() -> None:
    (found,) = advise(with_topic(INPUT, replicas=1, min_insync_replicas="1"))
    write, execute = found.remedies
    _, plan, _, file = shlex.split(write)
    assert json.loads(plan)["partitions"][0] == {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}
    assert shlex.split(execute)[-2:] == [file, "--execute"]
    many = replace(INPUT, replicas=((1,),) * 100, offsets=(5_000,) * 100, settings=dict(INPUT.settings) | {"min.insync.replicas": "1"})
    (text_only,) = advise(with_facts(topics=(many,)))
    assert text_only.remedies == ()


def test_an_output_that_is_archived_or_is_no_table_needs_no_advice() -> None:
    for silent in (replace(OUTPUT, archived=True), replace(OUTPUT, settings={**OUTPUT.settings, "cleanup.policy": "delete"})):
        assert advise(with_facts(topics=(*GOOD.topics, silent))) == ()
