"""Makes the golden repositories in ``tests/data/golden``: a good one, one with a compacted savepoint, one with a merged one, one with a savepoint by
the names of transactions, and one with each kind of damage.

Run it only when the format changes (``python -m tests.support.repository.make_golden``), and read the difference: what is here was written by another
release as far as the tests are concerned.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

from streams_recovery.core import codec
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
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut, NamedProof
from streams_recovery.core.named_transactions.readings import Name
from streams_recovery.core.repository import range_table
from streams_recovery.core.repository.compaction_proof import CompactedFrom, Compaction, CompactionProof, MergedFrom, MergeProof
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import (
    ENCRYPTED_VERSION,
    FORMAT_VERSION,
    NAMES_VERSION,
    CopiedRange,
    CutProof,
    Gap,
    Manifest,
    PartitionImage,
    Provenance,
    TopicImage,
)
from streams_recovery.core.repository.ranges import RangeColumns, Ranges, TableRef
from streams_recovery.core.topic_settings import InForce, SettingSource
from streams_recovery.segments.files import write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, RowDigest, header_array
from streams_recovery.storage.objects import packed
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.project import GOLDEN
from tests.support.repository.golden import COMPACTED, FIRST, MERGED, NAMED, SECOND, T0

APPLICATION = "golden"
IN_FORCE = {
    "cleanup.policy": InForce(value="compact", source=SettingSource.TOPIC),
    "max.message.bytes": InForce(value="1048588", source=SettingSource.DEFAULT),
    "min.insync.replicas": InForce(value="2", source=SettingSource.DYNAMIC_BROKER),
    "retention.ms": InForce(value="-1", source=SettingSource.STATIC_BROKER),
}
LAYOUT = Layout(APPLICATION)
CHANGELOG, REPARTITION, INPUT = "golden-totals-changelog", "golden-by-region-repartition", "orders"


def segment(root: Path, tp: TopicPartition, start: int, end: int, offsets: list[int]) -> CopiedRange:
    """A segment with a row at each of these offsets, of every shape a record can have."""
    if not offsets:
        return CopiedRange(start=start, end=end, file=None)
    values = [None if offset % 5 == 0 else b"" if offset % 7 == 0 else b'{"count":%d}' % offset for offset in offsets]
    headers: list[Any] = [None if offset % 3 else [("trace", b"%d" % offset), ("trace", None)] for offset in offsets]
    batch = pa.record_batch(
        [
            pa.array(offsets, pa.int64()),
            # Event time: not in the order of offsets.
            pa.array([T0 + (offset * 7919) % 1000 for offset in offsets], pa.int64()),
            pa.array([0] * len(offsets), SEGMENT_SCHEMA.field("timestamp_type").type),
            pa.array([None if offset % 11 == 0 else b"c-%d" % (offset % 4) for offset in offsets], pa.binary()),
            pa.array(values, pa.binary()),
            header_array(headers),
        ],
        schema=SEGMENT_SCHEMA,
    )
    key = LAYOUT.segment(tp, start, end, "golden")
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    written = write_segment([batch], root / key, compression_level=3)
    assert written is not None
    return CopiedRange(start=start, end=end, file=written.stored_as(key))


def image(number: int, end: int, ranges: Sequence[CopiedRange], *, commit: int | None = None, gaps: tuple[Gap, ...] = ()) -> PartitionImage:
    committed = None if commit is None else CommittedOffset(offset=commit, metadata="AgAAAZ0", leader_epoch=0)
    return PartitionImage(
        partition=number, log_start=0, last_stable=end, end=end, leader_epoch=0, committed=committed, ranges=Ranges.of(ranges), gaps=gaps
    )


def topic(name: str, role: TopicRole, partitions: tuple[PartitionImage, ...], *, archived: bool = True) -> TopicImage:
    return TopicImage(
        name=name,
        role=role,
        topic_id=f"{name}-id",
        replication_factor=1,
        config={"cleanup.policy": "compact" if role is TopicRole.CHANGELOG else "delete"},
        in_force=IN_FORCE
        | {"cleanup.policy": InForce(value="compact" if role is TopicRole.CHANGELOG else "delete", source=SettingSource.TOPIC)},
        store=StoreKind.KEY_VALUE if role is TopicRole.CHANGELOG else None,
        archived=archived,
        full_since=T0,
        evidence=Evidence.STORE if role.internal else None,
        partitions=partitions,
    )


def manifest(savepoint_id: str, hour: int, parent: str | None, topics: tuple[TopicImage, ...]) -> Manifest:
    proof = CutProof(
        mode=QuiesceMode.PAUSE,
        committed_unchanged=True,
        stable_reached=True,
        still_between_reads=True,
        held_seconds=0.45,
        attempts=1,
        reasons=(),
    )
    return Manifest(
        format_version=FORMAT_VERSION,
        savepoint_id=savepoint_id,
        application_id=APPLICATION,
        cluster_id="golden-cluster",
        captured_at=T0 + hour * 3_600_000,
        consistency=Consistency.EXACT,
        proof=proof,
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        group_type="classic",
        parent_id=parent,
        topics=topics,
        claimed=(),
        provenance=Provenance(run_id=f"run-{hour}", requested_by="golden", reason="", software={"streams-recovery": "0.1.0"}),
    )


def store_in(root: Path) -> SavepointStore:
    return SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(root))), LAYOUT)


def publish(root: Path, value: Manifest) -> Manifest:
    """What was published, as it is read again. There is neither a record nor a detail of it: what the tests publish has them."""
    store_in(root).publish(value)
    for beside in (LAYOUT.published(value.savepoint_id), LAYOUT.detail(value.savepoint_id)):
        (root / beside).unlink()
        (root / beside).parent.rmdir()
    return store_in(root).read(value.savepoint_id)


def write_manifest(root: Path, savepoint_id: str, plain: bytes) -> None:
    path = root / LAYOUT.manifest(savepoint_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.ZstdCompressor(level=9, write_checksum=True).compress(plain))


def good(root: Path) -> Manifest:
    """Two savepoints; the second, which is returned, shares the first one's files. Compacted offsets, markers, a gap, an unread tail, an
    unarchived input.
    """
    first = segment(root, TopicPartition(CHANGELOG, 0), 0, 40, [o for o in range(40) if o % 4 != 1])
    second = segment(root, TopicPartition(CHANGELOG, 0), 40, 55, list(range(41, 54)))
    other = segment(root, TopicPartition(CHANGELOG, 1), 3, 9, [3, 8])
    tail = segment(root, TopicPartition(REPARTITION, 0), 17, 21, [17, 18, 20])
    inputs = topic(INPUT, TopicRole.INPUT, (image(0, 80, (), commit=62), image(1, 75, (), commit=75)), archived=False)
    gap = (Gap(start=0, end=3, reason="deleted by retention before it was copied"),)
    quiet = topic(REPARTITION, TopicRole.REPARTITION, (image(0, 21, (), commit=21),))
    changelog = topic(CHANGELOG, TopicRole.CHANGELOG, (image(0, 40, (first,)), image(1, 9, (other,), gaps=gap)))
    before = publish(root, manifest(FIRST, 0, None, (changelog, quiet, inputs))).topics[0].partitions
    grown = topic(
        CHANGELOG, TopicRole.CHANGELOG, (image(0, 55, before[0].ranges.with_behind((second,))), image(1, 9, before[1].ranges, gaps=gap))
    )
    unread = topic(REPARTITION, TopicRole.REPARTITION, (image(0, 21, (tail,), commit=17),))
    return publish(root, manifest(SECOND, 1, FIRST, (grown, unread, inputs)))


def compacted(root: Path) -> None:
    """The good one, and a third savepoint of the second one's cut: of one changelog partition only the newest row of each existing key is left. The
    partition with a gap stays as it was.
    """
    source = good(root)
    changelog, unread, inputs = source.topics
    whole, gapped = changelog.partitions
    rows = pa.concat_tables(pq.read_table(root / file.key) for file in whole.files())
    newest = {row["key"]: row for row in rows.to_pylist() if row["key"] is not None}
    offsets = sorted(row["offset"] for row in newest.values() if row["value"] is not None)
    piece = replace(segment(root, TopicPartition(CHANGELOG, 0), 0, offsets[-1] + 1, offsets), compacted=Compaction.LATEST_PER_KEY)
    rest = CopiedRange(start=piece.end, end=whole.end, file=None, compacted=Compaction.LATEST_PER_KEY)
    digest = RowDigest()
    for row in sorted((row for row in newest.values() if row["value"] is not None), key=lambda row: row["key"]):
        digest.update(rows.filter(pc.equal(rows["offset"], row["offset"])).combine_chunks().to_batches()[0])
    proof = CompactionProof(
        tp=TopicPartition(CHANGELOG, 0),
        rows_before=whole.rows,
        rows_after=len(offsets),
        keys=len(newest),
        state_before=len(offsets),
        state_after=len(offsets),
        digest_before=digest.hexdigest(),
        digest_after=digest.hexdigest(),
    )
    partitions = (replace(whole, ranges=Ranges.of((piece, rest))), gapped)
    smaller = replace(changelog, full_since=source.captured_at, partitions=partitions)
    provenance = replace(source.provenance, run_id="run-compacted", compacted_from=CompactedFrom(savepoint_id=SECOND, proofs=(proof,)))
    publish(root, replace(source, savepoint_id=COMPACTED, parent_id=SECOND, topics=(smaller, unread, inputs), provenance=provenance))


def merged(root: Path) -> None:
    """The good one, and a third savepoint of the second one's cut and records: of one changelog partition the two files are one."""
    source = good(root)
    changelog, unread, inputs = source.topics
    whole, gapped = changelog.partitions
    rows = pa.concat_tables(pq.read_table(root / file.key) for file in whole.files()).combine_chunks()
    key = LAYOUT.segment(TopicPartition(CHANGELOG, 0), 0, whole.end, "golden")
    written = write_segment(rows.to_batches(), root / key, compression_level=3)
    assert written is not None
    piece = CopiedRange(start=0, end=whole.end, file=written.stored_as(key))
    digest = RowDigest(placed=True)
    for batch in rows.to_batches():
        digest.update(batch)
    proof = MergeProof(
        tp=TopicPartition(CHANGELOG, 0),
        start=0,
        end=whole.end,
        files=2,
        rows_before=whole.rows,
        rows_after=written.rows,
        digest_before=digest.hexdigest(),
        digest_after=digest.hexdigest(),
    )
    fewer = replace(changelog, partitions=(replace(whole, ranges=whole.ranges.merged((piece,))), gapped))
    provenance = replace(
        source.provenance,
        run_id="run-merged",
        merged_from=MergedFrom(savepoint_id=SECOND, requested_by="golden", reason="small files", proofs=(proof,)),
    )
    publish(root, replace(source, savepoint_id=MERGED, parent_id=SECOND, topics=(fewer, unread, inputs), provenance=provenance))


