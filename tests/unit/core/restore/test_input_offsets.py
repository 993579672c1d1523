"""Where every input goes on, for any manifest and any logs: within the logs, with metadata only where it is true, and never without being said."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import EXACT, STRATEGIES, File, Logs, OffsetStrategy, Shift, Specific, parse
from streams_recovery.core.repository.manifest import Manifest, PartitionImage
from streams_recovery.core.restore.input_offsets import ChosenOffsets, begun_by_savepoint, choose_offsets, input_images
from streams_recovery.core.restore.planned import OffsetToSet
from streams_recovery.core.restore.rebuild import Placed
from tests.support.examples.restore_plan import PLAN
from tests.support.examples.savepoints import committed, image, manifest_of, segment, topic

A, B = TopicPartition("in", 0), TopicPartition("in", 1)
TAIL = topic((replace(image((segment(3, 9, [3, 5, 8]),), start=2, end=9), committed=committed(5)),), name="r", role=TopicRole.REPARTITION)


@dataclass(frozen=True)
class Case:
    """An input with its image at the cut, and its log as it is now."""

    image: PartitionImage
    start: int
    stable: int
    end: int
    at_time: int | None


@st.composite
def cases(draw: st.DrawFn, *, reachable: bool = True) -> list[Case]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        log_start = draw(st.integers(0, 20))
        end = log_start + draw(st.integers(0, 20))
        commit = draw(st.none() | st.integers(log_start, end))
        low = min(log_start if commit is None else commit, log_start if reachable else 99)
        start = draw(st.integers(0, low if reachable else 60))
        stable = draw(st.integers(max(start, end) if reachable else start, max(start, end) + 20))
        last = stable + draw(st.integers(0, 5))
        seen = image((), start=log_start, end=end)
        seen = replace(seen, partition=number, committed=None if commit is None else committed(commit, draw(st.sampled_from(["", "AgAA"]))))
        found.append(Case(image=seen, start=start, stable=stable, end=last, at_time=draw(st.none() | st.integers(start, last))))
    return found


def manifest(found: list[Case]) -> Manifest:
    inputs = topic(tuple(case.image for case in found), name="in", role=TopicRole.INPUT)
    return manifest_of(inputs, TAIL, topic((image(()),), name="out", role=TopicRole.OUTPUT), topic((image(()),), name="c"))


def in_place(found: Manifest) -> tuple[Placed, ...]:
    return tuple(Placed(image=one, name=one.name, made=one.role.internal) for one in found.topics)


def logs(found: list[Case]) -> Logs:
    by_partition = {TopicPartition("in", case.image.partition): case for case in found}
    return Logs(
        starts={tp: case.start for tp, case in by_partition.items()},
        stable={tp: case.stable for tp, case in by_partition.items()},
        ends={tp: case.end for tp, case in by_partition.items()},
        at_time={tp: case.at_time for tp, case in by_partition.items()},
    )


def chosen(found: list[Case], strategy: OffsetStrategy, reset: str = "earliest") -> ChosenOffsets:
    return choose_offsets(
        in_place(manifest(found)), strategy, logs(found), auto_offset_reset=reset, rows_below=lambda _, c: sum(o < c for o in (3, 5, 8))
    )


def parsed(text: str) -> OffsetStrategy:
    return parse(text, group="me", read=lambda _: b"")


def exact_of(case: Case, reset: str) -> int:
    if case.image.committed is not None:
        return case.image.committed.offset
    return case.image.end if reset == "latest" else case.image.log_start


@st.composite
def asked(draw: st.DrawFn, found: list[Case]) -> OffsetStrategy:
    """Any strategy: its example, and what is as long as these logs in place of an argument that is not."""
    strategy = draw(st.sampled_from(STRATEGIES))
    if strategy is Shift:
        return Shift(text="shift", by=draw(st.integers(-30, 30)))
    if issubclass(strategy, (Specific, File)):
        places = {case.image.partition: draw(st.none() | st.integers(case.start, case.end)) for case in found}
        given = {TopicPartition("in", number): place for number, place in places.items() if place is not None}
        return strategy(text=strategy.KIND, given=given)
    return parsed(strategy.FORM)


@given(found=cases(), reset=st.sampled_from(["earliest", "latest", "none"]), data=st.data())
def test_each_strategy_gives_every_input_one_offset_and_says_where_it_disagrees(found: list[Case], reset: str, data: st.DataObject) -> None:
    strategy = data.draw(asked(found))
    result = chosen(found, strategy, reset)

    inputs = {item.tp: item for item in result.offsets if item.tp.topic == "in"}
    assert set(inputs) == set(input_images(in_place(manifest(found))))
    assert [item.tp for item in result.offsets] == sorted(item.tp for item in result.offsets)
    differs = 0
    for case in found:
        item = inputs[TopicPartition("in", case.image.partition)]
        assert (item.wanted.offset, item.fixed) == strategy.place(item.tp, exact_of(case, reset), logs(found))
        assert case.start <= item.wanted.offset <= case.end
        true = item.wanted.offset == exact_of(case, reset)
        known = case.image.committed.metadata if case.image.committed else ""
        assert item.wanted.metadata == (known if true else ""), "stream time goes with its own offset only"
        differs += not true
    assert result.agree == (differs == 0)
    assert any(f"disagree with the restored state on {differs} partitions" in told for told in result.warnings) == (differs > 0)
    (tail,) = (item for item in result.offsets if item.tp.topic == "r")
    assert (tail.wanted.offset, tail.wanted.metadata, tail.fixed) == (1, "AgAA", True), "repartition topics are always exact"


@given(found=cases(reachable=False), text=st.sampled_from(["exact", "shift:0"]))
def test_an_offset_outside_its_log_is_refused_or_moved_inside(found: list[Case], text: str) -> None:
    outside = [case for case in found if not case.start <= exact_of(case, "earliest") <= case.end]
    if text == "shift:0" or not outside:
        assert len(chosen(found, parsed(text)).offsets) == len(found) + 1
        return
    with pytest.raises(Refused, match="is outside") as caught:
        chosen(found, parsed(text))
    assert len(caught.value.facts["problems"]) == len(outside)  # type: ignore[arg-type]


def case(commit: int | None = 5, *, start: int = 0, stable: int = 10, end: int = 12, at_time: int | None = 7) -> Case:
    seen = image((), start=0, end=10)
    return Case(
        image=replace(seen, committed=None if commit is None else committed(commit)), start=start, stable=stable, end=end, at_time=at_time
    )


@pytest.mark.parametrize(
    ("commit", "start", "strategy", "problem"),
    [
        (2, 3, "exact", "in-0: committed offset 2 is outside [3, 12]"),
        (13, 3, "exact", "in-0: committed offset 13 is outside [3, 12]"),
        (5, 0, "specific:in:0=13", "in-0: offset 13 is outside [0, 12]"),
    ],
)
def test_an_offset_outside_its_log_is_named_with_both_ends(commit: int, start: int, strategy: str, problem: str) -> None:
    with pytest.raises(Refused) as caught:
        chosen([case(commit, start=start)], parsed(strategy))
    assert caught.value.facts["problems"] == [problem]


@pytest.mark.parametrize("strange", [("in", 7), ("nobody", 0), ("out", 0), ("c", 0)])
@pytest.mark.parametrize("kind", [Specific, File])
def test_offsets_of_partitions_that_are_no_inputs_are_refused(kind: type[Specific | File], strange: tuple[str, int]) -> None:
    given = {TopicPartition("in", 0): 4, TopicPartition(*strange): 4}
    with pytest.raises(Refused, match=f"no inputs: {strange[0]}-{strange[1]}"):
        chosen([case()], kind(text="", given=given))


def test_an_export_of_the_group_has_repartition_topics_and_they_stay_exact() -> None:
    given = {TopicPartition("in", 0): 4, TopicPartition("r", 0): 99}
    result = chosen([case()], File(text="", given=given))
    assert [item.wanted.offset for item in result.offsets] == [4, 1]
    assert any("1 offsets of repartition topics in the file are not used" in told for told in result.warnings)
    with pytest.raises(Refused, match="no inputs: r-0"):
        chosen([case()], Specific(text="", given=given))


def test_what_is_counted_twice_and_what_never_is_told_in_numbers() -> None:
    other = replace(case(), image=replace(case().image, partition=1))
    given = {TopicPartition("in", 0): 2, TopicPartition("in", 1): 9}
    told = " ".join(chosen([case(), other], Specific(text="", given=given)).warnings)
    assert "up to 3 input records are counted a second time: in-0" in told
    assert "up to 4 input records are never counted: in-1" in told
    assert "stream time begins again on 2 partitions" in told


@pytest.mark.fault("F48")
def test_a_partition_without_a_commit_gets_one_and_it_is_said() -> None:
    """A table restored from its source topic stops at the committed offset: without one it would stay empty, and nothing would tell."""
    for reset, offset in (("earliest", 0), ("none", 0), ("latest", 10)):
        result = chosen([case(None)], EXACT, reset)
        assert (result.offsets[0].wanted.offset, result.offsets[0].wanted.metadata, result.agree) == (offset, "", True)
        assert any("without a committed offset at the savepoint" in told and "in-0" in told for told in result.warnings)
    assert chosen([case()], EXACT).warnings == ()


def test_a_place_in_a_moving_log_is_a_rule_and_not_a_number() -> None:
    for text in ("earliest", "latest", "duration:P1D"):
        assert not chosen([case()], parsed(text)).offsets[0].fixed
    assert chosen([case()], parsed("shift:-1")).offsets[0].fixed
    cut_off = chosen([case()], parsed("shift:-6"))
    assert (cut_off.offsets[0].wanted.offset, cut_off.offsets[0].fixed) == (0, False)
    assert any("limited to the start and end of the logs: in-0" in told for told in cut_off.warnings)


MADE = topic(
    (
        replace(image((segment(5, 20, [5, 9, 11]),), start=5, end=20), committed=committed(10, "AgAA")),
        replace(image((segment(5, 20, [5, 9, 11]),), start=5, end=20), partition=1, committed=None),
    ),
    name="in",
    role=TopicRole.INPUT,
)


def in_made(strategy: OffsetStrategy, reset: str = "earliest") -> dict[TopicPartition, tuple[int, str]]:
    """Offsets in an input that is made from its archived records, three in each partition."""
    placed = (Placed(image=MADE, name="copy", made=True),)
    tps = [TopicPartition("copy", 0), TopicPartition("copy", 1)]
    found = Logs(starts=dict.fromkeys(tps, 0), stable=dict.fromkeys(tps, 3), ends=dict.fromkeys(tps, 3), at_time=dict.fromkeys(tps))
    result = choose_offsets(
        placed, strategy, found, auto_offset_reset=reset, rows_below=lambda _, c: sum(offset < c for offset in (5, 9, 11))
    )
    return {item.tp: (item.wanted.offset, item.wanted.metadata) for item in result.offsets}


@pytest.mark.parametrize(("reset", "without"), [("earliest", 0), ("latest", 3)])
def test_in_an_input_that_is_made_offsets_count_its_rows(reset: str, without: int) -> None:
    assert in_made(EXACT, reset) == {TopicPartition("copy", 0): (2, "AgAA"), TopicPartition("copy", 1): (without, "")}


@pytest.mark.parametrize("text", ["timestamp:2026-11-21T12:00:00Z", "duration:P1D"])
def test_no_time_is_looked_up_in_an_input_that_is_yet_to_be_made(text: str) -> None:
    with pytest.raises(Refused, match="offset by time") as caught:
        in_made(parsed(text))
    assert caught.value.facts["topics"] == ["copy"]


def test_an_input_that_the_savepoint_does_not_have_follows_the_strategy_from_where_the_state_ends() -> None:
    joined = TopicPartition("later", 0)
    here = logs([case()])
    there = Logs(starts={**here.starts, joined: 3}, stable={**here.stable, joined: 8}, ends={**here.ends, joined: 9}, at_time=here.at_time)
    for text, offset, agree in (("exact", 3, True), ("latest", 8, False), ("earliest", 3, False)):
        result = choose_offsets(
            in_place(manifest([case()])), parsed(text), there, auto_offset_reset="earliest", rows_below=lambda _, c: c, joined={joined: 3}
        )
        found = next(item for item in result.offsets if item.tp == joined)
        assert (found.wanted.offset, found.wanted.metadata, result.agree) == (offset, "", agree)
        assert not found.fixed, "retention moves the beginning, and the approved plan has to stay the same"
        assert any(told.startswith("read since the savepoint") and "later" in told for told in result.warnings)


def test_where_such_an_input_begins_is_approved_as_a_rule_because_its_beginning_moves() -> None:
    joined = TopicPartition("later", 0)
    here = logs([case()])

    def begun_at(start: int) -> OffsetToSet:
        there = Logs(starts={**here.starts, joined: start}, stable={**here.stable, joined: 8}, ends={**here.ends, joined: 9}, at_time={})
        result = choose_offsets(
            in_place(manifest([case()])), EXACT, there, auto_offset_reset="earliest", rows_below=lambda _, c: c, joined={joined: start}
        )
        assert all(item.fixed for item in result.offsets if item.tp != joined)
        return next(item for item in result.offsets if item.tp == joined)

    plans = [replace(PLAN, offsets=(begun_at(start),)) for start in (3, 4)]
    assert [plan.offsets[0].wanted.offset for plan in plans] == [3, 4]
    assert plans[0].hash == plans[1].hash
    assert plans[0].hash != replace(PLAN, offsets=()).hash, "which inputs these are is approved"


def test_a_topic_that_was_only_written_at_the_savepoint_has_no_offset_there() -> None:
    placed = in_place(manifest([case()]))
    assert {one.name for one in placed if one.image.role is TopicRole.OUTPUT} == {"out"}
    assert begun_by_savepoint(placed) == {one.name for one in placed} - {"out"}
    assert "out" in begun_by_savepoint([replace(one, made=True) for one in placed]), "what is made has nothing that was committed before"
