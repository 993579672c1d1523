"""Transactions that nobody ends, on a real broker: they are told from those that go on, nobody waits for them, and what ends them is told."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.core.errors import OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicPartition
from streams_recovery.core.remedies.remedy import ADMIN_PROPERTIES
from streams_recovery.core.remedies.transactions import OpenTransaction, find
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.waiting import poll
from streams_recovery.core.work import OffsetRange
from streams_recovery.engine.submitter import Submitter
from streams_recovery.kafka import application_logs
from streams_recovery.kafka.reader import _why_nothing_comes
from streams_recovery.operations import preflight, restore, savepoint
from tests.support.applications.monitored import limited, looked
from tests.support.applications.restore_steps import restored
from tests.support.applications.savepoint_steps import begun, cut, publish, published
from tests.support.applications.shape_inputs import ZERO, part
from tests.support.applications.shapes import Fleet, shaped
from tests.support.applications.small import Small, asked, configured, configured_for, small_application, surviving
from tests.support.applications.topic_records import state_of, transaction
from tests.support.kafka.access_rules import Rules
from tests.support.kafka.hanging_transactions import hang
from tests.support.kafka.secured_broker import ADMIN, PASSWORDS, SCRAM, Secured
from tests.support.programs.kafka_tools import done, ran

pytestmark = [pytest.mark.kafka, pytest.mark.fault("F26")]


@pytest.fixture
def small(own_bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    with small_application(own_bootstrap, tmp_path) as found:
        yield found


@pytest.mark.deep
@pytest.mark.remedy("transaction-abort")
def test_one_that_hangs_is_told_from_one_that_goes_on_and_ended_by_the_command_that_is_told(small: Small) -> None:
    transactions, partitions = small.recovery.transactions, [small.changelog, small.input, small.output]
    with transaction(small.recovery) as producer:
        producer.produce(small.input.topic, b"v", b"k", small.input.partition)
        assert producer.flush(30) == 0
        name = hang(small.recovery.connection.bootstrap_servers, small.changelog, small.output)
        (hangs, goes_on) = sorted(transactions.blocking(partitions), key=lambda one: one.tp != small.changelog)
        assert (hangs.tp, hangs.transactional_id, hangs.hanging) == (small.changelog, name, True)
        assert (goes_on.tp, goes_on.state, goes_on.hanging) == (small.input, "Ongoing", False)
        assert str(hangs) == (
            f"{small.changelog}: producer {hangs.producer_id} ({name}) hangs from offset 4 on: its coordinator, in state CompleteCommit, does not have it "
            "open there"
        )
        remedy = transactions.remedy([small.changelog, small.input], [hangs, goes_on])
        assert remedy.text.startswith(
            "stop its producer, then abort it. The abort takes its records from this partition, and its coordinator has committed"
        )
        (told,) = remedy.commands
        assert told.endswith(f"abort --topic {small.changelog.topic} --partition 0 --start-offset 4")
        done(told)
        assert [one.tp for one in transactions.blocking(partitions)] == [small.input]
        producer.abort_transaction(30)


@pytest.mark.deep
def test_a_savepoint_does_not_wait_for_one_and_tells_what_ends_it(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first look is ten seconds later otherwise, and nothing else of the wait is shortened.
    monkeypatch.setattr(application_logs, "_SOON_SECONDS", 0.5)
    patient = configured_for(small, backup={"consistency": {"mode": "stop", "timeout_seconds": 600}})
    ticket = begun(patient)
    hang(small.recovery.connection.bootstrap_servers, small.changelog, small.output)
    looked_from = time.monotonic()
    with pytest.raises(OffsetsUnstable, match=rf"{small.changelog}: producer \d+ \(hangs-\w+\) hangs from offset 4 on") as caught:
        savepoint.capture(patient, ticket, savepoint.quiesce(patient, ticket))
    assert time.monotonic() - looked_from < 300
    savepoint.finish(patient, ticket)
    assert "Next: stop its producer, then abort it" in str(caught.value)
    (told,) = caught.value.commands
    done(told)
    assert cut(patient).consistency is Consistency.EXACT


@pytest.mark.deep
@pytest.mark.parametrize("which", ["changelog", "tail", "output"])
def test_nothing_begins_that_would_wait_for_one(small: Small, which: str) -> None:
    publish(small)
    tp: TopicPartition = getattr(small, which)
    other = next(one for one in (small.output, small.changelog) if one != tp)
    hang(small.recovery.connection.bootstrap_servers, tp, other)
    with pytest.raises(Refused, match=f"a transaction hangs on {tp} from offset 4 on") as before_backup:
        preflight.required_for_backup(small.recovery, QuiesceMode.STOP)
    with pytest.raises(Refused, match=f"a transaction hangs on {tp} from offset 4 on") as before_restore:
        restore.plan(small.recovery, asked(small.recovery, replace=True))
    abort, *_ = before_backup.value.commands
    assert before_restore.value.commands[0] == abort
    done(abort)
    preflight.required_for_backup(small.recovery, QuiesceMode.STOP)


@pytest.mark.deep
def test_the_monitor_finds_one_and_what_ends_it(small: Small) -> None:
    saved = surviving(replace(small, recovery=limited(small)))
    publish(saved)
    hang(saved.recovery.connection.bootstrap_servers, saved.input, saved.output)
    (finding,) = [one for one in looked(saved.recovery).findings if one.kind == "transaction-hanging"]
    assert finding.subject == str(saved.input)
    assert "Stop its producer, then abort it" in finding.text
    (told,) = finding.remedies
    done(told)
    assert "transaction-hanging" not in {one.kind for one in looked(saved.recovery).findings}


@pytest.mark.deep
@pytest.mark.remedy("transaction-abort")
@pytest.mark.parametrize("commit", [True, False])
def test_after_the_abort_the_savepoint_from_before_brings_the_state_back(small: Small, commit: bool) -> None:
    before, expected = published(small), state_of(small.recovery, small.changelog)
    hang(small.recovery.connection.bootstrap_servers, small.changelog, small.output, commit=commit)

    def hanging() -> tuple[OpenTransaction, ...] | None:
        # Until all markers are sent, its coordinator says that it is about to end it.
        found = small.recovery.transactions.blocking([small.changelog])
        return found if found and all(one.hanging for one in found) else None

    blocking = poll(hanging, seconds=30, interval=0.2)
    assert blocking is not None
    remedy = small.recovery.transactions.remedy([small.changelog], blocking)
    assert ("has committed" in remedy.text) is commit
    for told in remedy.commands:
        done(told)
    published(small)
    assert state_of(small.recovery, small.changelog) == expected, (
        "its record on this partition is gone, also where it was committed on the other one"
    )
    assert restored(small.recovery, before) > 0
    assert state_of(small.recovery, small.changelog) == expected


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.remedy("transaction-abort")
def test_after_the_abort_an_application_goes_on_from_the_savepoint_from_before_as_if_nothing_had_been(
    own_bootstrap: str, tmp_path: Path, in_session: Submitter
) -> None:
    """A real application of Kafka Streams. What hangs in its changelog is another producer's: its own cannot be made to."""
    fleet, elsewhere = Fleet(shapes=("tables", "suppressed"), threads=1), TopicPartition(f"elsewhere-{uuid.uuid4().hex[:8]}", 0)
    with shaped(own_bootstrap, tmp_path, fleet, in_session) as app:
        app.recovery.cluster.create_topic(elsewhere.topic, partitions=1, replication_factor=1, config={})
        app.start()
        app.feed({shape: part(shape, 1, ZERO) for shape in fleet.shapes})
        # They are replaced where they are, which a name alone does not allow.
        app.recovery = recovery = replace(app.recovery, config=configured(app.recovery, topics={"owned": app.internal()}))
        before = app.savepoint()
        app.feed({shape: part(shape, 2, ZERO) for shape in fleet.shapes})
        hang(own_bootstrap, TopicPartition(f"{recovery.application_id}-tables-inner-changelog", 0), elsewhere)
        with pytest.raises(Refused, match="a transaction hangs on") as caught:
            app.savepoint()
        assert "restore a savepoint from before it afterwards" in str(caught.value)
        recovery.application.stop(timeout=60)
        done(caught.value.commands[0])
        app.mark()
        assert app.restore(savepoint=before).verdict is Verdict.EQUAL
        app.feed({shape: part(shape, 3, ZERO, last=True) for shape in fleet.shapes})
        app.check()