def named(root: Path) -> None:
    """The good one, and a third savepoint an hour later, which was read while the application worked: of the unread records two are left out by name."""
    source = good(root)
    changelog, unread, inputs = source.topics
    tail = segment(root, TopicPartition(REPARTITION, 0), 18, 25, [18, 20, 24])
    out = Excluded(producer_id=7, epoch=12, first=22, last=23, records=2, aborted=False)
    gone = Excluded(producer_id=8, epoch=3, first=51, last=52, records=2, aborted=True)
    names = NamedProof(
        group=TopicPartition("__consumer_offsets", 11),
        group_end=5_000,
        last=(Name(7, 11), Name(8, 4)),
        taken_back=(Name(7, 12),),
        logs={
            TopicPartition(CHANGELOG, 0): NamedLogCut(start=50, end=55, records=1, excluded=(gone,)),
            TopicPartition(CHANGELOG, 1): NamedLogCut(start=9, end=9, records=0, excluded=()),
            TopicPartition(REPARTITION, 0): NamedLogCut(start=20, end=25, records=2, excluded=(out,)),
        },
    )
    topics = (changelog, replace(unread, partitions=(image(0, 25, (tail,), commit=18),)), inputs)
    made = manifest(NAMED, 2, SECOND, topics)
    proof = replace(made.proof, mode=QuiesceMode.LIVE, committed_unchanged=False, still_between_reads=False, held_seconds=0.0, names=names)
    publish(root, replace(made, format_version=NAMES_VERSION, proof=proof))


