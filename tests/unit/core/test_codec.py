"""What is stored is read as strictly as it was written."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged


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
LEAVES = st.builds(Leaf, text=TEXT, number=st.integers(), colour=st.sampled_from(Colour), maybe=st.none() | st.integers())
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
    ],
)
def test_what_does_not_fit_is_damaged_and_its_place_is_named(change: dict[str, object], place: str) -> None:
    with pytest.raises(Damaged, match=place):
        codec.loads(Tree, json.dumps(PLAIN | change).encode(), where="here")


@pytest.mark.parametrize("key", list(PLAIN))
def test_a_missing_key_is_damaged(key: str) -> None:
    with pytest.raises(Damaged, match=key):
        codec.loads(Tree, json.dumps({name: value for name, value in PLAIN.items() if name != key}).encode(), where="here")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"1"])
def test_what_is_no_object_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match="here"):
        codec.loads(Tree, data, where="here")
