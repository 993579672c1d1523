"""A savepoint that cannot be restored is refused with the commands that show another one. Only the application's own savepoints have such commands.

Which topics a resumed restore may find otherwise than they were when its plan was approved.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from streams_recovery.core.errors import Damaged, PlanChanged, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations.restore.append import _check_present
from streams_recovery.operations.restore.checks import (
    check_files,
    check_same_inputs,
    check_same_targets,
    pieces_of,
    refuse_joined_inputs,
    require_state,
)
from tests.support.examples.restore_plan import OFFSET, PLAN, TOPIC
from tests.support.repository.golden import SECOND, OpenGolden


@pytest.mark.parametrize(("savepoint", "named"), [(SECOND, 2), ("20261121T020000Z-0123456789", 0)])
def test_one_without_state(golden: OpenGolden, savepoint: str, named: int) -> None:
    recovery = golden("good")
    full = recovery.savepoints.read(SECOND)
    topics = tuple(
        replace(topic, archived=False, partitions=tuple(replace(one, ranges=()) for one in topic.partitions)) for topic in full.topics
    )
    minimal = replace(full, topics=topics, savepoint_id=savepoint)
    with pytest.raises(Refused) as caught:
        require_state(recovery, minimal)
    assert caught.value.facts == {"savepoint": savepoint}
    assert len(caught.value.commands) == named


@pytest.mark.parametrize(("application_id", "commands"), [("golden", ("streams-recovery verify golden",)), ("another", ())])
def test_one_whose_files_are_missing(golden: OpenGolden, application_id: str, commands: tuple[str, ...]) -> None:
    recovery = golden("missing-segment")
    manifest = replace(recovery.savepoints.read(SECOND), application_id=application_id)
    with pytest.raises(Damaged) as caught:
        check_files(recovery, manifest, pieces_of(manifest.topics))
    assert (caught.value.facts["savepoint"], caught.value.commands, caught.value.exit_code) == (SECOND, commands, 6)


OUTPUT = replace(TOPIC, name="totals")


def plan(*names: str) -> RestorePlan:
    return replace(PLAN, delete=(), create=tuple(replace(OUTPUT, name=name) for name in names))


@pytest.mark.fault("F3")
def test_an_empty_topic_that_was_to_be_created_may_be_there_now() -> None:
    check_same_targets(plan("totals", "sums"), plan("sums"), empty={"totals"})


@pytest.mark.parametrize(
    ("approved", "now", "empty", "named"),
    [
        (["totals", "sums"], ["sums"], [], "totals"),
        (["totals", "sums"], ["sums"], ["sums"], "totals"),
        (["totals"], ["totals", "orders"], [], "orders"),
        # An input that was to stay as it was is another one now.
        (["totals"], ["totals", "orders"], ["orders"], "orders"),
    ],
)
def test_nothing_else_may_be_created_than_was_approved(
    approved: Collection[str], now: Collection[str], empty: Collection[str], named: str
) -> None:
    with pytest.raises(PlanChanged, match="would be created") as caught:
        check_same_targets(plan(*approved), plan(*now), empty=empty)
    assert caught.value.facts == {"topics": [named]}


def test_an_input_that_was_begun_to_be_read_since_the_approval_keeps_nobody_from_seeing_it() -> None:
    late = replace(OFFSET, tp=TopicPartition("orders.more", 0))
    now = replace(PLAN, offsets=(OFFSET, late))
    # It exists, and nothing of it was read: it begins as for any application.
    check_same_inputs(PLAN, now)
    read = replace(now, observed=replace(now.observed, offsets_before={OFFSET.tp: 99, late.tp: 3}))
    with pytest.raises(PlanChanged, match="begun to read other inputs") as caught:
        check_same_inputs(PLAN, read)
    assert caught.value.facts == {"topics": ["orders.more"]}
    check_same_inputs(read, read)


def test_what_a_moment_s_base_does_not_have_would_be_read_behind_the_moment() -> None:
    refuse_joined_inputs({})
    with pytest.raises(Refused, match="behind the moment: later, other") as caught:
        refuse_joined_inputs({TopicPartition("other", 0): 0, TopicPartition("later", 0): 0, TopicPartition("later", 1): 0})
    assert caught.value.facts["topics"] == ["later", "other"]


def test_an_input_that_was_cut_back_since_an_append_began_is_told_from_a_stranger_that_writes() -> None:
    here = TopicPartition("in", 0)
    _check_present({here: 3}, {here: 0})
    _check_present({here: 3}, {here: 3})
    with pytest.raises(Refused, match="another producer has written to in-0"):
        _check_present({here: 3}, {here: 4})
    with pytest.raises(Refused, match="in-0 ends before the offset at which the append began"):
        _check_present({here: 3}, {here: -1})