def newest_file(root: Path) -> Path:
    """The segment that only the second savepoint needs."""
    return next((root / APPLICATION / "segments" / CHANGELOG / "0").glob("*40-*.parquet"))


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Damage done to the second manifest's JSON."""

    def apply(root: Path) -> None:
        path = root / LAYOUT.manifest(SECOND)
        plain = json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes()))
        change(plain)
        write_manifest(root, SECOND, json.dumps(plain).encode())

    return apply


def forged(change: Callable[[RangeColumns], RangeColumns | None]) -> Callable[[Path], None]:
    """The second savepoint with other ranges of the first changelog partition, and everything that binds them made to fit."""

    def apply(root: Path) -> None:
        topic = store_in(root).read(SECOND).topics[0]
        columns = {
            one.partition: RangeColumns.of(APPLICATION, TopicPartition(CHANGELOG, one.partition), one.ranges) for one in topic.partitions
        }
        columns[0] = change(columns[0]) or columns[0]
        data = packed(range_table.encode(APPLICATION, CHANGELOG, columns))
        ref = TableRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), ranges=sum(map(len, columns.values())))
        (root / LAYOUT.range_table(CHANGELOG, ref.sha256)).write_bytes(data)

        def named(plain: dict[str, Any]) -> None:
            plain["topics"][0]["tables"] = [codec.encode(ref)]
            for one in plain["topics"][0]["partitions"]:
                one["ranges"] = codec.encode(columns[one["partition"]].facts(1))

        edited(named)(root)

    return apply


