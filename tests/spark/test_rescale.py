"""Records of every form of key, placed anew by Spark, against what goes through them one by one."""

from __future__ import annotations

import base64
import random
import struct
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms import rescale as job
from spark_jobs.transforms import rescale_rows
from spark_jobs.transforms.one_process import OneProcess
from spark_jobs.transforms.task_runner import TaskFailed
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import KeyForm, StoreKind, TopicPartition
from streams_recovery.core.repository.encryption import KeyAccess, KeyPlace, named_key
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.rescale import moved
from streams_recovery.core.rescale.moved import PartitionToPlace, RescaleSpec, TopicToPlace
from streams_recovery.core.rescale.placement import PARTITIONERS, RescaledTopic
from streams_recovery.core.rescale.values import PrimarySide
from streams_recovery.core.state.edit import default_partition
from streams_recovery.segments import files
from streams_recovery.segments.files import read_segment, write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array

pytestmark = pytest.mark.spark

V3 = [("v", b"\x03")]
WINDOW = struct.Struct(">qi")
KINDS = {
    KeyForm.WHOLE: StoreKind.KEY_VALUE,
    KeyForm.WINDOWED: StoreKind.KEY_VALUE,
    KeyForm.WINDOW: StoreKind.WINDOW,
    KeyForm.SESSION: StoreKind.UNKNOWN,
    KeyForm.FOREIGN_KEY: StoreKind.UNKNOWN,
    KeyForm.TIME_ORDERED: StoreKind.LIST,
    KeyForm.TIME_FIRST: StoreKind.UNKNOWN,
}


def stored(form: KeyForm, key: bytes, at: int) -> bytes:
    """A key as a store of this form writes it."""
    return {
        KeyForm.WHOLE: key,
        KeyForm.WINDOWED: key + struct.pack(">q", at),
        KeyForm.WINDOW: key + WINDOW.pack(at, 0),
        KeyForm.SESSION: key + struct.pack(">qq", at + 5, at),
        KeyForm.FOREIGN_KEY: struct.pack(">i", len(key)) + key + b"pk-%d" % at,
        KeyForm.TIME_ORDERED: struct.pack(">qb", at, 1) + key,
        KeyForm.TIME_FIRST: struct.pack(">bq", 0, at) + key + struct.pack(">i", 7),
    }[form]


def subscription(number: int, partitions: int) -> bytes:
    key = b"pk-%d" % number
    return b"\x01\x02" + b"h" * 16 + key + struct.pack(">i", default_partition(key, partitions))


def buffered(partition: int, number: int) -> bytes:
    return struct.pack(">qqi", 1000 + number, number, 5) + b"input" + struct.pack(">ii", partition, 0) + b"rest %d" % number


class Log:
    """A topic with records in ``old`` partitions, as a savepoint has them: each a tuple of timestamp, key, value and headers."""

    def __init__(self, access: JobAccess, directory: Path, name: str, old: int) -> None:
        self.access, self.directory, self.name = access, directory, name
        self.rows: list[list[tuple]] = [[] for _ in range(old)]

    def fill(self, form: KeyForm, value, *, headers=None, count: int = 300, times=lambda _partition, number: 1000 + number) -> Log:
        dice = random.Random(form)
        for number in range(count):
            key = b"key-%d" % dice.randrange(60)
            partition = default_partition(key, len(self.rows))
            content = None if dice.random() < 0.1 else value(partition, number)
            row = times(partition, number), stored(form, key, 10 * dice.randrange(4)), content, headers if content is not None else None
            self.rows[partition].append(row)
        return self

    def placed(self, topic: RescaledTopic, kind: StoreKind | None, *, primary: PrimarySide | None = None, unread: int = 0) -> TopicToPlace:
        """The work for a job. With ``unread`` so many of the last records of each partition are. Offsets have holes."""
        parts = []
        for number, rows in enumerate(self.rows):
            files = []
            for start in range(0, len(rows), 40):
                some = rows[start : start + 40]
                columns = list(zip(*some, strict=True))
                batch = pa.record_batch(
                    [
                        pa.array([3 * (start + at) for at in range(len(some))], pa.int64()),
                        pa.array(columns[0], pa.int64()),
                        pa.array([0] * len(some), pa.int8()),
                        pa.array(columns[1], pa.binary()),
                        pa.array(columns[2], pa.binary()),
                        header_array(list(columns[3])),
                    ],
                    schema=SEGMENT_SCHEMA,
                )
                path = self.directory / "part.parquet"
                segment = write_segment([batch], path, compression_level=1)
                assert segment is not None
                key = Layout("app").segment(TopicPartition(self.name, number), 3 * start, 3 * (start + len(some)), "original")
                self.access.repository().put_file(key, path)
                files.append(segment.stored_as(key))
            below = 3 * (len(rows) - unread) if unread else 0
            parts.append(PartitionToPlace(partition=number, files=SegmentFiles.of(files), unread_from=max(0, below)))
        return TopicToPlace(topic=topic, kind=kind, partitions=tuple(parts), primary=primary)


