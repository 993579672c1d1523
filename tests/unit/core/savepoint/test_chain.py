"""Sharing between savepoints: nothing lost, nothing twice, and every reason to begin anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.jobs.spec import RangeToCopy
from streams_recovery.core.kafka_types import Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.manifest import CopiedRange, Gap, PartitionImage
from streams_recovery.core.repository.ranges import ArchiveFacts, RangeColumns, Ranges
from streams_recovery.core.repository.segment_file import joined
from streams_recovery.core.savepoint.chain import (
    ChainPolicy,
    PartitionCopy,
    archives,
    from_new_start,
    lacking,
    plan_partition,
    split,
    topic_full_reason,
)
from streams_recovery.core.savepoint.cut import deletions_kept
from tests.support.examples.savepoints import DAY, cut, image, manifest_of, segment, topic

TP = TopicPartition("t", 0)
POLICY = ChainPolicy(max_savepoints=3, max_age_days=7)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, set[int]]]:
    """A log at several moments: start, end and the offsets that hold records. It only grows, and only its beginning is deleted."""
    start, end, rows = 0, 0, set[int]()
    moments = []
    for _ in range(draw(st.integers(1, 6))):
        more = draw(st.integers(0, 12))
        rows |= {offset for offset in range(end, end + more) if draw(st.booleans())}
        end += more
        start = draw(st.integers(start, end)) if draw(st.booleans()) else start
        moments.append((start, end, {offset for offset in rows if offset >= start}))
    return moments


def behind(parent: Sequence[CopiedRange], new: Iterable[CopiedRange]) -> tuple[CopiedRange, ...]:
    """What a table holds in which both stand."""
    return tuple(RangeColumns.of("orders", TP, (*parent, *joined(new))))


def copy(plan: PartitionCopy, parent: PartitionImage | None, rows: set[int]) -> tuple[CopiedRange, ...]:
    shared = parent.ranges if parent is not None and plan.shares else ()
    if plan.missing is None:
        return behind(shared, ())
    piece = plan.missing
    parts = split(piece, 5)
    copied = [segment(p.start, p.end, sorted(o for o in rows if p.start <= o < p.end)) for p in reversed(parts)]
    return behind(shared, copied)


@given(moments=histories(), role=st.sampled_from([TopicRole.CHANGELOG, TopicRole.INPUT]))
def test_a_chain_never_loses_and_never_repeats(moments: list[tuple[int, int, set[int]]], role: TopicRole) -> None:
    parent: PartitionImage | None = None
    copied: list[int] = []
    for start, end, rows in moments:
        plan = plan_partition(cut(start=start, end=end), role, parent, None)
        if plan.full_because is not None:
            copied = []
        if plan.missing is not None:
            copied += [o for o in rows if plan.missing.start <= o < plan.missing.end]
        ranges = copy(plan, parent, rows)
        pieces = sorted([(r.start, r.end) for r in ranges] + [(g.start, g.end) for g in plan.gaps])
        assert all(left[1] == right[0] for left, right in pairwise(pieces)), "what is kept tiles the log"
        assert not pieces or pieces[-1][1] == end
        assert rows <= set(copied), "every record that is still there is in the savepoint"
        assert len(copied) == len(set(copied)), "and none of them twice"
        assert sum(r.file.rows for r in ranges if r.file) == len(copied)
        parent = PartitionImage(
            partition=0, log_start=start, last_stable=end, end=end, leader_epoch=0, committed=None, ranges=ranges, gaps=plan.gaps
        )


def test_an_input_s_lost_records_are_a_gap_and_a_changelog_s_a_new_beginning() -> None:
    before = image((segment(0, 10, [0, 9]),))
    input_copy = plan_partition(cut(start=15, end=20), TopicRole.INPUT, before, None)
    assert [(g.start, g.end) for g in input_copy.gaps] == [(10, 15)]
    assert input_copy.shares
    changelog_copy = plan_partition(cut(start=15, end=20), TopicRole.CHANGELOG, before, None)
    assert (changelog_copy.shares, changelog_copy.gaps) == (False, ())
    assert "starts at 15, after the last savepoint's end 10" in str(changelog_copy.full_because)


@pytest.mark.parametrize(
    ("now", "before", "reason"),
    [
        (cut(end=10), None, "new partition"),
        (cut(end=9), image((segment(0, 10, [9]),)), "it was truncated"),
        (cut(end=20, epoch=1), image((segment(0, 10, [9]),), epoch=2), "leader epoch went back"),
        (cut(end=20), image(()), "did not archive"),
        (cut(start=0, end=20), image((segment(5, 10, [9]),), start=5), "before the archive's 5"),
    ],
)
def test_a_partition_is_copied_from_its_start_when_it_is_not_the_same_log(now: object, before: PartitionImage | None, reason: str) -> None:
    plan = plan_partition(now, TopicRole.CHANGELOG, before, None)  # type: ignore[arg-type]
    assert reason in str(plan.full_because)
    assert not plan.shares
    assert plan.missing is not None
    assert plan.missing.start == 0


@pytest.mark.fault("F36")
@given(
    history=st.lists(st.tuples(st.integers(1, 10), st.integers(0, 10)), min_size=1, max_size=5),
    saved_at=st.integers(0, 4),
    role=st.sampled_from([TopicRole.CHANGELOG, TopicRole.INPUT]),
)
def test_a_log_is_shared_only_while_nothing_of_it_was_replaced(history: list[tuple[int, int]], saved_at: int, role: TopicRole) -> None:
    """Each step: a new leader that lost some records of the end, and what is written under it. The broker's answer is worked out from the log itself."""
    log: list[tuple[int, int]] = []  # (leader epoch, number of the write)
    saved: list[tuple[int, int]] | None = None
    saved_epoch, writes = 0, 0
    for epoch, (written, kept_back) in enumerate(history):
        log = log[: max(0, len(log) - kept_back)] if kept_back < 5 else log
        log += [(epoch, writes + number) for number in range(written)]
        writes += written
        if epoch == min(saved_at, len(history) - 1):
            saved, saved_epoch = list(log), epoch
    assert saved is not None
    epoch_end = sum(1 for written_under, _ in log if written_under <= saved_epoch)
    parent = image((segment(0, len(saved), [0]),), end=len(saved), epoch=saved_epoch)
    now = cut(end=len(log), epoch=len(history) - 1)
    plan = plan_partition(now, role, parent, None, epoch_end=epoch_end)
    assert plan.shares == (log[: len(saved)] == saved)
    unknown = plan_partition(now, role, parent, None, epoch_end=None)
    assert unknown.shares == (len(log) >= len(saved)), "without an answer only the length tells"


