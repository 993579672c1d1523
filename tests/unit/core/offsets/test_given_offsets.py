"""Offsets in a file: understood whole, or not used."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.given_offsets import csv_text, parse_file

partitions = st.builds(TopicPartition, st.from_regex(r"\A[a-zA-Z0-9._-]{1,40}\Z"), st.integers(0, 10**9 - 1))


@given(
    offsets=st.dictionaries(partitions, st.integers(0, 10**18 - 1), min_size=1, max_size=9),
    shape=st.sampled_from(["plain", "group", "quoted", "json"]),
)
def test_every_form_of_a_file_says_the_same(offsets: dict[TopicPartition, int], shape: str) -> None:
    rows = [(*tp, offset) for tp, offset in offsets.items()]
    text = {
        "plain": "".join(f"{t},{p},{o}\n" for t, p, o in rows),
        "group": "".join(f"orders,{t},{p},{o}\nanother,{t},{p},5\n" for t, p, o in rows),
        "quoted": "\ufefftopic,partition,offset\r\n" + "".join(f'"{t}",{p},{o}\r\n' for t, p, o in rows),
        "json": json.dumps([{"topic": t, "partition": p, "offset": o} for t, p, o in rows]),
    }[shape]
    assert parse_file(text.encode(), where="f", group="orders") == offsets


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "names no offset of group orders"),
        (b"\n\n", "names no offset"),
        (b"another,orders,0,1\n", "names no offset of group orders"),
        (b"orders,0,1\norders,0,2\n", "orders-0 is named twice"),
        (b"orders,0\n", "f:1 cannot be used: expected topic,partition,offset and found 2 values"),
        (b"orders,0,1\norders,one,1\n", "f:2 cannot be used: 'orders,one,1' is not"),
        (b"orders,0,-1\n", "is not topic,partition,offset"),
        (b'orders,0,"1\n', "cannot be used"),
        (b"\xff\xfe", "it is not text"),
        (b"[", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'[{"topic": "orders", "partition": 0}]', "missing"),
        (b'[{"topic": "orders", "partition": 0, "offset": "1"}]', "expected int"),
        (b'[{"topic": "orders", "partition": 0, "offset": -1}]', "cannot be"),
        (b"[]", "names no offset"),
        (b"x" * (16 * 1024 * 1024 + 1), "larger than"),
    ],
)
def test_a_file_that_is_not_understood_whole_is_not_used(content: bytes, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        parse_file(content, where="f", group="orders")


def test_the_lines_of_several_groups_must_have_their_group() -> None:
    def read(content: bytes, group: str) -> dict[TopicPartition, int]:
        return parse_file(content, where="f", group=group, several=True)

    assert read(b"g,a,0,5\nh,a,0,6\n", "h") == {TopicPartition("a", 0): 6}
    assert read(b"g,a,0,5\n", "h") == {}
    with pytest.raises(ConfigInvalid, match="f:2 cannot be used: it names no group"):
        read(b"g,a,0,5\na,0,6\n", "g")
    with pytest.raises(ConfigInvalid, match="it is for one group"):
        read(b"[]", "g")


@given(
    offsets=st.dictionaries(
        st.text(min_size=1, max_size=40).filter(lambda text: text == text.strip()),
        st.dictionaries(partitions, st.integers(0, 10**18 - 1), min_size=1, max_size=5),
        min_size=1,
        max_size=3,
    )
)
@example({"[": {TopicPartition("a", 0): 5}})
def test_what_is_written_is_read_again(offsets: dict[str, dict[TopicPartition, int]]) -> None:
    text = csv_text(offsets, with_group=True)
    for group, known in offsets.items():
        assert parse_file(text.encode(errors="surrogatepass"), where="f", group=group, several=True) == known
        assert parse_file(csv_text({group: known}, with_group=False).encode(), where="f", group="any") == known


def test_texts_are_quoted_as_kafka_s_writer_does_it() -> None:
    """It does not look into texts of more than 24 characters."""
    names = ("a" * 24, "a" * 25)
    assert csv_text({"g": {TopicPartition(name, 0): 5 for name in names}}, with_group=False) == f'{names[0]},0,5\n"{names[1]}",0,5\n'
    assert csv_text({'a "b"': {TopicPartition("t", 1): 2}}, with_group=True) == '"a ""b""",t,1,2\n'
