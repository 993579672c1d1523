"""What feeds a store, compared between versions as Kafka Streams itself describes them."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.rollout.compatibility import CompatibilityVerdict, TopologyDifference
from streams_recovery.core.rollout.described import DescribedTopology, described, generated_base, matched
from streams_recovery.core.rollout.topology_comparison import compare
from tests.support.examples.described import judged, left_by, texts, version
from tests.support.examples.topologies import APPLICATION, counting, processor, saved, sink, source, topology

ORDERS = ("orders-eu", "orders-us")
# Versions, each with a later one, and the stores whose content is wrong there.
WRONG = [
    ("streams", "streams-swapped", "window-other-join-store window-this-join-store"),
    ("streams", "streams-renamed-swapped", "window-other-join-store window-this-join-store"),
    ("streams", "streams-other", "window-other-join-store"),
    ("streams-outer", "streams-outer-swapped", "window-outer-other-join-store window-outer-shared-join-store window-outer-this-join-store"),
    ("streams-rekeyed", "streams-rekeyed-swapped", "window-other-join-store window-this-join-store"),
    ("streams-counted", "streams-counted-swapped", "totals window-other-join-store window-this-join-store"),
    ("tables", "tables-swapped", "joined"),
    ("tables", "tables-renamed-swapped", "joined"),
    ("tables", "tables-other", "joined left"),
    ("tables", "tables-exchanged", "joined left right"),
    ("tables-numbered", "tables-numbered-swapped", "joined"),
    ("tables-numbered", "tables-swapped", "joined"),
    ("tables-in-three", "tables-in-three-swapped", "joined"),
    ("enriched", "enriched-from-other", "left"),
    ("foreign", "foreign-swapped", "foreign-subscription-store joined"),
    ("cogrouped", "cogrouped-anew", "totals"),
    ("cogrouped-numbered", "cogrouped-numbered-anew", "totals"),
    ("cogrouped", "cogrouped-numbered-anew", "totals"),
    ("counted", "counted-by-value", "totals"),
    ("counted-by-name", "counted-by-value", "totals"),
    ("apart", "apart-exchanged", "others totals"),
]
RIGHT = [
    ("streams", "streams-renamed"),
    ("streams", "streams-filtered"),
    ("streams", "streams-turned-around"),
    ("tables", "tables-renamed"),
    ("tables", "tables-numbered"),
    ("tables-numbered", "tables"),
    ("tables", "tables-filtered"),
    ("tables", "tables-optimized"),
    ("not-enriched", "enriched-numbered"),
    ("global", "global-from-other"),
    ("versioned", "versioned-filtered"),
    ("foreign", "foreign-with-output"),
    ("cogrouped", "cogrouped-swapped"),
    ("cogrouped", "cogrouped-filtered"),
    ("cogrouped", "cogrouped-numbered"),
    ("cogrouped", "cogrouped-with-third"),
    ("counted", "counted-by-name"),
    ("counted-by-name", "counted"),
    ("counted", "counted-filtered"),
    ("counted", "counted-with-output"),
    ("counted-by-value", "counted-by-value-filtered"),
    ("reduced", "reduced-to-more"),
    ("windowed", "windowed-filtered"),
    ("branched-small", "branched-little"),
    ("counted-twice-optimized", "counted-twice"),
    ("apart", "apart-in-other-order"),
]
DOUBTFUL = [
    # An aggregate of one kind may have another's values.
    ("counted", "reduced", "totals"),
    ("tables", "tables-in-three", "joined"),
    ("tables-in-three", "tables", "joined"),
    # A processor with a name may write to a store, or join it.
    ("not-enriched", "enriched", "left"),
]


def wrong(old: str | DescribedTopology, new: str | DescribedTopology) -> set[str]:
    return {one.subject for one in judged(old, new).findings if one.kind is TopologyDifference.GROUPING_CHANGED}


@pytest.mark.fault("F110")
@pytest.mark.parametrize(("old", "new", "stores"), WRONG)
def test_a_store_that_is_fed_otherwise_is_lost_whatever_kept_its_name(old: str, new: str, stores: str) -> None:
    found = judged(old, new)
    assert (found.verdict, wrong(old, new)) == (CompatibilityVerdict.LOST, set(stores.split()))


def test_the_same_is_seen_of_stores_that_have_only_numbers() -> None:
    for name in ("streams-numbered", "foreign-numbered"):
        assert judged(name, f"{name}-swapped").verdict is CompatibilityVerdict.LOST


@pytest.mark.parametrize(("old", "new"), RIGHT)
def test_a_version_that_goes_on_is_neither_refused_nor_doubted(old: str, new: str) -> None:
    found = judged(old, new)
    assert found.verdict is CompatibilityVerdict.COMPATIBLE, found.findings


def test_topics_that_are_merged_by_an_optimization_group_as_before() -> None:
    found = judged("counted-twice", "counted-twice-optimized")
    assert (found.verdict, found.answer) == (CompatibilityVerdict.ORPHANED, "topics are orphaned: two-repartition")


@pytest.mark.parametrize(("old", "new", "store"), DOUBTFUL)
def test_what_nothing_tells_is_a_doubt_until_a_person_has_looked(old: str, new: str, store: str) -> None:
    found = judged(old, new)
    assert (found.verdict, found.answer) in {(CompatibilityVerdict.DOUBT, f"a person must look at {store}")}
    assert found.accepting((), doubt=True).verdict in {CompatibilityVerdict.COMPATIBLE, CompatibilityVerdict.ORPHANED}
    assert judged(old, new, known=False).verdict is not CompatibilityVerdict.DOUBT, "as long as nobody has the version before"


@pytest.mark.parametrize("name", sorted(texts()))
def test_every_version_goes_on_with_what_it_has_left_itself(name: str) -> None:
    matching = ORDERS if "orders" in name else ("payments-x",) if name.startswith("pattern") else ()
    for known in (True, False):
        found = judged(name, name, matched=matching, known=known)
        assert (found.verdict, [one for one in found.findings if one.loses]) == (CompatibilityVerdict.COMPATIBLE, [])


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("orders-.*", "payments-.*", CompatibilityVerdict.LOST),
        ("orders-.*", "(orders|payments)-.*", CompatibilityVerdict.COMPATIBLE),
        ("(orders|payments)-.*", "orders-.*", CompatibilityVerdict.COMPATIBLE),
        ("orders-.*", "orders-(?!eu).*", CompatibilityVerdict.DOUBT),
        ("orders-(?!eu).*", "orders-.*", CompatibilityVerdict.DOUBT),
        ("orders-(?!eu).*", "orders-(?!eu).*", CompatibilityVerdict.COMPATIBLE),
    ],
)
def test_a_store_that_is_fed_by_a_pattern_is_compared_by_what_that_matches(old: str, new: str, verdict: CompatibilityVerdict) -> None:
    assert judged(f"pattern {old}", f"pattern {new}", matched=ORDERS).verdict is verdict


def test_where_no_known_topic_shows_what_a_pattern_matches_another_one_is_a_doubt() -> None:
    assert judged("pattern orders-.*", "pattern (orders|payments)-.*").verdict is CompatibilityVerdict.DOUBT


def test_a_pattern_hides_no_input_that_it_does_not_match() -> None:
    found = judged("apart", "other-beside-pattern")
    assert (TopologyDifference.INPUT_GONE, "left") in {(one.kind, one.subject) for one in found.findings}
    odd = replace(source("read"), pattern="i(?=n).*")
    new = topology([odd, processor("count", "read", "totals")])
    assert judged(counting("totals"), new, known=False).verdict is CompatibilityVerdict.COMPATIBLE
    kinds = {one.kind for one in judged(counting("totals"), new).findings}
    assert kinds == {TopologyDifference.FEED_UNCLEAR, TopologyDifference.INPUT_UNCLEAR}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("orders-.*", {"orders-eu", "orders-us"}),
        ("^orders-.*$", {"orders-eu", "orders-us"}),
        ("orders-eu", {"orders-eu"}),
        ("orders-[a-e]+", set()),
        ("orders-(eu|as)", {"orders-eu"}),
        (".*s-u.*", {"orders-us"}),
        (r"pay\.ments", {"pay.ments"}),
        ("pay.ments", {"pay.ments", "pay-ments"}),
        ("(a+)+b", None),
        (".*.*.*x", None),
        ("(?i)orders-.*", None),
        ("[z-a]+", None),
        ("x" * 600, None),
    ],
)
def test_only_simple_patterns_are_tried(pattern: str, matches: set[str] | None) -> None:
    found = matched(pattern, ["orders-eu", "orders-us", "pay.ments", "pay-ments", "a" * 249])
    assert found == (None if matches is None else frozenset(matches))


def test_a_store_renamed_while_its_changelog_is_nobodys_is_still_one_that_the_version_before_had() -> None:
    manifest = saved({"totals": 2})
    nobodys = replace(manifest, topics=tuple(replace(one, evidence=None) if one.role.internal else one for one in manifest.topics))
    assert nobodys.unattributed
    found = compare(APPLICATION, nobodys, counting("sums"), {}, before=counting("totals"))
    assert (found.verdict, found.answer) == (CompatibilityVerdict.RENAME, "rename these stores: totals")
    assert compare(APPLICATION, nobodys, counting("sums"), {}).verdict is CompatibilityVerdict.COMPATIBLE, "it may be another application's"


def renumbered(text: str, seed: int) -> DescribedTopology:
    """The same version behind other operators: other numbers, which stay in their order, and its subtopologies in another order."""
    dice = random.Random(seed)
    numbers = sorted(set(re.findall(r"\d{10}", text)))
    fresh = iter(sorted(dice.sample(range(10_000), len(numbers))))
    others = {number: f"{next(fresh):010}" for number in numbers}
    found = described(re.sub(r"\d{10}", lambda one: others[one[0]], text).encode())
    order = list(found.subtopologies)
    dice.shuffle(order)
    moved = (replace(one, number=at, nodes=tuple(dice.sample(one.nodes, len(one.nodes)))) for at, one in enumerate(order))
    return DescribedTopology(subtopologies=tuple(moved))


NAMED = sorted(name for name, text in texts().items() if all(generated_base(store) is None for store in described(text.encode()).homes))


@given(st.sampled_from(NAMED), st.sampled_from(NAMED), st.integers(0, 2**32), st.integers(0, 2**32))
def test_numbers_and_the_order_of_subtopologies_never_change_the_verdict_on_named_stores(old: str, new: str, one: int, two: int) -> None:
    plain, other = judged(old, new), judged(renumbered(texts()[old], one), renumbered(texts()[new], two))

    def about_stores(found: object) -> set[tuple[str, str]]:
        homes = {*version(old).homes, *version(new).homes}
        moved = (TopologyDifference.SUBTOPOLOGY_MOVED,)
        return {(item.kind, item.subject) for item in found.findings if item.subject in homes and item.kind not in moved}  # type: ignore[attr-defined]

    assert about_stores(plain) == about_stores(other)
    assert (plain.verdict is CompatibilityVerdict.LOST) == (other.verdict is CompatibilityVerdict.LOST)


@pytest.mark.fault("F110")
def test_a_repartition_topic_that_only_was_given_a_name_is_a_doubt_and_hides_no_swap() -> None:
    text = texts()["streams-rekeyed"]
    for number, side in ((1, "left"), (3, "right")):
        text = text.replace(f"join-{side}-repartition", f"KSTREAM-KEY-SELECT-{number:010}-repartition")
    numbered = described(text.encode())
    for old, new in ((numbered, version("streams-rekeyed")), (version("streams-rekeyed"), numbered)):
        found = judged(old, new)
        assert (found.verdict, wrong(old, new)) == (CompatibilityVerdict.DOUBT, set())
        assert found.accepting((), doubt=True).verdict is CompatibilityVerdict.ORPHANED
    assert wrong(numbered, version("streams-rekeyed-swapped")) == {"window-other-join-store", "window-this-join-store"}


@pytest.mark.fault("F110")
def test_two_stores_behind_branches_that_changed_places_are_a_doubt() -> None:
    def branched(*sides: str) -> DescribedTopology:
        ends = [processor(f"KSTREAM-AGGREGATE-{at:010}", f"size-{side}", f"totals-{at}") for at, side in enumerate(sides)]
        return topology(
            [source("read", "in"), processor("size-", "read"), *(processor(f"size-{one}", "size-") for one in ("large", "small")), *ends]
        )

    found = judged(branched("large", "small"), branched("small", "large"))
    assert (found.verdict, found.answer) == (CompatibilityVerdict.DOUBT, "a person must look at totals-0, totals-1")
    assert judged(branched("large", "small"), branched("large", "small")).verdict is CompatibilityVerdict.COMPATIBLE


def test_topics_that_every_part_writes_to_are_compared_in_a_moment() -> None:
    parts = [
        [
            source(f"s-{at}", f"t-{at - 1}-repartition" if at else "in"),
            processor(f"p-{at}", f"s-{at}", f"store-{at}"),
            *(sink(f"k-{at}-{to}", f"p-{at}", f"t-{to}-repartition") for to in range(40)),
        ]
        for at in range(40)
    ]
    large, begun = topology(*parts), time.process_time()
    assert compare(APPLICATION, left_by(large), large, {}, before=large).verdict is CompatibilityVerdict.COMPATIBLE
    assert time.process_time() - begun < 10


def test_many_joins_behind_each_other_are_compared_in_a_moment() -> None:
    nodes = [source("s-0", "in-0"), processor("KTABLE-SOURCE-0000000000", "s-0", "t-0")]
    last = nodes[-1].name
    for at in range(1, 200):
        nodes += [
            source(f"s-{at}", f"in-{at}"),
            processor(f"j-{at}-join-this", last, f"t-{at}"),
            processor(f"j-{at}-join-other", f"s-{at}", f"t-{at - 1}"),
            processor(f"j-{at}", (f"j-{at}-join-this", f"j-{at}-join-other"), f"t-{at}"),
        ]
        last = nodes[-1].name
    large, begun = topology(nodes), time.process_time()
    found = compare(APPLICATION, left_by(large), large, {}, before=large)
    assert found.verdict is CompatibilityVerdict.COMPATIBLE
    assert time.process_time() - begun < 20