def test_an_input_of_which_nothing_was_left_keeps_its_gap() -> None:
    before = replace(image((), start=0), gaps=(Gap(start=0, end=10, reason="late"),))
    plan = plan_partition(cut(start=10, end=12), TopicRole.INPUT, before, None)
    assert plan.gaps == before.gaps
    assert plan.missing is not None
    assert (plan.missing.start, plan.missing.end, plan.missing.may_lose) == (10, 12, True)


@pytest.mark.fault("F23")
def test_only_what_is_not_state_may_lose_records() -> None:
    for role in TopicRole:
        missing = plan_partition(cut(end=5), role, None, None).missing
        assert missing is not None
        assert missing.may_lose == (role not in (TopicRole.CHANGELOG, TopicRole.REPARTITION))


@pytest.mark.fault("F87")
def test_a_changelog_whose_policy_deletes_may_lose_its_beginning_in_a_full_copy_alone() -> None:
    full = plan_partition(cut(end=5), TopicRole.CHANGELOG, None, None, deletes=True).missing
    assert full is not None
    assert full.may_lose
    more = plan_partition(cut(end=15), TopicRole.CHANGELOG, image((segment(0, 10, [1]),)), None, deletes=True).missing
    assert more is not None
    assert not more.may_lose, "the files of the last savepoint go on behind it"
    tail = plan_partition(cut(end=5), TopicRole.REPARTITION, None, None, deletes=True).missing
    assert tail is not None
    assert not tail.may_lose


@pytest.mark.fault("F87")
@given(edges=st.lists(st.integers(1, 30), min_size=1, max_size=5, unique=True).map(sorted), data=st.data())
def test_what_is_left_of_such_a_changelog_is_its_log_from_a_later_start(edges: list[int], data: st.DataObject) -> None:
    """Pieces that were copied before their records were deleted, pieces that were cut short, and pieces that were not there any more."""
    pieces, lost, gone = [], [], 0
    for start, end in pairwise([0, *edges]):
        gone = data.draw(st.integers(gone, max(gone, end)))
        begin = min(max(start, gone), end)
        lost += [Gap(start=start, end=begin, reason="late")] if begin > start else []
        pieces += [CopiedRange(start=begin, end=end, file=None)] if begin < end else []
    now, left = from_new_start(cut(end=edges[-1]), pieces, lost)
    assert (now.log_start, now.end) == (max((gap.end for gap in lost), default=0), edges[-1])
    tiles = [now.log_start, *(piece.end for piece in left)]
    assert [piece.start for piece in left] == tiles[:-1]
    assert tiles[-1] == now.end


