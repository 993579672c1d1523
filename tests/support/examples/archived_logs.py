"""Simulated logs, their leaders and retention, an archiver and savepoints of them, and what a restore may have: of each record it is known when it was
committed, and when the log was cut back below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from streams_recovery.core import codec
from streams_recovery.core.archive.join import behind, groups_to_join, is_same_log, taken, with_joined
from streams_recovery.core.archive.log import Archive, ArchivedLog, ArchiveEntry, ArchiveEvent, archive_of, extended
from streams_recovery.core.archive.tick import ArchivedTo, LogNow, Safety, Tick, TickLimits, archived_logs, archived_to, plan_tick
from streams_recovery.core.compaction.values import Accepted, RangeToCompact
from streams_recovery.core.jobs.spec import BackupResult, RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import MergeProof
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionCut, PartitionImage, SegmentFile
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.savepoint.chain import plan_partition
from tests.support.examples.savepoints import manifest_of, topic

LIMITS = TickLimits(records=40, file_records=16)
PARTITIONS = 2


@dataclass
class Record:
    """A record. ``committed`` is None while its transaction is open, and ``cut`` is when the log was cut back below it, None while it was not."""

    serial: int
    written: int
    committed: int | None
    cut: int | None = None


@dataclass
class Log:
    """A partition as it is on its broker. ``records`` are all that were ever written under its id and not cut off, by offset; offsets that are not there are
    markers. ``starts`` is where each leader epoch began, as the broker remembers it: only those of which it has records.
    """

    topic_id: str
    epoch: int = 0
    start: int = 0
    end: int = 0
    records: dict[int, Record] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=lambda: {0: 0})

    @property
    def stable(self) -> int:
        return min((at for at, one in self.records.items() if one.committed is None and at >= self.start), default=self.end)

    def epoch_end(self, epoch: int) -> int | None:
        """The answer of a broker to OffsetsForLeaderEpoch: it knows only epochs with records, and the first of these begins with its log."""
        if epoch > self.epoch:
            return None
        return min((at for one, at in self.starts.items() if one > epoch), default=self.end)

    def deleted(self, upto: int) -> None:
        """Retention."""
        self.start = max(self.start, min(upto, self.stable))
        first = max((epoch for epoch, at in self.starts.items() if at <= self.start), default=min(self.starts, default=0))
        self.starts = {epoch: max(at, self.start) for epoch, at in self.starts.items() if epoch >= first}


@dataclass
class World:
    """Logs, a repository of files with the offsets in them, an archive with its entries, and savepoints."""

    logs: list[Log] = field(default_factory=lambda: [Log("id-0") for _ in range(PARTITIONS)])
    files: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    kept: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    serials: int = 0
    copies: int = 0
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
    checked: tuple[object, ...] = ()

    def tp(self, number: int) -> TopicPartition:
        return TopicPartition("t", number)

    # What happens to the logs.

    def write(self, number: int, count: int, *, opened: bool = False) -> None:
        log = self.logs[number]
        for _ in range(count):
            self.serials += 1
            log.records[log.end] = Record(self.serials, self.serials, None if opened else self.now)
            log.end += 1

    def commit(self, number: int) -> None:
        log = self.logs[number]
        for one in log.records.values():
            if one.committed is None:
                one.committed = self.now
        log.end += 1

    def expire(self, number: int, count: int) -> None:
        self.logs[number].deleted(self.logs[number].start + count)

    def expire_to(self, number: int, which: int) -> None:
        """Retention up to exactly where something ends: the savepoint, the archive, or the log."""
        saved = [] if self.savepoint is None else [one.end for one in self.savepoint.topics[0].partitions if one.partition == number]
        archived = [to.end for tp, to in self.positions.items() if tp.partition == number]
        ends = (*saved, *archived, self.logs[number].stable)
        self.logs[number].deleted(ends[which % len(ends)])

    def elect(self, number: int) -> None:
        """Another leader, with all records."""
        log = self.logs[number]
        log.epoch += 1
        log.starts[log.epoch] = log.end

    def truncate(self, number: int, count: int) -> None:
        """An unclean election: the end is lost, and other records will come there."""
        log = self.logs[number]
        self.reached.clear()
        log.end = max(log.start, log.end - count)
        log.starts = {epoch: at for epoch, at in log.starts.items() if at < log.end}
        log.epoch += 1
        log.starts[log.epoch] = log.end
        self.serials += 1
        for at in [at for at in log.records if at >= log.end]:
            log.records.pop(at).cut = self.serials

    def recreate(self) -> None:
        self.ids += 1
        self.reached.clear()
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
            epoch_end=None if to is None or to.leader_epoch in (None, log.epoch) else log.epoch_end(to.leader_epoch or 0),
        )

    def copied(self, wanted: RangeToCopy, attempt: int) -> RangeCopied:
        log = self.logs[wanted.tp.partition]
        there = tuple(at for at in sorted(log.records) if wanted.start <= at < wanted.end and log.records[at].committed is not None)
        self.copies += len(there)
        return RangeCopied(
            tp=wanted.tp,
            copied=CopiedRange(
                start=wanted.start, end=wanted.end, file=self.stored(there, log.topic_id, attempt, [log.records[at] for at in there])
            ),
            fetched=len(there),
            log_start_after=log.start,
            worker="w",
        )

    def stored(self, offsets: tuple[int, ...], topic_id: str, attempt: int, records: Sequence[Record]) -> SegmentFile | None:
        if not offsets:
            return None
        key = f"orders/segments/t/0/{offsets[0]:020}-{offsets[-1] + 1:020}-{attempt}-{len(self.files)}.parquet"
        self.files[key] = topic_id, offsets
        self.kept[key] = tuple(records)
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
        entry = ArchiveEntry(
            event=event,
            run="r",
            at=self.now if at is None else at,
            cluster_id="c",
            safe_at=self.safety.promised if safe_at is None else safe_at,
            logs=logs,
        )
        entry = codec.loads(ArchiveEntry, codec.dumps(entry), where="entry").checked("orders", "entry")
        self.entries.append(entry)
        self.archive = self.archive.with_entry(len(self.entries), entry)
        self.positions |= {log.tp: ArchivedTo.of(log) for log in logs}

    def begin(self) -> None:
        """Another archiver: it knows what is stored and nothing else."""
        numbered = [(number, entry) for number, entry in enumerate(self.entries, 1)]
        self.archive = archive_of(reversed(numbered))
        self.safety, self.known = Safety.after(self.archive), self.savepoint
        self.positions = archived_to(self.archive, self.known, {"t": self.logs[0].topic_id})
        begins = tuple(
            ArchivedLog(tp=tp, topic_id=to.topic_id, start=to.end, end=to.end, leader_epoch=to.leader_epoch, ranges=())
            for tp, to in self.positions.items()
            if not to.anew
        )
        self.add(ArchiveEvent.BEGUN, begins)

    def go_on(self) -> None:
        """What an archiver does each minute."""
        self.known = self.savepoint
        self.positions = archived_to(self.archive, self.known, {"t": self.logs[0].topic_id})

    def look(self, *, crash: bool = False, fail: bool = False, lose: int = 0) -> None:
        if not self.entries:
            self.begin()
        at = self.now
        if any(to.leader_epoch != self.logs[tp.partition].epoch for tp, to in self.positions.items()):
            self.go_on()
        positions = dict(self.positions)
        logs = [self.seen(number) for number in range(PARTITIONS)]
        tick = plan_tick(logs, positions, LIMITS)
        if tick.begun_anew:
            self.safety.forget()
        self.safety.look(at, {log.tp: log.high for log in logs})
        copied = self.got(tick, lose)
        if crash:
            self.begin()
            return
        if fail:
            # The store did not take the entry.
            return
        if copied:
            self.add(ArchiveEvent.COPIED, copied, at=at, safe_at=self.safety.safe_at(tick.reached))
        self.safety.recorded(tick.reached)
        if not copied:
            self.add(ArchiveEvent.STILL)

    def got(self, tick: Tick, lose: int) -> tuple[ArchivedLog, ...]:
        """What tasks copy, while retention deletes so many records before they come to them."""
        pieces, lost = [], []
        for wanted in tick.ranges:
            begin = min(wanted.start + lose, wanted.end)
            if begin > wanted.start:
                lost.append(RangeLost(tp=wanted.tp, start=wanted.start, end=begin))
                self.logs[wanted.tp.partition].deleted(begin)
            if begin < wanted.end:
                pieces.append(self.copied(replace(wanted, start=begin), len(self.entries)))
        return archived_logs(tick, BackupResult(ranges=tuple(pieces), seconds=0, lost=tuple(lost)))

    def join(self) -> None:
        self.known = self.savepoint
        logs = behind(self.archive, self.known)
        groups = groups_to_join(self.archive, logs, file_records=LIMITS.file_records)
        self.add(ArchiveEvent.JOINED, with_joined(logs, [self.merged(group) for group in groups]))
        self.removed |= {file.key for group in groups for file in group.files}
        self.positions = archived_to(self.archive, self.known, {"t": self.logs[0].topic_id})

    def merged(self, group: RangeToCompact) -> Accepted:
        offsets = tuple(at for file in group.files for at in self.files[file.key][1])
        topic_ids = {self.files[file.key][0] for file in group.files}
        assert len(topic_ids) == 1
        assert list(offsets) == sorted(set(offsets))
        file = self.stored(offsets, topic_ids.pop(), -1, [one for file in group.files for one in self.kept[file.key]])
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
        return Accepted(wanted=group, ranges=(merged,), proof=proof)

    # What a savepoint does.

    def save(self, *, takes: bool) -> None:
        """One that takes what is archived, or one that copies it all itself."""
        if takes and self.entries:
            self.add(ArchiveEvent.KEPT)
        images = []
        before = {} if self.savepoint is None else {one.partition: one for one in self.savepoint.topics[0].partitions}
        same = self.savepoint is not None and self.savepoint.topics[0].topic_id == self.logs[0].topic_id
        why_full = "" if same else "another topic"
        images = [self.image(number, before.get(number), why_full, takes=takes) for number in range(PARTITIONS)]
        held = topic(tuple(images), role=TopicRole.INPUT, topic_id=self.logs[0].topic_id)
        self.savepoint = manifest_of(held, captured_at=self.now)
        self.reached.clear()

    def image(self, number: int, old: PartitionImage | None, why_full: str, *, takes: bool) -> PartitionImage:
        log, tp = self.logs[number], self.tp(number)
        cut = PartitionCut(
            tp=tp,
            log_start=log.start,
            last_stable=log.stable,
            end=log.stable,
            leader_epoch=log.epoch,
            committed=CommittedOffset(offset=log.start, metadata=""),
        )
        known = None if old is None or old.leader_epoch in (None, log.epoch) else log.epoch_end(old.leader_epoch or 0)
        copy = plan_partition(cut, TopicRole.INPUT, old, why_full or None, epoch_end=known)
        shared = old if copy.shares else None
        pieces = [] if shared is None else list(shared.ranges)
        gaps = list(copy.gaps)
        missing = copy.missing
        found = self.archive.newest.get(tp)
        own = found if found is not None and found.topic_id == log.topic_id and takes else None
        if own is not None and not is_same_log(own, cut, None if own.leader_epoch is None else log.epoch_end(own.leader_epoch)):
            own = None
        got = None if shared is None else taken(cut, TopicRole.INPUT, shared, own)
        end = cut.end if shared is None else max(cut.end, shared.end)
        if got is not None and shared is not None:
            pieces += got.ranges
            gaps = [*shared.gaps, *got.gaps]
            begin = min(max(got.end, log.start), max(got.end, log.stable))
            if begin > got.end:
                gaps.append(Gap(start=got.end, end=begin, reason="deleted"))
            end = max(begin, log.stable)
            missing = RangeToCopy(tp=tp, start=begin, end=end, size_hint=0) if begin < end else None
        if missing is not None:
            pieces.append(self.copied(missing, -2).copied)
        return PartitionImage(
            partition=number,
            log_start=log.start,
            last_stable=max(end, log.stable),
            end=end,
            leader_epoch=log.epoch,
            committed=cut.committed,
            ranges=Ranges.of(pieces),
            gaps=tuple(gaps),
        )

    # What must hold.

    def check(self) -> None:
        """Check what is stored, after a step that changed it, or a log below it: records that come, go or are committed change nothing of what it says."""
        now = len(self.entries), self.savepoint, len(self.removed), *((log.topic_id, log.epoch) for log in self.logs)
        if now == self.checked:
            return
        self.checked = now
        again = archive_of(reversed([(number, entry) for number, entry in enumerate(self.entries, 1)]))
        assert again == self.archive, "a reader that begins anew finds the same"
        if self.savepoint is None:
            return
        named = {one.file.key for image in self.savepoint.topics[0].partitions for one in image.ranges if one.file is not None}
        named |= {one.file.key for logs in self.archive.logs.values() for log in logs for one in log.ranges if one.file is not None}
        assert not named & self.removed, "what is still used is not removed"
        for held in self.savepoint.topics[0].partitions:
            self.check_image(self.savepoint.topics[0].topic_id, held)
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
        rows = [one for piece in held.ranges if piece.file is not None for one in self.kept[piece.file.key]]
        if rows:
            cut = min((one.cut for one in rows if one.cut is not None), default=self.serials + 1)
            assert max(one.written for one in rows) < cut, "all of it was in one log at one moment"
        pieces = sorted([*((one.start, one.end) for one in held.ranges), *((gap.start, gap.end) for gap in held.gaps)])
        assert all(left[1] == right[0] for left, right in pairwise(pieces))
        assert not pieces or pieces[-1][1] == held.end

    def check_promise(self, manifest: Manifest, safe_at: int) -> None:
        """All that was committed by that moment, and that is in the log there is now, is archived, or a gap on record."""
        for held, log in zip(manifest.topics[0].partitions, self.logs, strict=True):
            archived = {one.serial for piece in held.ranges if piece.file is not None for one in self.kept[piece.file.key]}
            gone = {at for gap in held.gaps for at in range(gap.start, gap.end)}
            same = manifest.topics[0].topic_id == log.topic_id
            first = held.archived_from if same else log.start
            due = {
                one.serial
                for at, one in log.records.items()
                if one.committed is not None and one.committed < safe_at and at >= first and not (same and at in gone)
            }
            assert due <= archived
