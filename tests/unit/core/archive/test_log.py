"""A simulated archiver, with all that may happen to a log and to it: nothing is archived twice, nothing is missing without a word, and what is promised holds.

The logs are of a model that knows of each record when it was committed, under which topic id, and whether it was there when it was copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.archive.join import behind, groups_to_join, taken, with_joined
from streams_recovery.core.archive.log import Archive, ArchivedLog, ArchiveEntry, ArchiveEvent, archive_of, extended
from streams_recovery.core.archive.tick import ArchivedTo, LogNow, Safety, TickLimits, archived_logs, archived_to, plan_tick
from streams_recovery.core.compaction.merge import Accepted, GroupToMerge
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import BackupResult, RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import MergeProof
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionImage, SegmentFile
from streams_recovery.core.repository.ranges import Ranges
from tests.support.examples.savepoints import manifest_of, topic

LIMITS = TickLimits(records=40, file_records=16)
PARTITIONS = 2


@dataclass
class Log:
    """A partition as it is on its broker. ``records`` are all that were ever written under its id, by offset: the moment of their commit, None while their
    transaction is open; offsets that are not there are markers. ``ends`` are the ends of former leader epochs.
    """

    topic_id: str
    epoch: int = 0
    start: int = 0
    end: int = 0
    records: dict[int, int | None] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def stable(self) -> int:
        return min((at for at, committed in self.records.items() if committed is None and at >= self.start), default=self.end)


@dataclass
class World:
    """Logs, a repository of files with the offsets in them, an archive with its entries, and savepoints."""

    logs: list[Log] = field(default_factory=lambda: [Log("id-0") for _ in range(PARTITIONS)])
    files: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    entries: list[ArchiveEntry] = field(default_factory=list)
    savepoint: Manifest | None = None
    now: int = 1_000
    archive: Archive = field(default_factory=Archive)
    safety: Safety = field(default_factory=Safety)
    ids: int = 0
    known: Manifest | None = None
    positions: dict[TopicPartition, ArchivedTo] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    reached: dict[tuple[int, int], int] = field(default_factory=dict)

    def tp(self, number: int) -> TopicPartition:
        return TopicPartition("t", number)

    # What happens to the logs.

    def write(self, number: int, count: int, *, opened: bool = False) -> None:
        log = self.logs[number]
        for _ in range(count):
            log.records[log.end] = None if opened else self.now
            log.end += 1

    def commit(self, number: int) -> None:
        log = self.logs[number]
        for at, committed in log.records.items():
            if committed is None:
                log.records[at] = self.now
        log.end += 1

    def expire(self, number: int, count: int) -> None:
        log = self.logs[number]
        log.start = min(log.start + count, log.stable)

    def truncate(self, number: int, count: int) -> None:
        """An unclean election: the end is lost, and other records will come there."""
        log = self.logs[number]
        self.reached.clear()
        log.end = max(log.start, log.end - count)
        log.ends = {epoch: min(end, log.end) for epoch, end in log.ends.items()} | {log.epoch: log.end}
        log.epoch += 1
        log.records = {at: committed for at, committed in log.records.items() if at < log.end}

    def recreate(self) -> None:
        self.ids += 1
        self.logs = [Log(f"id-{self.ids}") for _ in self.logs]

    # What the archiver does.

    def seen(self, number: int) -> LogNow:
        log = self.logs[number]
        to = self.positions.get(self.tp(number))
        return LogNow(
            tp=self.tp(number),
            topic_id=log.topic_id,
            leader_epoch=log.epoch,
            log_start=log.start,
            last_stable=log.stable,
            high=log.end,
            epoch_end=None if to is None or to.leader_epoch is None else log.ends.get(to.leader_epoch),
        )

    def copied(self, wanted: RangeToCopy, attempt: int) -> RangeCopied:
        log = self.logs[wanted.tp.partition]
        there = tuple(at for at in sorted(log.records) if wanted.start <= at < wanted.end and log.records[at] is not None)
        return RangeCopied(
            tp=wanted.tp,
            copied=CopiedRange(start=wanted.start, end=wanted.end, file=self.stored(there, log.topic_id, attempt)),
            fetched=len(there),
            log_start_after=log.start,
            worker="w",
        )

    def stored(self, offsets: tuple[int, ...], topic_id: str, attempt: int) -> SegmentFile | None:
        if not offsets:
            return None
        key = f"orders/segments/t/0/{offsets[0]:020}-{offsets[-1] + 1:020}-{attempt}-{len(self.files)}.parquet"
        self.files[key] = topic_id, offsets
        return SegmentFile(
            key=key,
            bytes=8_000 + 10 * len(offsets),
            sha256="0" * 64,
            rows=len(offsets),
            first_offset=offsets[0],
            last_offset=offsets[-1],
            min_timestamp=0,
            max_timestamp=0,
            payload_bytes=len(offsets),
            largest_record=1,
        )

    def add(self, event: ArchiveEvent, logs: tuple[ArchivedLog, ...] = (), *, at: int | None = None, safe_at: int | None = None) -> None:
        safe_at = self.archive.safe_at if safe_at is None else safe_at
        entry = ArchiveEntry(event=event, run="r", at=self.now if at is None else at, cluster_id="c", safe_at=safe_at, logs=logs)
        entry = codec.loads(ArchiveEntry, codec.dumps(entry), where="entry").checked("orders", "entry")
        self.entries.append(entry)
        self.archive = self.archive.with_entry(len(self.entries), entry)
        self.positions |= {log.tp: ArchivedTo.of(log) for log in logs}

    def begin(self) -> None:
        """Another archiver: it knows what is stored and nothing else."""
        numbered = [(number, entry) for number, entry in enumerate(self.entries, 1)]
        self.archive = archive_of(reversed(numbered))
        self.safety, self.known = Safety(), self.savepoint
        self.positions = archived_to(self.archive, self.known, {"t": self.logs[0].topic_id})
        begins = tuple(
            ArchivedLog(tp=tp, topic_id=to.topic_id, start=to.end, end=to.end, leader_epoch=to.leader_epoch, ranges=())
            for tp, to in self.positions.items()
            if not to.anew
        )
        self.add(ArchiveEvent.BEGUN, begins)

    def look(self, *, crash: bool = False, lose: int = 0) -> None:
        if not self.entries:
            self.begin()
        at = self.now
        positions = dict(self.positions)
        logs = [self.seen(number) for number in range(PARTITIONS)]
        tick = plan_tick(logs, positions, LIMITS)
        if tick.begun_anew:
            self.safety.forget()
        self.safety.look(at, {log.tp: log.high for log in logs})
        pieces, lost = [], []
        for wanted in tick.ranges:
            begin = min(wanted.start + lose, wanted.end)
            if begin > wanted.start:
                lost.append(RangeLost(tp=wanted.tp, start=wanted.start, end=begin))
                self.logs[wanted.tp.partition].start = max(self.logs[wanted.tp.partition].start, begin)
            if begin < wanted.end:
                pieces.append(self.copied(replace(wanted, start=begin), len(self.entries)))
        copied = archived_logs(tick, BackupResult(ranges=tuple(pieces), seconds=0, lost=tuple(lost)))
        if crash:
            self.begin()
            return
        ends = {tp: to.end for tp, to in positions.items()} | {log.tp: log.end for log in copied}
        if copied:
            self.add(ArchiveEvent.COPIED, copied, at=at, safe_at=self.safety.safe_at(ends))
        else:
            self.add(ArchiveEvent.STILL, at=at, safe_at=self.safety.safe_at(ends))

    def join(self) -> None:
        self.known = self.savepoint
        logs = behind(self.archive, self.known)
        groups = groups_to_join(self.archive, logs, file_records=LIMITS.file_records)
        self.add(ArchiveEvent.JOINED, with_joined(logs, [self.merged(group) for group in groups]))
        self.removed |= {file.key for group in groups for file in group.files}
        self.positions = archived_to(self.archive, self.known, {"t": self.logs[0].topic_id})

    def merged(self, group: GroupToMerge) -> Accepted:
        offsets = tuple(at for file in group.files for at in self.files[file.key][1])
        topic_ids = {self.files[file.key][0] for file in group.files}
        assert len(topic_ids) == 1
        assert list(offsets) == sorted(set(offsets))
        file = self.stored(offsets, topic_ids.pop(), -1)
        merged = CopiedRange(start=group.start, end=group.end, file=file)
        proof = MergeProof(
            tp=group.tp,
            start=group.start,
            end=group.end,
            files=len(group.files),
            rows_before=len(offsets),
            rows_after=len(offsets),
            digest_before="d",
            digest_after="d",
        )
        return Accepted(group=group, merged=merged, proof=proof)

    # What a savepoint does.

    def save(self, *, takes: bool) -> None:
        """One that takes what is archived, or one that copies it all itself."""
        if takes and self.entries:
            self.add(ArchiveEvent.KEPT)
        images = []
        before = {} if self.savepoint is None else {one.partition: one for one in self.savepoint.topics[0].partitions}
        same = self.savepoint is not None and self.savepoint.topics[0].topic_id == self.logs[0].topic_id
        for number, log in enumerate(self.logs):
            old = before.get(number) if same else None
            truncated = old is not None and (old.end > log.end or (old.leader_epoch or 0) < log.epoch)
            images.append(self.image(number, None if truncated else old, takes=takes))
        held = topic(tuple(images), role=TopicRole.INPUT, topic_id=self.logs[0].topic_id)
        self.savepoint = manifest_of(held, captured_at=self.now)
        self.reached.clear()

    def image(self, number: int, old: PartitionImage | None, *, takes: bool) -> PartitionImage:
        log, tp = self.logs[number], self.tp(number)
        pieces = list(old.ranges) if old is not None else []
        gaps = list(old.gaps) if old is not None else []
        at = old.end if old is not None else log.start
        cut = PartitionImage(
            partition=number,
            log_start=log.start,
            last_stable=log.stable,
            end=log.stable,
            leader_epoch=log.epoch,
            committed=CommittedOffset(offset=log.start, metadata=""),
            ranges=Ranges.of(()),
            gaps=(),
        )
        found = self.archive.newest.get(tp)
        own = found if found is not None and found.topic_id == log.topic_id and found.leader_epoch == log.epoch else None
        got = taken(cut, TopicRole.INPUT, old, own) if takes and old is not None else None
        if got is not None:
            pieces += got.ranges
            gaps += got.gaps
            at = got.end
        begin = min(max(at, log.start), max(at, log.stable))
        if begin > at:
            gaps.append(Gap(start=at, end=begin, reason="deleted"))
        end = max(begin, log.stable)
        if begin < end:
            pieces.append(self.copied(RangeToCopy(tp=tp, start=begin, end=end, size_hint=0), -2).copied)
        return replace(cut, end=end, last_stable=max(end, log.stable), ranges=Ranges.of(pieces), gaps=tuple(gaps))

    # What must hold.

    def check(self) -> None:
        again = archive_of(reversed([(number, entry) for number, entry in enumerate(self.entries, 1)]))
        assert again == self.archive, "a reader that begins anew finds the same"
        if self.savepoint is None:
            return
        named = {one.file.key for image in self.savepoint.topics[0].partitions for one in image.ranges if one.file is not None}
        named |= {one.file.key for logs in self.archive.logs.values() for log in logs for one in log.ranges if one.file is not None}
        assert not named & self.removed, "what is still used is not removed"
        found = extended(self.savepoint, self.archive)
        for held in () if found is None else found.manifest.topics[0].partitions:
            self.check_image(found.manifest.topics[0].topic_id if found is not None else "", held)
            key = held.partition, held.leader_epoch or 0
            # Of a log that was truncated the archive goes on with what is left.
            if self.logs[held.partition].epoch == held.leader_epoch:
                assert held.end >= self.reached.get(key, 0), "what was archived behind a savepoint stays"
                self.reached[key] = held.end
        if found is not None and not found.left:
            self.check_promise(found.manifest, found.safe_at)

    def check_image(self, topic_id: str, held: PartitionImage) -> None:
        offsets = [at for one in held.ranges if one.file is not None for at in self.files[one.file.key][1]]
        assert offsets == sorted(set(offsets)), "nothing is there twice"
        assert all(self.files[one.file.key][0] == topic_id for one in held.ranges if one.file is not None), "nor of another topic"
        pieces = sorted([*((one.start, one.end) for one in held.ranges), *((gap.start, gap.end) for gap in held.gaps)])
        assert all(left[1] == right[0] for left, right in pairwise(pieces))
        assert not pieces or pieces[-1][1] == held.end

    def check_promise(self, manifest: Manifest, safe_at: int) -> None:
        """All that was committed by that moment, and that the log still has, is archived."""
        for held, log in zip(manifest.topics[0].partitions, self.logs, strict=True):
            if manifest.topics[0].topic_id != log.topic_id or held.leader_epoch != log.epoch:
                continue
            archived = {at for one in held.ranges if one.file is not None for at in self.files[one.file.key][1]}
            gone = {at for gap in held.gaps for at in range(gap.start, gap.end)}
            due = {
                at for at, committed in log.records.items() if committed is not None and committed < safe_at and at >= held.archived_from
            }
            assert due <= archived | gone


NUMBER = st.integers(0, PARTITIONS - 1)
COUNT = st.integers(1, 30)
STEPS = st.one_of(
    st.tuples(st.just("write"), NUMBER, COUNT),
    st.tuples(st.just("open"), NUMBER, COUNT),
    st.tuples(st.just("commit"), NUMBER),
    st.tuples(st.just("expire"), NUMBER, COUNT),
    st.tuples(st.just("truncate"), NUMBER, COUNT),
    st.tuples(st.just("recreate")),
    st.tuples(st.just("look")),
    st.tuples(st.just("look"), st.integers(0, 8)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("join")),
    st.tuples(st.just("save"), st.booleans()),
    st.tuples(st.just("begin")),
)


def settled(world: World) -> None:
    """An archiver that begins, and has looked at all there is."""
    world.begin()
    for _ in range(40):
        world.now += 10
        world.look()
    if world.savepoint is None or world.savepoint.topics[0].topic_id != world.logs[0].topic_id:
        return
    if any(image.leader_epoch != log.epoch for image, log in zip(world.savepoint.topics[0].partitions, world.logs, strict=True)):
        return
    found = extended(world.savepoint, world.archive)
    assert found is None or found.left == (), "the archive goes on behind every savepoint"


def lived(world: World, steps: Sequence[tuple[Any, ...]]) -> None:
    for name, *more in steps:
        world.now += 10
        match name:
            case "write":
                world.write(*more)
            case "open":
                world.write(*more, opened=True)
            case "commit" | "expire" | "truncate" | "recreate":
                getattr(world, str(name))(*more)
            case "look":
                world.look(lose=more[0] if more else 0)
            case "crash":
                world.look(crash=True)
            case "join" if world.entries:
                world.join()
            case "save":
                world.save(takes=bool(more[0]))
            case "begin":
                world.begin()
        world.check()


@settings(max_examples=250)
@given(st.lists(STEPS, min_size=15, max_size=60))
def test_whatever_happens_nothing_is_twice_and_nothing_is_missing_without_a_word(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    world.write(0, 3)
    world.save(takes=False)
    lived(world, steps)
    settled(world)


def test_a_week_of_intervals_stays_small_where_savepoints_are_taken() -> None:
    world = World()
    world.write(0, 5)
    world.save(takes=False)
    world.begin()
    for number in range(7 * 24 * 36):
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
    assert world.savepoint.records == 5 + 2 * 7 * 24 * 36
    assert sum(entry.event is ArchiveEvent.COPIED for entry in world.entries) == 7 * 24 * 36


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
