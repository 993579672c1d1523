"""Which topics belong to an application: by declaration, by commit, by name, and never those of a namesake."""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import Claim, Evidence, Profile, StoreKind, TopicRole
from streams_recovery.core.names import internal_role, longer_owner, only_its_own, store_kind
from streams_recovery.core.savepoint.topology import AttributionFacts, Declared, Topology, attributed, is_streams_metadata, topology_of

DECLARED = Declared(
    inputs=("orders-in",),
    outputs=("out",),
    globals=("rates",),
    include=("or*", "out"),
    exclude=("out",),
    stores={"totals": StoreKind.KEY_VALUE},
    profile=Profile.FULL,
    all_read=False,
)
EXISTING = [
    "orders-in",
    "out",
    "rates",
    "stranger",
    "orders-totals-changelog",
    "orders-by-region-repartition",
    "orders-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000008-topic",
    "orders-named-subscription-response-topic",
    "orders-paris-totals-changelog",
    "orders-eu-totals-changelog",
]


def topology(
    application_id: str, declared: Declared, existing: Collection[str], committed: Collection[str] = (), others: Collection[str] = ()
) -> Topology:
    """The topology beside ``others``, groups of other Kafka Streams applications."""
    here = AttributionFacts(application_id=application_id, stores=declared.stores, committed=committed, groups=others)
    return topology_of(here, declared, existing, committed)


def roles(committed: list[str], others: tuple[str, ...] = ("orders-eu",)) -> dict[str, TopicRole]:
    found = topology("orders", DECLARED, EXISTING, committed, others)
    return {topic.name: topic.role for topic in found.topics}


def test_every_kind_of_topic_is_found_and_a_namesake_s_are_not() -> None:
    assert roles(["orders-in", "orders-by-region-repartition"]) == {
        "orders-in": TopicRole.INPUT,
        "out": TopicRole.OUTPUT,
        "rates": TopicRole.GLOBAL,
        "orders-totals-changelog": TopicRole.CHANGELOG,
        "orders-by-region-repartition": TopicRole.REPARTITION,
        "orders-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000008-topic": TopicRole.REPARTITION,
        "orders-named-subscription-response-topic": TopicRole.REPARTITION,
        "orders-paris-totals-changelog": TopicRole.CHANGELOG,
    }


def test_the_longer_name_keeps_its_own() -> None:
    assert longer_owner("orders-eu-totals-changelog", "orders-eu", ("orders",)) is None
    assert longer_owner("orders-eu-totals-changelog", "orders", ("orders-eu",)) == "orders-eu"
    assert internal_role("ordersx-totals-changelog", "orders") is None


def test_a_group_that_only_looks_like_a_longer_id_does_not_take_a_declared_store() -> None:
    # Another application is called "orders-totals".
    found = roles([], ("orders-eu", "orders-totals"))
    assert found["orders-totals-changelog"] is TopicRole.CHANGELOG
    assert "orders-eu-totals-changelog" not in found
    assert "orders-paris-totals-changelog" not in roles([], ("orders-eu", "orders-paris")), "nobody declared paris-totals"


def test_every_topic_that_a_longer_name_takes_is_named_with_it() -> None:
    others = ("orders-eu", "orders-paris", "orders-paris-totals", "orders-by", "ord", "billing")
    found = topology("orders", DECLARED, EXISTING, ["orders-in"], others)
    assert {one.topic: one.group for one in found.claimed} == {
        "orders-by-region-repartition": "orders-by",
        "orders-eu-totals-changelog": "orders-eu",
        "orders-paris-totals-changelog": "orders-paris",
    }
    assert not {one.topic for one in found.claimed} & set(found.names())
    read = topology("orders", DECLARED, EXISTING, ["orders-in", "orders-by-region-repartition"], others)
    assert "orders-by-region-repartition" not in {one.topic for one in read.claimed}, "the group has read it"
    declared_too = topology("orders", declared(stores={"paris-totals": None, "eu-totals": None}), EXISTING, ["orders-in"], others)
    assert [one.topic for one in declared_too.claimed] == ["orders-by-region-repartition"]
    assert topology("orders", DECLARED, EXISTING, [], ()).claimed == ()


def test_a_committed_topic_nobody_declared_is_an_input() -> None:
    found = topology("orders", DECLARED, EXISTING, ["stranger", "gone"], ("orders-eu",))
    assert found.undeclared == ("stranger",)
    assert "stranger" in found.names(TopicRole.INPUT)