def _overlap(ranges: RangeColumns) -> None:
    ranges.numbers["start"][1] = 39


def _hole(ranges: RangeColumns) -> RangeColumns:
    return RangeColumns.of(APPLICATION, TopicPartition(CHANGELOG, 0), ranges[1:])


def _rows(ranges: RangeColumns) -> None:
    ranges.numbers["rows"][1] -= 1


def _escape(ranges: RangeColumns) -> None:
    ranges.attempts[1] = "../../etc/passwd"


def newest_table(root: Path) -> Path:
    """The table that only the second savepoint needs."""
    return root / LAYOUT.range_table(CHANGELOG, store_in(root).outline(SECOND).topics[0].tables[-1].sha256)


def _alter_table(root: Path) -> None:
    path = newest_table(root)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def _future(plain: dict[str, Any]) -> None:
    plain["format_version"] = ENCRYPTED_VERSION + 1


def _flip(root: Path) -> None:
    path = newest_file(root)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def _truncate(root: Path) -> None:
    path = newest_file(root)
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "missing-segment": lambda root: newest_file(root).unlink(),
    "truncated-segment": _truncate,
    "flipped-bit": _flip,
    "wrong-row-count": forged(_rows),
    "overlapping-ranges": forged(_overlap),
    "missing-range": forged(_hole),
    "path-escape": forged(_escape),
    "future-format": edited(_future),
    "missing-table": lambda root: newest_table(root).unlink(),
    "altered-table": _alter_table,
    "no-manifest": lambda root: [(root / LAYOUT.manifest(found)).unlink() for found in (FIRST, SECOND)] and None,
    "torn-manifest": lambda root: (
        (root / LAYOUT.manifest(SECOND)).write_bytes((root / LAYOUT.manifest(SECOND)).read_bytes()[:-40]) and None
    ),
    "manifest-that-is-no-json": lambda root: write_manifest(root, SECOND, b"not json"),
}


def main() -> None:
    """Make all of them anew."""
    for name in ("good", "compacted", "merged", "named", *DAMAGES):
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
    good(GOLDEN / "good")
    compacted(GOLDEN / "compacted")
    merged(GOLDEN / "merged")
    named(GOLDEN / "named")
    for name, damage in DAMAGES.items():
        shutil.copytree(GOLDEN / "good", GOLDEN / name)
        damage(GOLDEN / name)


if __name__ == "__main__":
    main()
