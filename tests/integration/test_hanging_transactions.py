"""Transactions that nobody ends, on a real broker: they are told from those that go on, nobody waits for them, and what ends them is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicPartition
from streams_recovery.core.words import ABORT_IT
from streams_recovery.kafka import application_logs
from streams_recovery.operations import preflight, restore, savepoint
from tests.support.applications.monitored import limited, looked
from tests.support.applications.savepoint_steps import begun, cut, publish
from tests.support.applications.small import Small, asked, configured_for, small_application, surviving
from tests.support.applications.topic_records import transaction
from tests.support.kafka.hanging_transactions import hang, run_kafka_transactions

pytestmark = [pytest.mark.kafka, pytest.mark.fault("F26")]


@pytest.fixture
def small(own_bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    with small_application(own_bootstrap, tmp_path) as found:
        yield found


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
        told = transactions.abort_command(hangs)
        assert told.endswith(f"abort --topic {small.changelog.topic} --partition 0 --start-offset 4")
        run_kafka_transactions(told)
        assert [one.tp for one in transactions.blocking(partitions)] == [small.input]
        producer.abort_transaction(30)


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
    assert ABORT_IT in str(caught.value)
    run_kafka_transactions(*caught.value.commands)
    assert cut(patient).consistency is Consistency.EXACT


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
    run_kafka_transactions(abort)
    preflight.required_for_backup(small.recovery, QuiesceMode.STOP)


def test_the_monitor_finds_one_and_what_ends_it(small: Small) -> None:
    saved = surviving(replace(small, recovery=limited(small)))
    publish(saved)
    hang(saved.recovery.connection.bootstrap_servers, saved.input, saved.output)
    (finding,) = [one for one in looked(saved.recovery).findings if one.kind == "transaction-hanging"]
    assert finding.subject == str(saved.input)
    run_kafka_transactions(*finding.remedies)
    assert "transaction-hanging" not in {one.kind for one in looked(saved.recovery).findings}
