"""What is stored is read as strictly as it was written.

JSON is measured before it is parsed: what costs too much never becomes objects, and what is honest always does. A partition has one text.
"""

from __future__ import annotations

import enum
import json
import pickle
import tracemalloc
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core import codec as bounded_json
from streams_recovery.core.codec import Unusable, document, measure, parsed
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import TopicPartition


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    text: str
    number: int
    colour: Colour
    maybe: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    kind: Literal["tree"]
    ratio: float
    flag: bool
    leaves: tuple[Leaf, ...]
    by_name: dict[str, str | None]


# JSON text is UTF-8, which has no lone surrogates; Kafka's names and metadata have none either.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
WHOLE = st.integers(-(2**63), 2**63 - 1)
LEAVES = st.builds(Leaf, text=TEXT, number=WHOLE, colour=st.sampled_from(Colour), maybe=st.none() | WHOLE)
TREES = st.builds(
    Tree,
    kind=st.just("tree"),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    flag=st.booleans(),
    leaves=st.lists(LEAVES, max_size=4).map(tuple),
    by_name=st.dictionaries(TEXT, st.none() | TEXT, max_size=4),
)
LEAF = {"text": "a", "number": 1, "colour": "red", "maybe": None}
PLAIN: dict[str, object] = {
    "kind": "tree",
    "ratio": 0.5,
    "flag": True,
    "leaves": [LEAF],
    "by_name": {"x": None},
}


@given(TREES)
def test_a_value_comes_back_as_it_was(tree: Tree) -> None:
    assert codec.loads(Tree, codec.dumps(tree), where="here") == tree


@given(TREES)
def test_equal_values_have_equal_bytes(tree: Tree) -> None:
    turned = Tree(kind=tree.kind, ratio=tree.ratio, flag=tree.flag, leaves=tree.leaves, by_name=dict(reversed(list(tree.by_name.items()))))
    assert codec.dumps(turned) == codec.dumps(tree)


def test_null_is_not_empty() -> None:
    read = codec.loads(Tree, json.dumps(PLAIN | {"by_name": {"null": None, "empty": ""}}).encode(), where="here")
    assert read.by_name == {"null": None, "empty": ""}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"surplus": 1}, "here"),
        ({"kind": "bush"}, "here.kind"),
        ({"flag": 1}, "here.flag"),
        ({"flag": None}, "here.flag"),
        ({"ratio": "0.5"}, "here.ratio"),
        ({"ratio": True}, "here.ratio"),
        ({"leaves": {}}, "here.leaves"),
        ({"leaves": [{**LEAF, "number": True}]}, r"here\.leaves\[0\]\.number"),
        ({"leaves": [{**LEAF, "number": 1.0}]}, r"here\.leaves\[0\]\.number"),
        ({"leaves": [{**LEAF, "colour": "green"}]}, r"here\.leaves\[0\]\.colour"),
        ({"leaves": [{**LEAF, "maybe": "1"}]}, r"here\.leaves\[0\]\.maybe"),
        ({"by_name": {"x": 1}}, r"here\.by_name\.x"),
        ({"by_name": []}, "here.by_name"),
        ({"kind": ["tree"]}, "here.kind"),
        ({"kind": {}}, "here.kind"),
        ({"leaves": [{**LEAF, "colour": []}]}, r"here\.leaves\[0\]\.colour"),
        ({"leaves": [{**LEAF, "colour": {"red": 1}}]}, r"here\.leaves\[0\]\.colour"),
        ({"leaves": [{**LEAF, "number": 2**63}]}, r"here\.leaves\[0\]\.number.*64 bits"),
        ({"leaves": [{**LEAF, "maybe": -(2**63) - 1}]}, r"here\.leaves\[0\]\.maybe.*64 bits"),
        ({"ratio": 10**400}, "here.ratio.*64 bits"),
        ({"leaves": [{**LEAF, "text": "\ud800"}]}, r"here\.leaves\[0\]\.text.*UTF-8"),
        ({"by_name": {"\udfff": None}}, "here.*UTF-8"),
        ({"text": {"surplus": ["x" * 100_000] * 100}}, "here"),
    ],
)
def test_what_does_not_fit_is_damaged_and_its_place_is_named(change: dict[str, object], place: str) -> None:
    with pytest.raises(Damaged, match=place):
        codec.loads(Tree, json.dumps(PLAIN | change).encode(), where="here")


@pytest.mark.fault("F63")
@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "1" * 5_000])
def test_a_number_that_is_none_is_damaged(number: str) -> None:
    with pytest.raises(Damaged, match="here"):
        codec.loads(Tree, json.dumps(PLAIN).replace("0.5", number).encode(), where="here")


@pytest.mark.fault("F63")
def test_a_deep_text_is_damaged_and_does_not_end_the_stack() -> None:
    for data in (b"[" * 100_000, json.dumps(PLAIN).replace('{"x": null}', '{"x": ' * 50_000).encode()):
        with pytest.raises(Damaged, match="here"):
            codec.loads(Tree, data, where="here")