@pytest.fixture
def access(tmp_path):
    return JobAccess(connection=None, location=StorageLocation(backend="filesystem", path=str(tmp_path / "repository")), credentials=None)


@pytest.fixture
def run(spark, access):
    def run(*topics, prove_only=False, max_records=50):
        spec = RescaleSpec(application_id="app", topics=topics, max_records=max_records, prove_only=prove_only)
        try:
            result = job.rescale(spark.sparkContext, spec, access)
        except TaskFailed as failed:
            raise failed.cause from None
        if not prove_only:
            moved.check_result(topics, result)
        return result

    return run


def rows_of(access, result, name):
    """The rows of each new partition: offset and row."""
    root, found = Path(access.location.path), {}
    for one in result.partitions:
        if one.tp.topic == name:
            read = [
                row
                for piece in one.ranges
                if piece.file
                for batch in read_segment(root / piece.file.key, piece.file)
                for row in batch.to_pylist()
            ]
            found[one.tp.partition] = [
                (
                    row["offset"],
                    (row["timestamp"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or []] or None),
                )
                for row in read
            ]
    return found


def deciding(form: KeyForm, key: bytes) -> bytes:
    """What ``stored`` was given."""
    if form is KeyForm.FOREIGN_KEY:
        return key[4 : 4 + struct.unpack_from(">i", key)[0]]
    begin = 9 if form in (KeyForm.TIME_ORDERED, KeyForm.TIME_FIRST) else 0
    behind = {KeyForm.WINDOWED: 8, KeyForm.WINDOW: 12, KeyForm.SESSION: 16, KeyForm.TIME_FIRST: 4}
    return key[begin : len(key) - behind.get(form, 0)]


@pytest.mark.parametrize("new", [12, 3, 6, 1, 5])
def test_records_of_every_form_go_where_their_keys_put_them(run, access, tmp_path, new):
    logs, work = {}, []
    for form, kind in KINDS.items():
        value = buffered if form is KeyForm.TIME_FIRST else lambda _partition, number: b"v%d" % number
        logs[form] = Log(access, tmp_path, f"app-{form}-changelog", 4).fill(form, value)
        work.append(logs[form].placed(RescaledTopic(name=logs[form].name, old=4, new=new), kind))
    result = run(*work)
    assert [proof.form for proof in result.proofs] == list(KINDS)
    for form, log in logs.items():
        wanted = {number: {} for number in range(new)}
        for row in (row for rows in log.rows for row in rows):
            partition = default_partition(deciding(form, row[1]), new)
            value = row[2]
            if value is not None and form is KeyForm.TIME_FIRST:
                value = buffered(partition, struct.unpack_from(">q", value, 8)[0])
            wanted[partition].setdefault(row[1], []).append((row[0], row[1], value, row[3]))
        for partition, rows in rows_of(access, result, log.name).items():
            assert [offset for offset, _ in rows] == sorted({offset for offset, _ in rows})
            found = {}
            for _, row in rows:
                found.setdefault(row[1], []).append(row)
            # Each key with all of its records in their order, and no other one.
            assert found == wanted[partition]


def late(partition: int, number: int) -> int:
    """Partitions whose stream times are far apart; a few records of each are late."""
    return 1_000_000 * (4 - partition) + number - (40 if number % 7 == 0 else 0)