def test_tails_are_never_shared_and_begin_at_the_commit() -> None:
    plan = plan_partition(cut(start=2, end=10, commit=6), TopicRole.REPARTITION, image((segment(0, 6, [1]),)), None)
    assert not plan.shares
    assert plan.missing is not None
    assert (plan.missing.start, plan.missing.end) == (6, 10)
    unread = plan_partition(cut(start=2, end=10), TopicRole.REPARTITION, None, None)
    assert unread.missing is not None
    assert unread.missing.start == 2


def test_idle_hours_leave_no_trace() -> None:
    ranges = behind((segment(0, 5, [4]), segment(5, 6, [])), [segment(6, 8, [])])
    assert [(r.start, r.end) for r in ranges] == [(0, 5), (5, 8)]


def test_the_next_savepoint_continues_a_compacted_one() -> None:
    compacted = tuple(replace(piece, compacted=Compaction.LATEST_PER_KEY) for piece in (segment(0, 8, [3, 7]), segment(8, 10, [])))
    plan = plan_partition(cut(start=0, end=14), TopicRole.CHANGELOG, image(compacted), None)
    assert plan.shares
    assert plan.full_because is None
    assert plan.missing is not None
    assert (plan.missing.start, plan.missing.end) == (10, 14)
    idle = segment(10, 14, [])
    assert behind(compacted, [idle]) == (*compacted, idle), "what was compacted is told from what merely held nothing"
    assert behind((*compacted, idle), [segment(14, 15, [])]) == (*compacted, segment(10, 15, []))


def test_a_compacted_partition_without_a_row_is_archived_all_the_same() -> None:
    nothing_lives = CopiedRange(start=0, end=10, file=None, compacted=Compaction.LATEST_PER_KEY)
    plan = plan_partition(cut(start=0, end=10), TopicRole.CHANGELOG, image((nothing_lives,)), None)
    assert (plan.shares, plan.missing, plan.full_because) == (True, None, None)


def full_reason(
    *,
    topic_id: str = "id-1",
    settings: dict[str, str] | None = None,
    before: dict[str, str] | None = None,
    at: int = 1_000,
    role: TopicRole = TopicRole.CHANGELOG,
    files: int = 1,
    since: int = 0,
    name: str = "t",
) -> str | None:
    ranges = Ranges(before=replace(ArchiveFacts.of(segment(i, i + 1, [i]) for i in range(files)), savepoints=files))
    known = topic((image(ranges, end=files),), since=since)
    parent = manifest_of(known if before is None else replace(known, config=before), captured_at=0)
    return topic_full_reason(role, topic_id, settings or {}, at, parent, name, POLICY)


def test_a_changelog_is_shared_while_nothing_speaks_against_it() -> None:
    assert full_reason() is None
    assert full_reason(at=DAY - 1) is None
    assert full_reason(files=2) is None


@pytest.mark.fault("F27")
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (full_reason(topic_id="id-2"), "id id-1 became id-2"),
        (full_reason(at=DAY), "tombstones may be gone"),
        (full_reason(at=-1), "taken 1 ms from now by its clock"),
        (full_reason(settings={"delete.retention.ms": "1000"}), "delete.retention.ms is 1000"),
        (full_reason(files=3), "files of 3 savepoints reached the limit of 3"),
        (full_reason(since=-8 * DAY), "8 days old, the limit is 7"),
        (full_reason(name="another"), "first savepoint"),
        (topic_full_reason(TopicRole.CHANGELOG, "id-1", {}, 0, None, "t", POLICY), "first savepoint"),
    ],
)
def test_every_reason_for_a_new_full_copy(found: str | None, reason: str) -> None:
    assert reason in str(found)


@pytest.mark.parametrize("role", [TopicRole.CHANGELOG, TopicRole.INPUT])
def test_what_the_last_savepoint_left_out_is_copied_in_full(role: TopicRole) -> None:
    # Its log was empty then, so that nothing else would show it.
    left_out = replace(topic((image((), start=7, end=7),), role=role), archived=False)
    assert topic_full_reason(role, "id-1", {}, 1_000, manifest_of(left_out), "t", POLICY) == "the last savepoint did not archive it"


def test_an_archived_input_is_shared_as_long_as_its_topic_lives() -> None:
    kept = {"cleanup.policy": "delete"}
    assert full_reason(role=TopicRole.INPUT, settings=kept, before=kept, at=100 * DAY, files=3, since=-99 * DAY) is None
    assert full_reason(role=TopicRole.INPUT, settings=kept, before=kept, topic_id="id-2") is not None


COMPACT, KEPT = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}


