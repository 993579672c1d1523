"""A savepoint and the Kafka side of a restore by users that may do only what the preflight says they need, and nothing secret left behind."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from confluent_kafka import Producer

from streams_recovery.core.checks.runs import STRANGERS
from streams_recovery.core.errors import OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import CommittedOffset, QuiesceMode, TopicPartition
from streams_recovery.core.preflight.findings import PreflightFinding, blocking
from streams_recovery.core.preflight.permissions import acl_text
from streams_recovery.kafka import application_logs
from streams_recovery.operations import preflight, restore, savepoint
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.monitored import looked
from tests.support.applications.restore_steps import load_of, written
from tests.support.applications.savepoint_steps import begun, cut, take
from tests.support.applications.small import Small, asked, configured_for, lose_state_and_group, reopened, small_application
from tests.support.kafka.access_rules import Rules, grant
from tests.support.kafka.consumers import member
from tests.support.kafka.secured_broker import ADMIN, Secured
from tests.support.page_commands import blocks
from tests.support.project import PROJECT

pytestmark = pytest.mark.kafka
SECURITY = PROJECT / "docs" / "security.md"


@pytest.fixture(scope="module")
def rules(secured: Secured) -> Iterator[Rules]:
    rules = Rules(secured)
    yield rules
    rules.close()


@pytest.fixture
def firm(secured: Secured, tmp_path: Path, rules: Rules) -> Iterator[Small]:
    """The small application as the broker's administrator has it."""
    with small_application(secured.extra(ADMIN), tmp_path) as firm:
        yield firm
        for user in ("backup", "restore"):
            rules.remove_all(user)


def before_backup(firm: Small, secured: Secured) -> tuple[PreflightFinding, ...]:
    with reopened(firm, secured.connection("backup")) as mine:
        return preflight.before_backup(mine.recovery, QuiesceMode.STOP)


def before_restore(firm: Small, secured: Secured) -> tuple[PreflightFinding, ...]:
    with reopened(firm, secured.connection("restore")) as mine:
        return preflight.before_restore(mine.recovery, mine.recovery.savepoints.latest(consistency=None))