def accepted(rows, grace):
    """The rows that a versioned store takes when it is restored: none that is later than its grace period (RocksDBVersionedStore)."""
    stream_time, taken = -1, []
    for row in rows:
        if row[0] >= stream_time - grace:
            stream_time = max(stream_time, row[0])
            taken.append(row)
    return taken


def test_a_versioned_store_takes_as_much_of_joined_partitions_as_of_each(run, access, tmp_path):
    log = Log(access, tmp_path, "app-prices-changelog", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number, times=late)
    grace = 45
    assert [accepted(rows, grace) for rows in log.rows] == log.rows
    found = rows_of(access, run(log.placed(RescaledTopic(name=log.name, old=4, new=2), StoreKind.VERSIONED)), log.name)
    for rows in found.values():
        restored = [row for _, row in rows]
        assert accepted(restored, grace) == restored
    # One partition behind the other would lose all but the first one.
    assert len(accepted([*log.rows[0], *log.rows[2]], grace)) < len(log.rows[0]) + len(log.rows[2])


@pytest.mark.parametrize("history", [False, True])
def test_of_an_input_the_unread_records_stay_unread(run, access, tmp_path, history):
    log = Log(access, tmp_path, "orders-in", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number)
    # The newest of them is in another partition before than after: there is no order between partitions.
    for partition, count in enumerate((1, 2, 12, 3)):
        log.rows[partition] += [(5_000 - 1_000 * partition, None, b"no key %d" % number, None) for number in range(count)]
    work = log.placed(RescaledTopic(name=log.name, old=4, new=6, history=history), None, unread=20)
    result = run(work)
    assert result.proofs[0].keyless == 18
    unread = [row for rows in log.rows for row in rows[-20:]]
    read = [row for rows in log.rows for row in rows[:-20]]
    begin = {one.tp.partition: one.unread_from for one in result.partitions}
    found = rows_of(access, result, log.name)
    assert sorted(repr(row) for n, rows in found.items() for offset, row in rows if offset >= begin[n]) == sorted(map(repr, unread))
    assert sorted(repr(row) for n, rows in found.items() for offset, row in rows if offset < begin[n]) == sorted(
        map(repr, read if history else [])
    )
    assert all(part.end >= begin[part.tp.partition] for part in result.partitions)


@pytest.mark.parametrize("sizes", [(4, 12), (4, 4), (12, 3)])
def test_subscriptions_name_where_their_primary_keys_lie_now(run, access, tmp_path, sizes):
    old, new = 3, 3
    side = PrimarySide(old=sizes[0], new=sizes[1])
    log = Log(access, tmp_path, "app-join-subscription-store-changelog", old)
    log.fill(KeyForm.FOREIGN_KEY, lambda _partition, number: subscription(number, side.old))
    found = rows_of(access, run(log.placed(RescaledTopic(name=log.name, old=old, new=new), StoreKind.KEY_VALUE, primary=side)), log.name)
    values = [row[2] for rows in found.values() for _, row in rows if row[2] is not None]
    assert len(values) > 200
    assert values == [subscription(int(value[18:-4].removeprefix(b"pk-")), side.new) for value in values]


def test_a_suppress_buffer_names_where_its_records_lie_now(run, access, tmp_path):
    log = Log(access, tmp_path, "app-suppress-changelog", 4).fill(KeyForm.WINDOWED, buffered, headers=V3)
    result = run(log.placed(RescaledTopic(name=log.name, old=4, new=12), StoreKind.SUPPRESS))
    for partition, rows in rows_of(access, result, log.name).items():
        assert {struct.unpack_from(">i", row[2], 25)[0] for _, row in rows if row[2] is not None} <= {partition}
        assert {tuple(row[3] or ()) for _, row in rows if row[2] is not None} <= {tuple(V3)}


def one_in(log: Log, partition: int, key: bytes, value: bytes | None = b"v", headers=None) -> Log:
    log.rows[partition].append((2000, key, value, headers))
    return log


