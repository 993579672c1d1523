"""Savepoints of stores of every kind, written without a broker, and the configuration of the application they belong to."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from streams_recovery.core.kafka_types import (
    CommittedOffset,
    Consistency,
    Evidence,
    Guarantee,
    QuiesceMode,
    StoreKind,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import CopiedRange, CutProof, Gap, Manifest, PartitionImage, Provenance, TopicImage
from streams_recovery.core.state.edit import default_partition
from streams_recovery.operations import state
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.segments.files import write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from streams_recovery.serdes.rows import RowCodec
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

APPLICATION = "shop"
FIRST, SECOND, MINIMAL, AHEAD = (f"20261121T0{hour}0000Z-000000000{hour}" for hour in range(4))
T0 = 1_795_219_200_000
PARTITIONS = 3
ACCOUNT = {
    "type": "record",
    "name": "Account",
    "fields": [
        {"name": "owner", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
STORES: dict[str, dict[str, object]] = {
    "totals": {"kind": "key-value", "key": "string", "value": "json"},
    "numbers": {"kind": "key-value", "key": "long", "value": "double"},
    "accounts": {"kind": "key-value", "key": "string", "value": "avro", "value_schema": "account.avsc", "wire_format": "confluent"},
    "raw": {"kind": "key-value"},
    "empty": {"kind": "key-value", "key": "string", "value": "string"},
    "minutes": {"kind": "window", "key": "string", "value": "long"},
    "sessions": {"kind": "session", "key": "string", "value": "long"},
    "versions": {"kind": "versioned", "key": "string", "value": "string"},
    "held-back": {"kind": "suppress"},
    "odd": {"kind": "key-value", "key": "string", "value": "string"},
    "holey": {"kind": "key-value", "key": "string", "value": "string"},
    "a-subscription-store": {"kind": "key-value", "key": "string", "value": "string"},
}
_CONFIGS = {
    StoreKind.WINDOW: {"cleanup.policy": "compact,delete"},
    StoreKind.SESSION: {"cleanup.policy": "compact,delete"},
    StoreKind.VERSIONED: {"cleanup.policy": "compact", "min.compaction.lag.ms": "90000000"},
}
Record = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]] | None]


def account(owner: str, cents: int, note: str | None = None, *, schema_id: int = 7) -> bytes:
    """Avro as a registry's serialiser writes it."""
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(dict(ACCOUNT)), {"owner": owner, "cents": cents, "note": note})
    return b"\0" + schema_id.to_bytes(4, "big") + target.getvalue()


def window(key: str, minute: int, seq: int = 0) -> bytes:
    return key.encode() + struct.pack(">qi", T0 + minute * 60_000, seq)


def session(key: str, start: int, end: int) -> bytes:
    return key.encode() + struct.pack(">qq", T0 + end, T0 + start)


def number(value: int) -> bytes:
    return struct.pack(">q", value)


