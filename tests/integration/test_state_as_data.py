"""Stores of a real application as tables, edited, and restored: the application answers what was written, and goes on from there."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.state.edit import default_partition, murmur2
from streams_recovery.operations import restore
from streams_recovery.operations import state as tables
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore import SafetyPolicy
from streams_recovery.serdes.rows import RowCodec
from tests.support.applications.restore_steps import loaded, reach
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import STOPPED, Small, asked, says
from tests.support.programs.java import STREAMS, command_of

T0 = 1_795_219_200_000
MINUTE = 60_000
KINDS = {"totals": "long", "counts": "integer", "halves": "double", "documents": "json", "minutes": "long", "sessions": "long"}
WINDOWED = {"minutes": "window", "sessions": "session"}
FIRST = [
    (key, str(number), T0 + number * 40_000) for number, key in enumerate(["alice", "bob", "carol", "alice", "erin", "bob", "frank", "gül"])
]
Row = dict[str, Any]


@dataclass(frozen=True)
class Running:
    """The application's context, and its input."""

    recovery: RecoveryContext
    input: str
    directory: Path
    bootstrap: str

    def feed(self, *records: tuple[str, str, int]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
        for key, value, at in records:
            producer.produce(self.input, value, key, timestamp=at)
        assert producer.flush(30) == 0

    def run(self, records: int) -> dict[str, list[list[str]]]:
        """The application, on empty local state, until it has processed so many records. What its stores answer, by store."""
        state = self.directory / f"state{uuid.uuid4().hex[:6]}"
        argv = [
            *command_of(STREAMS / "Stores.java"),
            self.bootstrap,
            self.recovery.application_id,
            self.input,
            str(state),
            str(records),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        self.recovery.groups.wait_empty(self.recovery.application_id, 60)
        lines = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("STATE\t")]
        return {store: sorted(line[1:] for line in lines if line[0] == store) for store in {line[0] for line in lines}}

    def rows(self, store: str, savepoint: str) -> list[Row]:
        side = tables.open_side(self.recovery, store, savepoint)
        codec = RowCodec(side.form)
        return [row for one in tables.tables(side) for row in codec.rows(one, deleted=False)]

    def edit(self, store: str, base: str, rows: list[Row]) -> tables.EditSummary:
        """By way of a file, as a person would."""
        side = tables.open_side(self.recovery, store, base)
        path = self.directory / f"{store}{uuid.uuid4().hex[:6]}.json"
        tables.write_table(rows, side.form, tables.FileFormat.JSON, path)
        request = tables.EditRequest(store=store, base=base, run_id=uuid.uuid4().hex, requested_by="somebody", reason="a wrong sum")
        return tables.write_state(self.recovery, request, tables.read_table(path, side.form))


@pytest.fixture
def running(bootstrap: str, tmp_path: Path) -> Iterator[Running]:
    with opened_bench(bootstrap, tmp_path) as recovery:
        found = Running(recovery, f"{recovery.application_id}.in", tmp_path, bootstrap)
        recovery.cluster.create_topic(found.input, partitions=3, replication_factor=1, config={"retention.ms": "-1"})
        yield found
        recovery.cluster.delete_topics([name for name in recovery.cluster.topic_names() if name.startswith(recovery.application_id)])


@contextmanager
def opened_bench(bootstrap: str, directory: Path) -> Iterator[RecoveryContext]:
    name = f"stores{uuid.uuid4().hex[:8]}"
    stores = {store: {"kind": WINDOWED.get(store, "key-value"), "key": "string", "value": value} for store, value in KINDS.items()}
    config = {
        "version": 1,
        "name": "stores",
        "application": {"id": name, "guarantee": "exactly_once_v2"},
        "topics": {"inputs": [f"{name}.in"]},
        "stores": stores,
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": False, "consistency": {"timeout_seconds": 10}},
        "runs": {
            "kind": "command",
            "command": {"status": says(STOPPED), "stop": says(STOPPED), "start": ["true"], "wipe": ["true"]},
        },
    }
    (directory / "stores.yaml").write_text(json.dumps(config))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    with open_context(load_named("stores", directory, {}), EnvironmentConnections(kafka)) as recovery:
        yield recovery


def as_said(store: str, row: Row) -> list[str]:
    """A row as the application prints it."""
    if store == "sessions":
        return [row["key"], str(row["window_start"]), str(row["window_end"]), str(row["value"])]
    window = [str(row["window_start"])] if store == "minutes" else []
    return [row["key"], *window, str(row["value"]), str(row["timestamp"])]


def restored(recovery: RecoveryContext, savepoint: str) -> None:
    """In place, up to the offsets; loaded here instead of in tasks, and compared below."""
    request = asked(recovery, savepoint=savepoint, replace=True, safety=SafetyPolicy.SKIP)
    planned = restore.plan(recovery, request)
    assert planned.consistency is Consistency.EDITED
    assert any("edited by somebody (a wrong sum)" in warning for warning in planned.warnings)
    ticket = restore.open_restore(recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
    restore.stop(recovery, ticket)
    restore.keep_state(recovery, ticket, restore.save_state(recovery, ticket))
    loaded(recovery, ticket)
    reach(recovery, ticket, Phase.VERIFIED)
    restore.set_offsets(recovery, ticket)
    reach(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)


@pytest.mark.way("edited state")
def test_a_running_application_answers_what_was_edited_and_goes_on_from_there(running: Running) -> None:
    running.feed(*FIRST)
    said = running.run(len(FIRST))
    for hexed, digest, partition in said.pop("hash"):
        key = bytes.fromhex(hexed)
        assert (murmur2(key), default_partition(key, 7)) == (int(digest) % 2**32, int(partition)), hexed

    recovery = running.recovery
    none = TopicPartition(running.input, 0)
    savepoint = take(Small(recovery, none, none, none, none)).savepoint_id
    found = {store: running.rows(store, savepoint) for store in KINDS}
    assert {store: sorted(as_said(store, row) for row in rows) for store, rows in found.items()} == said
    assert {store: running.rows(store, "live") for store in KINDS} == found

    totals = [row for row in found["totals"] if row["key"] != "bob"]
    changes = {
        "totals": [{**row, "value": 1000} if row["key"] == "alice" else row for row in totals]
        + [{"key": "dora", "value": 7, "timestamp": T0}],
        "counts": [{**row, "value": row["value"] + 10} for row in found["counts"]],
        "halves": [{**row, "value": -0.0} if row["key"] == "alice" else row for row in found["halves"]],
        "documents": [{**row, "value": '{"last": [99, "ü"]}'} if row["key"] == "erin" else row for row in found["documents"]],
        "minutes": [{**row, "value": 40} if row["key"] == "gül" else row for row in found["minutes"] if row["key"] != "carol"],
        "sessions": [*found["sessions"], {"key": "dora", "window_start": T0, "window_end": T0 + MINUTE, "value": 3}],
    }
    counts, base = {}, savepoint
    for store, rows in changes.items():
        done = running.edit(store, base, rows)
        assert done.savepoint_id is not None
        counts[store] = (done.kept, done.changed, done.added, done.removed)
        base = done.savepoint_id
    assert counts == {
        "totals": (4, 1, 1, 1),
        "counts": (0, 6, 0, 0),
        "halves": (5, 1, 0, 0),
        "documents": (5, 1, 0, 0),
        "minutes": (len(found["minutes"]) - 2, 1, 0, 1),
        "sessions": (len(found["sessions"]), 0, 1, 0),
    }
    newest = recovery.savepoints.latest()
    assert newest is not None
    assert newest.savepoint_id == savepoint, "an edited one is never the newest"
    compared = tables.compare(tables.open_side(recovery, "totals", savepoint), tables.open_side(recovery, "totals", base))
    assert sorted((row["change"], (row["after"] or row["before"])["key"]) for row in compared.rows) == [
        ("added", "dora"),
        ("changed", "alice"),
        ("removed", "bob"),
    ]
    assert (compared.counts.changed, compared.counts.added, compared.counts.removed) == (1, 1, 1)

    restored(recovery, base)
    for store in KINDS:
        assert tables.compare(tables.open_side(recovery, store, base), tables.open_side(recovery, store, "live")).counts.equal, store
    running.feed(("alice", "5", T0 + 10), ("dora", "3", T0 + 20), ("bob", "1", T0 + 30), ("gül", "9", T0 + 7 * 40_000 + 1))
    after = running.run(4)
    value = {line[0]: line[1] for line in after["totals"]}
    assert (value["alice"], value["dora"], value["bob"], value["carol"]) == ("1005", "10", "1", "2")
    assert {line[0]: line[1] for line in after["counts"]} == {
        "alice": "13", "bob": "13", "carol": "11", "dora": "1", "erin": "11", "frank": "11", "gül": "12"
    }  # fmt: skip
    assert {line[0]: line[1] for line in after["halves"]}["alice"] == "-0.0"
    assert {line[0]: line[1] for line in after["documents"]}["erin"] == '{"last": [99, "ü"]}'.replace(" ", "")
    assert [line[2] for line in after["minutes"] if line[0] == "gül"] == ["41"]
    assert [line for line in after["minutes"] if line[0] == "carol"] == []
    assert [line[1:] for line in after["sessions"] if line[0] == "dora"] == [[str(T0), str(T0 + MINUTE), "4"]]
