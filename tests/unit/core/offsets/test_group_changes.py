"""Changes of groups: where offsets end for any log, what stays as it is, what is said, what is approved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.approval import approval, different_parts
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition
from streams_recovery.core.offsets.group_changes import (
    GroupAction,
    GroupChangePlan,
    GroupNow,
    GroupPlan,
    GroupRequest,
    PartitionScope,
    plan_deletion,
    plan_reset,
    scoped_partitions,
)
from streams_recovery.core.offsets.reset_options import (
    FromFile,
    by_duration,
    shift_by,
    to_current,
    to_earliest,
    to_latest,
    to_offset,
)
from streams_recovery.core.offsets.strategies import Duration, Exact, Logs, Shift, Strategy, Timestamp

PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(2)]
ONE, OTHER = PARTITIONS[:2]
LOGS = Logs(
    starts=dict.fromkeys(PARTITIONS, 4),
    stable=dict.fromkeys(PARTITIONS, 9),
    ends=dict.fromkeys(PARTITIONS, 9),
    at_time={},
    behind_open=True,
)
STREAM_TIME = "AgAA"

offsets = st.integers(0, 30)
committed = st.dictionaries(
    st.sampled_from(PARTITIONS), st.builds(CommittedOffset, offset=offsets, metadata=st.sampled_from(["", STREAM_TIME]))
)
scenarios: st.SearchStrategy[Strategy] = st.one_of(
    st.sampled_from([to_earliest(), to_latest(), to_current(), Timestamp(text="at 5", at=5), Duration(text="back 7", back=7)]),
    st.builds(to_offset, st.integers(-5, 40)),
    st.builds(shift_by, st.integers(-40, 40)),
    st.builds(
        lambda offset: FromFile(name="f", content="".join(f"{tp.topic},{tp.partition},{offset}\n" for tp in PARTITIONS).encode()).of_group(
            "g", several=False
        ),
        offsets,
    ),
)


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    starts = {tp: draw(offsets) for tp in PARTITIONS}
    ends = {tp: start + draw(offsets) for tp, start in starts.items()}
    found = {tp: draw(st.one_of(st.none(), st.integers(starts[tp], ends[tp]))) for tp in PARTITIONS}
    return Logs(
        starts=starts, stable={tp: draw(st.integers(starts[tp], ends[tp])) for tp in PARTITIONS}, ends=ends, at_time=found, behind_open=True
    )


def group(known: dict[TopicPartition, CommittedOffset], **other: object) -> GroupNow:
    facts = {"group_id": "g", "kind": "classic", "live": False, "streams": False, "committed": known, **other}
    return GroupNow(**facts)


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata)


def plan(*groups: GroupPlan, **other: object) -> GroupChangePlan:
    facts = {"application_id": "orders", "action": GroupAction.RESET, "what": "--to-earliest", "groups": groups, "left_out": (), **other}
    return GroupChangePlan(**facts)


@given(known=committed, logs=logs(), scenario=scenarios, chosen=st.sets(st.sampled_from(PARTITIONS), min_size=1))
def test_every_chosen_partition_ends_inside_its_log_and_no_other_is_touched(
    known: dict[TopicPartition, CommittedOffset], logs: Logs, scenario: Strategy, chosen: set[TopicPartition]
) -> None:
    if isinstance(scenario, Shift) and chosen - known.keys():
        with pytest.raises(Refused, match="no committed offset to shift"):
            plan_reset(group(known), scenario, chosen, logs)
        return
    planned = plan_reset(group(known), scenario, chosen, logs)
    assert [change.tp for change in planned.changes] == sorted(chosen)
    for change in planned.changes:
        assert change.after is not None
        before = known.get(change.tp)
        if not (isinstance(scenario, Exact) and before is not None):
            assert logs.starts[change.tp] <= change.after.offset <= logs.ends[change.tp]
        else:
            assert change.after.offset == before.offset
        stays = before is not None and change.after.offset == before.offset
        assert change.same is stays
        assert change.after.metadata == (before.metadata if stays and before is not None else "")


@given(known=committed, chosen=st.sets(st.sampled_from(PARTITIONS)))
def test_a_deletion_takes_what_is_there_and_chosen(known: dict[TopicPartition, CommittedOffset], chosen: set[TopicPartition]) -> None:
    planned = plan_deletion(group(known), chosen)
    assert [change.tp for change in planned.changes] == sorted(chosen & known.keys())
    assert all(change.after is None and not change.same and change.before == known[change.tp].offset for change in planned.changes)


@pytest.mark.parametrize(
    ("scenario", "before", "after"),
    [
        (to_earliest(), 6, 4),
        (to_latest(), 6, 9),
        (to_current(), 6, 6),
        (to_current(), 2, 2),
        (to_current(), None, 9),
        (to_offset(7), 6, 7),
        (to_offset(1), 6, 4),
        (to_offset(-1), None, 4),
        (to_offset(99), 6, 9),
        (shift_by(2), 6, 8),
        (shift_by(99), 6, 9),
        (shift_by(-99), 6, 4),
    ],
)
def test_where_an_offset_goes(scenario: Strategy, before: int | None, after: int) -> None:
    known = {} if before is None else {ONE: at(before)}
    (change,) = plan_reset(group(known), scenario, [ONE], LOGS).changes
    assert change.after is not None
    assert (change.before, change.after.offset) == (before, after)


def test_what_has_its_new_offset_already_does_not_move() -> None:
    planned = plan_reset(group({ONE: at(5), OTHER: at(6)}), to_offset(5), [ONE, OTHER], LOGS)
    assert [change.tp for change in planned.moving] == [OTHER]


@pytest.mark.parametrize(("found", "after"), [(7, 7), (None, 9)])
def test_a_time_is_looked_up_and_the_end_is_said(found: int | None, after: int) -> None:
    planned = plan_reset(group({}), Timestamp(text="at 5", at=5), [ONE], replace(LOGS, at_time={ONE: found}))
    assert planned.changes[0].after == at(after)
    assert any("no record is of that time or later" in one for one in planned.warnings) is (found is None)


def test_what_kafka_s_tools_do_without_a_word_is_said() -> None:
    def said(now: GroupNow, scenario: Strategy, logs: Logs = LOGS) -> str:
        return "; ".join(plan_reset(now, scenario, [ONE, OTHER], logs).warnings)

    plain = group({ONE: at(6), OTHER: at(6)})
    assert said(plain, to_offset(5)) == ""
    assert "the logs of g limit 2 offsets: a-0 gets 9 in place of 500, a-1 gets 9 in place of 500" in said(plain, to_offset(500))
    assert "outside the log, and stays there: a-0" in said(group({ONE: at(2), OTHER: at(6)}), to_current())
    assert "still open are before the end, and are skipped: a-0, a-1" in said(
        plain, to_latest(), replace(LOGS, stable=dict.fromkeys(PARTITIONS, 8))
    )
    assert "has members: this is refused until they are gone" in said(replace(plain, live=True), to_offset(5))
    assert "does not exist: it is created as a classic group" in said(group({}, kind="absent"), to_offset(5))
    streams = said(replace(plain, streams=True, repartition={"a"}), to_offset(5))
    assert "only offsets change: the state of g stays as it is" in streams
    assert "repartition topics of g are among them: a" in streams
    assert said(replace(plain, streams=True), to_offset(6)) == "", "nothing moves"
    many = {TopicPartition("a", number): at(6) for number in range(8)}
    everywhere = Logs(starts=dict.fromkeys(many, 4), stable={}, ends=dict.fromkeys(many, 9), at_time={}, behind_open=True)
    assert plan_reset(group(many), to_offset(1), many, everywhere).warnings[0].endswith("and 3 more")


def test_the_number_is_approved_where_a_person_named_it_and_the_rule_where_the_log_has_it() -> None:
    def hashed(scenario: Strategy, end: int, known: CommittedOffset | None = None) -> str:
        moved = replace(LOGS, ends=dict.fromkeys(PARTITIONS, end), stable=dict.fromkeys(PARTITIONS, end), at_time={ONE: end})
        return plan(plan_reset(group({ONE: known} if known else {}), scenario, [ONE], moved), what=scenario.text).hash

    for scenario in (to_latest(), Timestamp(text="at 5", at=5), by_duration("PT5S"), to_current(), to_offset(500)):
        assert hashed(scenario, 9) == hashed(scenario, 10), scenario
    assert hashed(to_offset(500), 9) != hashed(to_offset(500), 600), "it is inside the log now"
    assert hashed(to_current(), 9, at(6)) != hashed(to_current(), 9, at(7))
    assert hashed(shift_by(1), 9, at(6)) != hashed(shift_by(1), 9, at(7))
    assert hashed(to_offset(5), 9) != hashed(to_offset(6), 9)
    assert hashed(to_offset(5), 9, at(6)) == hashed(to_offset(5), 9, at(7)), "where the group is now is no part of it"


def test_a_refused_approval_names_what_differs() -> None:
    now = group({ONE: at(6)})
    known = plan(plan_reset(now, to_offset(5), [ONE], LOGS), what="--to-offset 5")
    approved = approval(known)
    other = replace(now, group_id="h")
    for changed, parts in (
        (replace(known, application_id="x"), ("the application",)),
        (replace(known, action=GroupAction.DELETE), ("what is done",)),
        (replace(known, groups=(plan_reset(other, to_offset(5), [ONE], LOGS),)), ("the groups (`--group`)", "the offsets")),
        (replace(known, groups=(plan_reset(now, to_offset(5), [ONE, OTHER], LOGS),)), ("the offsets",)),
        (replace(known, groups=(plan_deletion(now, [ONE]),)), ("the offsets",)),
        (replace(known, left_out=("h",)), ()),
    ):
        assert different_parts(changed, approved) == parts
    assert known.offsets() == {"g": {ONE: 5}}
    assert replace(known, left_out=("h",)).warnings == ("groups with members are left as they are: h",)


@pytest.mark.parametrize(
    ("topics", "found", "text"),
    [
        (["a"], {"a": None}, "--topic a"),
        (["a:1,0", "b"], {"a": frozenset({0, 1}), "b": None}, "--topic a:0,1 --topic b"),
        (["a:0", "a:1"], {"a": frozenset({0, 1})}, "--topic a:0,1"),
        (["a:0", "a"], {"a": None}, "--topic a"),
        (["a", "a:0"], {"a": None}, "--topic a"),
    ],
)
def test_topics_as_kafka_s_tools_take_them(topics: list[str], found: dict[str, frozenset[int] | None], text: str) -> None:
    scope = PartitionScope.parse(topics)
    assert (scope.topics, scope.text) == (found, text)


@pytest.mark.parametrize("text", ["", "a:", "a:x", "a:-1", "a:0,", "a:0:1", "a b", ":0", "a\n", "*", "a" * 250])
def test_what_is_no_topic_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="is not a topic"):
        PartitionScope.parse([text])


def test_a_scope_chooses_what_exists() -> None:
    topics = {
        name: TopicDescription(name=name, topic_id="i", partitions=2, replication_factor=1, config={}, leader_epochs=())
        for name in ("a", "b")
    }
    gone = TopicPartition("gone", 0)
    known = group({ONE: at(1), PARTITIONS[2]: at(1), gone: at(1), TopicPartition("a", 7): at(1)})
    choose = scoped_partitions
    assert choose(PartitionScope.parse([], everything=True), known, None, topics) == {ONE, PARTITIONS[2]}
    assert choose(PartitionScope.parse([], inputs=True), known, {"a"}, topics) == {ONE}
    assert choose(PartitionScope.parse(["a", "b:1"]), known, None, topics) == {ONE, OTHER, PARTITIONS[3]}
    assert PartitionScope.of([ONE, OTHER, PARTITIONS[3]]) == PartitionScope.parse(["a:0,1", "b:1"])
    with pytest.raises(NotFound) as caught:
        choose(PartitionScope.parse(["a:1,2", "b:9", "gone", "lost:1"]), known, None, topics)
    assert caught.value.facts["missing"] == ["a-2", "b-9", "gone", "lost"]
    with pytest.raises(Refused, match="inputs of group g are not known"):
        choose(PartitionScope.parse([], inputs=True), known, None, topics)
    assert PartitionScope.parse([], inputs=True).text == "--all-input-topics"


def test_several_groups_are_shown_with_their_names() -> None:
    asked = GroupRequest(action=GroupAction.RESET, groups=("a",))
    assert [replace(asked, **other).several for other in ({}, {"groups": ("a", "b")}, {"all_groups": True})] == [False, True, True]
