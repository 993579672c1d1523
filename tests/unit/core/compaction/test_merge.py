"""Which small files are merged, what a merge has to show before it replaces anything, and what a year of savepoints comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.compaction import rewritten
from streams_recovery.core.compaction.small_files import MergeLimits, groups, plan_files
from streams_recovery.core.compaction.values import Accepted, CompactionPlan, How, RangeCompacted, RangeToCompact
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import CompactedFrom, Compaction, CompactionProof
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, Provenance, SegmentFile
from streams_recovery.core.repository.ranges import NOTHING, Ranges
from streams_recovery.core.savepoint.chain import ChainPolicy, topic_full_reason
from tests.support.examples.savepoints import image, manifest_of, topic
from tests.support.repository.stored import stored, with_keys

LIMITS = MergeLimits(max_records=500_000, least_files=24)
FEW = MergeLimits(max_records=1_000, least_files=3)
PROVENANCE = Provenance(run_id="r2", requested_by="me", reason="", software={})
SMALLER = Compaction.LATEST_PER_KEY
HOURS = 8_760


def piece(start: int, rows: int, *, idle: int = 0, size: int | None = None, compacted: Compaction | None = None) -> CopiedRange:
    """So many rows from ``start`` on, and ``idle`` offsets behind them; without rows no file."""
    end = start + rows + idle
    if not rows:
        return CopiedRange(start=start, end=end, file=None, compacted=compacted)
    file = SegmentFile(
        key=f"orders/segments/t/0/{start:020}-{end:020}-a.parquet",
        bytes=8_000 + 40 * rows if size is None else size,
        sha256="0" * 64,
        rows=rows,
        first_offset=start,
        last_offset=start + rows - 1,
        min_timestamp=start,
        max_timestamp=start + rows,
        payload_bytes=10 * rows,
        largest_record=1,
    )
    return CopiedRange(start=start, end=end, file=file, compacted=compacted)


def tiled(rows: Iterable[int], **more: object) -> list[CopiedRange]:
    """Ranges behind each other, each with so many rows, one without a row for 0."""
    pieces: list[CopiedRange] = []
    for count in rows:
        pieces.append(piece(pieces[-1].end if pieces else 0, count, idle=0 if count else 5, **more))  # type: ignore[arg-type]
    return pieces


def joined(group: Sequence[CopiedRange]) -> CopiedRange:
    """What a flawless job makes of a group."""
    files = [one.file for one in group if one.file is not None]
    start, end = group[0].start, group[-1].end
    file = replace(
        files[0],
        key=f"orders/segments/t/0/{start:020}-{end:020}-merged.parquet",
        bytes=sum(one.bytes for one in files),
        rows=sum(one.rows for one in files),
        last_offset=files[-1].last_offset,
        max_timestamp=max(one.max_timestamp for one in files),
        payload_bytes=sum(one.payload_bytes for one in files),
        largest_record=1,
    )
    return CopiedRange(start=start, end=end, file=file, compacted=group[0].compacted)


def sizes(ranges: Sequence[CopiedRange], limits: MergeLimits = FEW) -> list[list[int]]:
    """The rows of the files of each group."""
    return [[one.file.rows for one in group if one.file is not None] for group in groups(ranges, limits)]


class Year:
    """One partition, its ranges, and how often each of its records was written again: that of a range is the most of any of its records."""

    def __init__(self, limits: MergeLimits) -> None:
        self.limits = limits
        self.ranges: list[CopiedRange] = []
        self.again: dict[int, int] = {}
        self.rewritten = 0

    def hour(self, rows: int, size: int | None = None) -> None:
        """A savepoint."""
        start = self.ranges[-1].end if self.ranges else 0
        self.ranges.append(piece(start, rows, idle=0 if rows else 1, size=size))
        self.again[start] = 0

    def merge(self) -> None:
        """What a day does."""
        at = {one.start: number for number, one in enumerate(self.ranges)}
        for group in reversed(list(groups(self.ranges, self.limits))):
            first = at[group[0].start]
            assert self.ranges[first : first + len(group)] == list(group)
            new = joined(group)
            assert new.file is not None
            assert self.limits.allow(new.file.rows, new.file.bytes)
            self.rewritten += new.file.rows
            self.again[new.start] = 1 + max(self.again.get(one.start, 0) for one in group)
            self.ranges[first : first + len(group)] = [new]

    @property
    def files(self) -> list[SegmentFile]:
        return [one.file for one in self.ranges if one.file is not None]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def most(self) -> int:
        """How many files are too many, besides those that are full."""
        full = sum(1 for file in self.files if self.limits.full(file.rows, file.bytes))
        return full + self.limits.least_files + 4 * self.limits.growth


def lived(rates: Sequence[int], limits: MergeLimits = LIMITS) -> Year:
    """Hourly savepoints with so many rows, and a merge every day."""
    year = Year(limits)
    for hour, rows in enumerate(rates, 1):
        year.hour(rows)
        if hour % 24 == 0:
            year.merge()
    return year


@pytest.mark.parametrize("rate", [1, 7, 28, 100, 1_000, 6_000, 10_000, 20_000, 24_999, 100_000, 249_999, 250_000, 500_000])
def test_a_year_of_hourly_savepoints_has_few_full_files_and_writes_no_record_often(rate: int) -> None:
    year = lived([rate] * HOURS)
    assert year.rows == rate * HOURS
    assert all(before.end == after.start for before, after in pairwise(year.ranges))
    assert len(year.files) <= year.rows / 250_000 + 60
    assert len(year.files) <= year.most()
    assert max(year.again.values()) <= 5
    assert year.rewritten <= 5 * year.rows
    if rate >= 250_000:
        assert year.rewritten == 0, "what is full already stays as it is"


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 30, 2_000, 90_000, 240_000, 600_000]), st.integers(1, 400), st.integers(0, 5)),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([2, 5, 24, 60]),
)
@settings(deadline=None, max_examples=60)
def test_whatever_comes_is_tiled_in_order_and_within_the_limits(bursts: list[tuple[int, int, int]], least: int) -> None:
    rates = [rate + (hour * 7) % (spread + 1) if rate else 0 for rate, hours, spread in bursts for hour in range(hours)]
    year = lived(rates, MergeLimits(max_records=500_000, least_files=least))
    assert year.rows == sum(rates)
    assert (year.ranges[0].start, sum(one.end - one.start for one in year.ranges)) == (0, year.ranges[-1].end)
    assert all(before.end == after.start for before, after in pairwise(year.ranges))
    assert all(file.rows <= 500_000 or file.rows in rates for file in year.files)
    if least >= 24:
        assert max(year.again.values()) <= 7
        # Each burst may leave a step that is not worth it yet.
        assert len(year.files) <= year.most() + least * len(bursts)


def test_two_full_files_never_become_one_and_what_lies_between_is_looked_at_alone() -> None:
    assert sizes(tiled([500, 10, 20, 15, 600, 20, 500])) == [[10, 20, 15]]
    assert sizes(tiled([10, 20, 499])) == [[10, 20, 499]], "fewer files do when the new one is full"
    assert sizes(tiled([10, 20])) == []
    assert sizes(tiled([10, 2, 2, 2])) == [[2, 2, 2]], "a large one would be written again for little"
    assert sizes(tiled([2, 2, 2, 20, 3, 3, 3])) == [[2, 2, 2], [3, 3, 3]]


def test_a_group_never_exceeds_a_limit_by_rows_or_by_bytes() -> None:
    assert sizes(tiled([400] * 5)) == [[400, 400], [400, 400]]
    heavy = replace(FEW, max_bytes=1_000)
    assert sizes(tiled([1] * 7, size=300), heavy) == [[1, 1, 1], [1, 1, 1]]
    assert sizes(tiled([1] * 7, size=500), heavy) == [], "half of the bytes is full too: few large records"


def test_a_gap_and_another_compaction_end_a_group_and_ranges_without_a_file_are_taken_in() -> None:
    apart = [*tiled([5, 5]), *_moved(tiled([5, 5, 5]), 100)]
    assert sizes(apart) == [[5, 5, 5]], "what is missing between them is a gap"
    kinds = [*tiled([5, 5]), *_moved(tiled([5, 5, 5], compacted=SMALLER), 10)]
    assert sizes(kinds) == [[5, 5, 5]]
    (group,) = groups(tiled([0, 5, 0, 0, 5, 5, 0]), FEW)
    assert [one.file is None for one in group] == [False, True, True, False, False], "it begins and ends with a file"


def _moved(pieces: list[CopiedRange], by: int) -> list[CopiedRange]:
    return [piece(one.start + by, one.file.rows if one.file else 0, compacted=one.compacted) for one in pieces]


def savepoint(*rows: int, role: TopicRole = TopicRole.CHANGELOG, compacted: Compaction | None = None) -> Manifest:
    """One with a single partition whose files have so many rows."""
    pieces = tiled(rows, compacted=compacted)
    whole = replace(topic((image(pieces, end=pieces[-1].end),), role=role), tables=())
    return manifest_of(whole)


def planned(source: Manifest, limits: MergeLimits = FEW) -> CompactionPlan:
    return plan_files(source, limits)


def test_a_plan_names_the_files_and_what_would_come_of_it() -> None:
    source = savepoint(700, 5, 0, 6, 7, 800, 9)
    plan = planned(source)
    assert [(group.start, group.end, group.rows, len(group.files)) for group in plan.ranges] == [(700, 723, 18, 3)]
    assert (plan.files, plan.files_after, plan.rows, plan.waiting) == (6, 4, 18, 0)
    assert planned(savepoint(5, 6, 7, role=TopicRole.REPARTITION)).ranges == (), "no savepoint shares a tail"


def test_one_run_reads_only_so_many_files_and_those_that_save_most_come_first() -> None:
    source = savepoint(5, 5, 5, 800, 5, 5, 5, 5, 5, 800, 5, 5, 5, 5)
    found = [len(group.files) for group in plan_files(source, FEW).ranges]
    assert found == [3, 5, 4]
    less = plan_files(source, FEW, most_files=9)
    assert ([len(group.files) for group in less.ranges], less.waiting) == ([5, 4], 1)
    one = plan_files(source, FEW, most_files=1)
    assert ([len(group.files) for group in one.ranges], one.waiting) == ([5], 2), "one at least, or it would never be merged"


def judge(planned: Sequence[RangeToCompact], done: Sequence[RangeCompacted]) -> tuple[Accepted, ...]:
    return rewritten.judge(How.SMALL_FILES, planned, done).accepted


def assembled(source: Manifest, accepted: Sequence[Accepted]) -> Manifest:
    return rewritten.compacted(source, How.SMALL_FILES, accepted, savepoint_id="20261121T000000Z-00000000ff", provenance=PROVENANCE)


def done(group: RangeToCompact, **changes: object) -> RangeCompacted:
    """A flawless merge of a group."""
    new = joined([CopiedRange(start=one.first_offset, end=one.last_offset + 1, file=_keyless(one)) for one in group.files])
    made = replace(new, end=group.end, start=group.start, compacted=group.compacted)
    assert made.file is not None
    key = f"orders/segments/t/0/{group.start:020}-{group.end:020}-merged.parquet"
    made = replace(made, file=replace(made.file, key=key))
    one = RangeCompacted(
        tp=group.tp, ranges=(made,), rows_before=group.rows, rows_after=group.rows, digest_before="d", digest_after="d", problems=()
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def _keyless(file: SegmentFile) -> SegmentFile:
    return replace(file, key="any")


def of_file(**facts: object) -> Callable[[RangeCompacted], RangeCompacted]:
    def change(one: RangeCompacted) -> RangeCompacted:
        (made,) = one.ranges
        assert made.file is not None
        return replace(one, ranges=(replace(made, file=replace(made.file, **facts)),))  # type: ignore[arg-type]

    return change


def of_range(**facts: object) -> Callable[[RangeCompacted], RangeCompacted]:
    return lambda one: replace(one, ranges=(replace(one.ranges[0], **facts),))  # type: ignore[arg-type]


ALTERED: dict[str, tuple[Callable[[RangeCompacted], RangeCompacted], str]] = {
    "a row less was read": (lambda one: replace(one, rows_before=one.rows_before - 1), "17 rows were read, not 18"),
    "a row less was written": (lambda one: replace(one, rows_after=one.rows_after - 1), "17 rows were read back, not 18"),
    "another record": (lambda one: replace(one, digest_after="e"), "as many and not the same"),
    "no digest": (lambda one: replace(one, digest_before="", digest_after=""), "not the same"),
    "a problem of the file": (lambda one: replace(one, problems=("has offsets that do not ascend",)), "do not ascend"),
    "no file": (of_range(file=None), "has no file"),
    "another end": (of_range(end=724), "its range is"),
    "said to be compacted": (of_range(compacted=SMALLER), "its range is"),
    "two files": (lambda one: replace(one, ranges=one.ranges * 2), "it has 2 files"),
    "rows of the file": (of_file(rows=17), "its file has rows 17, not 18"),
    "bytes of records": (of_file(payload_bytes=1), "payload_bytes 1, not 180"),
    "first offset": (of_file(first_offset=701), "first_offset 701, not 700"),
    "last offset": (of_file(last_offset=720), "last_offset 720, not 722"),
    "oldest time": (of_file(min_timestamp=0), "min_timestamp 0, not 700"),
    "newest time": (of_file(max_timestamp=10**6), "max_timestamp 1000000, not"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_a_merge_that_differs_in_anything_is_damage(what: str) -> None:
    (group,) = planned(savepoint(700, 5, 0, 6, 7, 800, 9)).ranges
    change, message = ALTERED[what]
    assert judge([group], [done(group)])[0].proof.holds
    with pytest.raises(Damaged, match=message) as caught:
        judge([group], [change(done(group))])
    assert "nothing was published" in caught.value.next_step
    assert caught.value.facts == {"topic": "t", "partition": 0}


def test_groups_that_were_not_planned_or_not_merged_are_damage_and_so_is_nothing() -> None:
    source = savepoint(5, 5, 5, 800, 6, 6, 6)
    first, second = planned(source).ranges
    for wanted, got in (
        ([first, second], [done(first)]),
        ([first], [done(first), done(second)]),
        ([first], [done(first), done(first)]),
        ([first], [replace(done(first), tp=TopicPartition("t", 1))]),
        ([], []),
    ):
        with pytest.raises(Damaged, match="did not merge what was planned"):
            judge(wanted, got)


def test_of_nothing_that_was_read_nothing_is_proven() -> None:
    (group,) = planned(savepoint(5, 5, 5)).ranges
    nothing = replace(group, files=tuple(replace(file, rows=0, payload_bytes=0) for file in group.files))
    with pytest.raises(Damaged, match="nothing was compared"):
        judge([nothing], [of_file(rows=0, payload_bytes=0)(replace(done(group), rows_before=0, rows_after=0))])


def accepted(source: Manifest) -> tuple[Accepted, ...]:
    plan = planned(source)
    return judge(plan.ranges, [done(group) for group in plan.ranges])


def only(manifest: Manifest) -> PartitionImage:
    return manifest.topics[0].partitions[0]


def test_a_merged_savepoint_has_the_cut_and_the_rows_of_its_source_and_can_be_read_again() -> None:
    source = with_keys(savepoint(700, 5, 0, 6, 7, 800, 9))
    made = stored(assembled(source, accepted(source)))
    before, after = only(source), only(made)
    assert [(one.start, one.end, one.file.rows if one.file else 0) for one in after.ranges] == [
        (0, 700, 700), (700, 723, 18), (723, 1523, 800), (1523, 1532, 9),
    ]  # fmt: skip
    assert (after.rows, after.end, after.committed, after.gaps) == (before.rows, before.end, before.committed, before.gaps)
    assert (made.captured_at, made.topics[0].full_since, made.parent_id) == (
        source.captured_at,
        source.topics[0].full_since,
        source.savepoint_id,
    )
    assert (made.replaces, made.provenance.run_id) == (source.savepoint_id, "r2")
    assert planned(made).ranges == (), "what is merged is not merged again"


def test_it_is_proven_or_it_is_damage() -> None:
    source = with_keys(savepoint(5, 6, 7, 800))
    made = assembled(source, accepted(source))
    merged = made.provenance.merged_from
    assert merged is not None
    (proof,) = merged.proofs
    assert stored(made).replaces == source.savepoint_id
    for wrong in (
        replace(proof, digest_after="e"),
        replace(proof, rows_before=0, rows_after=0),
        replace(proof, files=1),
        replace(proof, tp=TopicPartition("t", 1)),
        replace(proof, rows_before=10**9, rows_after=10**9),
        replace(proof, end=proof.end + 1),
        replace(proof, start=proof.start + 1),
        replace(proof, rows_before=17, rows_after=17),
    ):
        forged = replace(made, provenance=replace(made.provenance, merged_from=replace(merged, proofs=(wrong,))))
        with pytest.raises(Damaged, match=f"is merged from {source.savepoint_id}, and it is not proven"):
            stored(forged)
    for proofs in ((), (proof, proof)):
        with pytest.raises(Damaged, match="not proven"):
            stored(replace(made, provenance=replace(made.provenance, merged_from=replace(merged, proofs=proofs))))


def test_what_its_source_says_of_its_own_origin_stays() -> None:
    pieces = tiled([5, 6, 7], compacted=SMALLER)
    proof = CompactionProof(
        tp=TopicPartition("t", 0),
        rows_before=50,
        rows_after=18,
        keys=18,
        state_before=18,
        state_after=18,
        digest_before="d",
        digest_after="d",
    )
    origin = CompactedFrom(savepoint_id="20261121T000000Z-00000000aa", proofs=(proof,))
    kept = {"intended": ("meant",), "deletions_kept_since": {"t": 3}, "compacted_from": origin}
    source = manifest_of(topic((image(pieces, end=18),)))
    source = with_keys(replace(source, provenance=replace(source.provenance, **kept)))  # type: ignore[arg-type]
    made = stored(assembled(source, accepted(source)))
    assert {name: getattr(made.provenance, name) for name in kept} == kept
    assert made.replaces == source.savepoint_id, "the one it was made from, not the one that was compacted"
    assert {one.compacted for one in only(made).ranges} == {SMALLER}
    assert made.parent_id is None, "it shares no file with it"


def test_a_newer_savepoint_that_still_has_the_files_gets_the_merged_ones() -> None:
    source = savepoint(5, 6, 7, 800, 4, 4, 4)
    newer = manifest_of(topic((image([*only(source).ranges, *_moved(tiled([9]), 830)], end=839),)))
    made = assembled(newer, accepted(source))
    assert [one.file.rows for one in only(made).ranges if one.file] == [18, 800, 12, 9]


def test_of_a_newer_savepoint_with_other_files_only_those_that_it_has_are_replaced() -> None:
    source = savepoint(5, 6, 7, 800, 4, 4, 4)
    copied = manifest_of(topic((image([*tiled([18, 800]), *only(source).ranges[4:]], end=830),)))
    made = assembled(copied, accepted(source))
    assert [one.file.rows for one in only(made).ranges if one.file] == [18, 800, 12]
    assert made.provenance.merged_from is not None
    assert [proof.start for proof in made.provenance.merged_from.proofs] == [818]
    full = manifest_of(topic((image(tiled([830]), end=830),)))
    with pytest.raises(Refused, match="has none of the files") as caught:
        assembled(full, accepted(source))
    assert "nothing was published" in caught.value.next_step


def test_a_merge_does_not_put_off_the_next_full_copy() -> None:
    pieces = tiled([5, 5, 5, 5])
    counted = Ranges(before=replace(NOTHING, savepoints=3), new=pieces, read=pieces)
    source = manifest_of(topic((replace(image(pieces, end=20), ranges=counted),)))
    assert only(source).ranges.facts.savepoints == 4
    made = stored(assembled(source, accepted(source)))
    assert (only(made).ranges.facts.files, only(made).ranges.facts.savepoints) == (1, 4)
    policy = ChainPolicy(max_savepoints=4, max_age_days=7)
    why = topic_full_reason(TopicRole.CHANGELOG, "id-1", {"delete.retention.ms": "1000000"}, 0, made, "t", policy)
    assert why == "files of 4 savepoints reached the limit of 4"
