"""Which topics belong to an application: by declaration, by commit, by name, and never those of a namesake."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import NotFound
from streams_recovery.core.inventory import Declared, discover
from streams_recovery.core.model import StoreKind, TopicRole
from streams_recovery.core.names import internal_role, store_kind

DECLARED = Declared(
    inputs=("orders-in",),
    outputs=("out",),
    globals=("rates",),
    include=("or*", "out"),
    exclude=("out",),
    stores={"totals": StoreKind.KEY_VALUE},
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


def roles(committed: list[str], others: tuple[str, ...] = ("orders-eu",)) -> dict[str, TopicRole]:
    found = discover("orders", DECLARED, EXISTING, committed, others)
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
    assert internal_role("orders-eu-totals-changelog", "orders-eu", ("orders",)) is TopicRole.CHANGELOG
    assert internal_role("orders-eu-totals-changelog", "orders", ("orders-eu",)) is None
    assert internal_role("ordersx-totals-changelog", "orders") is None


def test_a_group_that_only_looks_like_a_longer_id_does_not_take_a_declared_store() -> None:
    # Somebody's plain consumer group is called "orders-totals".
    found = roles([], ("orders-eu", "orders-totals"))
    assert found["orders-totals-changelog"] is TopicRole.CHANGELOG
    assert "orders-eu-totals-changelog" not in found
    assert "orders-paris-totals-changelog" not in roles([], ("orders-eu", "orders-paris")), "nobody declared paris-totals"


def test_a_committed_topic_nobody_declared_is_an_input() -> None:
    found = discover("orders", DECLARED, EXISTING, ["stranger", "gone"], ("orders-eu",))
    assert found.undeclared == ("stranger",)
    assert "stranger" in found.names(TopicRole.INPUT)


def test_what_is_archived_and_what_a_store_is() -> None:
    found = {topic.name: topic for topic in discover("orders", DECLARED, EXISTING, [], ("orders-eu",)).topics}
    assert {name for name, topic in found.items() if not topic.archived} == {"out", "rates"}
    assert found["orders-totals-changelog"].declared_store is StoreKind.KEY_VALUE
    assert found["orders-paris-totals-changelog"].declared_store is None
    assert found["orders-by-region-repartition"].committed
    assert not found["orders-totals-changelog"].committed


def test_all_missing_topics_are_named_at_once() -> None:
    with pytest.raises(NotFound, match="orders-in, out, rates"):
        discover("orders", DECLARED, ["orders-totals-changelog"], [])


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
