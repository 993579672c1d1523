"""What a second place lacks, over all states that a run, or a killed one, may have left there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.layout import Layout, StorageLocation, overlap
from streams_recovery.core.repository.mirror import (
    MirroredObject,
    MirrorStep,
    at_once,
    before_manifests,
    behind_manifests,
    goes_on_by_itself,
    mirror_plan,
    mirror_text,
    of_archive,
    records_in_order,
    savepoint_of,
    second_place,
    written_there,
)
from tests.support.repository.every_key import every_kind

ORDERS = Layout("orders")
SAVEPOINT = "20261121T000000Z-0000000001"


@st.composite
def repositories(draw: st.DrawFn) -> list[MirroredObject]:
    """Objects, each behind all that it names, some of them twice: savepoints share tables and segments."""
    found: list[MirroredObject] = []
    for number in range(draw(st.integers(1, 12))):
        needs = draw(st.lists(st.sampled_from(found), unique=True, max_size=4)) if found else []
        found.append(MirroredObject(key=f"orders/{number}", bytes=draw(st.integers(0, 3)), needs=tuple(one.key for one in needs)))
    return [*found, *draw(st.lists(st.sampled_from(found), max_size=3))]


def whole(wanted: Sequence[MirroredObject], there: dict[str, int]) -> bool:
    """True if all that an object names is there with it."""
    return all(key in there for one in wanted if one.key in there for key in one.needs)


def taken(there: dict[str, int], steps: Sequence[MirrorStep]) -> dict[str, int]:
    for step in steps:
        assert step.copies == (step.what.key not in there), "nothing that is there is written"
        there = there | {step.what.key: step.what.bytes}
    return there


@given(wanted=repositories(), data=st.data())
def test_a_run_that_is_killed_anywhere_leaves_a_whole_repository_and_the_next_one_copies_only_the_rest(
    wanted: list[MirroredObject], data: st.DataObject
) -> None:
    plan = mirror_plan("orders", wanted, {})
    assert (plan.copies, plan.bytes) == (len({one.key for one in wanted}), sum({one.key: one.bytes for one in wanted}.values()))
    killed = data.draw(st.integers(0, len(plan.steps)))
    there = taken({}, plan.steps[:killed])
    assert whole(wanted, there)
    again = mirror_plan("orders", wanted, there)
    assert [step.what.key for step in again.steps if step.copies] == [step.what.key for step in plan.steps[killed:]]
    assert {step.what.key for step in again.steps if not step.copies} == set(there), "what a killed run has left is proven before it counts"
    there = taken(there, again.steps)
    assert set(there) == {one.key for one in wanted}
    done = mirror_plan("orders", [MirroredObject(key=one.key, bytes=one.bytes, needs=one.needs, vouched=True) for one in wanted], there)
    assert done.steps == ()


@given(wanted=repositories(), data=st.data())
def test_what_is_there_with_another_size_stays_and_nothing_comes_that_needs_it(wanted: list[MirroredObject], data: st.DataObject) -> None:
    odd = data.draw(st.sampled_from(wanted))
    plan = mirror_plan("orders", wanted, {odd.key: odd.bytes + 1})
    assert plan.different == (odd.key,)
    needs = {one.key: one.needs for one in wanted}

    def leads_to(key: str) -> bool:
        return key == odd.key or any(map(leads_to, needs[key]))

    assert {step.what.key for step in plan.steps} == {one.key for one in wanted if not leads_to(one.key)}
    assert odd.key in str(mirror_text(plan))


@given(wanted=repositories())
def test_what_is_taken_at_once_needs_nothing_of_each_other(wanted: list[MirroredObject]) -> None:
    plan = mirror_plan("orders", wanted, {})
    groups = at_once(plan.steps)
    assert [step for group in groups for step in group] == list(plan.steps)
    for group in groups:
        assert not {step.what.key for step in group} & {key for step in group for key in step.what.needs}


def test_what_nobody_wants_and_is_not_there_keeps_back_what_needs_it() -> None:
    record = MirroredObject(key="orders/published/a.json", bytes=1, needs=("orders/savepoints/a/manifest.json.zst",))
    assert mirror_plan("orders", [record], {}).steps == ()
    assert [step.what for step in mirror_plan("orders", [record], {record.needs[0]: 7}).steps] == [record]


def test_a_log_comes_in_order_and_logs_beside_each_other() -> None:
    keys = [
        "orders/pins/000000000001.json",
        "orders/pins/000000000002.json",
        "orders/sites/000000000007.json",
        "orders/restores/r/report.md",
    ]
    found = records_in_order(MirroredObject(key=key, bytes=1) for key in reversed(keys))
    assert [one.key for one in found] == [keys[0], keys[3], keys[2], keys[1]]
    assert [one.needs for one in found] == [(), (), (), (keys[0],)]


@pytest.mark.parametrize("layout", [ORDERS, ORDERS.safety])
def test_the_savepoints_of_a_plan_are_those_whose_manifests_come(layout: Layout) -> None:
    assert savepoint_of("orders", layout.manifest(SAVEPOINT)) == SAVEPOINT
    assert savepoint_of("orders", layout.manifest("no-id")) is None
    manifest = MirroredObject(key=layout.manifest(SAVEPOINT), bytes=1)
    assert mirror_plan("orders", [manifest], {}).savepoints == (SAVEPOINT,)
    assert mirror_plan("orders", [manifest], {manifest.key: 1}).savepoints == ()


# About the first place, or about what works there now; and tables, which a person exported.
STAYS = {
    *("archive_locks", "locks", "quiesce_records", "artifacts", "work", "scheduled_runs", "probe", "table"),
    *("places", "repository_id", "filled", "proven", "moved"),
    *("check", "checks", "status", "alerts", "inspections", "outputs_compared", "retired", "retired_prefix"),
}
# Copied with a savepoint, by what its manifest names.
OF_SAVEPOINTS = {"segment", "segments", "range_table", "range_tables", "manifest", "savepoints", "published", "published_prefix", "detail"}


def test_of_every_kind_of_key_it_is_decided_whether_it_is_copied() -> None:
    records = (*before_manifests(ORDERS), *of_archive(ORDERS), *behind_manifests(ORDERS))
    others = {name for name, key in every_kind(ORDERS).items() if not key.startswith(records)}
    assert others == STAYS | OF_SAVEPOINTS


def directory(path: str) -> StorageLocation:
    return StorageLocation(backend="filesystem", path=path)


def bucket(prefix: str = "", **more: str) -> StorageLocation:
    return StorageLocation(backend="s3", bucket="b", prefix=prefix, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (directory("/a/b"), directory("/a/c/../b/"), "is the repository itself"),
        (directory("/a/b"), directory("/a"), "one inside the other"),
        (directory("/a/b"), directory("/a/bc"), None),
        (bucket("x"), bucket("x"), "is the repository itself"),
        (bucket("x"), bucket("x/y"), "one inside the other"),
        (bucket("x"), bucket("xy"), None),
        (bucket("x", endpoint="https://one/"), bucket("x", endpoint="https://one", region="elsewhere"), "is the repository itself"),
        (bucket("x", endpoint="https://one"), bucket("x", endpoint="https://other"), None),
        (bucket("x"), directory("/b/x"), None),
    ],
)
def test_two_addresses_are_apart_or_not(one: StorageLocation, other: StorageLocation, why: str | None) -> None:
    for pair in ((one, other), (other, one)):
        found = overlap(*pair)
        assert (found is None) == (why is None)
        assert why is None or why in str(found)


@given(here=st.lists(st.integers(0, 4), min_size=4, max_size=4), there=st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_a_log_that_went_on_in_the_second_place_is_named_by_its_newest_entry_there(here: list[int], there: list[int]) -> None:
    prefixes = (ORDERS.pins, ORDERS.ownership, ORDERS.journal(SAVEPOINT), ORDERS.quarantine(SAVEPOINT))

    def keys(lengths: list[int]) -> list[str]:
        entries = [f"{prefix}{number:012}.json" for prefix, end in zip(prefixes, lengths, strict=True) for number in range(1, end + 1)]
        return [*entries, ORDERS.report(SAVEPOINT)]

    expected = {f"{log}{theirs:012}.json" for log, ours, theirs in zip(prefixes, here, there, strict=True) if theirs > ours}
    assert set(written_there(ORDERS, keys(here), keys(there))) == expected


def test_a_data_key_that_the_first_place_has_removed_is_no_sign_either_and_one_that_was_made_in_the_second_one_is() -> None:
    old, now, later = (ORDERS.wrapped_key(f"k{made:08x}00000000", 1) for made in (1, 2, 3))
    assert written_there(ORDERS, [now], [old, now]) == []
    assert written_there(ORDERS, [now], [old, now, later]) == [later]
    assert written_there(ORDERS, [], [old]) == [old]
    assert written_there(ORDERS, [now], [now, ORDERS.wrapped_key(f"k{2:08x}00000000", 2)]) == [ORDERS.wrapped_key(f"k{2:08x}00000000", 2)]


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ([], [], False),
        ([1, 2], [], False),
        ([4, 5], [1, 2], False),
        ([4, 5], [3, 4, 5, 6], False),
        ([4, 5], [6, 7], False),
        ([4, 5], [7, 8], True),
        ([], [1], False),
        ([], [2], True),
    ],
)
def test_no_entry_comes_before_those_that_a_log_has_gone_on_with(here: list[int], there: list[int], expected: bool) -> None:
    keys = [{f"{ORDERS.archive}{number:012}.json" for number in numbers} | {f"{ORDERS.archive}notes"} for numbers in (here, there)]
    assert goes_on_by_itself(ORDERS.archive, *keys) == expected


def test_what_expired_in_the_first_place_is_no_sign_that_somebody_worked_in_the_second_one() -> None:
    there = [ORDERS.manifest(SAVEPOINT), ORDERS.published(SAVEPOINT), f"{ORDERS.offset_snapshot(SAVEPOINT)}000000000001.json"]
    assert written_there(ORDERS, [], there) == []


@pytest.mark.parametrize(
    ("ids", "there", "text"),
    [
        ([], [], "there are no savepoints yet"),
        ([SAVEPOINT], [SAVEPOINT], "the manifests of all savepoints are in s3://elsewhere"),
        ([SAVEPOINT], [], "1 savepoint is in one place only"),
    ],
)
def test_the_sentence_says_no_more_than_was_looked_at(ids: list[str], there: list[str], text: str) -> None:
    assert str(second_place("s3://elsewhere", ids, there)).startswith(text)


def test_it_is_said_up_to_where_the_archive_is_in_two_places() -> None:
    def said(**more: int) -> str:
        return str(second_place("s3://elsewhere", [SAVEPOINT], [SAVEPOINT], **more))

    assert said(entries=2).endswith("; the archive is in one place only, 2 entries")
    behind = said(entries=2, archived_at=1_795_219_200_000)
    assert "; the archive is there up to 2026-11-21 00:00:00" in behind
    assert behind.endswith(", and 2 entries behind that in one place only")
    assert "archive" not in said()