def _records(*, later: bool) -> dict[str, list[Record]]:
    """What each store has logged, in order. ``later`` is an hour later."""
    names = ["alice", "bob", "carol", "dora", "erin", "gül"]
    totals: list[Record] = [(name.encode(), b'{"count":%d, "sum": 1.50}' % at, T0 + at, None) for at, name in enumerate(names)]
    totals += [(b"bob", None, T0 + 50, None), (b"alice", b'{"count":100}', T0 + 60, [("trace", b"x"), ("trace", None)])]
    changes: list[Record] = [(b"carol", b'{"count":7}', T0 + 70, None), (b"dora", None, T0 + 71, None), (b"zoe", b"null", T0 + 72, None)]
    return {
        "totals": totals + (changes if later else []),
        "numbers": [
            (number(at), struct.pack(">d", value), T0 + at, None) for at, value in enumerate([1.5, float("nan"), float("-inf"), -0.0])
        ],
        "accounts": [(name.encode(), account(name, at, None if at % 2 else "née"), T0 + at, None) for at, name in enumerate(names)],
        "raw": [(b"\xff\x00", b"", T0, None), (b"", b"\x00", T0 + 1, None)],
        "empty": [],
        "minutes": [
            *((window(name, at), number(at), T0 + at * 60_000 + 5, None) for at, name in enumerate(names)),
            (window("alice", 9), number(1), T0 + 900_000, None),
            (window("alice", 9), None, T0 + 540_000, None),
        ],
        "sessions": [
            (session("alice", 0, 10), number(2), T0 + 10, None),
            (session("alice", 0, 10), None, T0 + 20, None),
            (session("alice", 0, 20), number(3), T0 + 20, None),
            (session("bob", 5, 5), number(1), T0 + 5, None),
        ],
        "versions": [
            (b"alice", b"first", T0, None),
            (b"alice", b"third", T0 + 200, None),
            (b"alice", b"second", T0 + 100, None),
            (b"bob", b"only", T0, None),
            (b"bob", None, T0 + 50, None),
        ],
        "held-back": [(b"k", b"buffered", T0, [("v", b"\x03")])],
        "odd": [(name.encode(), b"v", T0, None) for name in names],
        "holey": [(b"a", b"v", T0, None)],
        "a-subscription-store": [(b"a", b"v", T0, None)],
    }


def fill(directory: Path) -> Path:
    """Write two savepoints, a minimal one and one that is ahead to ``directory``/repository, and the configuration; returns the repository."""
    (directory / "account.avsc").write_text(json.dumps(ACCOUNT))
    config = {
        "version": 1,
        "name": "shop",
        "application": {"id": APPLICATION, "guarantee": "exactly_once_v2"},
        "topics": {"inputs": ["orders"]},
        "stores": STORES,
        "storage": {"backend": "filesystem", "path": "repository"},
        "backup": {"survive_cluster_loss": False},
        "runs": {"kind": "command", "command": {verb: ["true"] for verb in ("status", "stop", "start", "wipe")}},
    }
    (directory / "shop.yaml").write_text(json.dumps(config))
    place = directory / "repository"
    repository = Repository(StorageLocation(backend="filesystem", path=str(place)))
    store = SavepointStore(repository, Layout(APPLICATION))
    for savepoint_id, hour in ((FIRST, 0), (SECOND, 1)):
        topics = [_topic(repository, directory, name, rows, hour) for name, rows in _records(later=bool(hour)).items()]
        store.publish(_manifest(savepoint_id, hour, [*topics, _input()], Consistency.EXACT))
    bare = [_changelog("totals", [_image(number, ()) for number in range(PARTITIONS)], archived=False)]
    store.publish(_manifest(MINIMAL, 2, [*bare, _input()], Consistency.EXACT))
    store.publish(
        _manifest(AHEAD, 3, [_topic(repository, directory, "totals", _records(later=True)["totals"], 3), _input()], Consistency.AHEAD)
    )
    return place


def _topic(repository: Repository, directory: Path, store: str, records: Sequence[Record], hour: int) -> TopicImage:
    kind = StoreKind(str(STORES[store]["kind"]))
    behind = {StoreKind.WINDOW: 12, StoreKind.SESSION: 16}.get(kind, 0)
    logs: dict[int, list[Record]] = {number: [] for number in range(PARTITIONS)}
    for record in records:
        placed = default_partition(record[0][: len(record[0]) - behind], PARTITIONS)
        # An application with a partitioner of its own.
        logs[(placed + 1) % PARTITIONS if store == "odd" else placed].append(record)
    images = []
    for partition, rows in logs.items():
        tp = TopicPartition(f"{APPLICATION}-{store}-changelog", partition)
        gaps = (Gap(start=0, end=10, reason="gone"),) if store == "holey" else ()
        images.append(_image(partition, _ranges(repository, directory, tp, rows, hour), gaps))
    return _changelog(store, images)