@pytest.mark.deep
@pytest.mark.remedy("transaction-wait")
@pytest.mark.parametrize("closes", [True, False], ids=["its producer is closed", "its producer is dead"])
def test_one_that_is_only_open_is_waited_for_and_nobody_is_told_to_abort_it(small: Small, closes: bool) -> None:
    with opened(small, small.changelog, **{"transaction.timeout.ms": 60_000 if closes else 30_000}) as producer:
        with pytest.raises(OffsetsUnstable, match="Next: wait until its producer ends it") as caught:
            cut(small.recovery)
        assert "Do not abort it" in str(caught.value)
        (told,) = caught.value.commands
        assert "Ongoing" in done(told)
        (silent,) = [_why_nothing_comes(small.recovery.connection, wanted(small), 4, "", 1.0)]
        assert (type(silent), silent.commands) == (OffsetsUnstable, (told,))
        assert "abort the transaction" not in str(silent)
        if closes:
            producer.abort_transaction(30)
        patient = configured_for(small, backup={"consistency": {"mode": "stop", "timeout_seconds": 60}})
        assert cut(patient).consistency is Consistency.EXACT


@pytest.fixture
def rules(secured: Secured) -> Iterator[Rules]:
    rules = Rules(secured)
    yield rules
    rules.remove_all("spare")
    rules.close()