def bring_back(recovery: RecoveryContext) -> restore.RestorePlan:
    """Every step of a restore that touches Kafka; what Spark's tasks would do is done here."""
    request = asked(recovery)
    planned = restore.plan(recovery, request)
    ticket = restore.open_restore(recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(recovery, ticket)
    assert restore.keep_state(recovery, ticket, restore.save_state(recovery, ticket)).savepoint_id is None, "everything is gone"
    restore.prepare(recovery, ticket)
    written(recovery, ticket)
    assert restore.plan_verify(recovery, ticket, load_of(ticket)).spec is None, "what the load read back is proof"
    assert restore.check_verify(recovery, ticket, load_of(ticket), None).rows_compared == planned.rows
    restore.set_offsets(recovery, ticket)
    restore.abandon(recovery, ticket)
    return planned


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    return zstandard.ZstdDecompressor().decompress(data) if path.suffix == ".zst" else data


@pytest.mark.fault("F61")
@pytest.mark.deep
def test_users_with_the_rights_that_were_advised_save_and_restore_and_leave_no_secret(
    secured: Secured, firm: Small, rules: Rules, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    grant(rules, lambda: before_backup(firm, secured))
    with reopened(firm, secured.connection("backup")) as mine:
        saved = take(mine).savepoint_id
    lose_state_and_group(firm)
    grant(rules, lambda: before_restore(firm, secured))
    with reopened(firm, secured.connection("restore")) as mine:
        planned = bring_back(mine.recovery)
    assert (planned.savepoint_id, planned.rows) == (saved, 4 + 3)
    committed = firm.recovery.groups.committed(firm.recovery.application_id, [firm.input, firm.tail])
    assert {tp: found and (found.offset, found.metadata) for tp, found in committed.items()} == {
        firm.input: (4, "AgAA"),
        firm.tail: (0, ""),
    }
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    told = caplog.text + "".join(capfd.readouterr()) + planned.text
    written = b"".join(plain(path) for path in files) + told.encode()
    assert b"canary" not in written
    assert firm.changelog.topic.encode() in written, "the search looks at what was written"


@pytest.mark.deep
@pytest.mark.fault("F57")
@pytest.mark.remedy("right-by-name", "right-by-prefix")
def test_each_right_that_is_missing_is_found_with_the_command_that_grants_it(secured: Secured, firm: Small, rules: Rules) -> None:
    looks: dict[str, Callable[[], tuple[PreflightFinding, ...]]] = {
        "backup": lambda: before_backup(firm, secured),
        "restore": lambda: before_restore(firm, secured),
    }
    for user, look in looks.items():
        granted = grant(rules, look)
        assert len(granted) >= 8
        for rule in granted:
            rules.remove([rule])
            found = [obstacle for obstacle in blocking(look()) if f"--operation {acl_text(rule.operation.name)}" in obstacle.next_step]
            rules.create([rule])
            assert found, f"nothing was said about {user}'s {rule}"


@pytest.mark.deep
@pytest.mark.remedy("right-by-name", "right-by-prefix", "right-to-see-groups")
def test_the_rights_that_are_advised_leave_out_another_application_whose_id_begins_so(secured: Secured, firm: Small, rules: Rules) -> None:
    cluster, me = firm.recovery.cluster, firm.recovery.application_id
    other = f"{me}-eu"
    theirs = f"{other}-totals-changelog"
    cluster.create_topic(theirs, partitions=1, replication_factor=1, config={})
    firm.recovery.groups.set_offsets(other, {firm.input: CommittedOffset(offset=1, metadata="AgAA", leader_epoch=None)})
    try:
        # Who may not see groups is told what the prefix needs to be true, and sees them then.
        told, *_ = [one for one in before_backup(firm, secured) if one.next_step.endswith("--operation Describe --cluster")]
        rules.apply(told.next_step)
        for _ in range(3):
            for one in before_backup(firm, secured):
                if one.is_command:
                    rules.apply(one.next_step)
        assert not blocking(before_backup(firm, secured))
        with reopened(firm, secured.connection("backup")) as mine:
            allowed = mine.recovery.cluster.rights([theirs, firm.changelog.topic], me).topics
            assert allowed[theirs] == {"DESCRIBE"}, "seen, and neither read nor changed"
            assert {"READ", "ALTER_CONFIGS"} <= (allowed[firm.changelog.topic] or set())
            take(mine)
    finally:
        firm.recovery.groups.delete(other)
        cluster.delete_topics([theirs])


def of_the_commands(me: str, names: dict[str, str]) -> list[str]:
    """The commands of the page about security, for an application of another name."""
    [block] = [one for one in blocks(SECURITY.read_text()) if "kafka-acls.sh" in one and "__consumer_offsets" not in one]
    there = {"orders": me, "orders-": f"{me}-", **names}
    commands = [line for line in block.replace("\\\n", " ").splitlines() if line.startswith("kafka-acls.sh")]
    return [" ".join(there.get(word, word) for word in command.split()) for command in commands]


def of_the_table(me: str, names: dict[str, str]) -> list[str]:
    """The same of its table, for restores."""
    resources = {
        "topics that begin": f"--topic {me}- --resource-pattern-type prefixed",
        "inputs, all": f"--topic {names['incoming']}",
        "outputs, global tables": f"--topic {names['outgoing']}",
        "group": f"--group {me}",
        "transactional ids": f"--transactional-id {me}- --resource-pattern-type prefixed",
        "the cluster": "--cluster",
    }
    found = []
    for line in SECURITY.read_text().splitlines():
        row = [cell.strip() for cell in line.split("|")]
        for begin, resource in resources.items():
            if len(row) == 5 and row[1].startswith(begin):
                operations = " ".join(f"--operation {one}" for one in re.findall(r"\b[A-Z]\w+", row[3]))
                options = f"--bootstrap-server x --command-config x --add --allow-principal User:restore {operations}"
                found.append(f"kafka-acls.sh {options} {resource}")
    assert len(found) == len(resources)
    return found


@pytest.mark.remedy("right-unknown")
def test_the_rights_of_the_page_are_enough_for_whoever_has_to_compare_them(secured: Secured, firm: Small, rules: Rules) -> None:
    """Every broker that is supported tells what a user may do, so none says that it does not: what there is to compare with is shown to be right."""
    me, names = firm.recovery.application_id, {"incoming": firm.input.topic, "outgoing": firm.output.topic}
    assert blocking(before_backup(firm, secured))
    for command in of_the_commands(me, names):
        rules.apply(command)
    assert [one for one in before_backup(firm, secured) if one.kind == "acl"] == []
    with reopened(firm, secured.connection("backup")) as mine:
        saved = take(mine).savepoint_id
    lose_state_and_group(firm)
    assert blocking(before_restore(firm, secured))
    for command in of_the_table(me, names):
        rules.apply(command)
    assert [one for one in before_restore(firm, secured) if one.kind == "acl"] == []
    with reopened(firm, secured.connection("restore")) as mine:
        assert bring_back(mine.recovery).savepoint_id == saved


@pytest.mark.fault("F57")
def test_an_input_by_pattern_that_may_not_be_seen_is_found_while_the_application_reads_it(
    secured: Secured, tmp_path: Path, rules: Rules
) -> None:
    name = f"seen{uuid.uuid4().hex[:8]}"
    with small_application(
        secured.extra(ADMIN), tmp_path, name=name, topics={"inputs": [], "input_patterns": [rf"{name}\.in(\..*)?"]}
    ) as firm:
        try:
            grant(rules, lambda: before_backup(firm, secured))
            hidden = f"{name}.in.hidden"
            firm.recovery.cluster.create_topic(hidden, partitions=1, replication_factor=1, config={})
            assert not blocking(before_backup(firm, secured)), "nobody reads it, so nobody knows of it"
            with member(firm.recovery, firm.recovery.application_id, hidden):

                def of_topics() -> list[PreflightFinding]:
                    """Without the reader itself, which no known instance accounts for."""
                    return [one for one in blocking(before_backup(firm, secured)) if one.kind != STRANGERS]

                found = of_topics()
                assert any(hidden in one.text for one in found), found
                for one in found:
                    rules.apply(one.next_step)
                assert not of_topics()
                firm.recovery.cluster.delete_topics([hidden])
                assert not of_topics(), "one that is gone is not hidden"
        finally:
            rules.remove_all("backup")


def opened(firm: Small, *partitions: TopicPartition) -> Producer:
    """An administrator's producer in the middle of a transaction on these partitions."""
    settings = firm.recovery.connection.client_config(**{"transactional.id": f"others-{uuid.uuid4().hex[:8]}"})
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for tp in partitions:
        producer.produce(tp.topic, b"v", b"k", tp.partition)
    assert producer.flush(30) == 0
    return producer


@pytest.mark.deep
@pytest.mark.fault("F26")
def test_a_savepoint_waits_also_for_a_transaction_whose_producer_it_may_not_see(
    secured: Secured, firm: Small, rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first look is ten seconds later otherwise.
    monkeypatch.setattr(application_logs, "_SOON_SECONDS", 0.2)
    grant(rules, lambda: before_backup(firm, secured))
    producer = opened(firm, firm.output)
    with reopened(firm, secured.connection("backup")) as mine, ThreadPoolExecutor(1) as pool:
        with pytest.raises(OffsetsUnstable, match=r"this connection sees none of them\. Next: try again in a few minutes"):
            cut(mine.recovery)
        patient = configured_for(mine, backup={"consistency": {"mode": "stop", "timeout_seconds": 120}})
        ticket = begun(patient)
        held = savepoint.quiesce(patient, ticket)
        # After that look, which must not end the wait.
        ended = pool.submit(lambda: [time.sleep(2), producer.abort_transaction(30)])
        savepoint.capture(patient, ticket, held)
        assert ended.result(30)
        savepoint.finish(patient, ticket)


@pytest.mark.deep
@pytest.mark.fault("F26")
def test_another_team_s_transaction_that_may_not_be_seen_is_not_taken_for_one_that_hangs(
    secured: Secured, firm: Small, rules: Rules
) -> None:
    grant(rules, lambda: before_backup(firm, secured))
    producer = opened(firm, firm.changelog, firm.input)
    with reopened(firm, secured.connection("backup")) as mine:
        (seen,), (known,) = (one.transactions.blocking([firm.changelog]) for one in (mine.recovery, firm.recovery))
        with pytest.raises(Refused, match="Topic authorization failed"):
            mine.recovery.transactions.blocking([firm.input])
        assert [one.tp for one in mine.recovery.transactions.seen([firm.input, firm.changelog])] == [firm.changelog]
        report = looked(mine.recovery)
    assert (known.transactional_id or "").startswith("others-")
    assert not known.hanging
    assert (seen.producer_id, seen.transactional_id, seen.hanging) == (known.producer_id, None, False)
    assert report.parts["cluster"].problem is None, "what it may not see does not blind the monitor"
    assert "transaction-hanging" not in {one.kind for one in report.findings}
    producer.abort_transaction(30)


@pytest.mark.fault("F57")
def test_a_stranger_learns_everything_at_once_and_nothing_is_touched(secured: Secured, firm: Small) -> None:
    name = firm.recovery.application_id
    with reopened(firm, secured.connection("stranger")) as mine, pytest.raises(Refused) as caught:
        begun(mine.recovery)
    said = str(caught.value)
    for wanted in (f"--topic {name}.in", f"--group {name}", "--operation Describe --cluster", f"--transactional-id {name}-"):
        assert wanted in said
    assert f"--topic {name}- " not in said, "who sees no groups does not know whose topics begin so"
    assert firm.recovery.lock.holder() is None
    assert firm.recovery.savepoints.ids() == []
    assert firm.recovery.cluster.describe_topics([firm.changelog.topic])[firm.changelog.topic].config == {"cleanup.policy": "compact"}


def test_a_plan_by_a_stranger_is_refused_with_everything_that_lacks(secured: Secured, firm: Small) -> None:
    take(firm)
    with reopened(firm, secured.connection("stranger")) as mine, pytest.raises(Refused, match=r"a restore of .* cannot begin") as caught:
        restore.plan(mine.recovery, asked(mine.recovery, replace=True))
    said = str(caught.value)
    for operation in ("Create", "Delete", "Write", "Read", "AlterConfigs", "DescribeConfigs", "Describe"):
        assert re.search(rf"lacks [\w, ]*\b{operation}\b", said), operation
    assert "kafka-acls.sh" in said


@pytest.mark.way("preflight")
def test_the_administrator_lacks_nothing(firm: Small) -> None:
    assert [found.kind for found in preflight.before_backup(firm.recovery)] == ["cluster-loss"], "its inputs are not archived"
    assert preflight.before_restore(firm.recovery, None) == ()


@pytest.mark.deep
@pytest.mark.parametrize(("user", "code"), [("stranger", 3), (ADMIN, 0)])
def test_the_command_tells_the_same_to_scripts(secured: Secured, firm: Small, tmp_path: Path, user: str, code: int) -> None:
    connection = json.dumps({"conn_type": "kafka", "extra": secured.extra(user)})
    paths = os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "AIRFLOW_CONN_KAFKA_DEFAULT": connection,
        "STREAMS_RECOVERY_CONFIG_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "streams_recovery", "preflight", "small", "--for", "restore", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done
    told = json.loads(done.stdout)
    assert told["ready"] is (code == 0)
    acls = [found for found in told["findings"] if found["kind"] == "acl"]
    assert bool(acls) is (code == 3)
    assert all(found["remedy"].startswith("kafka-acls.sh ") for found in acls)
    assert "canary" not in done.stdout + done.stderr
