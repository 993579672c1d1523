"""Versions compared with a savepoint: each difference has its word, and what cannot be seen is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rollout.compatibility import (
    Compatibility,
    CompatibilityVerdict,
    StoreFacts,
    TopologyDifference,
)
from streams_recovery.core.rollout.described import DescribedTopology
from streams_recovery.core.rollout.topology_comparison import compare
from tests.support.examples.topologies import APPLICATION, counting, processor, regrouping, saved, sink, source, topology

TOTALS = saved({"totals": 2})
FIRST, SECOND, THIRD = (f"KSTREAM-AGGREGATE-STATE-STORE-000000000{number}" for number in (1, 3, 5))


def compared(
    manifest: Manifest, new: DescribedTopology, stores: Mapping[str, StoreFacts] | None = None, before: DescribedTopology | None = None
) -> Compatibility:
    return compare(APPLICATION, manifest, new, stores or {}, before=before)


def kinds(found: Compatibility) -> dict[str, TopologyDifference]:
    """The worst finding on each subject."""
    return {one.subject: one.kind for one in reversed(found.findings)}


def test_the_same_version_is_compatible_and_says_what_was_not_compared() -> None:
    found = compared(TOTALS, counting("totals"))
    assert (found.verdict, found.answer, found.findings) == (CompatibilityVerdict.COMPATIBLE, "compatible", ())
    assert found.compared == {"changelog": 1, "repartition": 0, "input": 1}
    assert any("numbers of subtopologies" in text for text in found.not_compared)
    assert any("sizes of windows" in text for text in found.not_compared)
    assert not any(
        "numbers of subtopologies" in text for text in compared(TOTALS, counting("totals"), before=counting("totals")).not_compared
    )


def test_an_operator_behind_and_a_new_store_are_compatible() -> None:
    new = topology(
        [source("read", "in"), processor("count", "read", "totals"), processor("behind", "count", "others"), sink("out", "behind", "o")]
    )
    found = compared(TOTALS, new, {"others": StoreFacts(logged=False)})
    assert (found.verdict, kinds(found)) == (CompatibilityVerdict.COMPATIBLE, {"others": TopologyDifference.NOT_LOGGED})
    found = compared(saved({"totals": 2, "others": 4}), new)
    assert kinds(found)["others"] is TopologyDifference.PARTITIONS_DIFFER
    assert kinds(compared(TOTALS, topology(*[[*counting("totals").subtopologies[0].nodes, processor("p", "count", "more")]]))) == {
        "more": TopologyDifference.NEW_STORE
    }


def test_a_renamed_store_is_found_by_its_shape() -> None:
    found = compared(TOTALS, counting("sums"))
    assert (found.verdict, found.answer) == (CompatibilityVerdict.RENAME, "rename these stores: totals")
    assert (found.findings[0].kind, found.findings[0].candidates) == (TopologyDifference.STORE_RENAMED, ("sums",))
    assert 'Materialized.as("totals")' in found.findings[0].remedy
    other_shape = compared(saved({"totals": 3}), counting("sums"))
    assert kinds(other_shape) == {"totals": TopologyDifference.STORE_GONE, "sums": TopologyDifference.NEW_STORE}
    assert other_shape.verdict is CompatibilityVerdict.ORPHANED
    windowed = compared(saved({"totals": 2}, policy="compact,delete"), counting("sums"), {"sums": StoreFacts(kind=StoreKind.KEY_VALUE)})
    assert kinds(windowed) == {"totals": TopologyDifference.STORE_GONE, "sums": TopologyDifference.NEW_STORE}
    fed_otherwise = compared(
        saved({"totals": 2}, inputs={"in": 2, "else": 2}), counting("sums", read="else"), before=counting("totals", read="in")
    )
    assert kinds(fed_otherwise) == {
        "totals": TopologyDifference.STORE_GONE,
        "sums": TopologyDifference.NEW_STORE,
        "in": TopologyDifference.INPUT_GONE,
    }


def test_numbers_that_moved_are_named_and_a_number_that_stayed_is_not_believed() -> None:
    manifest = saved({FIRST: 2, SECOND: 2})
    moved = topology([source("read", "in"), processor("a", "read", SECOND), processor("b", "read", THIRD)])
    found = compared(manifest, moved)
    assert (found.verdict, kinds(found)) == (
        CompatibilityVerdict.RENAME,
        {FIRST: TopologyDifference.NUMBER_MOVED, SECOND: TopologyDifference.NUMBER_REUSED},
    )
    beside = topology([source("read", "in"), processor("a", "read", THIRD), processor("b", "read", "a-named-one")])
    assert compared(saved({FIRST: 2}), beside).findings[0].candidates == (THIRD,), "of its kind before any other"
    same = topology([source("read", "in"), processor("a", "read", FIRST), processor("b", "read", SECOND)])
    found = compared(manifest, same)
    assert found.verdict is CompatibilityVerdict.COMPATIBLE
    assert any("only numbers of operators" in text for text in found.not_compared)
    removed = compared(manifest, counting(FIRST))
    assert (removed.verdict, kinds(removed)) == (
        CompatibilityVerdict.RENAME,
        {FIRST: TopologyDifference.NUMBER_REUSED, SECOND: TopologyDifference.STORE_GONE},
    )
    still_alike = compared(manifest, counting(FIRST), before=same)
    assert kinds(still_alike)[FIRST] is TopologyDifference.NUMBER_REUSED, "both were fed by one topic"
    apart = topology([source("read", "in"), source("b", "else"), processor("p", "read", FIRST), processor("q", "b", SECOND)])
    two = saved({FIRST: 2, SECOND: 2}, inputs={"in": 2, "else": 2})
    assert kinds(compared(two, counting(FIRST), before=apart)) == {
        SECOND: TopologyDifference.STORE_GONE,
        "else": TopologyDifference.INPUT_GONE,
    }


def test_a_changed_grouping_loses_the_state_of_a_store_that_kept_its_name() -> None:
    found = compared(TOTALS, regrouping("totals"))
    assert (found.verdict, found.answer) == (CompatibilityVerdict.LOST, "state is lost for totals")
    assert kinds(found) == {"totals": TopologyDifference.GROUPING_CHANGED}
    assert any("partitions of repartition topics" in text for text in found.not_compared)
    assert any("feed the repartition topics" in text for text in found.not_compared)
    before = saved({"totals": 2}, repartitions={"totals-repartition": 2})
    assert compared(before, regrouping("totals")).findings == ()
    back = compared(before, counting("totals"))
    assert kinds(back) == {"totals": TopologyDifference.GROUPING_CHANGED, "totals-repartition": TopologyDifference.REPARTITION_GONE}
    other = compared(before, regrouping("totals", through="by-name-repartition"))
    assert kinds(other)["totals"] is TopologyDifference.GROUPING_CHANGED


def test_with_the_description_of_the_version_before_a_grouping_by_a_topic_of_any_name_is_seen() -> None:
    manifest = saved({"totals": 2}, repartitions={"by-key-repartition": 2})
    unseen = compared(manifest, counting("totals"))
    assert (unseen.verdict, kinds(unseen)) == (CompatibilityVerdict.ORPHANED, {"by-key-repartition": TopologyDifference.REPARTITION_GONE})
    seen = compared(manifest, counting("totals"), before=regrouping("totals", through="by-key-repartition"))
    assert kinds(seen)["totals"] is TopologyDifference.GROUPING_CHANGED


def test_a_reader_of_a_store_behind_a_new_repartition_topic_is_not_its_grouping() -> None:
    table = topology(
        [source("stream", "in"), processor("other-key", "stream"), sink("out", "other-key", "joined-repartition")],
        [source("t", "in"), source("again", "joined-repartition"), processor("keep", "t", "totals"), processor("join", "again", "totals")],
    )
    found = compared(TOTALS, table)
    assert found.verdict is CompatibilityVerdict.COMPATIBLE
    assert any("what writes to store totals" in text for text in found.not_compared)


def joined(totals: str, *, clicks: str = "clicks") -> DescribedTopology:
    """Totals that are counted behind one topic, and read by a join behind another one."""
    nodes = [source("t", totals), source("c", clicks), processor("count", "t", "totals"), processor("join", "c", "totals")]
    feeding = [
        [source("in", "in"), processor("other-key", "in"), sink("out", "other-key", topic)] for topic in (totals, clicks) if "-rep" in topic
    ]
    return topology(*feeding, nodes)


@pytest.mark.parametrize("clicks", ["clicks", "clicks-by-user-repartition"])
def test_a_changed_grouping_is_seen_of_a_store_that_a_join_reads_too(clicks: str) -> None:
    own, read = "totals-repartition", {"in": 2, "clicks": 2}
    plain, grouped = joined("in", clicks=clicks), joined(own, clicks=clicks)
    other = {clicks: 2} if "-rep" in clicks else {}
    ungrouped = saved({"totals": 2}, inputs=read, repartitions=other)
    assert kinds(compared(ungrouped, grouped))["totals"] is TopologyDifference.GROUPING_CHANGED
    assert kinds(compared(ungrouped, grouped, before=plain))["totals"] is TopologyDifference.GROUPING_CHANGED
    manifest = saved({"totals": 2}, inputs=read, repartitions={own: 2, **other})
    assert kinds(compared(manifest, plain, before=grouped))["totals"] is TopologyDifference.GROUPING_CHANGED
    back = compared(manifest, plain)
    assert other or kinds(back)["totals"] is TopologyDifference.GROUPING_CHANGED
    assert bool(other) == any("totals-repartition is gone" in text for text in back.not_compared)
    for same, of in ((plain, ungrouped), (grouped, manifest)):
        assert not [one for one in compared(of, same, before=same).findings if one.subject == "totals"]
        assert not [one for one in compared(of, same).findings if one.subject == "totals"]


def test_a_processor_that_joins_in_behind_another_topic_is_a_doubt() -> None:
    manifest = saved({"totals": 2}, inputs={"in": 2, "clicks": 2})
    found = compared(manifest, joined("in"), before=counting("totals"))
    assert (found.verdict, kinds(found)) == (CompatibilityVerdict.DOUBT, {"totals": TopologyDifference.FEED_UNCLEAR})
    assert "join, fed by clicks, has it too now" in found.findings[0].text
    assert not compared(manifest, joined("in"), before=joined("in")).findings


def behind(
    *read: str, through: str = "totals-repartition", operators: tuple[str, ...] = ("KSTREAM-KEY-SELECT-0000000001",)
) -> DescribedTopology:
    """Totals that are counted behind a repartition topic, and what stands in front of that topic."""
    nodes = [source("read", *read)]
    for name in operators:
        nodes.append(processor(name, nodes[-1].name))
    return topology(
        [*nodes, sink("out", nodes[-1].name, through)],
        [source("read-again", through), processor("KSTREAM-AGGREGATE-0000000003", "read-again", "totals")],
    )


SELECT, MAP, FILTER = (f"KSTREAM-{name}-0000000001" for name in ("KEY-SELECT", "MAP", "FILTER"))


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (behind("else"), "is fed by totals-repartition (from else), and was fed by totals-repartition (from in)"),
        (behind("in", operators=(FILTER,)), "is not chosen by an operator any more"),
        (behind("in", operators=(MAP,)), None),
        (behind("in", operators=(SELECT, "a-name")), None),
        (behind("in", operators=("a-name",)), None),
    ],
)
def test_a_change_in_front_of_a_repartition_topic_that_keeps_its_name_is_seen(new: DescribedTopology, lost: str | None) -> None:
    manifest = saved({"totals": 2}, inputs={"in": 2, "else": 2}, repartitions={"totals-repartition": 2})
    found = compared(manifest, new, before=behind("in"))
    grouping = [one for one in found.findings if one.subject == "totals"]
    if lost is not None:
        assert [one.kind for one in grouping] == [TopologyDifference.GROUPING_CHANGED]
        assert lost in grouping[0].text
    else:
        assert [one.kind for one in grouping] == [TopologyDifference.FEED_UNCLEAR]
        assert "which may choose another key" in grouping[0].text
    same = compared(manifest, new, before=new)
    assert not [one for one in same.findings if one.subject == "totals"]
    assert not any("store totals" in text or "topics feed the repartition" in text for text in same.not_compared)


def test_an_operator_that_keeps_keys_and_another_number_in_front_of_a_repartition_topic_change_nothing() -> None:
    manifest = saved({"totals": 2}, repartitions={"totals-repartition": 2})
    new = behind("in", operators=("KSTREAM-FILTER-0000000001", "KSTREAM-KEY-SELECT-0000000002"))
    found = compared(manifest, new, before=behind("in"))
    assert not found.findings
    assert not any("store totals" in text for text in found.not_compared)


def test_what_comes_through_two_repartition_topics_is_followed_to_the_inputs() -> None:
    def chained(read: str) -> DescribedTopology:
        return topology(
            [source("a", read), processor(SELECT, "a"), sink("b", SELECT, "first-repartition")],
            [source("c", "first-repartition"), processor("d", "c"), sink("e", "d", "totals-repartition")],
            [source("f", "totals-repartition"), processor("g", "f", "totals")],
        )

    manifest = saved({"totals": 2}, inputs={"in": 2, "else": 2}, repartitions={"totals-repartition": 2, "first-repartition": 2})
    found = compared(manifest, chained("else"), before=chained("in"))
    assert kinds(found)["totals"] is TopologyDifference.GROUPING_CHANGED
    assert "totals" not in kinds(compared(manifest, chained("in"), before=chained("in")))


@pytest.mark.parametrize("is_regrouped", [False, True])
def test_an_input_that_is_merged_in_takes_nothing_from_a_store(*, is_regrouped: bool) -> None:
    def reading(*topics: str) -> DescribedTopology:
        return behind(*topics) if is_regrouped else topology([source("r", *topics), processor("count", "r", "totals")])

    repartitions = {"totals-repartition": 2} if is_regrouped else {}
    before, after = reading("in"), reading("in", "more")
    found = compared(saved({"totals": 2}, inputs={"in": 2}, repartitions=repartitions), after, before=before)
    assert found.verdict is CompatibilityVerdict.COMPATIBLE
    assert kinds(found) == {"more": TopologyDifference.NEW_INPUT, "totals": TopologyDifference.NEW_INPUT}
    both = saved({"totals": 2}, inputs={"in": 2, "more": 2}, repartitions=repartitions)
    back = compared(both, before, before=after)
    assert (back.verdict, kinds(back)["totals"]) == (CompatibilityVerdict.ORPHANED, TopologyDifference.INPUT_GONE)
    instead = compared(both, reading("more"), before=before)
    assert kinds(instead)["totals"] is TopologyDifference.GROUPING_CHANGED, "all that it has is of another input"


def test_what_is_merged_in_through_a_repartition_topic_is_no_grouping_of_the_rest() -> None:
    new = topology(
        [source("b", "more"), processor(SELECT, "b"), sink("s", SELECT, "by-user-repartition")],
        [source("r", "in"), source("again", "by-user-repartition"), processor("count", ["r", "again"], "totals")],
    )
    for before in (None, counting("totals")):
        found = compared(TOTALS, new, before=before)
        assert found.verdict is CompatibilityVerdict.COMPATIBLE
    assert any("what writes to store totals" in text for text in compared(TOTALS, new).not_compared)


@pytest.mark.parametrize("reader", ["KSTREAM-JOIN-0000000009", "KSTREAM-LEFTJOIN-0000000009", "by-a-person"])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_grouping_of_another_name_is_seen_though_a_join_reads_the_store(reader: str, *, is_known: bool) -> None:
    def grouped(name: str) -> DescribedTopology:
        return topology(
            [source("in", "in"), processor(name, "in"), sink("out", name, f"{name}-repartition")],
            [
                source("again", f"{name}-repartition"),
                source("clicks", "clicks"),
                processor("KSTREAM-AGGREGATE-0000000005", "again", "totals"),
                processor(reader, "clicks", "totals"),
            ],
        )

    manifest = saved({"totals": 2}, inputs={"in": 2, "clicks": 2}, repartitions={"a-repartition": 2})
    found = compared(manifest, grouped("b"), before=grouped("a") if is_known else None)
    if reader.startswith("KSTREAM") or is_known:
        assert found.answer == "state is lost for totals"
    else:
        assert found.verdict is CompatibilityVerdict.ORPHANED
        assert any("what writes to store totals" in text for text in found.not_compared)
    same = compared(manifest, grouped("a"), before=grouped("a") if is_known else None)
    assert not same.findings


def test_a_numbered_repartition_topic_that_moved_is_no_other_grouping() -> None:
    old, new = "KSTREAM-REPARTITION-0000000002-repartition", "KSTREAM-REPARTITION-0000000004-repartition"
    for unread, verdict, kind in (
        (0, CompatibilityVerdict.ORPHANED, TopologyDifference.REPARTITION_GONE),
        (3, CompatibilityVerdict.LOST, TopologyDifference.UNREAD_LOST),
    ):
        manifest = saved({"totals": 2}, repartitions={old: 2}, unread=unread)
        for before in (None, regrouping("totals", through=old)):
            found = compared(manifest, regrouping("totals", through=new), before=before)
            assert found.verdict is verdict
            assert {one.subject: one.kind for one in found.findings if one.verdict is not CompatibilityVerdict.COMPATIBLE} == {old: kind}


def test_more_tasks_than_partitions_of_the_changelog_do_not_start() -> None:
    for partitions in (1, 3):
        found = compared(saved({"totals": partitions}), counting("totals"))
        assert kinds(found) == {"totals": TopologyDifference.PARTITIONS_DIFFER}
    unknown = topology([source("read", "in", "new"), processor("count", "read", "totals")])
    assert kinds(compared(saved({"totals": 1}), unknown)) == {
        "totals": TopologyDifference.PARTITIONS_DIFFER,
        "new": TopologyDifference.NEW_INPUT,
    }
    found = compared(saved({"totals": 8}), unknown)
    assert kinds(found) == {"new": TopologyDifference.NEW_INPUT}, "the new one may have eight"
    assert [text for text in found.not_compared if text.startswith("partitions of new: ")]
    assert not [text for text in compared(TOTALS, counting("totals")).not_compared if text.startswith("partitions of")]


def test_a_store_of_another_kind_is_not_read() -> None:
    window, plain = StoreFacts(kind=StoreKind.WINDOW), StoreFacts(kind=StoreKind.KEY_VALUE)
    assert kinds(compared(TOTALS, counting("totals"), {"totals": window})) == {"totals": TopologyDifference.KIND_CHANGED}
    assert kinds(compared(saved({"totals": 2}, policy="compact,delete"), counting("totals"), {"totals": plain})) == {
        "totals": TopologyDifference.KIND_CHANGED
    }
    assert not compared(saved({"totals": 2}, policy="compact,delete"), counting("totals"), {"totals": window}).findings
    known = saved({"totals": 2}, kind=StoreKind.KEY_VALUE)
    for manifest, facts in ((known, {}), (TOTALS, {"totals": StoreFacts(kind=StoreKind.VERSIONED)})):
        undeclared = compared(manifest, counting("totals"), facts)
        assert not undeclared.findings
        assert any("totals" in text and "stores.<name>.kind" in text for text in undeclared.not_compared)
    assert not any("stores.<name>.kind" in text for text in compared(known, counting("totals"), {"totals": plain}).not_compared)
    sessions = compared(saved({"totals": 2}, kind=StoreKind.SESSION), counting("totals"), {"totals": window})
    assert kinds(sessions) == {"totals": TopologyDifference.KIND_CHANGED}


def test_a_store_that_takes_its_content_from_elsewhere_leaves_its_changelog_behind() -> None:
    from_source = compared(TOTALS, counting("totals"), {"totals": StoreFacts(source="in")})
    assert (from_source.verdict, kinds(from_source)) == (CompatibilityVerdict.ORPHANED, {"totals": TopologyDifference.CHANGELOG_UNUSED})
    assert any("topology.optimization" in text for text in from_source.not_compared)
    unlogged = compared(TOTALS, counting("totals"), {"totals": StoreFacts(logged=False)})
    assert unlogged.answer == "state is lost for totals"
    is_global = topology([source("g", "in"), processor("p", "g", "totals")], [source("read", "in"), processor("n", "read")], is_global=[0])
    assert compared(TOTALS, is_global).verdict is CompatibilityVerdict.ORPHANED
    assert not compared(saved(), counting("totals"), {"totals": StoreFacts(source="in")}).findings


def test_a_store_that_comes_back_does_not_go_on_with_what_an_earlier_version_has_left() -> None:
    both = topology([source("r", "in"), processor("c", "r", "totals"), processor("d", "r", "sums")])
    left = saved({"totals": 2, "sums": 2})
    found = compared(left, both, before=counting("totals"))
    assert (found.answer, kinds(found)) == ("state is lost for sums", {"sums": TopologyDifference.LEFT_BEHIND})
    with pytest.raises(ConfigInvalid, match="would not go"):
        found.accepting(["sums"])
    assert not compared(left, both, before=both).findings


def test_a_store_that_was_there_and_has_no_changelog_in_the_savepoint_begins_empty_and_is_not_new() -> None:
    table = counting("totals")
    is_global = topology([source("g", "in"), processor("p", "g", "totals")], [source("read", "in"), processor("n", "read")], is_global=[0])
    for before in (table, is_global):
        found = compared(saved(), table, before=before)
        assert (found.answer, kinds(found)["totals"]) == ("state is lost for totals", TopologyDifference.NO_CHANGELOG)
        assert compared(saved(), table, {"totals": StoreFacts(source="in")}, before=before).verdict is CompatibilityVerdict.COMPATIBLE
    renamed = compared(saved({"sums": 2}), table, before=topology([source("r", "in"), processor("c", "r", "totals", "sums")]))
    assert kinds(renamed) == {"totals": TopologyDifference.NO_CHANGELOG, "sums": TopologyDifference.STORE_GONE}
    assert kinds(compared(saved(), table, before=counting("others"))) == {"totals": TopologyDifference.NEW_STORE}


def test_numbered_stores_that_may_have_changed_places_are_named_whatever_is_known() -> None:
    def two(first: str, second: str) -> DescribedTopology:
        return topology([source("a", "in"), source("b", "else"), processor("p", first, FIRST), processor("q", second, SECOND)])

    manifest = saved({FIRST: 2, SECOND: 2}, inputs={"in": 2, "else": 2})
    for nodes, doubtful in ((two("a", "a"), True), (two("a", "b"), False)):
        found = compared(manifest, nodes, before=nodes)
        assert any("only numbers of operators" in text for text in found.not_compared) is doubtful


def test_inputs_that_come_and_go() -> None:
    assert kinds(compared(TOTALS, counting("totals", read="other"))) == {
        "in": TopologyDifference.INPUT_GONE,
        "other": TopologyDifference.NEW_INPUT,
    }
    matched = replace(source("read"), pattern="i.*")
    by_pattern = compared(saved({"totals": 8}), topology([matched, processor("count", "read", "totals")]))
    assert not by_pattern.findings
    assert "which topics are read by a pattern" in by_pattern.not_compared


def test_a_moved_subtopology_is_told_with_its_reason() -> None:
    new = topology([source("first", "in"), processor("n", "first")], [*counting("totals").subtopologies[0].nodes])
    found = compared(TOTALS, new, before=counting("totals"))
    assert (found.verdict, kinds(found)) == (CompatibilityVerdict.COMPATIBLE, {"totals": TopologyDifference.SUBTOPOLOGY_MOVED})


def test_topics_of_nobody_count_only_where_the_new_version_names_them() -> None:
    manifest = saved({"totals": 2, "eu-totals": 2})
    doubtful = tuple(replace(topic, evidence=None) if "eu-" in topic.name else topic for topic in manifest.topics)
    found = compared(replace(manifest, topics=doubtful), counting("totals"))
    assert (found.findings, found.compared["changelog"]) == ((), 1)
    assert any("another application's" in text for text in found.not_compared)
    assert compared(replace(manifest, topics=doubtful), counting("eu-totals")).compared["changelog"] == 2


STORES = st.sets(st.sampled_from(["totals", "sums", FIRST, SECOND, THIRD]))


@given(STORES, STORES, st.integers(1, 3))
def test_no_store_of_the_savepoint_is_silently_lost(old: set[str], new: set[str], partitions: int) -> None:
    nodes = [source("read", "in"), *(processor(f"p-{store}", "read", store) for store in sorted(new))]
    found = compared(saved(dict.fromkeys(sorted(old), partitions)), topology(nodes))
    told = {one.subject for one in found.findings}
    assert old - new <= told
    assert (found.verdict is CompatibilityVerdict.COMPATIBLE) <= (old <= new)
    assert new - old <= told | {name for one in found.findings for name in one.candidates}
