"""What is found is named once, by its cause, and a hole in a log never passes for its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.check import Cause, CheckReport, Finding, log_problems, lost_manifests, manifest_finding, worst_first

PREFIX = "orders/holds/"
REPORT = CheckReport(
    check_id="a", application_id="orders", level="full", savepoints=1, minimal=0, records=0, files=1, files_read=1, rows_read=1, findings=()
)


def entry(number: int) -> str:
    return f"{PREFIX}{number:012}.json"


def found(cause: Cause) -> Finding:
    return Finding(cause=cause, key="k", problem="p", savepoints=())


def test_every_cause_has_a_code_of_its_own_and_a_way_out() -> None:
    codes = {cause: cause.exit_code for cause in Cause}
    assert len(set(codes.values())) == len(codes)
    assert not set(codes.values()) & set(range(20)), "the errors' own"
    assert all(cause.next_step for cause in Cause)
    assert codes == {
        "repository-unreachable": 20,
        "nothing-checked": 21,
        "not-read": 22,
        "damaged-record": 23,
        "unknown-format": 24,
        "altered-file": 25,
        "missing-file": 26,
        "damaged-manifest": 27,
        "lost-manifest": 28,
        "forged": 29,
    }, "scripts rest on these: docs/command-line.md"


@given(causes=st.lists(st.sampled_from(list(Cause)), max_size=6))
def test_the_worst_cause_gives_the_code_and_all_are_listed(causes: list[Cause]) -> None:
    report = replace(REPORT, findings=tuple(found(cause) for cause in causes))
    assert set(report.causes) == set(causes)
    assert report.exit_code == max((cause.exit_code for cause in causes), default=0)
    assert report.good == (not causes)
    assert [finding.cause.exit_code for finding in worst_first(report.findings)] == sorted((c.exit_code for c in causes), reverse=True)


def test_what_was_found_and_that_nothing_was_read_are_both_told() -> None:
    report = replace(REPORT, files_read=0, findings=(found(Cause.NOT_READ),))
    assert report.causes == (Cause.NOT_READ, Cause.NOTHING_CHECKED)


@given(numbers=st.sets(st.integers(1, 30)), shortened=st.booleans())
def test_every_hole_in_a_log_is_named_and_nothing_else(numbers: set[int], *, shortened: bool) -> None:
    problems = log_problems(PREFIX, [entry(number) for number in numbers], shortened=shortened)
    first = min(numbers, default=1) if shortened else 1
    missing = set(range(first, max(numbers, default=0))) - numbers
    assert set(problems) == {entry(number) for number in missing if number == first or number - 1 in numbers}
    assert bool(problems) == bool(missing)


def test_a_hole_of_any_size_is_one_line() -> None:
    assert log_problems(PREFIX, [entry(1), entry(10**11)], shortened=False) == {
        entry(2): f"is missing, and so are all up to number {10**11 - 1}; entry {10**11} is there"
    }


@pytest.mark.parametrize("name", ["readme.txt", "1.json", "00000000000x.json", "000000000001.json.part", "sub/000000000001.json"])
def test_what_is_no_entry_is_strange(name: str) -> None:
    assert log_problems(PREFIX, [entry(1), PREFIX + name], shortened=False) == {PREFIX + name: "is no entry of this log"}


IDS = st.sets(st.sampled_from("abcde"))


def test_numbers_may_be_missing_before_an_entry_that_begins_the_log_anew() -> None:
    numbers = [entry(number) for number in (1, 2, 5, 6, 9)]
    assert list(log_problems(PREFIX, numbers, shortened=True, begins=lambda key: key == entry(5))) == [entry(7)]


@given(alive=IDS, expired=IDS, published=IDS, pinned=IDS, in_use=IDS)
def test_only_what_cannot_have_expired_is_lost(
    alive: set[str], expired: set[str], published: set[str], pinned: set[str], in_use: set[str]
) -> None:
    lost = lost_manifests(alive, expired, published=published, pinned=pinned, in_use=in_use)
    assert set(lost) == ((published - expired) | pinned | in_use) - alive
    assert all(("a copy of it is under expired/" in why) == (savepoint in expired) for savepoint, why in lost.items())


@pytest.mark.parametrize(("version", "cause"), [(3, Cause.UNKNOWN_FORMAT), (None, Cause.DAMAGED_MANIFEST), ("x", Cause.DAMAGED_MANIFEST)])
def test_a_version_that_no_release_wrote_is_damage(version: object, cause: Cause) -> None:
    error = Damaged("it has format version", next_step="x", version=version, topic="t", partition=2)
    finding = manifest_finding("k", "s", error)
    assert (finding.cause, finding.topic, finding.partition) == (cause, "t", 2)
