"""What looks like an application, and what of a cluster is its own: never a topic of one whose id begins like its."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.draft.seen import Candidate, ClusterSeen, candidates, guarantee_of, undecided
from streams_recovery.core.kafka_types import Guarantee, ListedGroup, StoreKind
from streams_recovery.core.names import application_of, internal_role, is_name, own_transactions
from streams_recovery.core.rollout.described import described
from streams_recovery.core.topic_holds.compaction_guard import guarded
from tests.support.examples.seen import DESCRIPTION, application

STREAMS, FAUST = ApplicationKind.KAFKA_STREAMS, ApplicationKind.FAUST
PROCESS = "6f1cb2e0-7a55-4b8a-9c53-0123456789ab"
CLASSIC = ListedGroup("classic", "Stable", "consumer")
IDS = st.lists(st.sampled_from(["orders", "eu", "x", "v1", "changelog", "totals"]), min_size=1, max_size=3).map("-".join)


def cluster(*topics: str, groups: dict[str, ListedGroup] | None = None, transactional: tuple[str, ...] = ()) -> ClusterSeen:
    return ClusterSeen(topics=frozenset(topics), groups=groups or {}, transactional_ids=transactional)


def test_each_kind_of_application_is_found_by_what_only_it_has() -> None:
    seen = cluster(
        "in",
        "totals-app-counts-changelog",
        "words-counts-changelog",
        "words-__assignor-__leader",
        groups={"totals-app": CLASSIC, "words": CLASSIC, "plain": CLASSIC, "new": ListedGroup("streams", "Stable"), "quiet": CLASSIC},
        transactional=(f"exact-{PROCESS}-1", "somebody-else", f"bad id-{PROCESS}-1"),
    )
    assert [(one.application_id, one.kind) for one in candidates(seen)] == [
        ("exact", STREAMS),
        ("new", STREAMS),
        ("totals-app", STREAMS),
        ("words", FAUST),
    ]
    assert undecided(seen) == ("plain", "quiet")
    assert Candidate(application_id="quiet", kind=STREAMS, because="its group has members or offsets of Kafka Streams") in candidates(
        replace(seen, streams=frozenset({"quiet"}))
    )


@given(st.sets(IDS, max_size=5), st.sets(IDS, max_size=5), st.sampled_from(["-store-changelog", "-by-key-repartition"]))
def test_no_topic_speaks_for_a_group_whose_id_only_begins_like_that_of_another(groups: set[str], owners: set[str], ending: str) -> None:
    topics = [f"{owner}{ending}" for owner in owners]
    for one in candidates(cluster(*topics, groups=dict.fromkeys(groups, CLASSIC))):
        mine = [name for name in topics if internal_role(name, one.application_id) is not None]
        longest = [max((group for group in groups if internal_role(name, group) is not None), key=len) for name in mine]
        assert one.application_id in longest


@given(IDS, IDS)
def test_a_transactional_id_is_of_one_application(mine: str, other: str) -> None:
    transactional = f"{mine}-{PROCESS}-12"
    assert application_of(transactional) == mine
    assert (own_transactions(other).fullmatch(transactional) is not None) == (mine == other)
    assert application_of(mine) is None


@pytest.mark.parametrize(
    ("kind", "ids", "visible", "found"),
    [
        (STREAMS, (f"orders-{PROCESS}-1",), True, Guarantee.EXACTLY_ONCE_V2),
        (STREAMS, (f"orders-eu-{PROCESS}-1",), True, Guarantee.AT_LEAST_ONCE),
        (STREAMS, (), True, Guarantee.AT_LEAST_ONCE),
        (STREAMS, (), False, None),
        (STREAMS, (f"orders-{PROCESS}-1",), False, Guarantee.EXACTLY_ONCE_V2),
        (FAUST, (), False, Guarantee.AT_LEAST_ONCE),
    ],
)
def test_the_guarantee_is_told_by_transactional_ids(
    kind: ApplicationKind, ids: tuple[str, ...], visible: bool, found: Guarantee | None
) -> None:
    assert guarantee_of(kind, "orders", ids, visible=visible) is found


@given(st.sets(IDS, min_size=1, max_size=6), st.data())
def test_a_store_of_a_longer_id_that_is_known_is_nobody_else_s(ids: set[str], data: st.DataObject) -> None:
    mine = data.draw(st.sampled_from(sorted(ids)))
    topics = [f"{one}-{store}-changelog" for one in ids for store in ("totals", "by-key")]
    found = application(mine, *topics, others=tuple(ids - {mine}))
    for topic in {**found.stores, **found.doubtful}.values():
        assert not any(len(one) > len(mine) and internal_role(topic, one) for one in ids)


def test_a_name_with_several_words_is_doubtful_until_something_says_whose_it_is() -> None:
    topics = ("in", "orders-eu-totals-changelog", "orders-totals-changelog", "orders-a-b-changelog", "orders-a-b-repartition")
    found = application("orders", *topics, committed=("in", "orders-a-b-repartition"))
    assert (set(found.stores), set(found.doubtful)) == ({"totals", "a-b"}, {"eu-totals"})
    assert found.inputs == ("in",)
    stated = replace(found, stated=frozenset({"orders-eu-totals-changelog"}))
    assert (set(stated.stores), stated.doubtful) == ({"totals", "a-b", "eu-totals"}, {})


def test_an_input_is_neither_internal_nor_faust_s_own_nor_a_name_that_no_file_takes() -> None:
    topics = ("in", "-in", "gone-now", "words-counts-changelog", "words-__assignor-__leader", "mod.agent-in-by-repartition")
    found = application("words", *topics[:2], *topics[3:], kind=FAUST, committed=topics)
    assert found.inputs == ("in",)
    assert found.unreadable == ("-in",)


def test_a_description_tells_outputs_and_globals_without_repartition_topics() -> None:
    topics = ("in", "out", "rates", "orders-by-key-repartition", "orders-totals-changelog")
    found = application("orders", *topics, topology=described(DESCRIPTION.encode()), described_by="a file")
    assert (found.inputs, found.outputs, found.globals) == (("in",), ("out",), ("rates",))
    assert found.chooses_outputs
    assert not found.has_pattern
    assert found.stores == {"totals": "orders-totals-changelog"}


@pytest.mark.parametrize(
    ("store", "settings", "kind"),
    [
        ("totals", {"cleanup.policy": "compact"}, StoreKind.KEY_VALUE),
        ("totals", {"cleanup.policy": "compact", "min.compaction.lag.ms": "60000"}, StoreKind.VERSIONED),
        ("totals", {"cleanup.policy": "compact,delete", "retention.ms": "90000"}, StoreKind.UNKNOWN),
        ("KTABLE-SUPPRESS-STATE-STORE-0000000005", {"cleanup.policy": "compact"}, StoreKind.SUPPRESS),
        ("KSTREAM-JOINTHIS-0000000016-store", {"cleanup.policy": "compact,delete"}, StoreKind.WINDOW),
        ("KSTREAM-OUTERSHARED-0000000016-store", {"cleanup.policy": "compact"}, StoreKind.LIST),
        ("counts-suppress-store", {"cleanup.policy": "compact"}, StoreKind.SUPPRESS),
        ("enrich-subscription-store", {"cleanup.policy": "compact"}, StoreKind.UNKNOWN),
        ("totals", {}, StoreKind.UNKNOWN),
    ],
)
def test_a_kind_is_told_by_name_and_settings(store: str, settings: dict[str, str], kind: StoreKind) -> None:
    topic = f"orders-{store}-changelog"
    found = application("orders", topic, settings={topic: settings})
    assert is_name(store)
    assert found.kind_of(store)[0] is kind


def test_a_hold_on_a_changelog_makes_no_versioned_store_of_it() -> None:
    topic = "orders-totals-changelog"
    held = {"cleanup.policy": "compact", **guarded({}, {1}, 20_000)}
    assert application("orders", topic, settings={topic: held}).kind_of("totals")[0] is StoreKind.KEY_VALUE
