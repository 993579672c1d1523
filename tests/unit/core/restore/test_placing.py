"""Where the topics of a savepoint go, in place, elsewhere and under another id, and what must never happen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicDescription, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.rebuild import (
    Placed,
    Target,
    place,
)
from tests.support.examples.savepoints import image, manifest_of, segment, topic

# One topic of every role, of the application ``shop``.
ROLES = {
    "orders": TopicRole.INPUT,
    "customers": TopicRole.GLOBAL,
    "totals": TopicRole.OUTPUT,
    "shop-by-key-repartition": TopicRole.REPARTITION,
    "shop-sums-changelog": TopicRole.CHANGELOG,
}


def saved(**archived: bool) -> Manifest:
    topics = tuple(
        replace(
            topic((image((segment(0, 10, [1, 5]),)),), name=name, role=role, topic_id=f"id of {name}"),
            archived=role.internal or archived.get(name, False),
        )
        for name, role in ROLES.items()
    )
    return replace(manifest_of(*topics), application_id="shop", cluster_id="here")


def there(*names: str, ids: dict[str, str] | None = None) -> dict[str, TopicDescription]:
    return {
        name: TopicDescription(
            name=name,
            topic_id=(ids or {}).get(name, f"id of {name}"),
            partitions=1,
            replication_factor=1,
            config={},
            leader_epochs=(0,),
        )
        for name in names
    }


IN_PLACE = Target(
    application_id="shop",
    cluster_id="here",
    existing=there(*ROLES),
    filled=set(ROLES),
    topic_map={},
    declared={TopicRole.INPUT: ("orders",), TopicRole.GLOBAL: ("customers",), TopicRole.OUTPUT: ("totals",)},
)


def test_an_input_of_another_cluster_is_kept_or_made_again_only_where_that_is_proven() -> None:
    elsewhere = replace(IN_PLACE, cluster_id="there", existing=there("orders", ids={"orders": "another"}), filled={"orders"})
    found = {one.name: one.made for one in place(saved(orders=True, customers=True), replace(elsewhere, proven=("orders",)))}
    assert found["orders"] is False
    found = {one.name: one.made for one in place(saved(orders=True, customers=True), replace(elsewhere, contained=("orders",)))}
    assert found["orders"] is True
    with pytest.raises(Refused, match="orders holds records and is not the topic of the savepoint"):
        place(saved(orders=True, customers=True), elsewhere)
    fewer = replace(elsewhere, existing={"orders": replace(elsewhere.existing["orders"], partitions=2)}, proven=("orders",))
    with pytest.raises(Refused, match="input orders has 2 partitions, 1 at the savepoint"):
        place(saved(orders=True, customers=True), fewer)


CLONE = replace(
    IN_PLACE,
    application_id="shop-2",
    topic_map={"totals": "totals-2"},
    declared={TopicRole.INPUT: ("orders",), TopicRole.GLOBAL: ("customers",), TopicRole.OUTPUT: ("totals-2",)},
)


def made(placed: tuple[Placed, ...]) -> list[str]:
    return [one.name for one in placed if one.made]


def problems(found: Manifest, target: Target) -> list[str]:
    with pytest.raises(Refused) as caught:
        place(found, target)
    facts = caught.value.facts["problems"]
    assert isinstance(facts, list)
    return facts


def test_in_place_only_internal_topics_are_made() -> None:
    assert made(place(saved(orders=True, customers=True, totals=True), IN_PLACE)) == ["shop-by-key-repartition", "shop-sums-changelog"]


def test_in_place_an_input_of_another_id_means_nothing() -> None:
    other = replace(IN_PLACE, existing=there(*ROLES, ids={"orders": "another"}))
    [problem] = problems(saved(orders=True), other)
    assert (
        problem == "input orders holds records and is not the topic of the savepoint (id id of orders, here another): offsets mean nothing"
    )


def test_in_place_partitions_of_an_input_must_be_what_they_were() -> None:
    wider = IN_PLACE.existing["orders"]
    target = replace(IN_PLACE, existing={**IN_PLACE.existing, "orders": replace(wider, partitions=2, leader_epochs=(0, 0))})
    assert problems(saved(), target) == ["input orders has 2 partitions, 1 at the savepoint"]


@pytest.mark.fault("F89")
def test_the_advice_is_about_what_is_in_the_way() -> None:
    def advice(found: Manifest, target: Target) -> str:
        with pytest.raises(Refused) as caught:
            place(found, target)
        return caught.value.next_step

    wider = replace(IN_PLACE, existing={**IN_PLACE.existing, "orders": replace(IN_PLACE.existing["orders"], partitions=2)})
    made_since = replace(IN_PLACE, existing=there(*ROLES, ids={"orders": "another"}))
    gone = replace(IN_PLACE, existing={name: found for name, found in IN_PLACE.existing.items() if name != "orders"})
    assert "taken since an input got other partitions" in advice(saved(orders=True), wider)
    assert "delete the topic: it comes back from there" in advice(saved(orders=True), made_since)
    assert "delete the topic" not in advice(saved(), made_since)
    assert "survive_cluster_loss" in advice(saved(), gone)
    for told in (advice(saved(orders=True), wider), advice(saved(orders=True), made_since)):
        assert "survive_cluster_loss" not in told, "they are archived already"


def test_an_emptied_cluster_gets_everything_and_what_was_not_archived_is_named_all_at_once() -> None:
    empty = replace(IN_PLACE, cluster_id="elsewhere", existing={}, filled=set())
    assert made(place(saved(orders=True, customers=True), empty)) == list(ROLES), "an output without records is made empty"
    assert problems(saved(), empty) == [
        "input orders is gone, and its records are not in the savepoint",
        "global customers is gone, and its records are not in the savepoint",
    ]


def test_an_empty_input_is_made_again_and_one_with_records_elsewhere_is_refused() -> None:
    elsewhere = replace(IN_PLACE, cluster_id="elsewhere", existing=there("orders"), filled=set())
    assert "orders" in made(place(saved(orders=True, customers=True), elsewhere))
    assert "is empty" in problems(saved(customers=True), elsewhere)[0]
    assert "holds records" in problems(saved(orders=True, customers=True), replace(elsewhere, filled={"orders"}))[0], "even with equal ids"


@pytest.mark.fault("F53")
def test_a_clone_has_its_own_internal_topics_and_outputs_and_shares_inputs() -> None:
    placed = place(saved(), replace(CLONE, existing={**CLONE.existing, **there("totals-2")}))
    assert {one.image.name: (one.name, one.made) for one in placed} == {
        "orders": ("orders", False),
        "customers": ("customers", False),
        "totals": ("totals-2", False),
        "shop-by-key-repartition": ("shop-2-by-key-repartition", True),
        "shop-sums-changelog": ("shop-2-sums-changelog", True),
    }


def test_a_clone_never_writes_into_the_outputs_of_the_old_one() -> None:
    careless = replace(CLONE, topic_map={}, declared={**CLONE.declared, TopicRole.OUTPUT: ("totals",)})
    assert problems(saved(), careless) == ["output totals would be written by shop and shop-2"]
    assert made(place(saved(orders=True, customers=True), replace(careless, cluster_id="elsewhere", existing={}, filled=set())))


@pytest.mark.parametrize("role", [TopicRole.INPUT, TopicRole.GLOBAL, TopicRole.OUTPUT])
def test_a_clone_whose_configuration_does_not_know_a_topic_is_refused(role: TopicRole) -> None:
    assert "which the configuration of shop-2 does not name" in problems(saved(), replace(CLONE, declared={**CLONE.declared, role: ()}))[0]


@pytest.mark.fault("F53")
def test_two_topics_never_become_one() -> None:
    target = replace(CLONE, topic_map={"totals": "customers"}, declared={**CLONE.declared, TopicRole.OUTPUT: ("customers",)})
    assert "customers would stand for two topics of the savepoint" in problems(saved(), target)


@given(st.sampled_from(sorted(ROLES)), st.sampled_from(["here", "elsewhere"]), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_nothing_that_holds_records_is_made_again_but_internal_topics(
    name: str, cluster: str, exists: bool, same_id: bool, holds: bool, archived: bool
) -> None:
    found = there(name, ids={name: f"id of {name}" if same_id else "other"}) if exists else {}
    rest = {other: description for other, description in IN_PLACE.existing.items() if other != name}
    target = replace(IN_PLACE, cluster_id=cluster, existing=rest | found, filled={name} if exists and holds else set())
    try:
        placed = place(saved(**dict.fromkeys(ROLES, archived)), target)
    except Refused:
        return
    for one in placed:
        if one.made and not one.image.role.internal:
            assert one.name not in target.filled
            assert one.image.archived or one.image.role is TopicRole.OUTPUT
        if not one.made and one.image.role is TopicRole.INPUT:
            assert target.cluster_id == "here"
            assert target.existing[one.name].topic_id == one.image.topic_id