@pytest.mark.fault("F27")
@pytest.mark.parametrize("role", [TopicRole.INPUT, TopicRole.GLOBAL, TopicRole.OUTPUT])
@pytest.mark.parametrize(
    ("settings", "before", "at", "full"),
    [
        (COMPACT, COMPACT, DAY, True),
        (COMPACT, COMPACT, DAY - 1, False),
        ({"cleanup.policy": "compact,delete"}, COMPACT, DAY, True),
        (COMPACT | {"delete.retention.ms": "1000"}, COMPACT, 1_000, True),
        (COMPACT | {"delete.retention.ms": str(9 * DAY)}, COMPACT, DAY, False),
        (COMPACT | {"delete.retention.ms": str(9 * DAY)}, COMPACT | {"delete.retention.ms": "1000"}, 1_000, True),
        (KEPT, COMPACT, DAY, True),
        (COMPACT, KEPT, DAY, True),
        (KEPT, KEPT, 9 * DAY, False),
        (COMPACT, COMPACT, -1, True),
        (KEPT, KEPT, -1, False),
    ],
)
def test_what_a_compacted_topic_may_have_forgotten_is_not_inherited(
    role: TopicRole, settings: dict[str, str], before: dict[str, str], at: int, full: bool
) -> None:
    found = full_reason(role=role, settings=settings, before=before, at=at)
    assert (found is not None, "tombstones may be gone" in str(found)) == (full, full)


@given(start=st.integers(0, 50), length=st.integers(1, 200), most=st.integers(1, 60))
def test_a_long_range_is_copied_in_pieces_of_which_only_the_last_is_short(start: int, length: int, most: int) -> None:
    pieces = split(RangeToCopy(tp=TopicPartition("t", 0), start=start, end=start + length, size_hint=length), most)
    assert [offset for piece in pieces for offset in range(piece.start, piece.end)] == list(range(start, start + length))
    assert all(piece.end - piece.start == most for piece in pieces[:-1])
    assert all(piece.size_hint == piece.end - piece.start <= most for piece in pieces)


def test_the_pieces_of_one_savepoint_do_not_count_as_many() -> None:
    ranges = (*(segment(i * 10, i * 10 + 10, [i * 10]) for i in range(20)), segment(200, 205, [200]))
    parent = manifest_of(topic((image(ranges, end=205),)), captured_at=0)
    assert topic_full_reason(TopicRole.CHANGELOG, "id-1", {}, 1, parent, "t", POLICY) is None


def test_a_log_that_was_emptied_past_the_cut_is_a_gap_up_to_the_cut() -> None:
    plan = plan_partition(cut(start=160, end=150), TopicRole.INPUT, image((segment(90, 100, [99]),), start=90, end=100), None)
    assert [(gap.start, gap.end) for gap in plan.gaps] == [(100, 150)]
    assert plan.missing is None


RETENTION, SHORT = 100, 0


class CompactedLog:
    """A changelog under a cleaner: offsets with a key and a value, None for a deletion, and the moment until which the cleaner keeps that deletion."""

    def __init__(self) -> None:
        self.now, self.end, self.retention = 0, 0, RETENTION
        self.rows: dict[int, tuple[str, str | None]] = {}
        self.kept_until: dict[int, int] = {}
        self.state: dict[str, str] = {}

    def write(self, key: str, value: str | None) -> None:
        self.rows[self.end] = (key, value)
        self.end += 1
        if value is None:
            self.state.pop(key, None)
        else:
            self.state[key] = value

    def clean(self) -> None:
        newest = {key: offset for offset, (key, _) in sorted(self.rows.items())}
        for offset, (key, value) in list(self.rows.items()):
            # The horizon is set, by the setting of that time, when the cleaner first comes by.
            gone = newest[key] != offset or (value is None and self.now >= self.kept_until.setdefault(offset, self.now + self.retention))
            if gone:
                del self.rows[offset]

    def do(self, step: tuple[str, str]) -> None:
        what, key = step
        if what == "put":
            self.write(key, f"{key}{self.end}")
        elif what == "delete":
            self.write(key, None)
        elif what == "clean":
            self.now += 1
            self.clean()
        else:
            self.retention = SHORT if what == "lower" else RETENTION


