"""A simulated archiver, with all that may happen to a log and to it: nothing is archived twice, nothing is missing without a word, and what is promised holds.

The logs are of a model that knows of each record when it was committed, under which topic id, and whether it was there when it was copied.
"""

from __future__ import annotations

import cProfile
from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.archive.log import Archive, ArchivedLog, ArchiveEntry, ArchiveEvent, archive_of, extended
from streams_recovery.core.archive.tick import TickLimits
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import CopiedRange, Gap, SegmentFile
from tests.support.examples.archived_histories import live_through
from tests.support.examples.archived_logs import LIMITS, PARTITIONS, World


@pytest.mark.fault("F97")
@pytest.mark.parametrize(
    ("first", "histories"),
    [
        (0, 300),
        *(pytest.param(first, 25_000, marks=[pytest.mark.deep, pytest.mark.timeout(7_200)]) for first in range(0, 100_000, 25_000)),
    ],
)
def test_whatever_happens_nothing_is_twice_and_nothing_is_missing_without_a_word(first: int, histories: int) -> None:
    for seed in range(first, first + histories):
        live_through(seed)


@pytest.mark.fault("F97")
@pytest.mark.parametrize("outline", [False, True])
def test_what_was_archived_before_a_log_was_cut_back_does_not_go_on_behind_a_savepoint_since(outline: bool) -> None:
    """Its files begin where the savepoint ends, by chance."""
    world = World()
    world.write(0, 10)
    world.begin()
    world.look()
    world.write(0, 10)
    world.look()
    world.truncate(0, 15)
    world.write(0, 5)
    world.now += 10
    world.save(takes=False)
    assert world.savepoint is not None
    assert (world.logs[0].end, world.archive.newest[world.tp(0)].end) == (10, 20)
    found = extended(world.savepoint, world.archive, outline=outline)
    assert found is not None
    assert found.records == 0
    assert found.left == ("t-0 was truncated after it was archived up to 20: the savepoint ends at 10 in a later leader epoch",)
    world.look()
    world.check()
    found = extended(world.savepoint, world.archive, outline=outline)
    assert found is None or found.left == ()


@pytest.mark.fault("F97")
@pytest.mark.parametrize("seed", [51_726, 54_265, 57_089])
def test_histories_that_were_wrong_once_are_right(seed: int) -> None:
    live_through(seed)


def test_an_hour_of_looks_that_nobody_joined_is_put_together_once() -> None:
    def calls(looks: int) -> int:
        world = World()
        world.save(takes=False)
        for _ in range(looks):
            world.now += 10
            world.write(0, 1)
            world.look()
        entries = list(enumerate(world.entries, 1))
        profile = cProfile.Profile()
        found = profile.runcall(archive_of, reversed(entries))
        assert found == world.archive
        return sum(one.callcount for one in profile.getstats())

    assert calls(800) < 3 * calls(400), "each entry costs the same, however many there are"


@pytest.mark.parametrize("days", [1, pytest.param(7, marks=pytest.mark.deep)])
def test_days_of_intervals_stay_small_where_savepoints_are_taken(days: int) -> None:
    world = World()
    world.write(0, 5)
    world.save(takes=False)
    world.begin()
    for number in range(days * 24 * 36):
        world.now += 100
        world.write(number % PARTITIONS, 2)
        world.look()
        if number % 36 == 35:
            world.join()
            world.save(takes=True)
            world.check()
            assert world.archive.files <= PARTITIONS * 6
            world.join()
            assert world.archive.files == 0, "what the savepoint has is behind nobody"
    assert world.savepoint is not None
    assert world.savepoint.records == 5 + 2 * days * 24 * 36
    assert sum(entry.event is ArchiveEvent.COPIED for entry in world.entries) == days * 24 * 36


def log_of(start: int, *ends: int, topic_id: str = "id", **more: Any) -> ArchivedLog:
    """A log in pieces without records."""
    edges = [start, *ends]
    ranges = tuple(CopiedRange(start=a, end=b, file=None) for a, b in zip(edges, ends, strict=False))
    return ArchivedLog(tp=TopicPartition("t", 0), topic_id=topic_id, start=start, end=edges[-1], leader_epoch=0, ranges=ranges, **more)


