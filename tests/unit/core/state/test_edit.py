"""Vectors from a JVM: Kafka's own tests of ``Utils.murmur2``, and ``Utils`` asked for every length; the integration tests ask it again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import Consistency, StoreKind
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.manifest import CopiedRange, Gap
from streams_recovery.core.state.edit import (
    StoredChangelog,
    Wanted,
    check_writable,
    default_partition,
    described,
    edited,
    edited_manifest,
    edited_range,
    murmur2,
)
from streams_recovery.core.state.table import Entry, StoreKey, join_key, newest, split_key, undeleted
from tests.support.examples.savepoints import image, manifest_of, segment, topic
from tests.support.repository.stored import stored, with_keys

KV, WINDOW, SESSION = StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.SESSION
PARTITIONS = 3
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]


def full(kind: StoreKind, key: bytes) -> bytes:
    return join_key(kind, StoreKey(key=key, start=5, end=9, seq=0))


def base_of(kind: StoreKind, log: list[tuple[bytes, bytes | None, int]]) -> StoredChangelog:
    """A changelog whose offsets begin at 10, one partition's as well as another's."""
    entries = [
        Entry(
            partition=default_partition(key, PARTITIONS),
            offset=10 + at,
            timestamp=time,
            key=full(kind, key),
            value=value,
            headers=(("h", b"x"),) if value else None,
        )
        for at, (key, value, time) in enumerate(log)
    ]
    latest: dict[int, Entry] = {}
    for one in entries:
        if one.partition not in latest or latest[one.partition].timestamp <= one.timestamp:
            latest[one.partition] = one
    images = tuple(replace(image((), start=10, end=10 + len(log)), partition=number) for number in range(PARTITIONS))
    return StoredChangelog(kind=kind, images=images, entries=newest(kind, entries), latest=latest, captured_at=1_000)


def wanted(kind: StoreKind, rows: dict[bytes, bytes]) -> list[Wanted]:
    return [Wanted(key=full(kind, key), value=value, timestamp=None, headers=None) for key, value in rows.items()]


LOGS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([b"1", b"2", None]), st.integers(1, 99)), max_size=15)
TABLES = st.dictionaries(st.sampled_from([*KEYS, b"new", b"newer"]), st.sampled_from([b"1", b"2", b"3"]), max_size=8)


@given(st.sampled_from([KV, WINDOW, SESSION]), LOGS, TABLES)
def test_the_changelog_holds_exactly_the_table(
    kind: StoreKind, log: list[tuple[bytes, bytes | None, int]], rows: dict[bytes, bytes]
) -> None:
    base = base_of(kind, log)
    found = edited(base, wanted(kind, rows))
    entries = [one for several in found.partitions.values() for one in several]
    assert {one.key: one.value for one in undeleted(newest(kind, entries)).values()} == {
        full(kind, key): value for key, value in rows.items()
    }
    assert all(one.partition == default_partition(split_key(kind, one.key).key, PARTITIONS) for one in entries)
    before = {at[1] for at in undeleted(base.entries)}
    after = {full(kind, key) for key in rows}
    assert (found.rows, found.added, found.removed) == (len(rows), len(after - before), len(before - after))
    for number, several in found.partitions.items():
        offsets = [one.offset for one in several]
        assert offsets == sorted(set(offsets)), "each in its own place"
        end, ranges = edited_range(base.images[number], several, None)
        assert all(10 <= offset < end for offset in offsets)
        assert [(one.start, one.end, one.compacted) for one in ranges] == ([(10, end, Compaction.LATEST_PER_KEY)] if end > 10 else [])


@given(st.sampled_from([WINDOW, SESSION]), LOGS, TABLES)
def test_a_windowed_store_keeps_its_time(kind: StoreKind, log: list[tuple[bytes, bytes | None, int]], rows: dict[bytes, bytes]) -> None:
    base = base_of(kind, log)
    found = edited(base, wanted(kind, rows))
    for number, latest in base.latest.items():
        assert max(one.timestamp for one in found.partitions[number]) >= latest.timestamp
    assert {one.key for several in found.partitions.values() for one in several} >= {at[1] for at in base.entries}


def test_a_deleted_key_leaves_a_key_value_store_without_a_trace_and_a_windowed_one_with_a_tombstone() -> None:
    log: list[tuple[bytes, bytes | None, int]] = [(b"a", b"1", 5), (b"b", b"1", 6)]
    for kind, expected in ((KV, []), (WINDOW, [None])):
        base = base_of(kind, log)
        number = default_partition(b"b", PARTITIONS)
        rows = edited(base, wanted(kind, {b"a": b"1"})).partitions[number]
        assert [one.value for one in rows if one.key == full(kind, b"b")] == expected


def test_what_is_not_edited_stays_to_the_byte_and_what_is_new_gets_a_time() -> None:
    base = base_of(KV, [(b"a", b"1", 5), (b"b", b"1", 6)])
    rows = [Wanted(key=b"a", value=b"1", timestamp=5, headers=(("h", b"x"),)), Wanted(key=b"b", value=b"2", timestamp=None, headers=None)]
    found = edited(base, [*rows, Wanted(key=b"c", value=b"3", timestamp=None, headers=None)])
    entries = {one.key: one for several in found.partitions.values() for one in several}
    assert (found.kept, found.changed, found.added, found.removed, found.compared) == (1, 1, 1, 0, 2)
    assert entries[b"a"] == base.entries[default_partition(b"a", PARTITIONS), b"a", 0]
    assert (entries[b"b"].timestamp, entries[b"b"].offset, entries[b"b"].headers) == (6, 11, None)
    assert (entries[b"c"].timestamp, entries[b"c"].offset) == (1_000, 12)
    times = {
        kind: next(
            one for several in edited(base_of(kind, []), wanted(kind, {b"x": b"1"})).partitions.values() for one in several
        ).timestamp
        for kind in (WINDOW, SESSION)
    }
    assert times == {WINDOW: 5, SESSION: 9}


def test_a_partitioner_of_the_applications_own_is_refused_and_an_empty_store_proves_none() -> None:
    base = base_of(KV, [(b"a", b"1", 5), (b"b", b"1", 6)])
    moved = {(2 - at[0], *at[1:]): replace(one, partition=2 - one.partition) for at, one in base.entries.items()}
    with pytest.raises(Refused, match="default partitioner") as caught:
        edited(replace(base, entries=moved), wanted(KV, {b"a": b"1"}))
    assert caught.value.facts["keys"] == 2
    assert caught.value.facts["elsewhere"] in {1, 2}
    found = edited(base_of(KV, []), wanted(KV, {b"a": b"1"}))
    assert found.compared == 0
    assert "no key showed which partitioner" in described(found, "s", "id")


def test_tables_that_cannot_be_meant_are_refused() -> None:
    base = base_of(KV, [(b"a", b"1", 5)])
    with pytest.raises(ConfigInvalid, match="twice"):
        edited(base, [*wanted(KV, {b"a": b"1"}), *wanted(KV, {b"a": b"2"})])
    for key in (b"a", b"new"):
        with pytest.raises(ConfigInvalid, match="only those above 0"):
            edited(base, [Wanted(key=key, value=b"1", timestamp=0, headers=None)])


def test_which_stores_and_savepoints_can_be_edited() -> None:
    changelog = topic((image((segment(0, 10, [3]),)),), name="orders-s-changelog")
    source = manifest_of(changelog)
    check_writable(source, changelog, "s", KV)
    windowed = replace(changelog, config={"cleanup.policy": "compact,delete"})
    check_writable(source, windowed, "s", WINDOW)
    gap = replace(changelog, partitions=(replace(changelog.partitions[0], gaps=(Gap(start=0, end=1, reason="gone"),)),))
    for kind, one, store, why in (
        (StoreKind.VERSIONED, changelog, "s", "every row counts"),
        (StoreKind.SUPPRESS, changelog, "s", "more than keys and values"),
        (StoreKind.LIST, changelog, "s", "more than keys and values"),
        (StoreKind.UNKNOWN, changelog, "s", "not known"),
        (KV, windowed, "s", "cleanup.policy"),
        (KV, gap, "s", "gap"),
        (KV, changelog, "enrich-subscription-store", "foreign-key join"),
        (KV, changelog, "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000012", "foreign-key join"),
    ):
        with pytest.raises(Refused, match=why):
            check_writable(source, one, store, kind)
    for label in (Consistency.AHEAD, Consistency.DAMAGED):
        with pytest.raises(Refused, match="edit an exact savepoint"):
            check_writable(replace(source, consistency=label), changelog, "s", KV)
    check_writable(replace(source, consistency=Consistency.EDITED), changelog, "s", KV)


def test_the_manifest_says_that_it_was_edited_and_is_one_that_can_be_read() -> None:
    changelog = topic((image((segment(0, 10, [3]),)),), name="orders-s-changelog")
    other = topic((image((segment(0, 10, [4], key="orders/segments/other/0/x.parquet"),)),), name="orders-other-changelog")
    source = manifest_of(changelog, other)
    file = segment(0, 12, [3, 11], key="orders/segments/t/0/new.parquet").file
    changed = replace(
        changelog.partitions[0], end=12, ranges=(CopiedRange(start=0, end=12, file=file, compacted=Compaction.LATEST_PER_KEY),)
    )
    who = replace(source.provenance, requested_by="me", reason="because")
    made = edited_manifest(source, changelog, [changed], "one", savepoint_id="20261121T012345Z-0000000009", provenance=who)
    assert stored(with_keys(made)) == with_keys(made)
    assert (made.consistency, made.proof.reasons, made.parent_id, made.replaces) == (
        Consistency.EDITED,
        ("one",),
        source.savepoint_id,
        None,
    )
    assert (made.topic("orders-other-changelog"), made.captured_at, made.committed()) == (other, source.captured_at, source.committed())
    again = edited_manifest(made, changelog, [changed], "two", savepoint_id="20261121T012345Z-0000000010", provenance=who)
    assert again.proof.reasons == ("one", "two")


VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
LONG = "ü€-key that is as long as it is cut: 0123456789".encode()
CUT = {15: (-1979290041, 1), 16: (-764574794, 5), 17: (930032192, 5), 18: (-1573512879, 1), 38: (1331423137, 2), 39: (-1098658010, 0)}


@pytest.mark.parametrize("key", VECTORS)
def test_the_hash_is_that_of_the_jvm(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key] % 2**32


@pytest.mark.parametrize("length", CUT)
def test_the_partition_is_that_of_the_jvm(length: int) -> None:
    digest, partition = CUT[length]
    assert (murmur2(LONG[:length]), default_partition(LONG[:length], 7)) == (digest % 2**32, partition)
