from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.table import (
    Change,
    DiffCounts,
    Entry,
    check_known,
    counted,
    differences,
    different_parts,
    ends_of_versions,
    newest,
    undeleted,
)

KV, VERSIONED = StoreKind.KEY_VALUE, StoreKind.VERSIONED


def entry(key: bytes, value: bytes | None, *, offset: int = 0, timestamp: int = 1, partition: int = 0) -> Entry:
    return Entry(partition=partition, offset=offset, timestamp=timestamp, key=key, value=value, headers=None)


LOGS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b""]), st.sampled_from([b"1", b"2", b"", None]), st.integers(1, 3), st.integers(0, 1)),
    max_size=12,
).map(lambda rows: [entry(key, value, offset=at, timestamp=time, partition=number) for at, (key, value, time, number) in enumerate(rows)])


@given(LOGS, st.randoms())
def test_the_newest_is_the_last_in_the_log_however_rows_arrive(log: list[Entry], chance: object) -> None:
    shuffled = list(log)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    walked: dict[tuple[int, bytes], Entry] = {}
    for one in log:
        walked[one.partition, one.key] = one
    assert {at[:2]: one for at, one in newest(KV, shuffled).items()} == walked


@given(LOGS, LOGS)
def test_the_differences_lead_from_one_side_to_the_other(before: list[Entry], after: list[Entry]) -> None:
    old, new = newest(KV, before), newest(KV, after)
    found = list(differences(old, new))
    state = dict(undeleted(old))
    for one in found:
        if one.after is None:
            assert one.before is not None
            del state[one.before.partition, one.before.key, 0]
        else:
            state[one.after.partition, one.after.key, 0] = one.after
    assert {at: (one.value, one.timestamp) for at, one in state.items()} == {
        at: (one.value, one.timestamp) for at, one in undeleted(new).items()
    }
    counts = counted(old, new, found)
    assert counts.after - counts.before == counts.added - counts.removed
    assert counts.equal == (not found and counts.compared > 0)


def test_nothing_compared_is_not_equal() -> None:
    gone = newest(KV, [entry(b"a", None)])
    counts = counted(gone, {}, differences(gone, {}))
    assert counts == DiffCounts(before=0, after=0, compared=0, added=0, removed=0, changed=0)
    assert not counts.equal


def test_what_is_different_is_named() -> None:
    one = entry(b"a", b"1")
    assert different_parts(one, replace(one, offset=9, headers=())) == ()
    assert different_parts(one, replace(one, value=b"", timestamp=2, headers=(("h", None),))) == ("value", "timestamp", "headers")
    assert different_parts(replace(one, headers=(("h", None),)), replace(one, headers=(("h", b""),))) == ("headers",)
    (found,) = differences(newest(KV, [one]), newest(KV, [replace(one, value=b"2")]))
    assert (found.change, found.parts) == (Change.CHANGED, ("value",))


def test_versions_are_told_by_the_moment_they_begin_and_end_where_the_next_begins() -> None:
    log = [(b"a", b"1", 10), (b"a", b"3", 30), (b"a", b"2", 20), (b"a", b"2b", 20), (b"b", b"1", 10), (b"b", None, 15)]
    table = newest(VERSIONED, [entry(key, value, offset=at, timestamp=time) for at, (key, value, time) in enumerate(log)])
    ends = ends_of_versions(table)
    shown = [(at[1], one.value, at[2], ends[at]) for at, one in sorted(undeleted(table).items())]
    assert shown == [(b"a", b"1", 10, 20), (b"a", b"2b", 20, 30), (b"a", b"3", 30, None), (b"b", b"1", 10, 15)]


def test_a_store_of_unknown_kind_is_not_shown() -> None:
    check_known("s", KV)
    with pytest.raises(Refused, match="is not known") as caught:
        check_known("s", StoreKind.UNKNOWN)
    assert caught.value.facts == {"store": "s"}