ELSEWHERE = (default_partition(b"key-1", 4) + 1) % 4
AT = [("v", b"\0"), ("c", b"")]
BAD = {
    "another partitioner": (KeyForm.WHOLE, None, lambda log: one_in(log, ELSEWHERE, b"key-1"), "no known part of the keys"),
    "a position": (
        KeyForm.WHOLE,
        StoreKind.KEY_VALUE,
        lambda log: one_in(log, default_partition(b"k", 4), b"k", headers=AT),
        "position in its inputs",
    ),
    "an old buffer": (
        KeyForm.WHOLE,
        StoreKind.SUPPRESS,
        lambda log: one_in(log, default_partition(b"k", 4), b"k", headers=[("v", b"\x02")]),
        r"before version 2\.6",
    ),
    "a buffer of another partition": (
        KeyForm.WHOLE,
        StoreKind.UNKNOWN,
        lambda log: one_in(log, default_partition(b"k", 4), b"k", buffered((default_partition(b"k", 4) + 1) % 4, 1), V3),
        "was buffered from partition",
    ),
    "no buffer of a join": (KeyForm.TIME_FIRST, StoreKind.UNKNOWN, lambda log: log, "no record of a buffer"),
    "the kind is wrong": (KeyForm.WHOLE, StoreKind.WINDOW, lambda log: log, "no known part of the keys"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_placed_is_refused_by_the_proof_alone(run, access, tmp_path, name):
    form, kind, change, why = BAD[name]
    log = change(Log(access, tmp_path, "app-log-changelog", 4).fill(form, lambda _partition, number: b"v%d" % number))
    with pytest.raises(Refused, match=why) as refused:
        run(log.placed(RescaledTopic(name=log.name, old=4, new=12), kind), prove_only=True)
    assert {"topic", "partition", "offset"} <= set(refused.value.facts)


def test_the_proof_alone_reads_no_values_where_none_names_a_partition(access, tmp_path, monkeypatch):
    log = Log(access, tmp_path, "app-totals-changelog", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number)
    work, batches, with_values = log.placed(RescaledTopic(name=log.name, old=4, new=3), StoreKind.KEY_VALUE), job.archived_batches, []

    def noted(*files, columns, **kind):
        with_values.append("value" in columns)
        return batches(*files, columns=columns, **kind)

    monkeypatch.setattr(job, "archived_batches", noted)
    proof = job.rescale(OneProcess(), replace(spec_of(), topics=(work,), prove_only=True), access).proofs
    assert with_values == [False] * 4
    assert job.rescale(OneProcess(), replace(spec_of(), topics=(work,)), access).proofs == proof


def test_a_subscription_of_another_partition_is_refused(run, access, tmp_path):
    log = Log(access, tmp_path, "app-join-subscription-store-changelog", 3).fill(
        KeyForm.FOREIGN_KEY, lambda _p, number: subscription(number, 5)
    )
    topic = log.placed(RescaledTopic(name=log.name, old=3, new=6), StoreKind.KEY_VALUE, primary=PrimarySide(old=4, new=8))
    with pytest.raises(Refused, match=r"names partition \d of the primary side"):
        run(topic, prove_only=True)


def test_windowed_keys_in_one_partition_are_not_placed_as_whole_ones(run, access, tmp_path):
    log = Log(access, tmp_path, "app-by-window-repartition", 1)
    log.rows[0] += [(1000, b"key-%d" % n + struct.pack(">q", 1_764_500_000_000 + n), b"v", None) for n in range(9)]
    with pytest.raises(Refused, match="as whole and as windowed"):
        run(log.placed(RescaledTopic(name=log.name, old=1, new=4), None), prove_only=True)
    one_in(log, 0, b"a whole key")
    assert run(log.placed(RescaledTopic(name=log.name, old=1, new=4), None), prove_only=True).proofs[0].form is KeyForm.WHOLE


def test_a_form_that_is_named_decides_where_the_keys_do_not_tell(run, access, tmp_path):
    log = Log(access, tmp_path, "app-by-window-repartition", 1)
    log.rows[0] += [(1000, b"key-%d" % n + struct.pack(">q", 1_764_500_000_000 + n), b"v", None) for n in range(9)]
    topic = RescaledTopic(name=log.name, old=1, new=4, form=KeyForm.WINDOWED)
    found = rows_of(access, run(log.placed(topic, None)), log.name)
    assert sum(map(len, found.values())) == 9
    assert all(default_partition(row[1][:-8], 4) == partition for partition, rows in found.items() for _, row in rows)


def by_length(key: bytes, _value: bytes | None, partitions: int) -> int:
    return len(key) % partitions


def test_a_partitioner_of_one_s_own_is_proven_and_places(run, access, tmp_path, monkeypatch):
    entry = EntryPoint(name="by-length-of-keys", value=f"{__name__}:by_length", group=PARTITIONERS)
    monkeypatch.setattr(rescale_rows, "entry_points", lambda **asked: EntryPoints([entry]).select(**asked))
    log = Log(access, tmp_path, "orders-in", 2)
    for number in range(40):
        key = b"k" * (1 + number % 7)
        log.rows[len(key) % 2].append((1000 + number, key, b"v%d" % number, None))
    work = log.placed(RescaledTopic(name=log.name, old=2, new=3, own="by-length-of-keys"), None)

    def failed(topic: TopicToPlace) -> list:
        return [one for part in topic.partitions for one in job.prove(replace(topic, partitions=(part,)), access, digest=False).seen.failed]

    assert failed(work) == []
    placed = job.place(next(iter(job._classes(work, KeyForm.OWN))), spec_of(), access)
    rows = rows_of(access, placed, log.name)
    assert {partition: {len(row[1]) % 3 for _, row in several} for partition, several in rows.items()} == {0: {0}, 1: {1}, 2: {2}}
    assert failed(replace(work, partitions=tuple(replace(part, partition=1 - part.partition) for part in work.partitions)))


def by_number(_key: bytes, value: bytes | None, partitions: int) -> int:
    return {2: 0, 3: len(value or b"") % 3, 4: 4}[partitions]


@pytest.mark.parametrize(("new", "why"), [(3, "puts one key into partitions 1 and 2 of 3"), (4, "puts it into partition 4 of 4")])
def test_a_partitioner_of_one_s_own_that_cannot_place_is_refused_by_the_proof(access, tmp_path, monkeypatch, new, why):
    entry = EntryPoint(name="by-number", value=f"{__name__}:by_number", group=PARTITIONERS)
    monkeypatch.setattr(rescale_rows, "entry_points", lambda **asked: EntryPoints([entry]).select(**asked))
    log = Log(access, tmp_path, "orders-in", 2)
    log.rows[0] += [(1, None, b"", None), (2, b"k", b"v", None), (3, b"k", b"vv", None)]
    work = log.placed(RescaledTopic(name=log.name, old=2, new=new, own="by-number"), None)
    with pytest.raises(Refused, match=why):
        job.prove(replace(work, partitions=work.partitions[:1]), access, digest=False)


def spec_of() -> RescaleSpec:
    return RescaleSpec(application_id="app", topics=(), max_records=50, prove_only=False)


def test_a_log_without_a_record_is_placed_as_nothing(run, access, tmp_path):
    log = Log(access, tmp_path, "app-empty-changelog", 4)
    result = run(log.placed(RescaledTopic(name=log.name, old=4, new=2), StoreKind.KEY_VALUE))
    assert [(one.end, one.ranges) for one in result.partitions] == [(0, ()), (0, ())]
    assert (result.proofs[0].form, result.proofs[0].records, result.logs[0].keys_before) == (None, 0, 0)


def backwards(topic: TopicToPlace) -> TopicToPlace:
    parts = (replace(part, files=SegmentFiles.of(reversed(list(part.files)))) for part in topic.partitions)
    return replace(topic, partitions=tuple(parts))


def first_files(topic: TopicToPlace) -> TopicToPlace:
    parts = (replace(part, files=SegmentFiles.of(list(part.files)[:1])) for part in topic.partitions)
    return replace(topic, partitions=tuple(parts))


TRAPS = {
    "partitions in values": (lambda wanted: replace(wanted, topic=replace(wanted.topic, primary=None)), Refused, "names partition"),
    "the form": (lambda wanted: replace(wanted, form=KeyForm.WHOLE), Damaged, "do not lie where their keys put them"),
    "the order of files": (lambda wanted: replace(wanted, topic=backwards(wanted.topic)), Damaged, "does not hold the same"),
    "some records": (lambda wanted: replace(wanted, topic=first_files(wanted.topic)), Damaged, "does not hold the same"),
    "a partition": (lambda wanted: replace(wanted, topic=replace(wanted.topic, partitions=())), Damaged, "does not hold the same"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_was_placed_wrongly_is_not_published(run, access, tmp_path, monkeypatch, trap):
    """A negative control for each: with the mistake in the placing, the proof of the new records or the digests find it."""
    mistaken, error, why = TRAPS[trap]
    log = Log(access, tmp_path, "app-join-subscription-store-changelog", 4)
    log.fill(KeyForm.FOREIGN_KEY, lambda _partition, number: subscription(number, 4))
    work = log.placed(RescaledTopic(name=log.name, old=4, new=12), StoreKind.KEY_VALUE, primary=PrimarySide(old=4, new=12))
    place = job.place
    monkeypatch.setattr(job, "place", lambda wanted, spec, access: place(mistaken(wanted), spec, access))
    with pytest.raises(error, match=why):
        run(work)


def test_of_files_in_another_order_it_cannot_be_said_which_value_is_the_newest(access, tmp_path):
    log = Log(access, tmp_path, "app-totals-changelog", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number)
    work = backwards(log.placed(RescaledTopic(name=log.name, old=4, new=3), StoreKind.KEY_VALUE))
    with pytest.raises(TaskFailed, match="not in the order of offsets"):
        job.rescale(OneProcess(), replace(spec_of(), topics=(work,)), access)


def test_records_of_a_key_in_another_order_are_not_published(access, tmp_path, monkeypatch):
    log = Log(access, tmp_path, "app-totals-changelog", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number)
    in_order = job.in_stream_time

    def backwards(logs):
        for batch, which in in_order(logs):
            order = list(reversed(range(len(batch))))
            yield batch.take(pa.array(order)), which[order]

    work = log.placed(RescaledTopic(name=log.name, old=4, new=3), StoreKind.KEY_VALUE)
    moved.check_result((work,), job.rescale(OneProcess(), replace(spec_of(), topics=(work,)), access))
    monkeypatch.setattr(job, "in_stream_time", backwards)
    with pytest.raises(Damaged, match="does not hold the same"):
        moved.check_result((work,), job.rescale(OneProcess(), replace(spec_of(), topics=(work,)), access))


def test_rows_of_more_partitions_than_memory_should_hold_wait_on_the_disk(access, tmp_path, monkeypatch):
    log = Log(access, tmp_path, "app-totals-changelog", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number, times=late)
    work = log.placed(RescaledTopic(name=log.name, old=4, new=3), StoreKind.KEY_VALUE)
    monkeypatch.setattr(files, "_PIECE_BYTES", 200)
    found = []
    for at_once in (4, 3):
        monkeypatch.setattr(job, "_READ_AT_ONCE", at_once)
        result = job.rescale(OneProcess(), replace(spec_of(), topics=(work,)), access)
        moved.check_result((work,), result)
        found.append((rows_of(access, result, log.name), result.logs))
    assert found[0] == found[1]


def test_what_is_placed_is_encrypted_and_read_back(spark, access, tmp_path):
    log = Log(access, tmp_path, "app-totals-changelog", 4).fill(KeyForm.WHOLE, lambda _partition, number: b"v%d" % number)
    work = log.placed(RescaledTopic(name=log.name, old=4, new=3), StoreKind.KEY_VALUE)
    spec = RescaleSpec(application_id="app", topics=(work,), max_records=50, prove_only=False)
    place = KeyPlace(provider="local", address="", options={"secret": base64.b64encode(b"k" * 32).decode()})
    result = job.rescale(spark.sparkContext, spec, replace(access, encryption=KeyAccess(places=(place,))).for_tasks(spec))
    moved.check_result((work,), result)
    keys = [piece.file.key for one in result.partitions for piece in one.ranges if piece.file is not None]
    assert keys
    assert all(named_key(key) for key in keys)
