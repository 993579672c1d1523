"""Which inputs an application that was started is waited for to read."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.drain import awaited_inputs, inputs_of
from tests.support.examples.restore_plan import OFFSET, PLAN

CONFIGURED, OTHER, INTERNAL = (TopicPartition(name, 0) for name in ("in", "of-another-version", "app-sums-repartition"))


def test_what_only_committed_offsets_show_is_not_waited_for(recovery: RecoveryContext) -> None:
    planned = replace(PLAN, application_id="app", offsets=tuple(replace(OFFSET, tp=tp) for tp in (INTERNAL, CONFIGURED, OTHER)))
    assert inputs_of(recovery, planned) == [CONFIGURED, OTHER], "a moment is not reached before all of it is read"
    assert awaited_inputs(recovery, planned) == [CONFIGURED]


def test_copies_are_waited_for_and_there_is_always_something(recovery: RecoveryContext) -> None:
    planned = replace(PLAN, application_id="app", offsets=tuple(replace(OFFSET, tp=tp) for tp in (CONFIGURED, OTHER)))
    restore = recovery.config.restore.model_copy(update={"topic_map": {"real": OTHER.topic}})
    copies = replace(recovery, config=recovery.config.model_copy(update={"restore": restore}))
    assert awaited_inputs(copies, planned) == [CONFIGURED, OTHER]
    alone = replace(planned, offsets=planned.offsets[1:])
    assert awaited_inputs(recovery, alone) == [OTHER]
