"""Rows of a changelog as a table: keys, windows, versions and cells, and back to the byte."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.table import (
    Change,
    DiffCounts,
    Entry,
    Format,
    StoreKey,
    check_known,
    counted,
    decoded,
    differences,
    different_parts,
    encoded,
    ends_of_versions,
    from_text,
    join_key,
    newest,
    same_document,
    split_key,
    undeleted,
    window_begin,
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


CELLS = {
    Format.STRING: st.text(),
    Format.LONG: st.integers(-(2**63), 2**63 - 1),
    Format.INTEGER: st.integers(-(2**31), 2**31 - 1),
    Format.DOUBLE: st.floats(allow_nan=False),
    Format.BYTES: st.binary(),
    Format.JSON: st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps),
}


@given(st.data(), st.sampled_from(list(CELLS)))
def test_every_cell_comes_back(data: st.DataObject, kind: Format) -> None:
    cell = data.draw(CELLS[kind])
    back = decoded(kind, encoded(kind, cell))
    assert (back, type(back)) == (cell, type(cell))


@given(st.binary(max_size=12), st.sampled_from(list(CELLS)))
def test_bytes_are_refused_or_come_back(data: bytes, kind: Format) -> None:
    try:
        cell = decoded(kind, data)
    except ConfigInvalid:
        return
    again = encoded(kind, cell)
    assert again == data or struct.unpack(">d", again)[0] != struct.unpack(">d", again)[0], "only of a NaN there are many"


def test_numbers_are_big_endian_as_the_serialisers_write_them() -> None:
    assert encoded(Format.LONG, -2) == b"\xff" * 7 + b"\xfe"
    assert encoded(Format.INTEGER, 258) == b"\0\0\1\2"
    assert encoded(Format.DOUBLE, 1) == b"\x3f\xf0" + b"\0" * 6


@pytest.mark.parametrize(
    ("kind", "data"),
    [(Format.LONG, b"\0" * 4), (Format.INTEGER, b"\0" * 8), (Format.STRING, b"\xff"), (Format.JSON, b"{"), (Format.JSON, b"")],
)
def test_what_a_format_does_not_write_is_refused(kind: Format, data: bytes) -> None:
    with pytest.raises(ConfigInvalid, match=f"are not {kind}"):
        decoded(kind, data)


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (Format.LONG, 2**63),
        (Format.LONG, 1.0),
        (Format.LONG, True),
        (Format.INTEGER, 2**31),
        (Format.DOUBLE, "1"),
        (Format.STRING, 1),
        (Format.STRING, "\ud800"),
        (Format.BYTES, "00"),
        (Format.JSON, "{"),
        (Format.JSON, {}),
    ],
)
def test_a_cell_that_does_not_fit_is_refused(kind: Format, cell: object) -> None:
    with pytest.raises(ConfigInvalid, match=f"cannot be written as {kind}"):
        encoded(kind, cell)


def test_documents_are_compared_by_what_they_say() -> None:
    assert same_document('{"a": 1.50, "b": "\\u00fc"}', '{"b":"ü","a":1.5}')
    assert not same_document('{"a": 1}', '{"a": 1.0}')
    assert not same_document("[1, 2]", "[2, 1]")
    assert same_document("12345678901234567.01", "12345678901234567.010")
    assert not same_document("12345678901234567.01", "12345678901234567.02"), "as floats they are the same"
    assert not same_document("1e400", "2e400")


def test_what_somebody_types() -> None:
    assert (from_text(Format.LONG, "-5"), from_text(Format.BYTES, "ff00"), from_text(Format.DOUBLE, "NaN") != 0) == (-5, b"\xff\x00", True)
    assert from_text(Format.STRING, "5") == "5"
    with pytest.raises(ConfigInvalid):
        from_text(Format.LONG, "five")


LONG = st.integers(-(2**63), 2**63 - 1)
# From 2001 to 2128.
TIME = st.integers(10**12, 5 * 10**12)


@given(key=st.binary(max_size=40), start=LONG, seq=st.integers(-(2**31), 2**31 - 1), end=LONG)
def test_keys_of_windows_and_sessions_come_back(key: bytes, start: int, seq: int, end: int) -> None:
    for kind, parts in (
        (StoreKind.WINDOW, StoreKey(key=key, start=start, seq=seq)),
        (StoreKind.SESSION, StoreKey(key=key, start=start, end=end)),
    ):
        assert split_key(kind, join_key(kind, parts)) == parts


@given(st.binary(max_size=40), st.sampled_from([StoreKind.KEY_VALUE, StoreKind.VERSIONED, StoreKind.SUPPRESS]))
def test_other_keys_are_what_they_are(key: bytes, kind: StoreKind) -> None:
    assert join_key(kind, split_key(kind, key)) == key == split_key(kind, key).key


def test_the_layout_is_kafka_streams_own() -> None:
    assert split_key(StoreKind.WINDOW, b"k" + b"\0\0\0\0\0\0\0\x05" + b"\0\0\0\x02") == StoreKey(key=b"k", start=5, seq=2)
    # The end comes first.
    assert split_key(StoreKind.SESSION, b"k" + b"\0\0\0\0\0\0\0\x09" + b"\0\0\0\0\0\0\0\x05") == StoreKey(key=b"k", start=5, end=9)


@given(key=st.binary(max_size=40), begin=TIME, lasts=st.integers(0, 10**10), seq=st.integers(0, 9), known=st.booleans())
def test_the_bytes_tell_when_a_window_or_a_session_begins(key: bytes, begin: int, lasts: int, seq: int, *, known: bool) -> None:
    window = join_key(StoreKind.WINDOW, StoreKey(key=key, start=begin, seq=seq))
    session = join_key(StoreKind.SESSION, StoreKey(key=key, start=begin, end=begin + lasts))
    for kind, data in ((StoreKind.WINDOW, window), (StoreKind.SESSION, session)):
        found = window_begin(kind if known else StoreKind.UNKNOWN, data)
        # In rare cases the bytes of the one are times of the other too. Then nothing is claimed.
        assert found == begin or (found is None and not known)


def test_of_a_key_that_has_no_window_nothing_is_claimed() -> None:
    assert window_begin(None, b"k") is None
    assert window_begin(None, b"a key of letters alone") is None
    assert window_begin(StoreKind.SESSION, join_key(StoreKind.SESSION, StoreKey(key=b"k", start=9, end=5))) is None
    # A key that is a number of eight bytes is no time.
    assert (
        window_begin(None, join_key(StoreKind.WINDOW, StoreKey(key=(42).to_bytes(8, "big"), start=1_795_219_200_000, seq=0)))
        == 1_795_219_200_000
    )


def test_keys_that_no_such_store_writes_are_refused() -> None:
    for kind, length in ((StoreKind.WINDOW, 11), (StoreKind.SESSION, 15)):
        assert split_key(kind, b"x" * (length + 1)).key == b""
        with pytest.raises(ConfigInvalid, match="too short"):
            split_key(kind, b"x" * length)
    for parts in (StoreKey(key=b"k", start=5), StoreKey(key=b"k", start=2**63, seq=0)):
        with pytest.raises(ConfigInvalid, match="whole numbers"):
            join_key(StoreKind.WINDOW, parts)