def admin_properties(directory: Path, secured: Secured, user: str) -> Path:
    """The file that a command of Kafka's tools names, for this user, in a directory of its own."""
    place = directory / user
    place.mkdir(exist_ok=True)
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{PASSWORDS[user]}";'
    lines = [
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={SCRAM}",
        f"sasl.jaas.config={login}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={secured.authority.certificate}",
    ]
    (place / ADMIN_PROPERTIES).write_text("\n".join(lines))
    return place


@pytest.mark.deep
@pytest.mark.remedy("transaction-find", "transaction-abort")
def test_on_a_secured_cluster_the_commands_need_the_rights_that_are_said(secured: Secured, rules: Rules, tmp_path: Path) -> None:
    administrator, spare = (admin_properties(tmp_path, secured, user) for user in (ADMIN, "spare"))
    with small_application(secured.extra(ADMIN), tmp_path) as small:
        name, connection = small.recovery.application_id, small.recovery.connection
        rules.apply(f"{ADD} --operation Read --topic {name}-totals-changelog")
        with opened(small, small.changelog) as producer:
            # Nobody is told whose it is who may not see that.
            (told,) = find(connection.tools, [small.changelog.topic]).commands
            at_once = told.replace("find-hanging", "find-hanging --max-transaction-timeout 0")
            assert small.changelog.topic in done(at_once, spare), (
                "an open one is taken for one that hangs by who may not see its transactional id"
            )
            assert small.changelog.topic not in done(at_once, administrator)
            producer.abort_transaction(30)
        hang(connection, small.changelog, small.output)
        assert small.changelog.topic in done(at_once, administrator)
        remedy = small.recovery.transactions.remedy([small.changelog], small.recovery.transactions.blocking([small.changelog]))
        (told,) = remedy.commands
        assert "this needs Read on the topic and Alter on the cluster" in remedy.text
        assert "cluster authorization error" in refused(told, spare)
        (alter,) = rules.apply(f"{ADD} --operation Alter --cluster")
        done(told, spare)
        assert small.recovery.transactions.blocking([small.changelog]) == ()
        assert alter.operation.name == "ALTER"


def refused(command: str, directory: Path) -> str:
    found = ran(command, directory)
    assert found.returncode != 0, found.stdout
    return found.stdout + found.stderr


ADD = "kafka-acls.sh --bootstrap-server x --command-config x --add --allow-principal User:spare"


@contextmanager
def opened(small: Small, tp: TopicPartition, **settings: object) -> Iterator[Producer]:
    """A producer in the middle of a transaction with a record on ``tp``."""
    producer = Producer({**small.recovery.connection.client_config(), "transactional.id": uuid.uuid4().hex, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(tp.topic, b"v", b"k", tp.partition)
    assert producer.flush(30) == 0
    yield producer


def wanted(small: Small) -> OffsetRange:
    return OffsetRange(tp=small.changelog, start=0, end=5)
