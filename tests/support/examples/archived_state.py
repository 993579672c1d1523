"""A simulated application at work beside an archiver that takes cuts of it, and what is true of it at each moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from streams_recovery.core import codec
from streams_recovery.core.archive.cuts import ArchivedCut
from streams_recovery.core.archive.join import behind, cut_behind, groups_to_join, looks_behind, with_joined
from streams_recovery.core.archive.log import Archive, ArchivedLog, ArchiveEntry, ArchiveEvent
from streams_recovery.core.archive.state import (
    Broken,
    NoCut,
    StateTick,
    StateTopics,
    at_cut,
    at_kept_cut,
    check_read,
    check_whole,
    plan_state,
    seen_at,
    seen_before,
)
from streams_recovery.core.archive.tick import LogNow, TickLimits, archived_logs, archived_to, plan_tick
from streams_recovery.core.compaction.values import Accepted, RangeToCompact
from streams_recovery.core.jobs.spec import BackupResult, RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut, NamedProof
from streams_recovery.core.named_transactions.readings import Name
from streams_recovery.core.repository.compaction_proof import MergeProof
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionCut, PartitionImage, SegmentFile
from streams_recovery.core.repository.ranges import Ranges
from tests.support.examples.savepoints import manifest_of, topic

INPUT, CHANGELOG, TAIL, OUTPUT = (TopicPartition(name, 0) for name in ("in", "orders-totals-changelog", "orders-by-repartition", "out"))
ROLES = {INPUT: TopicRole.INPUT, CHANGELOG: TopicRole.CHANGELOG, TAIL: TopicRole.REPARTITION, OUTPUT: TopicRole.OUTPUT}
LIMITS = TickLimits(records=12, file_records=5)
Row = tuple[int, int, int]


@dataclass
class Log:
    """A log of one partition. ``rows`` are those that are there, by offset: a key and a value; offsets without one are markers, or were cleaned."""

    topic_id: str = "id-0"
    start: int = 0
    end: int = 0
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    cleaned: set[int] = field(default_factory=set)

    def write(self, *rows: tuple[int, int]) -> None:
        """In one transaction, with its marker."""
        for row in rows:
            self.rows[self.end] = row
            self.end += 1
        self.end += 1

    def clean(self) -> None:
        """Remove each row of which there is a newer one."""
        newest = {key: at for at, (key, _) in self.rows.items()}
        gone = {at for at, (key, _) in self.rows.items() if at != newest[key]}
        self.cleaned |= gone
        self.rows = {at: row for at, row in self.rows.items() if at not in gone}


@dataclass
class Moment:
    """What is true at a moment: the state, what was read, and what is unread."""

    state: dict[int, int]
    read: int
    unread: list[int]


@dataclass
class World:
    """The logs of an application, an archive with files, and what was true when."""

    logs: dict[TopicPartition, Log] = field(default_factory=lambda: {tp: Log() for tp in ROLES})
    state: dict[int, int] = field(default_factory=dict)
    read: int = 0
    tail_read: int = 0
    undecided: list[int] = field(default_factory=list)
    now: int = 1_000
    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    moments: dict[int, Moment] = field(default_factory=dict)
    archive: Archive = field(default_factory=Archive)
    base: Manifest | None = None
    older: list[Manifest] = field(default_factory=list)
    kept: list[ArchivedCut] = field(default_factory=list)
    hopeless: bool = False
    number: int = 0
    cuts: int = 0

    def process(self, key: int, value: int) -> None:
        """One more record of the input becomes state, one unread record and one result."""
        self.logs[INPUT].write((key, value))
        self.state[key] = value
        self.logs[CHANGELOG].write((key, value))
        self.logs[TAIL].write((key, value))
        self.logs[OUTPUT].write((key, value))
        self.read = self.logs[INPUT].end

    def begin(self, key: int) -> None:
        """A transaction without offsets sends an unread record on, and is not in the next cuts, which are by names."""
        self.undecided.append(self.logs[TAIL].end)
        self.logs[TAIL].write((key, key))

    def decide(self) -> None:
        """All transactions are in the next cut."""
        self.undecided.clear()

    def drain(self) -> None:
        """What was unread is read, and deleted."""
        self.decide()
        self.tail_read = self.logs[TAIL].start = self.logs[TAIL].end

    def copy(self, tp: TopicPartition, start: int, end: int, names: NamedLogCut | None = None) -> CopiedRange:
        taken = [at for at in sorted(self.logs[tp].rows) if start <= at < end and (names is None or names.takes(at))]
        rows = tuple((at, *self.logs[tp].rows[at]) for at in taken)
        return CopiedRange(start=start, end=end, file=self.stored(tp, rows))

    def stored(self, tp: TopicPartition, rows: tuple[Row, ...]) -> SegmentFile | None:
        if not rows:
            return None
        key = f"orders/segments/{tp.topic}/0/{len(self.files):020}.parquet"
        self.files[key] = rows
        return SegmentFile(
            key=key,
            bytes=100,
            sha256="0" * 64,
            rows=len(rows),
            first_offset=rows[0][0],
            last_offset=rows[-1][0],
            min_timestamp=1,
            max_timestamp=1,
            payload_bytes=len(rows),
            largest_record=1,
        )

    def at(self, tp: TopicPartition) -> PartitionCut:
        """A partition at this moment."""
        log = self.logs[tp]
        offset = {INPUT: self.read, TAIL: self.tail_read}.get(tp)
        committed = None if offset is None else CommittedOffset(offset=offset, metadata="", leader_epoch=None)
        return PartitionCut(tp=tp, log_start=log.start, last_stable=log.end, end=log.end, leader_epoch=0, committed=committed)

    def note(self) -> None:
        rows = sorted(self.logs[TAIL].rows.items())
        unread = [key for at, (key, _) in rows if at >= self.tail_read and at not in self.undecided]
        self.moments[self.now] = Moment(dict(self.state), self.read, unread)

    def save(self) -> None:
        """A savepoint that copies all of it, behind the guard: nothing is cleaned meanwhile. What it shares it has from the one before."""
        self.decide()
        self.note()
        before = {} if self.base is None else {topic.name: topic for topic in self.base.topics}
        images = []
        for tp, role in ROLES.items():
            old = before.get(tp.topic)
            same = old is not None and old.topic_id == self.logs[tp].topic_id and role is not TopicRole.REPARTITION
            pieces, start = (
                ([*old.partitions[0].ranges], old.partitions[0].end) if old is not None and same else ([], self.at(tp).tail_start)
            )
            if start < self.logs[tp].end:
                pieces.append(self.copy(tp, start, self.logs[tp].end))
            images.append(topic((image_of(self.at(tp), pieces),), name=tp.topic, role=role, topic_id=self.logs[tp].topic_id))
        self.older += [] if self.base is None else [self.base]
        self.base, self.hopeless = manifest_of(*images, captured_at=self.now), False

    def add(
        self, event: ArchiveEvent, logs: tuple[ArchivedLog, ...] = (), cut: ArchivedCut | None = None, looks: tuple[int, ...] = ()
    ) -> None:
        entry = ArchiveEntry(event=event, run="r", at=self.now, cluster_id="c", safe_at=self.now, logs=logs, cut=cut, looks=looks or None)
        entry = codec.loads(ArchiveEntry, codec.dumps(entry), where="entry").checked("orders", "entry")
        self.number += 1
        self.archive = self.archive.with_entry(self.number, entry)

    def look(self, *, lose: bool = False, cut_wanted: bool = True, meanwhile: Callable[[], None] = lambda: None) -> None:
        """One look of an archiver that knows nothing but what is stored. Something happens between the cut and the copy."""
        ids = {tp.topic: log.topic_id for tp, log in self.logs.items()}
        positions = archived_to(self.archive, self.base, ids, state=True)
        found = self.cut(ids) if cut_wanted and self.base is not None and not self.hopeless else None
        ends = [self.seen(CHANGELOG), self.seen(OUTPUT)]
        meanwhile()
        tick = plan_tick([self.seen(INPUT)], positions, LIMITS)
        pieces = tuple(self.piece(wanted) for wanted in tick.ranges)
        if tick.parts:
            self.add(ArchiveEvent.COPIED, archived_logs(tick, BackupResult(ranges=pieces, seconds=0)))
        left = replace(LIMITS, records=LIMITS.records - sum(part.end - part.start for part in tick.parts))
        if found is None or left.records < 1:
            return
        try:
            check_read(found[0], archived_to(self.archive, self.base, ids, state=True))
            self.copy_state(plan_state(ends, positions, left, *found), lose=lose)
        except Broken:
            self.hopeless = True
        except NoCut:
            pass

    def copy_state(self, planned: StateTick, *, lose: bool) -> None:
        pieces, lost = [], []
        for wanted in planned.tick.ranges:
            if lose and wanted.tp == CHANGELOG:
                lost.append(RangeLost(tp=wanted.tp, start=wanted.start, end=wanted.end))
            else:
                pieces.append(self.piece(wanted))
        logs = archived_logs(planned.tick, BackupResult(ranges=tuple(pieces), seconds=0, lost=tuple(lost)))
        spans = {part.now.tp: range(part.start, part.end) for part in planned.tick.parts}
        check_whole(logs, pieces, {tp for tp, span in spans.items() if not self.logs[tp].cleaned & {*span}})
        cut = planned.with_tails([self.piece(wanted) for wanted in planned.tails if self.logs[TAIL].start <= wanted.start])
        if logs or cut is not None:
            self.add(ArchiveEvent.COPIED, logs, cut)
            self.cuts += cut is not None
            self.kept += [] if cut is None else [cut]

    def piece(self, wanted: RangeToCopy) -> RangeCopied:
        copied = self.copy(wanted.tp, wanted.start, wanted.end, wanted.names)
        return RangeCopied(tp=wanted.tp, copied=copied, fetched=0, log_start_after=self.logs[wanted.tp].start, worker="w")

    def cut(self, ids: dict[str, str]) -> tuple[ArchivedCut, list[PartitionCut]] | None:
        """An exact one without its tail, if the topics are those of the savepoint, and the partition of the tail."""
        assert self.base is not None
        try:
            topics = StateTopics.of(self.base, ())
            topics.check("orders", ids, {name: described(name, topic_id) for name, topic_id in ids.items()}, [INPUT, TAIL])
        except NoCut:
            return None
        self.note()
        names = self.names() if self.undecided else None
        unread = self.at(TAIL) if names is None else replace(self.at(TAIL), end=names.logs[TAIL].end)
        found = ArchivedCut(
            captured_at=self.now,
            proof=replace(self.base.proof, names=names),
            topics=topics.ids,
            inputs=(self.at(INPUT),),
            written=(self.at(CHANGELOG), unread, self.at(OUTPUT)),
            tails=(),
        )
        return None if seen_at(found) == seen_before(self.base, self.archive) else (found, [unread])

    def names(self) -> NamedProof:
        """The proof of a cut without the transactions that are not decided. The look at the tail began at the first of them."""
        first, rows = self.undecided[0], self.logs[TAIL].rows
        mine = [at for at in rows if at >= first and at not in self.undecided]
        end = max(mine, default=first - 1) + 1
        out = [Excluded(producer_id=9, epoch=at, first=at, last=at, records=1, aborted=False) for at in self.undecided if at < end]
        tail = NamedLogCut(start=first, end=end, records=len(mine), excluded=tuple(out))
        group = TopicPartition("__consumer_offsets", 0)
        return NamedProof(group=group, group_end=1, last=(Name(9, first - 1),) if first else (), taken_back=(), logs={TAIL: tail})

    def seen(self, tp: TopicPartition) -> LogNow:
        log = self.logs[tp]
        return LogNow(tp=tp, topic_id=log.topic_id, leader_epoch=0, log_start=log.start, last_stable=log.end, high=log.end)

    def join(self) -> None:
        logs = behind(self.archive, self.base, state=True)
        groups = groups_to_join(self.archive, logs, file_records=LIMITS.file_records)
        looks = looks_behind(self.archive, self.base)
        joined = with_joined(logs, [self.merged(group) for group in groups])
        self.add(ArchiveEvent.JOINED, joined, cut_behind(self.archive, self.base), looks)

    def merged(self, group: RangeToCompact) -> Accepted:
        rows = tuple(row for file in group.files for row in self.files[file.key])
        merged = CopiedRange(start=group.start, end=group.end, file=self.stored(group.tp, rows))
        counted = {"files": len(group.files), "rows_before": len(rows), "rows_after": len(rows), "digest_before": "d", "digest_after": "d"}
        proof = MergeProof(tp=group.tp, start=group.start, end=group.end, **counted)
        return Accepted(wanted=group, ranges=(merged,), proof=proof)

    def check(self) -> None:
        """The savepoint at the newest cut is what was true at that moment."""
        if self.base is None or not isinstance(there := at_cut(self.base, self.archive), Manifest):
            return
        self.check_true(there)

    def offered(self) -> int:
        """How many of the cuts that were kept a restore to a moment may begin from. What each says is what was true at that moment."""
        bases = [base for base in (*self.older, self.base) if base is not None]
        found = [at_kept_cut(base, self.archive, cut) for cut in self.kept for base in bases if base.captured_at < cut.captured_at]
        for there in found:
            if isinstance(there, Manifest):
                self.check_true(there)
        offered = {there.captured_at for there in found if isinstance(there, Manifest)}
        behind = {at for at in offered if self.base is not None and at > self.base.captured_at}
        assert behind <= {*self.archive.looks}, "their moments are told"
        return len(offered)

    def check_true(self, there: Manifest) -> None:
        truth = self.moments[there.captured_at]
        rows = {
            name: [row for file in image.files() for row in self.files[file.key] if row[0] < image.end] for name, image in images_of(there)
        }
        assert {key: value for _, key, value in rows[CHANGELOG.topic]} == truth.state
        assert there.committed()[INPUT].offset == truth.read
        assert [key for _, key, _ in rows[TAIL.topic]] == truth.unread
        assert there.format_version == there.proof.format_version


def image_of(at: PartitionCut, pieces: list[CopiedRange]) -> PartitionImage:
    plain = {name: getattr(at, name) for name in ("log_start", "last_stable", "end", "leader_epoch", "committed")}
    return PartitionImage(**plain, partition=0, ranges=Ranges.of(pieces), gaps=())


def images_of(manifest: Manifest) -> Iterator[tuple[str, PartitionImage]]:
    return ((topic.name, topic.partitions[0]) for topic in manifest.topics)


def described(name: str, topic_id: str, partitions: int = 1) -> TopicDescription:
    return TopicDescription(
        name=name, topic_id=topic_id, partitions=partitions, replication_factor=1, config={}, leader_epochs=(0,) * partitions
    )


def offered(world: World) -> bool:
    """True when a restore may begin from the newest cut, and is right then."""
    world.check()
    assert world.base is not None
    return isinstance(at_cut(world.base, world.archive), Manifest)


def world_with_cut() -> World:
    """With one cut, and a record behind it."""
    world = World()
    world.process(0, 0)
    world.save()
    for _ in range(2):
        world.now += 1_000
        world.process(1, 1)
        world.look()
    assert world.cuts == 2
    world.check()
    return world
