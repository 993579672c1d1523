from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.windowed_keys import StoreKey, join_key, split_key, window_begin

LONG = st.integers(-(2**63), 2**63 - 1)
# From 2001 to 2128.
TIME = st.integers(10**12, 5 * 10**12)


@given(key=st.binary(max_size=40), start=LONG, seq=st.integers(-(2**31), 2**31 - 1))
def test_a_window_key_comes_back(key: bytes, start: int, seq: int) -> None:
    parts = StoreKey(key=key, start=start, seq=seq)
    assert split_key(StoreKind.WINDOW, join_key(StoreKind.WINDOW, parts)) == parts


@given(key=st.binary(max_size=40), start=LONG, end=LONG)
def test_a_session_key_comes_back(key: bytes, start: int, end: int) -> None:
    parts = StoreKey(key=key, start=start, end=end)
    assert split_key(StoreKind.SESSION, join_key(StoreKind.SESSION, parts)) == parts


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