def test_what_is_archived_and_what_a_store_is() -> None:
    found = {topic.name: topic for topic in topology("orders", DECLARED, EXISTING, [], ("orders-eu",)).topics}
    assert {name for name, topic in found.items() if not topic.archived} == {"out", "rates"}
    assert found["orders-totals-changelog"].declared_store is StoreKind.KEY_VALUE
    assert found["orders-paris-totals-changelog"].declared_store is None
    assert found["orders-by-region-repartition"].committed
    assert not found["orders-totals-changelog"].committed


def test_all_missing_topics_are_named_at_once() -> None:
    with pytest.raises(NotFound, match="orders-in, out, rates"):
        topology("orders", DECLARED, ["orders-totals-changelog"], [])


def declared(**changes: object) -> Declared:
    return replace(DECLARED, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("include", "exclude", "archived"),
    [
        ((), (), set()),
        (("*",), (), {"orders-in", "out", "rates"}),
        (("*",), ("*",), set()),
        (("*",), ("o*",), {"rates"}),
        (("orders-in",), (), {"orders-in"}),
        (("orders",), (), set()),
        (("?ut", "RATES"), (), {"out"}),
        (("[or]*",), ("orders-[a-h]*",), {"orders-in", "out", "rates"}),
        (("[!r]*",), (), {"orders-in", "out"}),
        (("out", "rates"), ("ra?es",), {"out"}),
    ],
)
def test_globs_choose_among_what_is_declared(include: tuple[str, ...], exclude: tuple[str, ...], archived: set[str]) -> None:
    found = topology("orders", declared(include=include, exclude=exclude), EXISTING, [], ("orders-eu",)).topics
    assert {topic.name for topic in found if topic.archived and not topic.role.internal} == archived
    assert all(topic.archived for topic in found if topic.role.internal), "state is not for globs to choose"


def test_an_undeclared_input_is_chosen_by_the_same_globs() -> None:
    found = topology("orders", declared(include=("str*",)), EXISTING, ["stranger"], ("orders-eu",)).topics
    assert {topic.name for topic in found if topic.archived and not topic.role.internal} == {"stranger"}


def test_a_minimal_profile_leaves_internal_topics_out_whatever_the_globs_say() -> None:
    found = topology("orders", declared(profile=Profile.MINIMAL, include=("*",), exclude=()), EXISTING, [], ("orders-eu",))
    internal = {topic.name for topic in found.topics if topic.role.internal}
    assert {topic.name for topic in found.topics if topic.archived} == {"orders-in", "out", "rates"}
    assert found.left_out == internal
    assert found.tails == ()
    full = topology("orders", DECLARED, EXISTING, [], ("orders-eu",))
    assert (full.left_out, set(full.tails)) == (frozenset(), set(full.names(TopicRole.REPARTITION)))


NAMED_TOPOLOGY = [
    "orders-eu-totals-changelog",
    "orders-eu-by-key-repartition",
    "orders-eu-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic",
    "orders-eu-KTABLE-SUPPRESS-STATE-STORE-0000000003-changelog",
]


@pytest.mark.fault("F50")
def test_the_topics_of_a_named_topology_are_its_application_s() -> None:
    found = topology("orders", DECLARED, ["orders-in", "out", "rates", *NAMED_TOPOLOGY], ["orders-in"])
    assert set(found.names(TopicRole.CHANGELOG, TopicRole.REPARTITION)) == set(NAMED_TOPOLOGY)
    assert found.undeclared == ()


def test_a_named_topology_beside_an_application_of_that_name() -> None:
    # Both would be called the same. What the group has read, and what is declared, is its own; the rest is the other one's.
    existing = ["orders-in", "out", "rates", *NAMED_TOPOLOGY, "orders-eu-of-the-other-repartition"]
    committed = ["orders-in", "orders-eu-by-key-repartition"]
    found = topology("orders", declared(stores={"eu-totals": None}), existing, committed, ("orders-eu",))
    assert found.names(TopicRole.REPARTITION) == ("orders-eu-by-key-repartition",)
    assert found.names(TopicRole.CHANGELOG) == ("orders-eu-totals-changelog",)
    assert found.undeclared == (), "a repartition topic is no input"


