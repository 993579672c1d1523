from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.windowed_keys import StoreKey, join_key, split_key

LONG = st.integers(-(2**63), 2**63 - 1)


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


def test_keys_that_no_such_store_writes_are_refused() -> None:
    for kind, length in ((StoreKind.WINDOW, 11), (StoreKind.SESSION, 15)):
        assert split_key(kind, b"x" * (length + 1)).key == b""
        with pytest.raises(ConfigInvalid, match="too short"):
            split_key(kind, b"x" * length)
    for parts in (StoreKey(key=b"k", start=5), StoreKey(key=b"k", start=2**63, seq=0)):
        with pytest.raises(ConfigInvalid, match="whole numbers"):
            join_key(StoreKind.WINDOW, parts)