def entry(event: ArchiveEvent, *logs: ArchivedLog, **more: Any) -> ArchiveEntry:
    return ArchiveEntry(event=event, run="r", at=1, cluster_id="c", logs=logs, **more)


@pytest.mark.parametrize(
    "more",
    [
        {"ranges": (CopiedRange(start=0, end=4, file=None), CopiedRange(start=5, end=9, file=None))},
        {"ranges": (CopiedRange(start=0, end=5, file=None), CopiedRange(start=4, end=9, file=None))},
        {"ranges": (CopiedRange(start=0, end=8, file=None),)},
        {"ranges": (), "gaps": ()},
        {"ranges": (CopiedRange(start=0, end=9, file=None),), "gaps": (Gap(start=3, end=4, reason=""),)},
    ],
)
def test_what_does_not_tile_its_log_is_no_piece_of_it(more: dict[str, Any]) -> None:
    with pytest.raises(Damaged, match="are not its log"):
        ArchivedLog(tp=TopicPartition("t", 0), topic_id="id", start=0, end=9, leader_epoch=0, **more)


def test_an_entry_that_skips_offsets_without_a_word_is_refused() -> None:
    archive = Archive().with_entry(1, entry(ArchiveEvent.BEGUN, log_of(5))).with_entry(2, entry(ArchiveEvent.COPIED, log_of(5, 9)))
    for wrong in (log_of(10, 12), log_of(8, 12), log_of(9, 12, topic_id="other")):
        with pytest.raises(Damaged, match="what is before ends at 9"):
            archive.with_entry(3, entry(ArchiveEvent.COPIED, wrong))
    after = archive.with_entry(3, entry(ArchiveEvent.COPIED, log_of(2, 12, topic_id="other", anew="created again")))
    assert [log.topic_id for log in after.logs[TopicPartition("t", 0)]] == ["id", "other"], "what was archived before stays"


def test_a_forged_key_is_no_file_of_an_archive() -> None:
    file = SegmentFile(
        key="other/segments/t/0/x.parquet", bytes=1, sha256="0" * 64, rows=1, first_offset=0, last_offset=0, min_timestamp=0, max_timestamp=0,
        payload_bytes=1, largest_record=1,
    )  # fmt: skip
    forged = replace(log_of(0, 1), ranges=(CopiedRange(start=0, end=1, file=file),))
    with pytest.raises(Damaged, match="not below orders/segments/"):
        entry(ArchiveEvent.COPIED, forged).checked("orders", "entry")
    twice = entry(ArchiveEvent.COPIED, log_of(0, 1), log_of(1, 2))
    with pytest.raises(Damaged, match="more than once"):
        twice.checked("orders", "entry")


def test_a_partition_that_was_added_since_is_told_of() -> None:
    world = World()
    world.write(0, 3)
    world.save(takes=False)
    world.look()
    world.add(ArchiveEvent.COPIED, (replace(log_of(0, 2, topic_id="id-0"), tp=TopicPartition("t", PARTITIONS)),))
    assert world.savepoint is not None
    found = extended(world.savepoint, world.archive)
    assert found is not None
    assert found.left == (f"t-{PARTITIONS} was added since the savepoint",)


def test_what_one_asks_changes_nothing_of_what_is_archived() -> None:
    archive = Archive().with_entry(1, entry(ArchiveEvent.BEGUN, log_of(5), safe_at=1))
    asked = archive.with_entry(2, ArchiveEntry(event=ArchiveEvent.ASKED, run="s", at=9, cluster_id="other"))
    assert asked == replace(archive, number=2, asked="s")
    answered = asked.with_entry(3, entry(ArchiveEvent.JOINED, log_of(5), answers="s"))
    assert (answered.asked, answered.answered) == ("", "s")


def test_a_limit_of_bytes_is_as_many_records_as_have_them() -> None:
    limits = TickLimits(records=40, file_records=16, payload=1_000)
    assert [limits.of_records(mean).records for mean in (0.0, 10.0, 100.0, 999.0, 5_000.0)] == [40, 40, 10, 1, 1], "a record at least"
    assert LIMITS.of_records(10**9) == LIMITS, "without a limit of bytes it does not matter how large they are"
