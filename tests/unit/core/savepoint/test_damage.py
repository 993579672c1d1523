"""State that was lost or replaced between two savepoints is seen, unless a restore of ours did it, and is never published as if nothing had been."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import StateDamaged
from streams_recovery.core.kafka_types import ClaimedTopic, TopicPartition, TopicRole
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase
from streams_recovery.core.savepoint.damage import (
    ChangedState,
    Damage,
    DamageKind,
    Restored,
    StateTopic,
    changed_topics,
    missing_changelogs,
    require_whole,
    restored,
)
from tests.support.examples.savepoints import cut, image, manifest_of, segment, topic

NAME = "orders-totals-changelog"
TP = TopicPartition(NAME, 0)
# At the last savepoint: ten records of a compacted changelog, written under leader epochs up to 2.
BEFORE = topic((image((segment(0, 10, [1, 9]),), epoch=2),), name=NAME)
LAST = manifest_of(BEFORE, captured_at=1_000)


def now(**changes: object) -> StateTopic:
    plain = StateTopic(name=NAME, role=TopicRole.CHANGELOG, topic_id="id-1", expires=False, partitions=(cut(end=15, epoch=3, topic=NAME),))
    return replace(plain, **changes)  # type: ignore[arg-type]


def kinds(
    *topics: StateTopic, claimed: Collection[ClaimedTopic] = (), ends: Mapping[TopicPartition, int | None] | None = None
) -> list[DamageKind]:
    return [found.kind for found in changed_topics(LAST, topics, claimed, ends or {})]


def test_a_log_that_only_grew_is_whole() -> None:
    assert kinds(now(), ends={TP: 12}) == []
    assert kinds(now(partitions=(cut(end=10, epoch=2, topic=NAME),)), ends={TP: 10}) == []
    assert kinds(now(), now(name="orders-new-changelog"), ends={TP: None}) == [], "a store that is new"


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    ("topics", "claimed", "ends", "kind", "told"),
    [
        ([], [], {}, DamageKind.VANISHED, f"topic {NAME} (id id-1) is in savepoint {LAST.savepoint_id} and does not exist any more"),
        ([now(topic_id="id-2")], [], {}, DamageKind.RECREATED, "was created again since savepoint"),
        ([], [ClaimedTopic(topic=NAME, group="orders-totals")], {}, DamageKind.CLAIMED, "it is assigned to orders-totals"),
        ([now(partitions=(cut(end=9, epoch=3, topic=NAME),))], [], {}, DamageKind.TRUNCATED, "partition 0: it ended at 10 and ends at 9"),
        ([now()], [], {TP: 8}, DamageKind.TRUNCATED, "its records of leader epoch 2 end at 8, before offset 10"),
        ([now(partitions=(cut(end=15, epoch=1, topic=NAME),))], [], {}, DamageKind.TRUNCATED, "its leader epoch went back from 2 to 1"),
        ([now(partitions=(cut(start=3, end=15, epoch=3, topic=NAME),))], [], {}, DamageKind.TRUNCATED, "it began at 0 and begins at 3"),
        ([now(partitions=())], [], {}, DamageKind.TRUNCATED, "partition 0: it does not exist any more"),
    ],
)
def test_state_that_is_not_what_it_was_is_named(
    topics: list[StateTopic], claimed: list[ClaimedTopic], ends: dict[TopicPartition, int | None], kind: DamageKind, told: str
) -> None:
    (found,) = changed_topics(LAST, topics, claimed, ends)
    assert (found.kind, found.topic) == (kind, NAME)
    assert told in str(found)


def test_records_that_are_deleted_by_rule_are_no_damage() -> None:
    late = cut(start=12, end=15, epoch=3, topic=NAME)
    assert kinds(now(partitions=(late,), expires=True)) == [], "a windowed store forgets what is old"
    windowed = replace(BEFORE, config={"cleanup.policy": "compact,delete"})
    assert changed_topics(manifest_of(windowed), [now(partitions=(late,))], [], {}) == ()
    read = replace(BEFORE, role=TopicRole.REPARTITION)
    assert changed_topics(manifest_of(read), [now(partitions=(late,), role=TopicRole.REPARTITION)], [], {}) == (), (
        "what was read is deleted"
    )


@pytest.mark.parametrize("role", [TopicRole.INPUT, TopicRole.OUTPUT, TopicRole.GLOBAL])
def test_only_internal_topics_are_state(role: TopicRole) -> None:
    assert changed_topics(manifest_of(replace(BEFORE, role=role)), [], [], {}) == ()


@given(
    grown=st.integers(0, 20),
    lost=st.integers(0, 10),
    epoch_end_known=st.booleans(),
    again=st.booleans(),
)
def test_every_loss_of_a_record_that_was_saved_is_seen(grown: int, lost: int, epoch_end_known: bool, again: bool) -> None:
    """The log loses some of its end under a new leader and grows again; or it is another log altogether."""
    end = 10 - lost + grown
    here = now(topic_id="id-2" if again else "id-1", partitions=(cut(end=end, epoch=3, topic=NAME),))
    found = kinds(here, ends={TP: (10 - lost if lost else end)} if epoch_end_known else {})
    if again:
        assert found == [DamageKind.RECREATED]
    elif epoch_end_known:
        assert bool(found) == (lost > 0)
    else:
        assert bool(found) == (end < 10), "without an answer only the length tells"


def entry(phase: Phase, at: int, *created: tuple[str, str]) -> JournalEntry:
    return JournalEntry(phase=phase, at=at, created=tuple(CreatedTopic(topic=name, topic_id=topic_id) for name, topic_id in created))


def journal(at: int, *created: tuple[str, str], last: Phase = Phase.RECOVERED) -> tuple[JournalEntry, ...]:
    """A restore that began to destroy at that moment and made these topics."""
    return (
        entry(Phase.OPENED, at - 1),
        entry(Phase.DESTROYING, at),
        entry(Phase.CREATED, at + 1, *created),
        entry(last, at + 2),
        entry(Phase.CLOSED, at + 3),
    )


def damage(kind: DamageKind, topic_id: str | None = None) -> Damage:
    return Damage(kind=kind, topic=NAME, topic_id=topic_id, problem="p")


RECREATED, VANISHED = damage(DamageKind.RECREATED, "id-2"), damage(DamageKind.VANISHED)


@pytest.mark.parametrize(
    ("journals", "recreated", "vanished"),
    [
        ([], False, False),
        ([journal(2_000, (NAME, "id-2"))], True, False),
        ([journal(2_000, (NAME, "id-3"))], False, False),
        ([journal(500, (NAME, "id-2"))], True, False),
        ([journal(500)], False, False),
        ([journal(2_000)], True, True),
        ([journal(2_000, (NAME, "id-3"), last=Phase.WIPED)], True, True),
        ([journal(2_000), journal(3_000, (NAME, "id-3"))], False, False),
        ([(entry(Phase.OPENED, 2_000), entry(Phase.STOPPED, 2_000))], False, False),
    ],
    ids=[
        "no restore",
        "a restore made it",
        "a restore made another one",
        "clocks differ, and the id tells",
        "before the last savepoint",
        "a rebuild, after which the application makes its topics",
        "dismissed: somebody brought the application back in another way",
        "the last one counts",
        "one that destroyed nothing",
    ],
)
def test_what_a_restore_of_ours_did_is_no_damage(journals: list[tuple[JournalEntry, ...]], recreated: bool, vanished: bool) -> None:
    found = restored(journals, LAST.captured_at)
    assert (found.explains(RECREATED), found.explains(VANISHED)) == (recreated, vanished)
    for kind in (DamageKind.MISSING, DamageKind.TRUNCATED, DamageKind.CLAIMED):
        assert not found.explains(damage(kind, "id-2"))


def test_nothing_explains_what_nobody_did() -> None:
    assert not Restored(created={}, since=None).explains(RECREATED)


def test_a_declared_store_without_a_changelog_is_named() -> None:
    changelogs = {"totals": NAME, "late": "orders-late-changelog"}
    (missing,) = missing_changelogs(changelogs, {NAME, "orders-other-changelog"})
    assert (missing.kind, missing.topic) == (DamageKind.MISSING, "orders-late-changelog")
    assert str(missing) == "store late is declared, and its changelog orders-late-changelog does not exist"
    assert missing_changelogs({}, set()) == ()


def test_damaged_state_is_refused_unless_the_request_says_otherwise() -> None:
    missing = damage(DamageKind.MISSING)
    for found in (VANISHED, RECREATED, missing, damage(DamageKind.CLAIMED), damage(DamageKind.TRUNCATED, "id-1")):
        with pytest.raises(StateDamaged) as caught:
            require_whole("orders", [found], ChangedState.REFUSE)
        assert caught.value.facts["topics"] == [NAME]
        assert "`changed_state` damaged; both need the application id orders" in caught.value.next_step
        assert ("`changed_state` intended" in caught.value.next_step) == (found is not missing)
        require_whole("orders", [found], ChangedState.DAMAGED)
    require_whole("orders", [VANISHED, RECREATED], ChangedState.INTENDED)
    with pytest.raises(StateDamaged, match=r"Next: nothing was changed; correct `stores`"):
        require_whole("orders", [VANISHED, missing], ChangedState.INTENDED)
    for wanted in ChangedState:
        require_whole("orders", [], wanted)
