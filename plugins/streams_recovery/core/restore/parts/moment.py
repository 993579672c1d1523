"""The application as it was at a moment: the state of a savepoint, or none, and the archived input up to there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.jobs.spec import RowCut
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.checked import check_partitions
from streams_recovery.core.restore.interval import IntervalSlice
from streams_recovery.core.restore.parts.part import EMPTY, table
from streams_recovery.core.restore.parts.savepoint import captured
from streams_recovery.core.restore.parts.state import StatePart, about_archive, source
from streams_recovery.core.restore.planned import ArchivedInput, ArchivedState, PlannedRestore, check_later
from streams_recovery.core.restore.point_in_time import CUT_ROLES, AsOf, InPlace, MovedOffset
from streams_recovery.core.words import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInTime:
    """The moment that an application is brought to. It processes its input to its end and stops."""

    as_of: AsOf
    # False where all state is built from the archived input.
    with_state: bool
    # The savepoint whose files the input is taken from.
    archive: str
    # The interval whose input it is: then the moment is the last one that is taken.
    slice: IntervalSlice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPart(StatePart):
    """A restore whose inputs end at a moment."""

    KEPT: ClassVar = ("point",)
    point: PointInTime

    @property
    def with_state(self) -> bool:
        return self.point.with_state

    @property
    def archive(self) -> str:
        return self.point.archive

    @property
    def approved(self) -> dict[str, object]:
        # Every savepoint extends the archive; as long as the same rows are taken it is the same plan.
        return {"point": replace(self.point, archive="")}

    def catching_up(self, plan: PlannedRestore) -> Markdown:
        count = plan.observed.records_to_catch_up
        return md("{:,} input records are processed and every repartition topic is read to its end; then **stop**", count)

    def facts(self) -> list[tuple[str, str]]:
        return [("as of", f"{moment(self.point.as_of.moment)} by {self.point.as_of.by}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentPart(CutPart):
    """A restore to a moment. ``in_place`` is None unless its inputs are cut in the topics themselves."""

    KIND: ClassVar = "moment"
    in_place: InPlace | None = None
    archived: ArchivedInput | None = None
    state: ArchivedState | None = None

    @property
    def copies(self) -> bool:
        return self.in_place is None

    @property
    def moved(self) -> tuple[MovedOffset, ...]:
        return () if self.in_place is None else self.in_place.groups

    def check(self, plan: PlannedRestore, where: str) -> None:
        if self.in_place is None:
            return
        check_later(self.in_place.later, application_id=plan.source_application_id, where=where)
        by_group: dict[str, list[TopicPartition]] = {}
        for one in self.in_place.groups:
            by_group.setdefault(one.group, []).append(one.tp)
        for group, partitions in by_group.items():
            check_partitions(f"offsets of group {group}", partitions, where=where)

    def head(self, plan: PlannedRestore) -> list[Markdown]:
        return [
            md("### Restore {} from savepoint {}{}", code(plan.application_id), code(plan.savepoint_id), source(plan)),
            EMPTY,
            md("{}, consistency **{}**. Plan {}.", captured(plan, self.state), plan.consistency, code(plan.hash[:12])),
        ]

    def about(self, plan: PlannedRestore) -> list[Markdown]:
        as_of = self.point.as_of
        begin = "this savepoint" if self.state is None else "this cut"
        state = f"the state of {begin} and its" if self.point.with_state else "no state, and all archived"
        when = md("As of **{}** ({} ms) by **{}**: {} input up to there", moment(as_of.moment), as_of.moment, as_of.by, state)
        return [
            *about_archive(self.archived),
            md("{}, from the archive of {}.", when, code(self.point.archive)),
            EMPTY,
            *cut_logs(plan),
            *([] if self.in_place is None else _in_place(self.in_place, self.point.archive)),
        ]


def cuts_of(plan: PlannedRestore) -> list[tuple[TopicPartition, RowCut]]:
    """The partitions of inputs and globals that are cut, in the order of the plan."""
    return [
        (TopicPartition(topic.name, part.partition), part.cut)
        for topic in plan.create
        for part in topic.partitions
        if part.cut is not None and topic.role in CUT_ROLES
    ]


def cut_logs(plan: PlannedRestore) -> list[Markdown]:
    """Where each log is cut."""
    rows = [
        md("| {} | {:,} | {:,} | {} |", tp, cut.rows, cut.late, "none archived" if cut.first_later is None else cut.first_later)
        for tp, cut in cuts_of(plan)
    ]
    return [
        *table([md("| partition | records taken | late records among them | first later record |"), md("|---|---:|---:|---|")], rows),
        EMPTY,
    ]


def _in_place(here: InPlace, archive: str) -> list[Markdown]:
    later = sum(topic.rows for topic in here.later)
    moved = [md("| {} | {} | {} | {} | {:,} |", one.group, one.tp, one.before, one.wanted.offset, one.again) for one in here.groups]
    head = [md("| other group | partition | before | after | later records it had read |"), md("|---|---|---:|---:|---:|")]
    return [
        md(
            "**In place: {:,} later records are removed from the inputs**, for every reader. These inputs are deleted and created again.",
            later,
        ),
        md("No producer wrote to any input for {:g} s, and no transaction is open there.", here.still_seconds),
        md("Keep all producers stopped until the restore is over. No check can prove that they stay stopped."),
        EMPTY,
        md(
            "The removed records stay in savepoint {}, which is kept until `append-quarantine` appends them to the inputs again.",
            code(archive),
        ),
        md("Their order relative to other records is then different. Results that outputs and other readers already have of them stay."),
        EMPTY,
        *_other_readers(here),
        md("| input | later records |"),
        md("|---|---:|"),
        *(md("| {} | {:,} |", topic.name, topic.rows) for topic in here.later),
        EMPTY,
        *([*table(head, moved), EMPTY] if moved else []),
    ]


def _other_readers(here: InPlace) -> list[Markdown]:
    return [
        *(
            md(
                "Share group {} begins anew in {}: the cluster deletes its position with the topic. It reads on from where share.auto.offset.reset says.",
                name,
                ", ".join(topics),
            )
            for name, topics in here.begin_anew.items()
        ),
        *(md("What the members of group {} read cannot be told. It was named, so they are not waited for.", name) for name in here.unseen),
        *([EMPTY] if here.begin_anew or here.unseen else []),
    ]
