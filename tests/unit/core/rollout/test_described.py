"""The text of Topology#describe(): what Kafka Streams writes is read back, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.rollout.described import (
    MOST_BYTES,
    DescribedTopology,
    NodeKind,
    Subtopology,
    TopologyNode,
    described,
    generated_base,
)
from tests.support.examples.topologies import processor, rendered, sink, source, topology

NAMES = st.text("abcAB.-_09", min_size=1, max_size=12).filter(lambda name: name not in (".", "..") and not name.startswith("-"))
# Of processors of Topology#addProcessor: whatever the program likes, but for what would end a line or a list.
NODE_NAMES = st.text(st.characters(codec="ascii", exclude_characters="\n\r,"), min_size=1, max_size=20).filter(
    lambda name: name.strip() == name and name != "none"
)


@st.composite
def topologies(draw: st.DrawFn) -> DescribedTopology:
    found = []
    for number in draw(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True)):
        names = draw(st.lists(NODE_NAMES, min_size=1, max_size=6, unique=True))
        topics = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
        by_pattern = draw(st.booleans())
        nodes = [
            TopologyNode(
                name=names[0], kind=NodeKind.SOURCE, topics=() if by_pattern else tuple(topics), pattern="a.*(b|c)" if by_pattern else None
            )
        ]
        for at, name in enumerate(names[1:], 1):
            before = tuple(draw(st.lists(st.sampled_from(names[:at]), min_size=1, max_size=3, unique=True)))
            kind = draw(st.sampled_from((NodeKind.PROCESSOR, NodeKind.SINK)))
            if kind is NodeKind.PROCESSOR:
                stores = tuple(draw(st.lists(NAMES, max_size=3, unique=True)))
                nodes.append(TopologyNode(name=name, kind=kind, stores=stores, predecessors=before))
            else:
                extractor = draw(st.sampled_from((None, "Main$$Lambda$255/0x00007fdb0c174000@6853425f")))
                nodes.append(
                    TopologyNode(name=name, kind=kind, topics=() if extractor else (draw(NAMES),), extractor=extractor, predecessors=before)
                )
        found.append(Subtopology(number=number, is_global=draw(st.booleans()), nodes=tuple(nodes)))
    return DescribedTopology(subtopologies=tuple(found))


@given(topologies())
def test_what_is_written_is_read_back(wanted: DescribedTopology) -> None:
    text = rendered(wanted)
    assert described(text.encode()) == wanted
    assert described(f"[main] INFO a logger: speaks first\n{text}".encode()) == wanted
    assert described(json.dumps({"topology": text}).encode()) == wanted, "what GET /topology answers"


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigInvalid, match="no description of a topology"):
        described(data)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no line 'Topologies:'"),
        ("Topology: mine:\n   Sub-topology: 0\n", "a topology with a name of its own"),
        ("Topologies:\n", "no source, no processor and no sink"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (topics: [b])\nTopologies:\n", "2 lines 'Topologies:'"),
        ("Topologies:\n    Source: a (topics: [b])\n", "line 2 is 'Source: a"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (stores: [b])\n", "line 3 is"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (topics: [b])\nmore\n", "line 4 is 'more'"),
        ("Topologies:\n  Sub-topology: 0\n      <-- none\n", "line 3 is"),
        ("Topologies:\n  Sub-topology: 0\n    Processor: a (stores: [])\n", "subtopology 0 reads nothing"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (topics: [b])\n    Source: a (topics: [c])\n", "two nodes"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (topics: [b])\n  Sub-topology: 0\n    Source: a (topics: [b])\n", "one number"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (topics: [b])\n    Processor: p (stores: [\x1b[2J])\n", "no name of a store"),
        ("Topologies:\n  Sub-topology: 0\n    Source: a (topics: [b])\n    Processor: p (stores: x)\n", "are no list"),
        ('{"topology": 1}', "without a field topology"),
        ("Topologies:\n" + "x" * 100_001, "characters"),
        ("Topologies:\n" * 20_001, "lines"),
        ("x" * (MOST_BYTES + 1), "the limit is"),
    ],
)
def test_why_it_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        described(text.encode())
    assert why in refused.value.facts["why"]


@pytest.mark.parametrize("pattern", ["a.*", "[a-c]+.x", "[a-c]+[xy]", "(one|two)"])
def test_a_pattern_is_no_list_of_topics(pattern: str) -> None:
    found = described(f"Topologies:\n  Sub-topology: 0\n    Source: a (topics: {pattern})\n      --> none\n".encode())
    assert (found.has_pattern, found.read) == (True, frozenset())
    assert found.subtopologies[0].nodes[0].pattern == pattern


def test_what_feeds_a_store_are_the_sources_above_its_processors() -> None:
    found = topology(
        [
            source("a", "one"),
            source("b", "two", "three"),
            processor("joined", ["a", "b"], "both"),
            processor("alone", "a", "left"),
            processor("behind", "alone", "left", "both"),
            sink("out", "behind", "results"),
        ]
    )
    one, every = frozenset({"one"}), frozenset({"one", "two", "three"})
    assert found.feeds("left") == {one}
    assert found.feeds("both") == {one, every}
    assert (found.read, found.written) == (every, {"results"})
    unknown = topology([source("a", "one"), source("b", "two"), processor("p", "gone", "store")])
    assert unknown.feeds("store") == {frozenset({"one", "two"})}, "where an arrow leads nowhere, all of it"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("KSTREAM-AGGREGATE-STATE-STORE-0000000003", "KSTREAM-AGGREGATE-STATE-STORE-#"),
        ("KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition", "KSTREAM-AGGREGATE-STATE-STORE-#-repartition"),
        ("tab-STATE-STORE-0000000021", "tab-STATE-STORE-#"),
        ("KSTREAM-OUTERSHARED-0000000043-store", "KSTREAM-OUTERSHARED-#-store"),
        ("KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000026-topic", "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-#-topic"),
        ("COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000002", "COGROUPKSTREAM-AGGREGATE-STATE-STORE-#"),
        ("totals", None),
        ("orders-0000000003", None),
    ],
)
def test_names_that_kafka_streams_numbers_are_known(name: str, base: str | None) -> None:
    assert generated_base(name) == base