def test_1_is_not_true_and_not_1_0() -> None:
    @dataclass(frozen=True)
    class Versioned:
        version: Literal[1]

    assert codec.decode(Versioned, {"version": 1}, where="here").version == 1
    for other in (True, 1.0, "1"):
        with pytest.raises(Damaged, match=r"here\.version"):
            codec.decode(Versioned, {"version": other}, where="here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Even:
    """A value that looks at itself."""

    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ConfigInvalid(f"{self.number} is odd", next_step="choose another number")


def test_what_a_value_refuses_of_itself_is_damage_with_its_place() -> None:
    with pytest.raises(Damaged, match=r"here\[1\]: 3 is odd"):
        codec.decode(tuple[Even, ...], [{"number": 2}, {"number": 3}], where="here")


def test_an_error_shows_a_little_of_what_was_found() -> None:
    for odd in ("x" * 1_000_000, ["y" * 1_000_000] * 3, {"z" * 1_000_000: 1}, {"z" * 1_000_000: None}):
        with pytest.raises(Damaged) as caught:
            codec.loads(Tree, json.dumps(PLAIN | {"by_name": {"a": odd}, "flag": odd}).encode(), where="here")
        assert len(str(caught.value)) < 1_000
        with pytest.raises(Damaged) as caught:
            codec.loads(Tree, json.dumps(PLAIN | {"by_name": {"q" * 1_000_000: 1}}).encode(), where="here")
        assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("key", list(PLAIN))
def test_a_missing_key_is_damaged(key: str) -> None:
    with pytest.raises(Damaged, match=key):
        codec.loads(Tree, json.dumps({name: value for name, value in PLAIN.items() if name != key}).encode(), where="here")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"1"])
def test_what_is_no_object_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match="here"):
        codec.loads(Tree, data, where="here")


# Brackets, quotes, commas and backslashes where they mean nothing.
TRICKY = st.text(st.sampled_from('[]{},:"\\ aé\n'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=3),
    max_leaves=40,
)
MIB = 1 << 20


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def values(value: object, *, of_empty: int = 1) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return 1
    return 1 + sum(values(one, of_empty=of_empty) for one in inner) if inner else of_empty


@given(value=JSON, ascii_only=st.booleans(), indent=st.none() | st.just(2))
def test_what_is_honest_is_parsed(value: object, *, ascii_only: bool, indent: int | None) -> None:
    assert parsed(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


@given(value=JSON, piece=st.integers(1, 9))
def test_the_measure_is_the_depth_and_at_least_the_number_of_values(value: object, piece: int) -> None:
    data = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        # Every text is cut somewhere: within a string, too.
        patch.setattr(bounded_json, "_PIECE", piece)
        patch.setattr(bounded_json, "_DEEPEST", depth(value))
        measure(data)
        # An empty list counts as one with a value in it.
        patch.setattr(bounded_json, "_VALUES_FREE", values(value, of_empty=2))
        patch.setattr(bounded_json, "_BYTES_A_VALUE", MIB)
        measure(data)
        patch.setattr(bounded_json, "_VALUES_FREE", values(value) - 1)
        with pytest.raises(Unusable, match="more than"):
            measure(data)
        patch.setattr(bounded_json, "_VALUES_FREE", MIB)
        patch.setattr(bounded_json, "_DEEPEST", depth(value) - 1)
        if depth(value):
            with pytest.raises(Unusable, match="nested deeper"):
                measure(data)


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "more than|nested"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nested deeper than 32"),
        (b"[" + b"[]," * 2_000_000 + b"[]]", "more than"),
        (b"[" + b"{}," * 2_000_000 + b"{}]", "more than"),
        (b"[" + b"1," * 3_000_000 + b"1]", "more than"),
        (b"[" + b'"",' * 2_000_000 + b'""]', "more than"),
    ],
    ids=["deep lists", "deep objects", "lists", "objects", "numbers", "strings"],
)
def test_what_costs_too_much_is_refused_in_little_memory(data: bytes, why: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Unusable, match=why):
            parsed(data)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1,]", b"NaN", b"[Infinity]", b"-Infinity", b"\xff", b'"\\', b'"', b'["\\"]', "[1]".encode("utf-16"), b"[] []"]
)
def test_what_is_no_json_in_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(Unusable):
        parsed(data)


def test_a_text_is_measured_against_the_limit_that_is_given() -> None:
    assert parsed(b"[1,2]", most_bytes=5) == [1, 2]
    with pytest.raises(Unusable, match="limit is 4"):
        parsed(b"[1,2]", most_bytes=4)


def test_a_document_of_an_application_may_be_long_and_not_bottomless() -> None:
    assert document("[" + "1," * 200_000 + "1]")[-1] == 1
    assert depth(document("[" * 200 + "]" * 200)) == 200
    for text in ("[" * 201 + "]" * 201, '{"a":' * 100_000, "[" * 100_000):
        with pytest.raises(Unusable, match="nested deeper than 200"):
            document(text)
    assert document(json.dumps("[" * 1_000)) == "[" * 1_000


PARTITIONS = st.builds(TopicPartition, st.from_regex(r"\A[a-zA-Z0-9._-]{1,249}\Z"), st.integers(0, 2**31 - 1))


@given(PARTITIONS, PARTITIONS)
def test_every_partition_comes_back_from_its_text_and_no_two_have_one(one: TopicPartition, other: TopicPartition) -> None:
    stored = codec.dumps({one: (one, other)})
    assert json.loads(stored) == {str(one): [str(one), str(other)]}
    assert codec.loads(dict[TopicPartition, tuple[TopicPartition, ...]], stored, where="x") == {one: (one, other)}
    assert (str(one) == str(other)) == (one == other)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    "text", ["orders", "-1", "orders-01", "orders-+1", "orders-1 ", "orders 1", "orders-\u0661", "a/b-1", "o-2147483648", 7]
)
def test_what_is_no_partition_is_damage_wherever_it_stands(text: object) -> None:
    for kind, plain in ((TopicPartition, text), (dict[TopicPartition, int], {str(text): 1})):
        with pytest.raises(Damaged, match="found 7" if plain == 7 else "is not <topic>-<partition>"):
            codec.decode(kind, plain, where="an entry")
