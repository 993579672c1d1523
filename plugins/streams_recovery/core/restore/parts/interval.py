"""An interval of the input, processed again: the state from before it, or none, and the archived input around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.restore.parts.moment import CutPart, cut_logs, cuts_of
from streams_recovery.core.restore.parts.part import EMPTY
from streams_recovery.core.restore.parts.state import source
from streams_recovery.core.restore.planned import PlannedRestore
from streams_recovery.core.words import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPart(CutPart):
    """An interval. Its ``point`` has a slice."""

    KIND: ClassVar = "interval"

    @classmethod
    def is_stored(cls, stored: Mapping[str, Any]) -> bool:
        point = stored.get("point")
        return isinstance(point, dict) and point.get("slice") is not None

    @property
    def copies(self) -> bool:
        return True

    def settings(self, role: TopicRole) -> dict[str, str]:
        # Results of the past would expire as soon as they are written.
        return {"retention.ms": "-1", "retention.bytes": "-1"} if role is TopicRole.OUTPUT else {}

    def head(self, plan: PlannedRestore) -> list[Markdown]:
        wanted = self.point.slice
        interval = (moment(wanted.interval.start), moment(wanted.interval.end)) if wanted is not None else ("", "")
        state = md("the state of savepoint {}", code(plan.savepoint_id)) if self.point.with_state else md("no state")
        return [
            md("### Process {} to {} again as {}{}", *interval, code(plan.application_id), source(plan)),
            EMPTY,
            md("From {}. Plan {}.", state, code(plan.hash[:12])),
        ]

    def about(self, plan: PlannedRestore) -> list[Markdown]:
        leads = deferred(plan)
        held = sum(cut.rows - leads[tp] for tp, cut in cuts_of(plan) if tp in leads)
        when = md(
            "**{:,} input records of the interval**, and the input around it up to {}", own_records(plan), moment(self.point.as_of.moment)
        )
        last = md(" {:,} of these records are loaded after the application has processed the input before the interval.", held)
        return [
            md("{}, from the archive of {}.{}", when, code(self.point.archive), last if held else EMPTY),
            EMPTY,
            *cut_logs(plan),
        ]


def deferred(plan: PlannedRestore) -> dict[TopicPartition, int]:
    """Inputs of an interval of which the application first gets only so many records: those before the interval's first record. It gets the others once it
    has processed these. Empty if it has processed all records before, or if none come behind, and for a plan of another kind.

    A foreign-key join gives a result that is caused by the table the timestamp of the table's record, even when the other side's record is newer
    (``ForeignTableJoinProcessorSupplier`` of Kafka Streams). Both would be read at once otherwise, and results of the interval could come with a
    time from long before it.
    """
    processed = {item.tp: item.wanted.offset for item in plan.offsets}
    cuts = {
        TopicPartition(topic.name, part.partition): (part.cut.rows, part.cut.slice.lead)
        for topic in plan.create
        if topic.role is TopicRole.INPUT
        for part in topic.partitions
        if part.cut is not None and part.cut.slice is not None
    }
    if all(lead <= processed.get(tp, 0) for tp, (_, lead) in cuts.items()):
        return {}
    return {tp: lead for tp, (rows, lead) in cuts.items() if lead < rows}


def own_records(plan: PlannedRestore) -> int:
    """Input records of the interval that is processed again, 0 when it is none."""
    cuts = [part.cut for topic in plan.create if topic.role is TopicRole.INPUT for part in topic.partitions]
    return sum(cut.slice.own for cut in cuts if cut is not None and cut.slice is not None)