def _ranges(repository: Repository, directory: Path, tp: TopicPartition, rows: Sequence[Record], hour: int) -> tuple[CopiedRange, ...]:
    """A log that begins at 10 and has a marker after each row, in two files."""
    ranges, half = [], (len(rows) + 1) // 2
    for first, some in ((0, rows[:half]), (half, rows[half:])):
        if some:
            columns = [
                pa.array([10 + 2 * (first + at) for at in range(len(some))], pa.int64()),
                pa.array([row[2] for row in some], pa.int64()),
                pa.array([0] * len(some), pa.int8()),
                pa.array([row[0] for row in some], pa.binary()),
                pa.array([row[1] for row in some], pa.binary()),
                header_array([row[3] for row in some]),
            ]
            path = directory / "segment.parquet"
            written = write_segment([pa.record_batch(columns, schema=SEGMENT_SCHEMA)], path, compression_level=3)
            assert written is not None
            start, end = 10 + 2 * first, 10 + 2 * (first + len(some))
            key = Layout(APPLICATION).segment(tp, start, end, f"hour{hour}")
            repository.put_file(key, path)
            path.unlink()
            ranges.append(CopiedRange(start=start, end=end, file=written.stored_as(key)))
    return tuple(ranges)


def _image(partition: int, ranges: tuple[CopiedRange, ...], gaps: tuple[Gap, ...] = ()) -> PartitionImage:
    end = ranges[-1].end if ranges else 10
    start = 0 if gaps else 10
    return PartitionImage(
        partition=partition, log_start=start, last_stable=end, end=end, leader_epoch=0, committed=None, ranges=ranges, gaps=gaps
    )


def _changelog(store: str, images: Sequence[PartitionImage], *, archived: bool = True) -> TopicImage:
    kind = StoreKind(str(STORES[store]["kind"]))
    return TopicImage(
        name=f"{APPLICATION}-{store}-changelog",
        role=TopicRole.CHANGELOG,
        topic_id=f"{store}-id",
        replication_factor=1,
        config=_CONFIGS.get(kind, {"cleanup.policy": "compact"}),
        in_force={},
        store=kind,
        archived=archived,
        full_since=T0,
        evidence=Evidence.STORE,
        partitions=tuple(images),
    )


def _input() -> TopicImage:
    committed = CommittedOffset(offset=5, metadata="AgAA", leader_epoch=0)
    image = PartitionImage(partition=0, log_start=0, last_stable=9, end=9, leader_epoch=0, committed=committed, ranges=(), gaps=())
    return TopicImage(
        name="orders",
        role=TopicRole.INPUT,
        topic_id="orders-id",
        replication_factor=1,
        config={},
        in_force={},
        store=None,
        archived=False,
        full_since=T0,
        partitions=(image,),
    )


def _manifest(savepoint_id: str, hour: int, topics: Sequence[TopicImage], consistency: Consistency) -> Manifest:
    proof = CutProof(
        mode=QuiesceMode.STOP,
        committed_unchanged=True,
        stable_reached=True,
        still_between_reads=True,
        held_seconds=0.1,
        attempts=1,
        reasons=() if consistency is Consistency.EXACT else ("the offsets moved",),
    )
    return Manifest(
        format_version=8,
        savepoint_id=savepoint_id,
        application_id=APPLICATION,
        cluster_id="c",
        captured_at=T0 + hour * 3_600_000,
        consistency=consistency,
        proof=proof,
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        group_type="classic",
        parent_id=None,
        topics=tuple(topics),
        claimed=(),
        provenance=Provenance(run_id=f"run-{hour}", requested_by="test", reason="", software={}),
    )


def environment() -> Mapping[str, str]:
    """Connections of the application. No broker is ever asked."""
    return {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }


def by_key(rows: Sequence[dict[str, Any]]) -> dict[Any, Any]:
    """Values of rows by their keys."""
    return {row["key"]: row.get("value") for row in rows}


Row = dict[str, Any]


def rows_of(recovery: RecoveryContext, store: str, savepoint: str = SECOND, *, deleted: bool = False) -> list[Row]:
    """A store's rows as its table shows them."""
    side = state.open_side(recovery, store, savepoint)
    codec = RowCodec(side.form)
    return [row for one in state.tables(side) for row in codec.rows(one, deleted=deleted)]
