"""Range tables on a real directory: shared, never written again, and worth nothing without the hash that names them."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged, LockLost
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.ranges import MOST_TABLES, Ranges, RangesNotRead
from streams_recovery.core.repository.segment_file import joined
from streams_recovery.storage.repository import Repository
from tests.support.examples.savepoints import committed, manifest_of, segment, topic
from tests.support.repository.stored import store_in

LAYOUT = Layout("orders")


def piece(name: str, partition: int, start: int, end: int, *, idle: bool = False) -> CopiedRange:
    """A range of its own: no two have the same hash."""
    key = LAYOUT.segment(TopicPartition(name, partition), start, end, "a")
    found = segment(start, end, [] if idle else [start], key=key)
    return replace(found, file=found.file and replace(found.file, sha256=hashlib.sha256(key.encode()).hexdigest()))


def image(number: int, ranges: Ranges, end: int, gaps: tuple[Gap, ...] = ()) -> PartitionImage:
    return PartitionImage(
        partition=number, log_start=0, last_stable=end, end=end, leader_epoch=0, committed=committed(0), ranges=ranges, gaps=gaps
    )


def savepoint(number: int, *topics: TopicImage) -> Manifest:
    return replace(manifest_of(*topics), savepoint_id=f"20261121T{number // 3600:02}{number // 60 % 60:02}{number % 60:02}Z-0123456789")


def objects(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def tables(directory: Path) -> list[Path]:
    return sorted((directory / "orders" / "ranges").rglob("*.zst"))


def grown(before: Manifest | None, name: str, partitions: int, at: int) -> TopicImage:
    """The topic with one more range of each partition than in ``before``, which may be without ranges."""
    images = []
    for number in range(partitions):
        known = before.topics[0].partitions[number].ranges if before else Ranges()
        images.append(image(number, known.with_behind([piece(name, number, at * 10, at * 10 + 10)]), at * 10 + 10))
    return topic(tuple(images), name=name)


def chain(directory: Path, length: int, partitions: int = 3) -> list[str]:
    store, before, ids = store_in(directory), None, []
    for at in range(length):
        made = savepoint(at, grown(before, "t", partitions, at))
        store.publish(made)
        before = store.outline(made.savepoint_id)
        ids.append(made.savepoint_id)
    return ids


def test_a_savepoint_writes_what_is_new_and_leaves_everything_as_it_is(tmp_path: Path) -> None:
    written = 0
    known: dict[str, bytes] = {}
    for length in range(1, 41):
        directory = tmp_path / "one"
        store = store_in(directory)
        before = store.outline(store.ids()[-1]) if length > 1 else None
        store.publish(savepoint(length, grown(before, "t", 3, length - 1)))
        now = objects(directory)
        assert {key: now[key] for key in known} == known, "nothing is ever changed"
        new = [key for key in now.keys() - known.keys() if "/ranges/" in key]
        assert len(new) == 1
        newest = store.outline(store.ids()[-1]).topics[0]
        written += next(ref.ranges for ref in newest.tables if ref.sha256 in new[0])
        assert sum(ref.ranges for ref in newest.tables) == 3 * length
        assert len(newest.tables) <= MOST_TABLES
        known = now
    assert written <= 3 * 40 * 6
    for number, savepoint_id in enumerate(store.ids(), 1):
        found = store.read(savepoint_id).topics[0]
        for one in found.partitions:
            assert list(one.ranges) == [piece("t", one.partition, at * 10, at * 10 + 10) for at in range(number)]
            assert one.ranges.facts.savepoints == number


def test_a_savepoint_without_news_writes_no_table(tmp_path: Path) -> None:
    [first] = chain(tmp_path, 1)
    store, before = store_in(tmp_path), tables(tmp_path)
    store.publish(replace(store.outline(first), savepoint_id="20261121T020000Z-0123456789"))
    store.publish(replace(store.read(first), savepoint_id="20261121T030000Z-0123456789"))
    assert tables(tmp_path) == before
    assert store.read("20261121T020000Z-0123456789").topics == store.read(first).topics


@pytest.mark.parametrize("seed", range(12))
def test_whatever_becomes_of_its_partitions_a_topic_is_read_as_it_was_published(tmp_path: Path, seed: int) -> None:
    """Partitions grow, are idle, lose records, begin anew and are added, in any order; each savepoint goes on from one read with or without ranges."""
    dice, store = random.Random(seed), store_in(tmp_path)
    model: list[tuple[int, list[CopiedRange], list[Gap]]] = [(0, [], []) for _ in range(2)]
    before: Manifest | None = None
    expected = {}
    for at in range(25):
        images = []
        if dice.random() < 0.1:
            model.append((0, [], []))
        for number, (end, ranges, gaps) in enumerate(model):
            known = before.topics[0].partitions[number].ranges if before and number < len(before.topics[0].partitions) else Ranges()
            if dice.random() < 0.1:
                known, end, ranges, gaps = Ranges(), 0, [], []  # noqa: PLW2901
            if ranges and dice.random() < 0.1:
                gaps = [*gaps, Gap(start=end, end=end + 3, reason="gone")]  # noqa: PLW2901
                end += 3  # noqa: PLW2901
            new = [
                piece("t", number, end + 10 * more, end + 10 * more + 10, idle=dice.random() < 0.4)
                for more in range(dice.choice([0, 1, 1, 2]))
            ]
            end += 10 * len(new)  # noqa: PLW2901
            images.append(image(number, known.with_behind(joined(new)), end, tuple(gaps)))
            model[number] = (end, list(joined([*ranges, *new])), gaps)
        made = savepoint(at, topic(tuple(images), name="t", role=TopicRole.INPUT))
        store.publish(made)
        before = store.outline(made.savepoint_id) if dice.random() < 0.7 else store.read(made.savepoint_id)
        expected[made.savepoint_id] = [list(ranges) for _, ranges, _ in model]
    for savepoint_id, ranges in expected.items():
        assert [list(one.ranges) for one in store.read(savepoint_id).topics[0].partitions] == ranges
        outlined = store.outline(savepoint_id).topics[0].partitions
        assert [one.rows for one in outlined] == [sum(one.file.rows for one in several if one.file) for several in ranges]


def test_who_needs_no_ranges_opens_no_table_and_is_given_none(tmp_path: Path) -> None:
    [first] = chain(tmp_path, 1)
    for path in tables(tmp_path):
        path.unlink()
    found = store_in(tmp_path).outline(first)
    assert (found.records, found.file_count) == (3, 3)
    with pytest.raises(RangesNotRead):
        list(found.files())
    with pytest.raises(RangesNotRead):
        found.whole({})
    with pytest.raises(Damaged, match=r"range table orders/ranges/t/.* is missing"):
        store_in(tmp_path).read(first)


@pytest.mark.fault("F63")
def test_a_table_that_is_another_one_is_damage_to_every_savepoint_that_names_it(tmp_path: Path) -> None:
    first, second = chain(tmp_path, 2)
    [shared] = [path for path in tables(tmp_path) if path.stem == store_in(tmp_path).outline(first).topics[0].tables[0].sha256]
    honest = shared.read_bytes()
    for forged in (b"", honest[:-1], honest + b"x", honest[:-1] + bytes([honest[-1] ^ 1]), b"x" * len(honest)):
        shared.write_bytes(forged)
        with pytest.raises(Damaged) as caught:
            store_in(tmp_path).read(first)
        assert str(caught.value.facts["key"]).startswith("orders/ranges/t/")
    shared.write_bytes(honest)
    assert store_in(tmp_path).read(second).records == 6


@pytest.mark.fault("F63")
def test_a_table_that_was_there_before_is_looked_at(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    chain(first, 1)
    [name] = [path.relative_to(first) for path in tables(first)]
    (second / name.parent).mkdir(parents=True)
    (second / name).write_bytes(b"somebody else's")
    with pytest.raises(Damaged, match="was there before"):
        chain(second, 1)
    assert store_in(second).ids() == []
    (second / name).write_bytes((first / name).read_bytes())
    [made] = chain(second, 1)
    assert store_in(second).read(made).records == 3


@pytest.mark.fault("F63")
def test_what_a_manifest_says_of_its_ranges_is_compared_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [first] = chain(tmp_path, 1)
    store = store_in(tmp_path)
    outline = store.outline(first)
    honest = outline.topics[0].partitions[0].ranges
    for change in ({"rows": 2}, {"bytes": 7}, {"files": 0, "rows": 0, "min_timestamp": None}, {"payload_a_row": 11}, {"min_timestamp": 0}):
        forged = Ranges(tables=honest.tables, before=replace(honest.facts, **change))
        images = (replace(outline.topics[0].partitions[0], ranges=forged), *outline.topics[0].partitions[1:])
        monkeypatch.setattr(
            type(store), "outline", lambda *_, images=images: replace(outline, topics=(replace(outline.topics[0], partitions=images),))
        )
        with pytest.raises(Damaged, match="hold what it") as caught:
            store.read(first)
        assert caught.value.facts == {"topic": "t", "partition": 0}


def test_whoever_may_not_publish_any_more_is_stopped_when_only_the_manifest_is_missing(tmp_path: Path) -> None:
    store, made = store_in(tmp_path), savepoint(0, grown(None, "t", 1, 0))

    def lost() -> None:
        assert len(tables(tmp_path)) == 1
        raise LockLost("it was taken over", next_step="none")

    with pytest.raises(LockLost):
        store.publish(made, confirm=lost)
    assert (store.ids(), store.published()) == ([], [])
    store.publish(made)
    assert store.read(made.savepoint_id).records == 1


def test_two_readers_of_many_savepoints_open_each_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = chain(tmp_path, 12)
    opened: Counter[str] = Counter()
    real = Repository.get

    def get(self: Repository, key: str, **most: int) -> bytes:
        opened[key] += 1
        return real(self, key, **most)

    monkeypatch.setattr(Repository, "get", get)
    store, kept = store_in(tmp_path), {}
    for savepoint_id in ids:
        store.read(savepoint_id, kept)
    assert {count for key, count in opened.items() if "/ranges/" in key} == {1}
