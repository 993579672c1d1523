"""Offsets and their metadata come back as they were, and why that matters: with anything else a real application counts or says things twice."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore import SafetyPolicy
from tests.support.applications.restore_steps import loaded, reach
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import STOPPED, Small, asked, says
from tests.support.programs.java import STREAMS, command_of

pytestmark = pytest.mark.deep

PROGRAM = STREAMS / "ClosedWindows.java"
T0, MINUTE = 1_795_219_200_000, 60_000
BEFORE = [(key, T0 + minute * MINUTE + second * 1000) for minute in range(4) for second in range(3) for key in ("alice", "bob")]
AFTER = [("alice", T0 + 4 * MINUTE), ("bob", T0 + 4 * MINUTE), ("alice", T0 + 5 * MINUTE)]
Closed = Counter[tuple[str, int, int]]
Spoil = Callable[[CommittedOffset], CommittedOffset]


@dataclass(frozen=True)
class Counting:
    """An application that says a minute's count once, when the minute is over."""

    recovery: RecoveryContext
    input: TopicPartition
    directory: Path

    def feed(self, records: list[tuple[str, int]]) -> None:
        producer = Producer({"bootstrap.servers": self.recovery.connection.bootstrap_servers, "log_level": 0})
        for key, at in records:
            producer.produce(self.input.topic, b"1", key, timestamp=at)
        assert producer.flush(30) == 0

    def run(self, records: int) -> Closed:
        """On empty local state, until it has processed so many records. What it said: key, minute, count."""
        state = str(self.directory / f"state{uuid.uuid4().hex[:6]}")
        argv = [*command_of(PROGRAM), self.recovery.connection.bootstrap_servers]
        argv += [self.recovery.application_id, self.input.topic, state, str(records)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        self.recovery.groups.wait_empty(self.recovery.application_id, 60)
        said = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("CLOSED\t")]
        return Counter((key, (int(start) - T0) // MINUTE, int(count)) for key, start, count in said)


@pytest.fixture
def counting(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    name = f"closed{uuid.uuid4().hex[:8]}"
    config = {
        "version": 1,
        "name": "closed",
        "application": {"id": name, "guarantee": "exactly_once_v2"},
        "topics": {"inputs": [f"{name}.in"]},
        "stores": {"minutes": {"kind": "window"}},
        "storage": {"backend": "filesystem", "path": str(tmp_path / "repository")},
        "backup": {"survive_cluster_loss": False, "consistency": {"timeout_seconds": 10}},
        "runs": {
            "kind": "command",
            "command": {"status": says(STOPPED), "stop": says(STOPPED), "start": ["true"], "wipe": ["true"]},
        },
    }
    (tmp_path / "closed.yaml").write_text(json.dumps(config))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    with open_context(load_named("closed", tmp_path, {}), EnvironmentConnections(kafka)) as recovery:
        found = Counting(recovery, TopicPartition(f"{name}.in", 0), tmp_path)
        recovery.cluster.create_topic(found.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
        yield found
        recovery.cluster.delete_topics([topic for topic in recovery.cluster.topic_names() if topic.startswith(name)])


def restored(recovery: RecoveryContext) -> None:
    """In place, with its offsets; loaded here as the tasks of the job would."""
    request = asked(recovery, replace=True, safety=SafetyPolicy.SKIP)
    planned = restore.plan(recovery, request)
    ticket = restore.open_restore(recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(recovery, ticket)
    restore.keep_state(recovery, ticket, restore.save_state(recovery, ticket))
    loaded(recovery, ticket)
    reach(recovery, ticket, Phase.VERIFIED)
    restore.set_offsets(recovery, ticket)
    reach(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)


@pytest.mark.fault("F46", "F47")
def test_what_was_said_is_not_said_again_unless_offsets_or_metadata_are_wrong(counting: Counting) -> None:
    recovery = counting.recovery
    counting.feed(BEFORE)
    assert counting.run(len(BEFORE)) == Counter((key, minute, 3) for key in ("alice", "bob") for minute in range(3))
    none = TopicPartition(counting.input.topic, 0)
    take(Small(recovery, none, none, none, none))
    counting.feed(AFTER)
    closing = Counter({("alice", 3, 3): 1, ("bob", 3, 3): 1, ("alice", 4, 1): 1, ("bob", 4, 1): 1})

    def after(spoil: Spoil, records: int) -> Closed:
        restored(recovery)
        [found] = recovery.groups.committed(recovery.application_id, [counting.input]).values()
        assert found is not None
        assert (found.offset, bool(found.metadata)) == (len(BEFORE), True)
        recovery.groups.set_offsets(recovery.application_id, {counting.input: spoil(found)})
        return counting.run(records)

    assert after(lambda found: found, len(AFTER)) == closing
    # Each of these is what a tool does that knows offsets only, or knows them nearly: the application goes on, and is wrong.
    again = after(lambda found: replace(found, metadata=""), len(AFTER))
    assert again - closing == Counter((key, minute, 3) for key in ("alice", "bob") for minute in range(3)), (
        "every closed minute is said again"
    )
    low = after(lambda found: replace(found, offset=found.offset - 1), len(AFTER) + 1)
    assert low[("bob", 3, 4)] == 1, "its last record is counted twice"
    high = after(lambda found: replace(found, offset=found.offset + 1), len(AFTER) - 1)
    assert ("alice", 4, 1) not in high, "a record is missing"