def restored_from(log: CompactedLog, parts: Sequence[Sequence[tuple[str, str]]]) -> list[tuple[dict[str, str], dict[str, str], bool]]:
    """A savepoint behind each part of a history: the state that it restores, the true one, and whether it says what it takes for granted."""
    parent, known, archive, found = None, None, list[tuple[int, str, str | None]](), []
    for part in parts:
        for step in part:
            log.do(step)
        in_force = {"cleanup.policy": "compact", "delete.retention.ms": str(log.retention)}
        why = topic_full_reason(TopicRole.CHANGELOG, "id-1", in_force, log.now, parent, "t", POLICY)
        before = parent.topics[0].partitions[0] if parent is not None else None
        plan = plan_partition(cut(end=log.end), TopicRole.CHANGELOG, before, why, expires=False)
        start = plan.missing.start if plan.missing is not None else log.end
        new = [(offset, *row) for offset, row in sorted(log.rows.items()) if offset >= start]
        archive = [*(archive if plan.shares else ()), *new]
        pieces = [] if plan.missing is None else [segment(start, log.end, [offset for offset, _, _ in new])]
        read = [(one, False) for one in pieces]
        known = deletions_kept(read, known, parent.captured_at) if parent is not None and plan.shares else None
        state: dict[str, str | None] = {key: value for _, key, value in archive}
        found.append(({key: value for key, value in state.items() if value is not None}, dict(log.state), known is not None))
        ranges = (*(before.ranges if before is not None and plan.shares else ()), *pieces)
        kept = replace(topic((image(Ranges.of(ranges), end=log.end),)), config=in_force)
        parent = manifest_of(kept, captured_at=log.now)
    return found


STEP = st.tuples(st.sampled_from(["put", "put", "delete", "clean", "clean", "lower", "raise"]), st.sampled_from("abc"))
PART = st.lists(STEP, max_size=12).map(lambda steps: [*steps, ("raise", "")])


@settings(max_examples=400)
@given(parts=st.lists(PART, min_size=2, max_size=4))
def test_a_deletion_that_the_cleaner_may_have_taken_is_brought_back_by_no_savepoint_that_does_not_say_so(
    parts: list[list[tuple[str, str]]],
) -> None:
    for restored, true, assumes in restored_from(CompactedLog(), parts):
        assert restored == true or assumes


LOWERED = [("put", "a"), ("raise", "")], [("delete", "a"), ("put", "b"), ("lower", ""), ("clean", ""), ("clean", ""), ("raise", "")]


def test_where_the_setting_was_lowered_and_put_back_the_savepoint_says_what_it_takes_for_granted() -> None:
    first, second = restored_from(CompactedLog(), LOWERED)
    assert first == ({"a": "a0"}, {"a": "a0"}, False)
    assert second == ({"a": "a0", "b": "b2"}, {"b": "b2"}, True), "the key is back: nothing but the missing offset tells"
    *_, third = restored_from(CompactedLog(), [*LOWERED, [("put", "c")]])
    assert third[2], "whoever shares these files says it too"


@pytest.mark.fault("F27")
@pytest.mark.parametrize(
    ("offsets", "whole", "known", "expected"),
    [
        ([4, 5, 6, 7], False, None, None),
        ([4, 5, 7], False, None, 9),  # whatever the consumer received: one that was fetched ahead is no record of the range
        ([4, 5, 7], True, None, None),  # what is no record is a transaction's marker
        ([], False, None, 9),
        ([4, 5, 6, 7], False, 3, 3),
        ([4, 5, 6, 7], True, 3, 3),
    ],
)
def test_a_missing_offset_is_explained_by_the_log_s_batches_and_by_nothing_else(
    offsets: list[int], known: int | None, expected: int | None, *, whole: bool
) -> None:
    pieces = [(segment(0, 4, [0, 1, 2, 3]), False), (segment(4, 8, offsets), whole)]
    assert deletions_kept(pieces, known, 9) == expected


def test_a_log_that_was_not_cleaned_takes_nothing_for_granted() -> None:
    parts = [[("put", "a"), ("put", "b")], [("delete", "a"), ("put", "a")], [("delete", "b")]]
    assert [(restored == true, assumes) for restored, true, assumes in restored_from(CompactedLog(), parts)] == [(True, False)] * 3


def test_an_archive_is_looked_for_before_a_savepoint_that_left_it_out_and_only_there() -> None:
    one = replace(topic((image((segment(0, 10, [1]),)),)), name="in", role=TopicRole.INPUT)
    left_out, wanted = replace(one, archived=False), {"in": "id-1"}
    assert lacking(manifest_of(left_out), wanted) == wanted
    assert lacking(manifest_of(one), wanted) == {}
    assert lacking(manifest_of(), wanted) == {}, "one that is new was left out by nobody"
    assert archives(manifest_of(one), wanted)
    assert not archives(manifest_of(left_out), wanted)
    assert not archives(manifest_of(replace(one, topic_id="id-2")), wanted), "another topic of that name"
    assert not archives(manifest_of(one, consistency=Consistency.EDITED), wanted)
