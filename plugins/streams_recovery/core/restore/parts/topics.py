"""Single topics from a savepoint, beside a state that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streams_recovery.core.errors import Damaged
from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.checked import check_names, check_partitions
from streams_recovery.core.repository.journal import RestoreScope
from streams_recovery.core.restore.parts.part import EMPTY, TOPICS, PlanPart, RestoreOutcome, duration, table, warnings
from streams_recovery.core.restore.planned import PlannedRestore, TopicToCreate
from streams_recovery.core.restore.single_topics import OtherReader, SingleTopics
from streams_recovery.core.words import first_names, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPart(PlanPart):
    """Single topics that are brought back alone. The plan has no internal topic."""

    KIND: ClassVar = "topics"
    KEPT: ClassVar = ("single",)
    TIMED: ClassVar = False
    single: SingleTopics

    @property
    def scope(self) -> RestoreScope:
        return RestoreScope.TOPICS if self.single.in_place else RestoreScope.COPIES

    @property
    def copies(self) -> bool:
        return not self.single.in_place

    @property
    def filled(self) -> Mapping[str, str]:
        return self.single.filled

    @property
    def wipes_noted(self) -> bool:
        return self.single.wipes

    @property
    def begins(self) -> Mapping[TopicPartition, int]:
        return self.single.begins

    def check(self, plan: PlannedRestore, where: str) -> None:
        """A topic of which partitions are loaded is one of those that are loaded: it is altered by its name."""
        single, create = self.single, plan.create
        check_names("topic", list(single.names), where=where)
        check_partitions("begins", list(single.begins), where=where)
        named = {topic.name for topic in create}
        begun = {TopicPartition(topic.name, part.partition) for topic in create if topic.name in single.filled for part in topic.partitions}
        strange = [
            *map(str, begun.symmetric_difference(single.begins)),
            *named.symmetric_difference(single.names),
            *(single.filled.keys() - named),
        ]
        if strange:
            raise Damaged(
                f"{where} is about single topics, and does not say the same everywhere of {first_names(strange)}",
                next_step="do not use it: this software writes no such thing; find out who can write to this repository, and verify it",
                where=where,
            )

    def text(self, plan: PlannedRestore) -> list[Markdown]:
        single = self.single
        which = md(", only partitions {}", ", ".join(map(str, single.partitions))) if single.partitions else EMPTY
        under = EMPTY if single.in_place else md(" as {}", ", ".join(single.names))
        return [
            md("### Restore {} of {}{}{}", ", ".join(single.names.values()), code(plan.application_id), which, under),
            EMPTY,
            md(
                "From savepoint {}, captured **{}**. Plan {}.", code(plan.savepoint_id), moment(plan.captured_at or 0), code(plan.hash[:12])
            ),
            md("**The state of the application stays as it is.**"),
            EMPTY,
            *duration(plan),
            *_cut(single),
            *warnings(plan),
            md("1. **Create and load** {} topics with {:,} records:", len(plan.create), plan.rows),
            EMPTY,
            *TOPICS,
            *(_row(topic, single) for topic in plan.create),
            EMPTY,
            md("2. **Verify** every record against the savepoint."),
            *_offsets(plan, single),
            *_readers(plan.observed.readers),
            *_afterwards(plan, single),
        ]

    def more_facts(self) -> list[tuple[str, str]]:
        single = self.single
        names = ", ".join(name if name == before else f"{before} as {name}" for name, before in single.names.items())
        some = f", partitions {', '.join(map(str, single.partitions))} only" if single.partitions else ""
        cut = [("as of", f"{moment(single.as_of.moment)} by {single.as_of.by}")] if single.as_of else []
        return [("single topics", f"{names}{some}"), *cut]

    def state_before(self, _safety_savepoint: str | None) -> str:
        return "it stayed as it was"

    def outcome(self, restored: RestoreOutcome) -> str:
        names, equal = ", ".join(self.single.names), f"{restored.rows:,} records compared, all equal"
        return f"{names} brought back from {restored.savepoint_id}: {equal}; {restored.offsets} offsets set"


def _cut(single: SingleTopics) -> list[Markdown]:
    if single.as_of is None:
        return []
    at = md("Only records as of **{}** ({} ms) by **{}**", moment(single.as_of.moment), single.as_of.moment, single.as_of.by)
    return [md("{}: {:,} archived records are later and stay in the savepoint.", at, single.later), EMPTY]


def _row(topic: TopicToCreate, single: SingleTopics) -> Markdown:
    replaced = md("an empty topic") if topic.replaces else md("nothing")
    if topic.name in single.filled:
        replaced = md("nothing: its empty partitions are filled")
    loaded = [part for part in topic.partitions if not single.partitions or part.partition in single.partitions]
    return md("| {} | {} | {} | {:,} | {:,} | {} |", topic.name, topic.role, len(loaded), topic.rows, topic.payload_bytes, replaced)


def _offsets(plan: PlannedRestore, single: SingleTopics) -> list[Markdown]:
    if not plan.offsets:
        return [md("3. **No committed offset** is set."), EMPTY]
    return [
        md("3. **Set {} committed offsets** of {}, where its state ends:", len(plan.offsets), code(plan.application_id)),
        EMPTY,
        *table(
            [md("| partition | offset | why this one |"), md("|---|---:|---|")],
            [md("| {} | {} | {} |", one.tp, one.wanted.offset, single.known[one.tp]) for one in plan.offsets],
        ),
        EMPTY,
        md("{:,} input records are left to be processed.", plan.observed.records_to_catch_up),
        EMPTY,
    ]


def _readers(readers: tuple[OtherReader, ...]) -> list[Markdown]:
    if not readers:
        return []

    def row(one: OtherReader) -> Markdown:
        before = "-" if one.before is None else f"{one.before}{' at the savepoint' if one.saved else ''}"
        return md("| {} | {} | {} | {} |", one.group, one.tp, before, "-" if one.there is None else one.there)

    return [
        md(
            "**Other groups read these topics, and nobody moves them.** Kafka deletes their offsets with the topic: then each begins by its auto.offset.reset."
        ),
        md(
            "One that kept an offset goes on at that number, which is another record now. Stop them, and set their offsets, before anybody writes."
        ),
        EMPTY,
        *table([md("| other group | partition | had read to | the same record is at |"), md("|---|---|---:|---:|")], [*map(row, readers)]),
        EMPTY,
    ]


def _afterwards(plan: PlannedRestore, single: SingleTopics) -> list[Markdown]:
    if not single.in_place:
        return [md("The copy keeps its records until somebody sets its retention. No application reads it.")]
    wiped = [
        md("4. **Wipe** the local state of every instance: a store is restored from one of these topics, and its offsets are others now."),
        EMPTY,
    ]
    return [
        *(wiped if single.wipes else []),
        md("Keep every producer of these topics stopped until the restore is over. What they were sent after the savepoint is lost."),
        md("The application stays stopped. Start {} when the restore is over.", code(plan.application_id)),
    ]
