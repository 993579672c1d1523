"""What may be compacted, and what a compaction has to show before it replaces anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.compaction import rewritten
from streams_recovery.core.compaction.latest_per_key import plan_keys
from streams_recovery.core.compaction.rewritten import CompactionVerdict
from streams_recovery.core.compaction.values import Accepted, CompactionPlan, How, RangeCompacted, RangeToCompact, in_portions
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import StoreKind, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, Provenance, TopicImage
from tests.support.examples.savepoints import image, manifest_of, segment, topic
from tests.support.repository.stored import stored, with_keys

NAME, STORE = "orders-totals-changelog", "totals"
PROVENANCE = Provenance(run_id="r2", requested_by="me", reason="", software={})
COMPACT, WINDOWED, VERSIONED = (
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete", "retention.ms": "1"},
    {"cleanup.policy": "compact", "min.compaction.lag.ms": "1"},
)
SMALLER = Compaction.LATEST_PER_KEY


def changelog(
    *ranges: CopiedRange, kind: StoreKind | None = StoreKind.KEY_VALUE, config: dict[str, str] = COMPACT, name: str = NAME
) -> TopicImage:
    pieces = ranges or (segment(0, 6, [1, 5]), segment(6, 10, [7]))
    return replace(topic((image(pieces),), name=name), store=kind, config=config)


def planned(source: TopicImage, declared: StoreKind | None) -> CompactionPlan:
    return plan_keys(manifest_of(source), {STORE: declared})


def small(*offsets: int) -> tuple[CopiedRange, ...]:
    """Compacted ranges of ``[0, 10)`` with rows at these offsets."""
    if not offsets:
        return (CopiedRange(start=0, end=10, file=None, compacted=SMALLER),)
    last = offsets[-1] + 1
    rows = replace(segment(0, last, list(offsets), key="orders/segments/t/0/small.parquet"), compacted=SMALLER)
    return (rows,) if last == 10 else (rows, CopiedRange(start=last, end=10, file=None, compacted=SMALLER))


def done(wanted: RangeToCompact, *offsets: int, **changes: object) -> RangeCompacted:
    """A flawless compaction to rows at these offsets."""
    one = RangeCompacted(
        tp=wanted.tp,
        ranges=small(*offsets),
        problems=(),
        rows_before=wanted.rows,
        rows_after=len(offsets),
        digest_before="d",
        digest_after="d",
        keys=3,
        state_before=len(offsets),
        state_after=len(offsets),
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def judge(planned: Sequence[RangeToCompact], done: Sequence[RangeCompacted]) -> CompactionVerdict:
    return rewritten.judge(How.LATEST_PER_KEY, planned, done)


def assembled(source: Manifest, accepted: Sequence[Accepted], savepoint_id: str = "20261121T012345Z-0000000009") -> Manifest:
    return rewritten.compacted(source, How.LATEST_PER_KEY, accepted, savepoint_id=savepoint_id, provenance=PROVENANCE)


@pytest.mark.parametrize(
    ("kind", "config", "keeps_deleted"),
    [
        (StoreKind.KEY_VALUE, COMPACT, False),
        (StoreKind.LIST, COMPACT, False),
        (StoreKind.SUPPRESS, COMPACT, False),
        (StoreKind.WINDOW, WINDOWED, True),
        (StoreKind.SESSION, WINDOWED, True),
        (StoreKind.WINDOW, COMPACT, True),
    ],
)
def test_a_declared_kind_is_compacted_the_way_it_allows(kind: StoreKind, config: dict[str, str], keeps_deleted: bool) -> None:
    source = changelog(kind=kind, config=config)
    (found,) = planned(source, kind).topics
    (wanted,) = found.ranges
    assert (wanted.kind, wanted.keeps_deleted, wanted.rows, wanted.start, wanted.end) == (kind, keeps_deleted, 3, 0, 10)
    assert (found.stays, found.rows, found.payload_bytes, found.expected_rows) == ((), 3, 30, None)
    assert planned(replace(source, store=StoreKind.UNKNOWN), kind).ranges == (wanted,), "it may be declared later"


@pytest.mark.fault("F50")
@pytest.mark.parametrize(
    ("kind", "declared", "config", "why"),
    [
        (StoreKind.UNKNOWN, None, COMPACT, "not known"),
        (StoreKind.KEY_VALUE, None, COMPACT, "not known"),
        (StoreKind.UNKNOWN, None, WINDOWED, "not known"),
        (StoreKind.VERSIONED, None, VERSIONED, "every row counts"),
        (StoreKind.VERSIONED, StoreKind.VERSIONED, COMPACT, "every row counts"),
        (StoreKind.VERSIONED, StoreKind.KEY_VALUE, COMPACT, "was versioned when"),
        (StoreKind.WINDOW, StoreKind.KEY_VALUE, COMPACT, "was window when"),
        (StoreKind.KEY_VALUE, StoreKind.KEY_VALUE, VERSIONED, "min.compaction.lag.ms"),
        (StoreKind.WINDOW, StoreKind.WINDOW, VERSIONED, "min.compaction.lag.ms"),
        (StoreKind.KEY_VALUE, StoreKind.KEY_VALUE, WINDOWED, "cleanup.policy is compact,delete"),
        (StoreKind.SUPPRESS, StoreKind.SUPPRESS, WINDOWED, "cleanup.policy is compact,delete"),
        (StoreKind.KEY_VALUE, StoreKind.KEY_VALUE, {}, "cleanup.policy is None"),
        (StoreKind.WINDOW, StoreKind.WINDOW, {"cleanup.policy": "delete"}, "cleanup.policy is delete"),
    ],
)
def test_what_is_not_certain_stays_whole(kind: StoreKind, declared: StoreKind | None, config: dict[str, str], why: str) -> None:
    (found,) = planned(changelog(kind=kind, config=config), declared).topics
    assert found.ranges == ()
    assert why in found.stays[0]


def test_a_suppress_buffer_is_known_by_its_name() -> None:
    name = "orders-KTABLE-SUPPRESS-STATE-STORE-0000000003-changelog"
    plan = plan_keys(manifest_of(changelog(kind=StoreKind.SUPPRESS, name=name)), {})
    assert [wanted.kind for wanted in plan.ranges] == [StoreKind.SUPPRESS]


@pytest.mark.parametrize("role", [role for role in TopicRole if role is not TopicRole.CHANGELOG])
def test_no_other_topic_is_even_named(role: TopicRole) -> None:
    assert planned(replace(changelog(), role=role), StoreKind.KEY_VALUE).topics == ()


def test_partitions_are_left_one_by_one() -> None:
    smaller = replace(segment(0, 10, [2, 3]), compacted=SMALLER)
    whole = image((segment(0, 10, [1]),))
    images = (
        replace(whole, partition=0),
        replace(whole, partition=1, gaps=(Gap(start=10, end=10, reason="r"),)),
        replace(whole, partition=2, ranges=(segment(0, 10, []),)),
        replace(whole, partition=3, ranges=(smaller,)),
        replace(whole, partition=4, ranges=(replace(smaller, end=9), segment(9, 10, [9]))),
        replace(whole, partition=5, ranges=()),
    )
    (found,) = planned(replace(changelog(), partitions=images), StoreKind.KEY_VALUE).topics
    assert [wanted.tp.partition for wanted in found.ranges] == [0, 4]
    assert found.stays == ("partitions 1: it has a gap", "partitions 2, 5: it holds no record", "partitions 3: it is compacted already")
    assert found.expected_rows is None, "of partition 0 nothing is known"
    (again,) = planned(replace(changelog(), partitions=(images[4],)), StoreKind.KEY_VALUE).topics
    assert (again.rows, again.expected_rows) == (3, 2)


@given(sizes=st.lists(st.integers(1, 100), max_size=30), limit=st.integers(1, 150))
def test_portions_are_the_files_in_their_order_and_no_bigger_than_allowed(sizes: list[int], limit: int) -> None:
    files = [replace(piece.file, bytes=size, key=str(number)) for number, size in enumerate(sizes) if (piece := segment(0, 1, [0])).file]
    portions = list(in_portions(files, limit))
    assert [file for portion in portions for file in portion] == files
    assert all(len(portion) == 1 or sum(file.bytes for file in portion) <= limit for portion in portions)
    assert all(portions)


def test_a_flawless_compaction_is_accepted_and_becomes_a_savepoint_of_the_same_cut() -> None:
    source = manifest_of(
        changelog(), replace(changelog(segment(0, 10, [4], key="orders/segments/u/0/u.parquet")), name="orders-other-changelog")
    )
    (wanted,) = plan_keys(source, {STORE: StoreKind.KEY_VALUE}).ranges
    verdict = judge([wanted], [done(wanted, 5, 7)])
    made = assembled(source, verdict.accepted)
    assert stored(with_keys(made)) == with_keys(made)
    assert (made.replaces, made.parent_id) == (source.savepoint_id, source.savepoint_id)
    assert made.records == source.records - 1
    assert made.topics[1] == source.topics[1]
    smaller = replace(source.topics[0].partitions[0], ranges=small(5, 7))
    assert made.topics[0] == replace(source.topics[0], full_since=source.captured_at, partitions=(smaller,))
    kept = {"savepoint_id", "parent_id", "topics", "provenance"}
    assert {name for name in Manifest.__dataclass_fields__ if getattr(made, name) != getattr(source, name)} == kept


def test_a_savepoint_that_shares_nothing_has_no_parent_and_a_half_compacted_topic_keeps_its_age() -> None:
    two = replace(
        changelog(),
        partitions=(image((segment(0, 10, [1]),)), replace(image((segment(0, 10, [1], key="orders/segments/v"),)), partition=1)),
    )
    for source, parent, since in ((changelog(), None, 77), (two, "20261121T012345Z-0123456789", 0)):
        whole = manifest_of(source, captured_at=77)
        wanted = plan_keys(whole, {STORE: StoreKind.KEY_VALUE}).ranges[0]
        made = assembled(whole, judge([wanted], [done(wanted, 5, 7)]).accepted)
        assert (made.parent_id, made.topics[0].full_since) == (parent, since)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows_before": 2},
        {"rows_after": 1},
        {"state_after": 1},
        {"digest_after": "e"},
        {"keys": 0},
        {"problems": ("has offsets that do not ascend",)},
        {"ranges": small(5, 7)[:1]},
        {"ranges": tuple(replace(piece, compacted=None) for piece in small(5, 7))},
        {"ranges": (replace(small(5, 7)[0], start=1), *small(5, 7)[1:])},
        {"tp": TopicPartition("orders-totals-changelog", 1)},
        {"tp": TopicPartition("orders-other-changelog", 0)},
    ],
)
def test_anything_that_is_not_equal_ends_the_compaction(changes: dict[str, object]) -> None:
    (wanted,) = planned(changelog(), StoreKind.KEY_VALUE).ranges
    assert judge([wanted], [done(wanted, 5, 7)]).accepted
    with pytest.raises(Damaged):
        judge([wanted], [done(wanted, 5, 7, **changes)])


def test_windows_keep_the_newest_time() -> None:
    kind = StoreKind.WINDOW
    (wanted,) = planned(changelog(kind=kind, config=WINDOWED), kind).ranges
    one = done(wanted, 5, 7)
    assert judge([wanted], [one]).accepted
    (first, rest) = one.ranges
    assert first.file is not None
    older = replace(one, ranges=(replace(first, file=replace(first.file, max_timestamp=8)), rest))
    with pytest.raises(Damaged, match="newest timestamp"):
        judge([wanted], [older])


def test_what_is_missing_or_doubled_is_noticed() -> None:
    (wanted,) = planned(changelog(), StoreKind.KEY_VALUE).ranges
    one = done(wanted, 5, 7)
    for found in ([], [one, one], [one, replace(one, tp=TopicPartition(one.tp.topic, 1))]):
        with pytest.raises(Damaged, match="did not compact what was planned"):
            judge([wanted], found)


def test_a_topic_with_foreign_rows_stays_as_it_was_and_nothing_else_does() -> None:
    (wanted,) = planned(changelog(), StoreKind.KEY_VALUE).ranges
    second, other = (replace(wanted, tp=tp) for tp in (TopicPartition(wanted.tp.topic, 1), TopicPartition("orders-other-changelog", 0)))
    verdict = judge([wanted, second, other], [done(wanted, 5, 7), done(second, 5, 7, foreign=1), done(other, 5, 7)])
    assert [one.wanted.tp.topic for one in verdict.accepted] == ["orders-other-changelog"]
    assert set(verdict.stays) == {NAME}
    with pytest.raises(Refused, match="1 rows of orders-totals-changelog-0"):
        judge([wanted], [done(wanted, 5, 7, foreign=1)])


def test_a_log_without_a_living_key_is_proven_by_its_deleted_ones() -> None:
    (wanted,) = planned(changelog(), StoreKind.KEY_VALUE).ranges
    assert judge([wanted], [done(wanted)]).accepted
    with pytest.raises(Damaged):
        judge([wanted], [done(wanted, keys=0)])
    with pytest.raises(Refused, match="no key was compared"):
        judge([replace(wanted, files=())], [done(wanted, keys=0, rows_before=0)])
