"""A simulated application at work beside an archiver that takes cuts of it: whatever happens, a savepoint at the newest cut has the state, the offsets and the
unread records of one moment, or there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.archive.join import behind, cut_behind, groups_to_join, with_joined
from streams_recovery.core.archive.log import Archive, ArchivedCut, ArchivedLog, ArchivedTail, ArchiveEntry, ArchiveEvent
from streams_recovery.core.archive.state import NoCut, StateTopics, at_cut, check_whole, plan_state, seen_at, seen_before
from streams_recovery.core.archive.tick import LogNow, TickLimits, archived_logs, archived_to, plan_tick
from streams_recovery.core.compaction.merge import Accepted, GroupToMerge
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import BackupResult, RangeCopied, RangeLost
from streams_recovery.core.kafka_types import ClaimedTopic, CommittedOffset, Consistency, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import MergeProof
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionCut, PartitionImage, SegmentFile
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
    now: int = 1_000
    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    moments: dict[int, Moment] = field(default_factory=dict)
    archive: Archive = field(default_factory=Archive)
    base: Manifest | None = None
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

    def drain(self) -> None:
        """What was unread is read, and deleted."""
        self.tail_read = self.logs[TAIL].start = self.logs[TAIL].end

    def copy(self, tp: TopicPartition, start: int, end: int) -> CopiedRange:
        rows = tuple((at, *row) for at, row in sorted(self.logs[tp].rows.items()) if start <= at < end)
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
        )

    def at(self, tp: TopicPartition) -> PartitionCut:
        """A partition at this moment."""
        log = self.logs[tp]
        offset = {INPUT: self.read, TAIL: self.tail_read}.get(tp)
        committed = None if offset is None else CommittedOffset(offset=offset, metadata="", leader_epoch=None)
        return PartitionCut(tp=tp, log_start=log.start, last_stable=log.end, end=log.end, leader_epoch=0, committed=committed)

    def note(self) -> None:
        unread = [key for at, (key, _) in sorted(self.logs[TAIL].rows.items()) if at >= self.tail_read]
        self.moments[self.now] = Moment(dict(self.state), self.read, unread)

    def save(self) -> None:
        """A savepoint that copies all of it, behind the guard: nothing is cleaned meanwhile. What it shares it has from the one before."""
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
            images.append(topic((_image(self.at(tp), pieces),), name=tp.topic, role=role, topic_id=self.logs[tp].topic_id))
        self.base, self.hopeless = manifest_of(*images, captured_at=self.now), False

    def add(self, event: ArchiveEvent, logs: tuple[ArchivedLog, ...] = (), cut: ArchivedCut | None = None) -> None:
        entry = ArchiveEntry(event=event, run="r", at=self.now, cluster_id="c", safe_at=self.now, logs=logs, cut=cut)
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
        state = None
        if found is not None:
            left = replace(LIMITS, records=LIMITS.records - sum(part.end - part.start for part in tick.parts))
            try:
                state = plan_state(ends, positions, left, found) if left.records > 0 else None
            except NoCut:
                self.hopeless = True
        parts = tick.parts if state is None else (*tick.parts, *state.parts)
        both = replace(tick, parts=parts)
        pieces, lost = [], []
        for wanted in both.ranges:
            if lose and wanted.tp == CHANGELOG:
                lost.append(RangeLost(tp=wanted.tp, start=wanted.start, end=wanted.end))
            else:
                copied = self.copy(wanted.tp, wanted.start, wanted.end)
                pieces.append(RangeCopied(tp=wanted.tp, copied=copied, fetched=0, log_start_after=self.logs[wanted.tp].start, worker="w"))
        logs = archived_logs(both, BackupResult(ranges=tuple(pieces), seconds=0, lost=tuple(lost)))
        cut = None
        if state is not None:
            mine = [log for log in logs if log.tp in (CHANGELOG, OUTPUT)]
            ranges = {part.now.tp: range(part.start, part.end) for part in state.parts}
            whole = {tp for tp, span in ranges.items() if not self.logs[tp].cleaned & {*span}}
            try:
                check_whole(mine, pieces, whole)
                cut = state.cut
            except NoCut:
                self.hopeless = True
                logs = tuple(log for log in logs if log not in mine)
        if logs or cut is not None:
            self.add(ArchiveEvent.COPIED, logs, cut)
            self.cuts += cut is not None

    def cut(self, ids: dict[str, str]) -> ArchivedCut | None:
        """An exact one, if the topics are those of the savepoint."""
        assert self.base is not None
        try:
            topics = StateTopics.of(self.base)
            topics.check("orders", ids, {name: _described(name, topic_id) for name, topic_id in ids.items()}, [INPUT, TAIL])
        except NoCut:
            return None
        tail = self.at(TAIL)
        self.note()
        found = ArchivedCut(
            captured_at=self.now,
            proof=self.base.proof,
            topics=topics.ids,
            inputs=(self.at(INPUT),),
            written=tuple(map(self.at, (CHANGELOG, TAIL, OUTPUT))),
            tails=(ArchivedTail(tp=TAIL, copied=self.copy(TAIL, tail.tail_start, tail.end)),) if tail.tail_start < tail.end else (),
        )
        return None if seen_at(found) == seen_before(self.base, self.archive) else found

    def seen(self, tp: TopicPartition) -> LogNow:
        log = self.logs[tp]
        return LogNow(tp=tp, topic_id=log.topic_id, leader_epoch=0, log_start=log.start, last_stable=log.end, high=log.end)

    def join(self) -> None:
        logs = behind(self.archive, self.base)
        groups = groups_to_join(self.archive, logs, file_records=LIMITS.file_records)
        self.add(ArchiveEvent.JOINED, with_joined(logs, [self.merged(group) for group in groups]), cut_behind(self.archive, self.base))

    def merged(self, group: GroupToMerge) -> Accepted:
        rows = tuple(row for file in group.files for row in self.files[file.key])
        merged = CopiedRange(start=group.start, end=group.end, file=self.stored(group.tp, rows))
        counted = {"files": len(group.files), "rows_before": len(rows), "rows_after": len(rows), "digest_before": "d", "digest_after": "d"}
        return Accepted(group=group, merged=merged, proof=MergeProof(tp=group.tp, start=group.start, end=group.end, **counted))

    def check(self) -> None:
        """The savepoint at the newest cut is what was true at that moment."""
        if self.base is None or not isinstance(there := at_cut(self.base, self.archive), Manifest):
            return
        truth = self.moments[there.captured_at]
        rows = {name: [row for file in image.files() for row in self.files[file.key]] for name, image in _images(there)}
        assert {key: value for _, key, value in rows[CHANGELOG.topic]} == truth.state
        assert there.committed()[INPUT].offset == truth.read
        assert [key for _, key, _ in rows[TAIL.topic]] == truth.unread


def _image(at: PartitionCut, pieces: list[CopiedRange]) -> PartitionImage:
    plain = {name: getattr(at, name) for name in ("log_start", "last_stable", "end", "leader_epoch", "committed")}
    return PartitionImage(**plain, partition=0, ranges=Ranges.of(pieces), gaps=())


def _images(manifest: Manifest) -> Iterator[tuple[str, PartitionImage]]:
    return ((topic.name, topic.partitions[0]) for topic in manifest.topics)


def _described(name: str, topic_id: str, partitions: int = 1) -> TopicDescription:
    return TopicDescription(
        name=name, topic_id=topic_id, partitions=partitions, replication_factor=1, config={}, leader_epochs=(0,) * partitions
    )


def cleaned_meanwhile(world: World, number: int) -> None:
    world.process(number % 4, -world.now)
    world.logs[CHANGELOG].clean()


def _recreated(world: World) -> None:
    world.logs[CHANGELOG] = Log(topic_id=f"id-{world.now}")
    world.logs[CHANGELOG].write(*world.state.items())


STEPS: dict[str, Callable[[World, int], None]] = {
    "process": lambda world, n: world.process(n % 4, world.now),
    "process much": lambda world, n: [world.process(key % 4, world.now + key) for key in range(n)] and None,
    "drain": lambda world, _: world.drain(),
    "clean": lambda world, _: world.logs[CHANGELOG].clean(),
    "look": lambda world, _: world.look(),
    "look while it works and is cleaned": lambda world, n: world.look(meanwhile=lambda: cleaned_meanwhile(world, n)),
    "look and find no cut": lambda world, _: world.look(cut_wanted=False),
    "look and lose": lambda world, _: world.look(lose=True),
    "join": lambda world, _: world.join(),
    "save": lambda world, _: world.save(),
    "make the changelog again": lambda world, _: _recreated(world),
}


@pytest.mark.fault("F70")
@pytest.mark.parametrize("examples", [300, pytest.param(20_000, marks=pytest.mark.deep)])
def test_a_savepoint_at_the_newest_cut_is_of_one_moment_whatever_happened(examples: int) -> None:
    @settings(max_examples=examples)
    @given(steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 9)), max_size=40))
    def try_many(steps: list[tuple[str, int]]) -> None:
        world = World()
        world.process(0, 0)
        world.save()
        world.now += 1_000
        for name, number in steps:
            STEPS[name](world, number)
            world.check()
            world.now += 1_000

    try_many()


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


def test_a_cut_is_found_each_time_that_something_was_processed_and_only_then() -> None:
    world = world_with_cut()
    assert world.base is not None
    there = at_cut(world.base, world.archive)
    assert isinstance(there, Manifest)
    assert there.captured_at == world.now
    assert there.savepoint_id == world.base.savepoint_id
    world.now += 1_000
    world.look()
    assert world.cuts == 2, "nothing has happened since"
    world.join()
    assert at_cut(world.base, world.archive) is not None
    world.save()
    assert at_cut(world.base, world.archive) is None, "the savepoint is newer"


def test_a_backlog_larger_than_a_look_comes_to_a_cut_in_several() -> None:
    world = World()
    world.process(0, 0)
    world.save()
    for key in range(20):
        world.process(key, key)
    looks = 0
    while not world.cuts:
        world.now += 1_000
        world.look()
        looks += 1
    assert looks > 3
    assert offered(world)
    for key in range(20):
        world.process(key, -key)
    world.now += 1_000
    world.look()
    world.join()
    assert world.cuts == 1, "what was copied is behind the cut, which is still there"
    assert offered(world)
    world.save()
    world.join()
    assert world.archive.cut is None


Altered = Callable[[World], World]


def of_cut(**changes: object) -> Altered:
    """A world whose newest cut has other facts."""
    return lambda world: replace(world, archive=replace(world.archive, cut=replace(world.archive.cut, **changes)))  # type: ignore[type-var]


def _changed(world: World, tp: TopicPartition, **changes: object) -> World:
    cut = world.archive.cut
    assert cut is not None
    written = tuple(replace(part, **changes) if part.tp == tp else part for part in cut.written)  # type: ignore[arg-type]
    inputs = tuple(replace(part, **changes) if part.tp == tp else part for part in cut.inputs)  # type: ignore[arg-type]
    return of_cut(written=written, inputs=inputs)(world)


def _with_end(world: World, tp: TopicPartition, end: int) -> World:
    return _changed(world, tp, end=end)


def _with_read(world: World, offset: int) -> World:
    return _changed(world, INPUT, committed=CommittedOffset(offset=offset, metadata=""))


def _with_start(world: World, start: int) -> World:
    return _changed(world, CHANGELOG, log_start=start)


def _with_gap(world: World) -> World:
    [log] = world.archive.logs[CHANGELOG]
    holed = replace(log, ranges=(), gaps=(Gap(start=log.start, end=log.end, reason="deleted"),))
    return replace(world, archive=replace(world.archive, logs={**world.archive.logs, CHANGELOG: (holed,)}))


@pytest.mark.parametrize(
    ("altered", "why"),
    [
        (of_cut(topics={"in": "id-0"}), "it is through other topics"),
        (of_cut(inputs=()), "it is through other partitions: in-0"),
        (of_cut(tails=()), "the unread records of orders-by-repartition-0 are not archived"),
        (lambda world: replace(world, archive=replace(world.archive, logs={})), "is not in the archive"),
        (lambda world: _with_end(world, CHANGELOG, 1_000), "orders-totals-changelog-0 is not archived from 2 to 1000"),
        (lambda world: _with_read(world, 1_000), "in-0 is archived up to 6, and was read up to 1000"),
        (lambda world: _with_start(world, 1), "records of orders-totals-changelog-0 before 1 were deleted since the savepoint"),
        (_with_gap, "orders-totals-changelog-0 is not archived from 2 to 6"),
    ],
)
def test_a_cut_without_its_whole_proof_is_not_offered(altered: Altered, why: str) -> None:
    world = altered(world_with_cut())
    assert world.base is not None
    found = at_cut(world.base, world.archive)
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize("consistency", [Consistency.AHEAD, Consistency.DAMAGED])
def test_no_cut_goes_on_from_a_savepoint_that_is_not_exact(consistency: Consistency) -> None:
    world = world_with_cut()
    assert world.base is not None
    other = replace(world.base, consistency=consistency)
    assert at_cut(other, world.archive) is None
    with pytest.raises(NoCut, match="is not an exact one with state"):
        StateTopics.of(other)


@pytest.mark.fault("F71")
def test_an_application_with_other_topics_than_the_savepoint_is_not_cut() -> None:
    world = world_with_cut()
    assert world.base is not None
    claimed = ClaimedTopic(topic="orders-eu-x-changelog", group="orders-eu")
    topics = StateTopics.of(replace(world.base, claimed=(claimed,)))
    there = {tp.topic: _described(tp.topic, "id-0") for tp in ROLES}
    topics.check("orders", [*there, "orders-eu-x-changelog", "payments"], there, [INPUT, TAIL])
    with pytest.raises(NoCut, match="does not know orders-more-changelog"):
        topics.check("orders", [*there, "orders-more-changelog"], there, [INPUT])
    with pytest.raises(NoCut, match="does not know payments"):
        topics.check("orders", there, there, [INPUT, TopicPartition("payments", 0)])
    for changed in (_described("in", "id-1"), _described("in", "id-0", partitions=2)):
        with pytest.raises(NoCut, match="in changed since the newest savepoint"):
            topics.check("orders", there, {**there, "in": changed}, [INPUT])
    with pytest.raises(NoCut, match="out changed since the newest savepoint"):
        topics.check("orders", there, {name: found for name, found in there.items() if name != "out"}, [INPUT])


@pytest.mark.parametrize(
    "altered",
    [
        lambda cut: replace(cut, topics={"../in": "id"}),
        lambda cut: replace(cut, inputs=(*cut.inputs, *cut.inputs)),
        lambda cut: replace(cut, written=(replace(cut.written[0], leader_epoch=-2),)),
        lambda cut: replace(cut, tails=tuple(replace(tail, tp=TopicPartition("elsewhere", -1)) for tail in cut.tails)),
        lambda cut: replace(cut, tails=tuple(_elsewhere(tail) for tail in cut.tails)),
    ],
)
def test_a_cut_that_names_what_no_application_has_is_refused(altered: Callable[[ArchivedCut], ArchivedCut]) -> None:
    cut = world_with_cut().archive.cut
    assert cut is not None
    entry = ArchiveEntry(event=ArchiveEvent.COPIED, run="r", at=1, cluster_id="c", cut=altered(cut))
    with pytest.raises(Damaged):
        entry.checked("orders", "entry")


def test_state_that_does_not_go_on_is_not_copied_before_the_next_savepoint() -> None:
    world = world_with_cut()
    ids = {tp.topic: log.topic_id for tp, log in world.logs.items()}
    positions = archived_to(world.archive, world.base, ids, state=True)
    cut = world.archive.cut
    assert cut is not None
    world.process(2, 2)
    now = world.seen(CHANGELOG)
    assert plan_state([now], positions, LIMITS, cut).cut is cut
    for other, why in (
        (replace(now, topic_id="id-1"), "the topic was created again"),
        (replace(now, high=1, last_stable=1), "it was truncated"),
        (replace(now, log_start=now.high), "was deleted up to 8, and is archived up to 6"),
        (replace(now, tp=TopicPartition("orders-totals-changelog", 1)), "does not have orders-totals-changelog-1"),
    ):
        with pytest.raises(NoCut, match=why):
            plan_state([other], positions, LIMITS, cut)


@pytest.mark.parametrize(("end", "joined"), [(4, []), (6, [CHANGELOG])])
def test_no_file_is_joined_across_the_cut(end: int, joined: list[TopicPartition]) -> None:
    found = _changed(world_with_cut(), CHANGELOG, end=end).archive
    groups = groups_to_join(found, {CHANGELOG: found.logs[CHANGELOG]}, file_records=LIMITS.file_records)
    assert [group.tp for group in groups] == joined


def test_state_is_proven_by_what_is_there_after_it_was_copied() -> None:
    [log] = world_with_cut().archive.logs[CHANGELOG]
    piece = RangeCopied(tp=CHANGELOG, copied=log.ranges[0], fetched=0, log_start_after=log.start, worker="w")
    check_whole([log], [piece], {CHANGELOG})
    with pytest.raises(NoCut, match="the log cleaner was at orders-totals-changelog-0"):
        check_whole([log], [piece], set())
    with pytest.raises(NoCut, match="was deleted while it was copied"):
        check_whole([log], [replace(piece, log_start_after=log.start + 1)], {CHANGELOG})
    holed = replace(log, ranges=(), gaps=(Gap(start=log.start, end=log.end, reason="deleted"),))
    with pytest.raises(NoCut, match="was deleted while it was copied"):
        check_whole([holed], [], {CHANGELOG})


def _elsewhere(tail: ArchivedTail) -> ArchivedTail:
    assert tail.copied.file is not None
    return replace(tail, copied=replace(tail.copied, file=replace(tail.copied.file, key="payments/segments/x.parquet")))