@pytest.mark.parametrize("others", [(), ("orders",), ("ord", "orders-e", "orders-eu-west"), ("orders-eu", "orders-eu-totals-west")])
def test_overlapping_names_of_applications_are_told_apart(others: tuple[str, ...]) -> None:
    mine = ["orders-eu-totals-changelog", "orders-eu-by-key-repartition"]
    not_mine = ["orders-totals-changelog", "orders-europe-totals-changelog", "xorders-eu-totals-changelog", "orders-eu.totals-changelog"]
    if "orders-eu-west" in others:
        not_mine.append("orders-eu-west-totals-changelog")
    here = declared(inputs=("orders-in",), outputs=(), globals=(), stores={})
    found = topology("orders-eu", here, ["orders-in", *mine, *not_mine], [], others)
    assert set(found.names()) == {"orders-in", *mine}


def test_every_topic_that_a_pattern_or_several_sources_read_is_an_input() -> None:
    # Of a subscription to a pattern the configuration can name none or some; what is committed tells the rest.
    existing = [*EXISTING, "clicks.de", "clicks.fr", "clicks.new"]
    found = topology(
        "orders", declared(inputs=("orders-in", "clicks.de")), existing, ["orders-in", "clicks.de", "clicks.fr"], ("orders-eu",)
    )
    assert found.names(TopicRole.INPUT) == ("clicks.de", "clicks.fr", "orders-in")
    assert found.undeclared == ("clicks.fr",)
    assert "clicks.new" not in found.names(), "nothing of it was read, so nothing of it is in the state"


def test_a_topic_that_is_read_and_written_is_an_input() -> None:
    found = topology("orders", declared(outputs=("orders-in", "out")), EXISTING, [], ("orders-eu",))
    assert "orders-in" in found.names(TopicRole.INPUT)
    assert found.names(TopicRole.OUTPUT) == ("out",)


def test_a_source_topic_that_serves_as_changelog_stays_an_input_with_its_offsets() -> None:
    # With topology.optimization a table's store "totals" has no changelog: it is read again from its source topic.
    here = declared(inputs=("orders-in", "table-source"), stores={"totals": StoreKind.KEY_VALUE})
    existing = ["orders-in", "out", "rates", "table-source", "orders-other-changelog"]
    found = topology("orders", here, existing, ["orders-in", "table-source"], ())
    (source,) = [topic for topic in found.topics if topic.name == "table-source"]
    assert (source.role, source.committed, source.declared_store) == (TopicRole.INPUT, True, None)
    assert found.names(TopicRole.CHANGELOG) == ("orders-other-changelog",), "no changelog is made up for it"


MINE, THEIRS = "my-app-v1-counts-changelog", "my-app-v1"
JOINED = "my-app-enrich-subscription-store-changelog"
REPARTITION = "my-app-v1-by-key-repartition"


