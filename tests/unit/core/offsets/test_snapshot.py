"""Going back to a snapshot: exactly what was there, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.approval import approval, different_parts, is_approved
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition
from streams_recovery.core.offsets.group_changes import GroupAction, GroupChangePlan, GroupNow, GroupPlan, plan_rollback
from streams_recovery.core.offsets.snapshot import GroupOffsets, OffsetSnapshot

PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(2)]
ELSEWHERE = TopicPartition("elsewhere", 0)
SPANS = dict.fromkeys(PARTITIONS, (2, 9))


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=None)


def described(name: str, topic_id: str) -> TopicDescription:
    return TopicDescription(name=name, topic_id=topic_id, partitions=2, replication_factor=1, config={}, leader_epochs=(0, 0))


TOPICS = {name: described(name, f"id-{name}") for name in ("a", "b")}


def snapshot(offsets: dict[TopicPartition, CommittedOffset], group: str = "readers") -> OffsetSnapshot:
    return OffsetSnapshot(
        format_version=2,
        snapshot_id="20261121T012345Z-0123456789",
        application_id="orders",
        cluster_id="c",
        taken_at=1,
        savepoint_id=None,
        requested_by="me",
        reason="",
        groups=(GroupOffsets(group_id=group, kind="classic", topics={"a": "id-a", "b": "id-b"}, offsets=offsets),),
        unread={},
    )


def group(now: dict[TopicPartition, CommittedOffset], name: str = "readers", *, streams: bool = False) -> GroupNow:
    return GroupNow(group_id=name, kind="classic", live=False, streams=streams, committed=now)


def back(kept: dict[TopicPartition, CommittedOffset], now: dict[TopicPartition, CommittedOffset]) -> GroupPlan:
    return plan_rollback(group(now), snapshot(kept), TOPICS, SPANS)


def plan(kept: dict[TopicPartition, CommittedOffset], now: dict[TopicPartition, CommittedOffset]) -> GroupChangePlan:
    what = snapshot(kept).snapshot_id
    return GroupChangePlan(application_id="orders", action=GroupAction.ROLLBACK, what=what, groups=(back(kept, now),), left_out=())


offsets = st.dictionaries(st.sampled_from(PARTITIONS), st.builds(at, st.integers(2, 9), st.sampled_from(["", "AgAA"])))


@given(kept=offsets, now=offsets, other=st.booleans())
def test_afterwards_the_group_has_what_it_had_and_nothing_else_moved(
    kept: dict[TopicPartition, CommittedOffset], now: dict[TopicPartition, CommittedOffset], other: bool
) -> None:
    now = {**now, ELSEWHERE: at(1)} if other else now
    planned = back(kept, now)
    after = {**now, **{change.tp: change.after for change in planned.changes}}
    expected = {**{tp: known for tp, known in now.items() if tp == ELSEWHERE}, **kept}
    assert {tp: known for tp, known in after.items() if known is not None} == expected
    assert len(planned.moving) == sum(1 for tp in {*now, *kept} - {ELSEWHERE} if now.get(tp) != kept.get(tp))


def test_what_is_approved_is_where_the_group_goes_not_where_it_is() -> None:
    one, other = plan({PARTITIONS[0]: at(3)}, {PARTITIONS[0]: at(5)}), plan({PARTITIONS[0]: at(3)}, {PARTITIONS[0]: at(6)})
    assert one.hash == other.hash
    assert plan({PARTITIONS[0]: at(4)}, {PARTITIONS[0]: at(5)}).hash != one.hash
    assert plan({PARTITIONS[0]: at(3, "AgAA")}, {PARTITIONS[0]: at(5)}).hash != one.hash
    assert plan({PARTITIONS[0]: at(3)}, {PARTITIONS[0]: at(5), PARTITIONS[1]: at(2)}).hash != one.hash, "a deletion more"
    assert replace(one, groups=(replace(one.groups[0], group_id="others"),)).hash != one.hash


def test_a_refused_approval_names_the_parts_that_differ_and_what_the_group_has_now_is_none_of_them() -> None:
    approved = approval(plan({PARTITIONS[0]: at(3)}, {PARTITIONS[0]: at(5)}))
    for other, parts in (
        (plan({PARTITIONS[0]: at(3)}, {PARTITIONS[0]: at(6)}), ()),
        (plan({PARTITIONS[0]: at(4)}, {PARTITIONS[0]: at(5)}), ("the offsets",)),
        (replace(plan({PARTITIONS[0]: at(3)}, {}), what="another"), ("what is done",)),
        (replace(plan({PARTITIONS[0]: at(3)}, {}), application_id="another"), ("the application",)),
    ):
        assert different_parts(other, approved) == parts
        assert is_approved(other, approved) is (parts == ())


def test_offsets_that_mean_something_else_by_now_are_refused_all_at_once() -> None:
    kept = snapshot({PARTITIONS[0]: at(1), PARTITIONS[1]: at(10), PARTITIONS[2]: at(5)})
    with pytest.raises(Refused) as caught:
        plan_rollback(group({}), kept, TOPICS, SPANS)
    assert caught.value.facts["problems"] == ["a-0 at 1 is outside [2, 9]", "a-1 at 10 is outside [2, 9]"]
    with pytest.raises(Refused) as caught:
        plan_rollback(group({}), kept, {"b": described("b", "another")}, SPANS)
    assert caught.value.facts["problems"] == ["topic a is gone", "topic b was created again (id id-b became another)"]
    with pytest.raises(Refused, match="a-0 is gone"):
        plan_rollback(group({}), kept, TOPICS, {})


def test_a_group_that_is_not_in_it_is_named_with_those_that_are() -> None:
    with pytest.raises(NotFound) as caught:
        plan_rollback(group({}, "nobody"), snapshot({}), TOPICS, SPANS)
    assert caught.value.facts == {"group": "nobody", "known": ["readers"]}


def test_going_back_without_the_state_is_said_for_groups_of_kafka_streams_only() -> None:
    now = {PARTITIONS[0]: at(5)}
    own = plan_rollback(group(now, streams=True), snapshot({}), TOPICS, SPANS)
    assert "only offsets change: the state of readers stays as it is" in own.warnings[0]
    assert back({}, now).warnings == ()


def test_it_survives_the_repository() -> None:
    kept = snapshot({PARTITIONS[0]: at(3, "AgAA")})
    assert codec.loads(OffsetSnapshot, codec.dumps(kept), where="x") == kept
