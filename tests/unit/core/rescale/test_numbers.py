"""Which topics follow when some get another number of partitions, by Kafka Streams' own rules; and what is refused with a way on."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicRole
from streams_recovery.core.repository.manifest import PartitionImage
from streams_recovery.core.rescale.numbers import check_as_saved, check_sources, new_numbers, stream_time_warnings, with_placing
from streams_recovery.core.restore.parts.rescale import TopicNumbers
from streams_recovery.core.rollout.compatibility import StoreFacts, saved_topics
from streams_recovery.core.rollout.described import DescribedTopology
from tests.support.examples.described import version
from tests.support.examples.topologies import APPLICATION, counting, processor, regrouping, saved, sink, source, topology

TWO_INPUTS = topology([source("l", "left"), source("r", "right"), processor("join", ("l", "r"), "totals")])
APART = topology([source("l", "left"), processor("count", "l", "totals")], [source("r", "right"), processor("other", "r", "others")])
# A foreign-key join: the left side subscribes at the right one, which answers.
FOREIGN = topology(
    [
        source("l", "left"),
        processor("table", "l", "lefts"),
        sink("ask", "table", "ask-topic"),
        source("answered", "answer-topic"),
        processor("resolve", "answered", "lefts"),
    ],
    [
        source("r", "right"),
        processor("other", "r", "rights"),
        source("asked", "ask-topic"),
        processor("subscribe", "asked", "subscriptions", "rights"),
        sink("answer", "subscribe", "answer-topic"),
    ],
)


def numbers(
    *wanted: str,
    topology: DescribedTopology | None,
    changelogs: Mapping[str, int],
    inputs: Mapping[str, int],
    repartitions: Mapping[str, int] | None = None,
) -> dict[str, tuple[int, int]]:
    found = saved_topics(saved(changelogs, inputs=inputs, repartitions=repartitions))
    return {one.name: (one.old, one.new) for one in new_numbers(APPLICATION, found, wanted, topology)}


def test_a_changelog_follows_its_input_and_what_is_apart_stays() -> None:
    found = numbers("left=12", topology=APART, changelogs={"totals": 4, "others": 4}, inputs={"left": 4, "right": 4})
    assert found == {"left": (4, 12), "orders-totals-changelog": (4, 12), "right": (4, 4), "orders-others-changelog": (4, 4)}


def test_a_repartition_topic_follows_what_is_upstream_and_its_stores_follow_it() -> None:
    found = numbers(
        "in=3", topology=regrouping("totals"), changelogs={"totals": 4}, inputs={"in": 4}, repartitions={"totals-repartition": 4}
    )
    assert [*found.values()] == [(4, 3)] * 3


def test_a_repartition_topic_whose_number_the_program_sets_stays_until_it_is_named() -> None:
    shape: dict[str, Mapping[str, int]] = {"changelogs": {"totals": 6}, "inputs": {"in": 4}, "repartitions": {"totals-repartition": 6}}
    found = numbers("in=12", topology=regrouping("totals"), **shape)
    assert (found["in"], found["orders-totals-changelog"]) == ((4, 12), (6, 6))
    for name in ("totals", "totals-repartition", "orders-totals-repartition"):
        assert numbers(f"{name}=12", topology=regrouping("totals"), **shape) == {
            "in": (4, 4),
            "orders-totals-repartition": (6, 12),
            "orders-totals-changelog": (6, 12),
        }


def test_a_chain_of_repartition_topics_follows_to_its_end() -> None:
    chain = topology(
        *([source(f"s{n}", f"t{n}"), sink(f"k{n}", f"s{n}", f"t{n + 1}")] for n in (3, 2, 1)),
        [source("s4", "t4"), processor("count", "s4", "totals")],
    )
    found = numbers("t1=5", topology=chain, changelogs={"totals": 2}, inputs={"t1": 2}, repartitions={"t2": 2, "t3": 2, "t4": 2})
    assert set(found.values()) == {(2, 5)}


def test_the_topics_of_a_foreign_key_join_are_placed_with_the_side_that_reads_them() -> None:
    shape: dict[str, Mapping[str, int]] = {
        "changelogs": {"lefts": 4, "rights": 8, "subscriptions": 8},
        "inputs": {"left": 4, "right": 8},
        "repartitions": {"ask-topic": 8, "answer-topic": 4},
    }
    found = numbers("left=12", topology=FOREIGN, **shape)
    assert {name for name, (old, new) in found.items() if old != new} == {"left", "orders-answer-topic", "orders-lefts-changelog"}
    found = numbers("right=3", topology=FOREIGN, **shape)
    changed = {"right", "orders-ask-topic", "orders-rights-changelog", "orders-subscriptions-changelog"}
    assert {name for name, (old, new) in found.items() if old != new} == changed


@pytest.mark.parametrize("number", [3, 12])
def test_a_circle_of_repartition_topics_shrinks_as_it_grows(number: int) -> None:
    """Both sides of a foreign-key join come through repartition topics: each topic of the join is upstream of the other."""
    circle = topology(
        *([source(side, side), sink("out", side, f"by-{side}-repartition")] for side in ("left", "right")),
        [
            source("l", "by-left-repartition"),
            processor("table", "l", "lefts"),
            sink("ask", "table", "ask-topic"),
            source("answered", "answer-topic"),
            processor("resolve", "answered", "lefts"),
        ],
        [
            source("r", "by-right-repartition"),
            processor("other", "r", "rights"),
            source("asked", "ask-topic"),
            processor("subscribe", "asked", "rights"),
            sink("answer", "subscribe", "answer-topic"),
        ],
    )
    found = numbers(
        f"left={number}",
        f"right={number}",
        topology=circle,
        changelogs={"lefts": 8, "rights": 8},
        inputs={"left": 8, "right": 8},
        repartitions=dict.fromkeys(("by-left-repartition", "by-right-repartition", "ask-topic", "answer-topic"), 8),
    )
    assert set(found.values()) == {(8, number)}


def test_inputs_that_meet_in_a_store_move_together_or_not_at_all() -> None:
    shape: dict[str, Mapping[str, int]] = {"changelogs": {"totals": 4}, "inputs": {"left": 4, "right": 4}}
    with pytest.raises(Refused, match="right would have 4") as refused:
        numbers("left=12", topology=TWO_INPUTS, **shape)
    assert "--partitions left=12 --partitions right=12" in refused.value.next_step
    assert set(numbers("left=12", "right=12", topology=TWO_INPUTS, **shape).values()) == {(4, 12)}


@pytest.mark.parametrize(("wanted", "left", "right"), [("left=8", 4, 8), ("left=4", 8, 8), ("right=16", 8, 8), ("right=16", 4, 8)])
def test_a_store_beside_an_input_of_another_number_would_be_looked_for_where_it_does_not_lie(wanted: str, left: int, right: int) -> None:
    """Streams are merged behind the store: its changelog has as many partitions as there are tasks, and its records lie by its own input."""
    merged = topology([source("l", "left"), source("r", "right"), processor("count", "l", "totals"), processor("both", ("count", "r"))])
    shape: dict[str, Mapping[str, int]] = {"changelogs": {"totals": 8}, "inputs": {"left": left, "right": right}}
    with pytest.raises(Refused, match="several numbers") as refused:
        numbers(wanted, topology=merged, **shape)
    assert "orders-totals-changelog" in refused.value.facts["problems"][0]
    # Nothing of it moves where both keep theirs, and all of it where both move.
    if left == right:
        assert set(numbers("left=16", "right=16", topology=merged, **shape).values()) == {(8, 16)}


def test_an_input_that_was_grown_already_is_known_by_the_stores_that_were_not() -> None:
    found = numbers("in=12", topology=counting("totals"), changelogs={"totals": 4}, inputs={"in": 12})
    assert found == {"in": (4, 12), "orders-totals-changelog": (4, 12)}


def test_without_a_description_all_inputs_get_one_number_or_it_is_asked_for() -> None:
    shape: dict[str, Mapping[str, int]] = {"changelogs": {"totals": 4}, "inputs": {"left": 4, "right": 4}, "repartitions": {"t": 4}}
    assert set(numbers("left=6", "right=6", topology=None, **shape).values()) == {(4, 6)}
    for wanted in (("left=6",), ("left=6", "right=5")):
        with pytest.raises(Refused, match="cannot be told") as refused:
            numbers(*wanted, topology=None, **shape)
        assert "--topology" in refused.value.next_step
    with pytest.raises(Refused, match="cannot be told"):
        numbers("left=6", "right=6", topology=None, **shape | {"changelogs": {"totals": 8}})


def test_a_description_of_another_version_is_refused() -> None:
    with pytest.raises(Refused, match="has 8 partitions and not 4"):
        numbers("in=6", topology=counting("totals"), changelogs={"totals": 8}, inputs={"in": 4})
    with pytest.raises(Refused, match="reads else"):
        numbers("in=6", topology=counting("totals", read="else"), changelogs={"totals": 4}, inputs={"in": 4})
    with pytest.raises(Refused, match="differ in their numbers"):
        numbers("left=6", "right=6", topology=TWO_INPUTS, changelogs={"totals": 8}, inputs={"left": 4, "right": 8})


# Of topologies as Kafka Streams itself describes them: the topics that follow "left".
FOLLOWING = {
    "counted": {"orders-totals-changelog"},
    "counted-by-value": {"orders-by-value-repartition", "orders-totals-changelog"},
    "foreign": {"orders-foreign-subscription-response-topic", "orders-left-changelog", "orders-joined-changelog"},
    "foreign-swapped": {
        "orders-foreign-subscription-registration-topic",
        "orders-left-changelog",
        "orders-foreign-subscription-store-changelog",
    },
    "not-enriched": {"orders-left-changelog"},
    "windowed": {"orders-totals-changelog", "orders-closed-store-changelog"},
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_an_input_in_topologies_of_kafka_streams(name: str) -> None:
    found = numbers("left=6", **all_with(version(name), 2))
    assert {topic for topic, (old, new) in found.items() if (old, new) == (2, 6)} == {"left", *FOLLOWING[name]}


@pytest.mark.parametrize("name", ["tables", "streams", "streams-outer", "enriched", "cogrouped"])
def test_both_sides_of_a_join_of_kafka_streams_move_together(name: str) -> None:
    shape = all_with(version(name), 2)
    with pytest.raises(Refused, match="all of them have to move"):
        numbers("left=6", **shape)
    assert set(numbers(*(f"{topic}=6" for topic in shape["inputs"]), **shape).values()) == {(2, 6)}


def all_with(topology: DescribedTopology, number: int) -> dict[str, Any]:
    """All topics of it, each with so many partitions."""
    internal = topology.read & topology.written
    return {
        "topology": topology,
        "changelogs": dict.fromkeys(topology.homes, number),
        "inputs": dict.fromkeys(sorted(topology.read - internal), number),
        "repartitions": dict.fromkeys(internal, number),
    }


def test_partitions_that_are_joined_tell_how_far_their_stream_times_are_apart() -> None:
    [image] = saved(inputs={"in": 4}).topics

    def read_to(number: int, time: int | None) -> PartitionImage:
        metadata = "" if time is None else base64.b64encode(struct.pack(">bq", 1, time)).decode()
        return replace(image.partitions[number], committed=CommittedOffset(offset=1, metadata=metadata))

    topic = replace(image, partitions=tuple(read_to(number, time) for number, time in enumerate((5_000, 9_000, 65_000, None))))

    def told(new: int) -> tuple[str, ...]:
        return stream_time_warnings([topic], [TopicNumbers(name="in", role=TopicRole.INPUT, old=4, new=new)])

    # Of 4 and 2 partitions 0 and 2 are joined, and 1 and 3; of 4 and 3 all are; of 4 and 8 none.
    assert ["1 min apart" in text for text in told(2)] == [True]
    assert told(8) == told(4) == ()
    assert told(3)


@pytest.mark.parametrize("wanted", [(), ("in=0",), ("in",), ("in=-1",), ("=4",), ("in=4", "in=5"), ("in=1234567",), ("in=\uff14",)])
def test_what_is_no_number_is_refused(wanted: tuple[str, ...]) -> None:
    with pytest.raises(ConfigInvalid):
        numbers(*wanted, topology=counting("totals"), changelogs={"totals": 2}, inputs={"in": 2})


@pytest.mark.parametrize("name", ["nothing", "orders-totals-changelog"])
def test_what_does_not_change_by_itself_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refused, match=f"{name} is neither") as refused:
        numbers(f"{name}=4", topology=counting("totals"), changelogs={"totals": 2}, inputs={"in": 2})
    assert "in" in refused.value.next_step


def test_the_number_that_is_there_is_no_change() -> None:
    with pytest.raises(Refused, match="would keep its number"):
        numbers("in=2", topology=counting("totals"), changelogs={"totals": 2}, inputs={"in": 2})


TABLE = topology(
    [source("in", "in"), processor("table", "in", "prices"), source("o", "orders"), processor("join", "o", "prices", "totals")]
)
FACTS: list[tuple[dict[str, StoreFacts], DescribedTopology | None]] = [
    ({}, TABLE),
    ({"prices": StoreFacts(source="in")}, TABLE),
    ({"prices": StoreFacts(source="in")}, None),
]


@pytest.mark.parametrize(("facts", "described"), FACTS)
def test_a_table_whose_input_is_its_changelog_needs_all_of_the_input(
    facts: dict[str, StoreFacts], described: DescribedTopology | None
) -> None:
    known = saved_topics(saved({"totals": 4}, inputs={"in": 4, "orders": 4}))

    def check(anew: set[str], grown: set[str], *, history: bool, stores: dict[str, StoreFacts] = facts) -> None:
        check_sources(APPLICATION, known, described, stores, anew=anew, grown=grown, history=history)

    with pytest.raises(Refused, match="prices from in") as refused:
        check({"in"}, set(), history=False)
    assert "--history" in refused.value.next_step
    with pytest.raises(Refused, match="prices from in") as refused:
        check(set(), {"in"}, history=True)
    assert "rebuild" in refused.value.next_step
    check({"in"}, set(), history=True)
    check({"other"}, set(), history=False)
    check({"in"}, {"in"}, history=False, stores={"prices": StoreFacts(logged=False)})


def test_a_savepoint_from_before_an_earlier_rescale_does_not_have_the_numbers_that_are_there() -> None:
    known = saved_topics(saved({"totals": 4}, inputs={"in": 4}, repartitions={"t": 4}))
    check_as_saved("S", known, {"orders-totals-changelog": 4, "in": 12})
    with pytest.raises(Refused, match="orders-totals-changelog has 12 and had 4") as refused:
        check_as_saved("S", known, {"orders-totals-changelog": 12, "in": 12, "orders-t": 4})
    assert refused.value.next_step.endswith("take a savepoint first")


def test_what_decides_where_records_lie_can_be_named_for_what_is_placed() -> None:
    numbers = [
        TopicNumbers(name="left", role=TopicRole.INPUT, old=4, new=8),
        TopicNumbers(name=f"{APPLICATION}-totals-changelog", role=TopicRole.CHANGELOG, old=4, new=8),
        TopicNumbers(name="right", role=TopicRole.INPUT, old=4, new=4),
    ]
    found = with_placing(APPLICATION, numbers, ["totals=window", "left=by-country"])
    assert [one.by for one in found] == ["by-country", "window", ""]
    assert with_placing(APPLICATION, numbers, []) == tuple(numbers)


@pytest.mark.parametrize(
    "wrong", [["right=whole"], ["other=whole"], ["left"], ["left="], ["left=a b"], ["left=own"], ["left=whole", "left=window"]]
)
def test_what_names_no_form_of_a_topic_that_is_placed_is_refused(wrong: list[str]) -> None:
    numbers = [TopicNumbers(name=name, role=TopicRole.INPUT, old=4, new=new) for name, new in (("left", 8), ("right", 4))]
    with pytest.raises(ConfigInvalid, match="does not say what decides") as refused:
        with_placing(APPLICATION, numbers, wrong)
    assert "one of left, and one of whole, windowed" in refused.value.next_step