@pytest.mark.fault("F82")
@pytest.mark.parametrize(
    ("topic", "known", "whose"),
    [
        (MINE, {}, None),
        (MINE, {"stores": ["v1-counts"]}, Evidence.STORE),
        (MINE, {"stores": ["counts"]}, None),
        (MINE, {"committed": [MINE]}, None),
        (REPARTITION, {"committed": [REPARTITION]}, Evidence.COMMITTED),
        (MINE, {"committed": ["my-app-v1-counts-repartition"]}, Evidence.COMMITTED),
        (MINE, {"committed": [REPARTITION]}, None),
        (JOINED, {"committed": ["my-app-enrich-subscription-registration-topic"]}, Evidence.COMMITTED),
        (JOINED, {"committed": ["my-app-other-subscription-registration-topic", "my-app-enrich-repartition"]}, None),
        (MINE, {"owned": [MINE]}, Evidence.NAMED),
        (MINE, {"restored": [MINE]}, Evidence.RESTORED),
        (REPARTITION, {"saved": {REPARTITION: Evidence.COMMITTED}}, Evidence.SAVEPOINT),
        (MINE, {"saved": {MINE: Evidence.RESTORED}}, Evidence.SAVEPOINT),
        (MINE, {"saved": {MINE: Evidence.SAVEPOINT}}, Evidence.SAVEPOINT),
        # What the configuration said then it can say now, and a name proves no more for being in a savepoint.
        (MINE, {"saved": {MINE: Evidence.STORE}}, None),
        (MINE, {"saved": {MINE: Evidence.NAMED}}, None),
        (MINE, {"saved": {MINE: Evidence.NAME}}, None),
        ("my-app-counts-changelog", {}, Evidence.NAME),
        ("my-app-counts-changelog", {"saved": {"my-app-counts-changelog": Evidence.NAME}}, Evidence.NAME),
        ("my-app-counts-changelog", {"saved": {"my-app-counts-changelog": Evidence.STORE}}, Evidence.SAVEPOINT),
        ("my-app-counts-changelog", {"configured": {"my": {"my-app-counts-changelog"}}}, Claim.DECLARED),
        ("my-app-counts-changelog", {"foreign": ["my-app-counts-changelog"]}, Claim.FOREIGN),
        ("my-app-counts-changelog", {"groups": ["my-app-counts", "my", "my-app"]}, Evidence.NAME),
        (MINE, {"configured": {THEIRS: ()}}, Claim.CONFIGURED),
        (MINE, {"groups": [THEIRS]}, Claim.GROUP),
        (MINE, {"remembered": [THEIRS]}, Claim.SAVEPOINT),
        (MINE, {"foreign": [MINE], "groups": [THEIRS]}, Claim.FOREIGN),
        (MINE, {"stores": ["v1-counts"], "groups": [THEIRS], "configured": {THEIRS: ()}}, Evidence.STORE),
        (MINE, {"owned": [MINE], "configured": {THEIRS: ()}}, Evidence.NAMED),
        (REPARTITION, {"committed": [REPARTITION], "groups": [THEIRS]}, Evidence.COMMITTED),
        (REPARTITION, {"committed": [REPARTITION], "configured": {THEIRS: ()}}, Evidence.COMMITTED),
        (MINE, {"committed": ["my-app-v1-counts-repartition"], "configured": {THEIRS: ()}, "working": ["my"]}, Evidence.COMMITTED),
        # The other one works, so that this group has committed beside it proves nothing.
        (REPARTITION, {"committed": [REPARTITION], "configured": {THEIRS: ()}, "working": [THEIRS]}, None),
        (MINE, {"committed": ["my-app-v1-counts-repartition"], "configured": {THEIRS: ()}, "working": [THEIRS]}, None),
        (MINE, {"stores": ["v1-counts"], "configured": {THEIRS: ()}, "working": [THEIRS]}, Evidence.STORE),
        # The repository may be wrong, or written by somebody else, and so may a name: neither wins.
        (MINE, {"restored": [MINE], "groups": [THEIRS]}, None),
        (REPARTITION, {"saved": {REPARTITION: Evidence.COMMITTED}, "remembered": [THEIRS]}, None),
        (MINE, {"restored": [MINE], "configured": {THEIRS: ()}}, Claim.CONFIGURED),
        (MINE, {"restored": [MINE], "foreign": [MINE]}, Claim.FOREIGN),
        # Two configurations contradict each other.
        (MINE, {"stores": ["v1-counts"], "configured": {THEIRS: [MINE]}}, None),
        (MINE, {"owned": [MINE], "configured": {THEIRS: [MINE]}}, None),
        (REPARTITION, {"committed": [REPARTITION], "foreign": [REPARTITION]}, None),
    ],
)
def test_whose_a_topic_is(topic: str, known: dict[str, object], whose: Evidence | Claim | None) -> None:
    found = attributed(topic, AttributionFacts(application_id="my-app", **known))  # type: ignore[arg-type]
    assert found is not None
    assert (found.evidence or (found.claim and found.claim.because)) == whose
    assert found.proven == (isinstance(whose, Evidence) and whose is not Evidence.NAME)


WORDS = st.sampled_from(["a", "b", "a-b", "b-a", "v1", "KSTREAM-AGGREGATE-STATE-STORE-0000000003"])
NAMES = st.builds("-".join, st.lists(WORDS, min_size=1, max_size=3))


@given(application=NAMES, other=NAMES, stores=st.sets(NAMES, min_size=1), saved=st.sampled_from([None, *Evidence]))
def test_nothing_of_another_application_may_ever_be_deleted_for_its_name(
    application: str, other: str, stores: set[str], saved: Evidence | None
) -> None:
    """Whatever is forgotten of the other one, and even if a savepoint has swept its topics up: its own changelogs and repartition topics are never proven to
    be this one's. They may be named only where no application but this could have such a name.
    """
    if other == application or application.startswith(f"{other}-"):
        return
    topics = {f"{other}-{store}-{kind}" for store, kind in product(stores, ("changelog", "repartition"))}
    for topic in topics:
        swept = {topic: saved} if saved in (Evidence.STORE, Evidence.NAMED, Evidence.NAME) else {}
        found = attributed(topic, AttributionFacts(application_id=application, saved=swept))
        assert found is None or not found.proven, (topic, found)
        seen = attributed(topic, AttributionFacts(application_id=application, saved=swept, groups=[other]))
        assert seen is None or seen.claim is not None


@given(application=NAMES, store=NAMES)
def test_a_name_is_only_its_own_where_no_longer_id_could_begin_it(application: str, store: str) -> None:
    name = f"{application}-{store}-changelog"
    longer = [name[:at] for at in range(len(application) + 1, len(name)) if name[at] == "-" and internal_role(name, name[:at]) is not None]
    if "KSTREAM" not in store:
        assert only_its_own(name, application) == (not longer)
    # Nobody calls an application as Kafka Streams calls a store.
    assert only_its_own(f"{application}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", application)


@pytest.mark.parametrize(
    ("metadata", "streams"),
    [
        ("", False),
        ("AgAA", False),
        ("read by nobody", False),
        ("offset of a connector", False),
        (base64.b64encode(b"\x01" + bytes(8)).decode(), True),
        (base64.b64encode(b"\x02" + b"\xff" * 8 + b"more").decode(), True),
        (base64.b64encode(b"\x00" + bytes(8)).decode(), False),
        (base64.b64encode(b"{" + bytes(8)).decode(), False),
    ],
)
def test_metadata_of_kafka_streams_is_known(metadata: str, streams: bool) -> None:
    assert is_streams_metadata(metadata) is streams


@pytest.mark.parametrize(
    ("changelog", "config", "declared", "expected"),
    [
        ("orders-x-changelog", {"cleanup.policy": "compact"}, StoreKind.WINDOW, StoreKind.WINDOW),
        ("orders-KTABLE-SUPPRESS-STATE-STORE-0000000003-changelog", {}, None, StoreKind.SUPPRESS),
        ("orders-x-changelog", {"cleanup.policy": "compact", "min.compaction.lag.ms": "1"}, None, StoreKind.VERSIONED),
        ("orders-x-changelog", {"cleanup.policy": "compact,delete"}, None, StoreKind.UNKNOWN),
        ("orders-x-changelog", {"cleanup.policy": "compact"}, None, StoreKind.UNKNOWN),
    ],
)
def test_a_store_s_kind_is_declared_or_proven_or_unknown(
    changelog: str, config: dict[str, str], declared: StoreKind | None, expected: StoreKind
) -> None:
    assert store_kind(changelog, "orders", config, declared) is expected


OF_FAUST = "words.count-in-Word.text-repartition"


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ({"committed": [OF_FAUST]}, Evidence.COMMITTED),
        ({"owned": [OF_FAUST]}, Evidence.NAMED),
        ({"restored": [OF_FAUST]}, Evidence.RESTORED),
        ({"saved": {OF_FAUST: Evidence.COMMITTED}}, Evidence.SAVEPOINT),
        ({"committed": [OF_FAUST], "shared": [OF_FAUST]}, None),
        # Killed before its first commit: a rebuild must not leave unread records of it there without a word.
        ({"inputs": ["in"]}, None),
    ],
)
def test_a_repartition_topic_of_faust_is_known_by_what_the_group_reads(known: dict[str, object], wanted: Evidence | None) -> None:
    found = attributed(OF_FAUST, AttributionFacts(application_id="my-app", kind=ApplicationKind.FAUST, **known))  # type: ignore[arg-type]
    assert found is not None
    assert (found.role, found.evidence, found.proven) == (TopicRole.REPARTITION, wanted, wanted is not None)


@pytest.mark.parametrize("known", [{}, {"shared": [OF_FAUST], "saved": {OF_FAUST: Evidence.COMMITTED}}])
def test_a_repartition_topic_that_nothing_connects_with_it_is_not_its_business(known: dict[str, object]) -> None:
    assert attributed(OF_FAUST, AttributionFacts(application_id="my-app", kind=ApplicationKind.FAUST, **known)) is None  # type: ignore[arg-type]
    assert attributed(OF_FAUST, AttributionFacts(application_id="my-app", committed=[OF_FAUST])) is None, (
        "of Kafka Streams none is called so"
    )
