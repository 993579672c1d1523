"""The plan of a restore: everything it will create, delete, set and wipe, as a value that is shown before anything happens.

The hash identifies what will be *done*. Observed facts (offsets before, running instances) may change while a person reads the plan; they are shown but do not
count. Every stored plan must pass ``check_plan``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.approval import hash_of
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.jobs.spec import RowCut
from streams_recovery.core.kafka_types import ClaimedTopic, CommittedOffset, Consistency, Evidence, TopicPartition, TopicRole
from streams_recovery.core.repository.checked import check_names, check_numbered, check_partitions, check_segment_key
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.interval import IntervalSlice
from streams_recovery.core.restore.point_in_time import AsOf, InPlace, LaterTopic
from streams_recovery.core.restore.request import Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import OtherReader, SingleTopics
from streams_recovery.core.rollout.upgrade import VersionChange
from streams_recovery.core.words import first_names

# What a plan does, by the names that an operator knows. The order is part of every approval.
_PARTS: Final = {
    "the application": ("application_id",),
    "the savepoint (`--source`, `--savepoint`)": ("source_application_id", "savepoint_id", "captured_at", "consistency"),
    "what is saved first (`--safety`)": ("safety",),
    "topics that are deleted (`--delete`)": ("delete",),
    "topics that are created, and those that they replace": ("create",),
    "how the input offsets are chosen (`--offsets`)": ("strategy",),
    "the offsets that are set": ("offsets",),
    "the inputs that keep their offsets (`--input-topics`)": ("offsets_kept",),
    "the moment (`--as-of`, `--by`)": ("point",),
    "what is taken out of the inputs (`--in-place`, `--other-group`)": ("in_place",),
    "topics of other applications whose names begin like this one's": ("claimed",),
    "the savepoint of the inputs (`--inputs-from`)": ("inputs_from",),
    "the input that was archived behind the savepoint": ("archived",),
    "the cut behind the savepoint that the state is of": ("state",),
    "the site (`--to`, `--lost`)": ("move",),
    "the command that deploys (`deploy.command`)": ("deploy",),
    "the new version (`--topology`, `--lose`, `--watch`)": ("upgrade",),
    "the single topics (`--topic`, `--as`, `--partition`, `--read-on`)": ("single",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """Files to write to one partition, in this order; with a ``cut`` only the rows that it takes. ``compacted`` ones are the same state, not the same log."""

    partition: int
    files: SegmentFiles
    cut: RowCut | None = None
    compacted: bool = False

    @property
    def rows(self) -> int:
        """Records to write."""
        return self.files.rows if self.cut is None else self.cut.rows

    @property
    def payload_bytes(self) -> int:
        """Bytes of their keys and values; of a cut file the part that its rows are of all."""
        return self.files.payload_bytes * self.rows // max(1, self.files.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCreate:
    """A topic to create and load. It is created with ``held_config`` and gets ``final_config`` once nothing would expire by it.
    ``replaces`` is the id of an existing topic that is deleted first, None when there is none.
    """

    name: str
    role: TopicRole
    replication_factor: int
    held_config: dict[str, str]
    final_config: dict[str, str]
    replaces: str | None
    partitions: tuple[PartitionLoad, ...]

    @property
    def rows(self) -> int:
        """Records to write."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values to write."""
        return sum(partition.payload_bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToDelete:
    """An internal topic that the savepoint does not know: left in place, the application would take up what is in it."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToSet:
    """A committed offset to set. One that is not ``fixed`` is where a moving log was when it was looked at: approving the
    plan approves the rule, and the number may be another one when it is set.
    """

    tp: TopicPartition
    wanted: CommittedOffset
    fixed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Facts that were seen while planning and may change until the plan is carried out: instances that run, the committed offsets that the group has
    of the partitions that are set, how far the inputs reach beyond the savepoint, how many offsets each topic spans that will be replaced, how long it
    is expected to take, and other ``readers`` of single topics that are brought back.
    """

    instances: tuple[str, ...]
    offsets_replaced: dict[str, int]
    offsets_before: dict[TopicPartition, int]
    records_to_catch_up: int
    estimate: Estimate | None = None
    readers: tuple[OtherReader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInput:
    """``records`` of inputs and globals that were archived behind the savepoint, in the entries of the archive up to ``entry``: all that was committed by the
    moment ``safe_at``.
    """

    entry: int
    safe_at: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedState:
    """The state is that of an exact cut that an archiver took behind the savepoint, at the moment ``at``, in the entries of the archive up to ``entry``."""

    entry: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInTime:
    """The moment that an application is brought to: the state of the plan's savepoint, or none unless ``with_state``, and its input up to there, from
    the files of the savepoint ``archive``. The application processes it to its end and stops. With a ``slice`` the input is that of an interval, and
    the moment is the last one that is taken.
    """

    as_of: AsOf
    with_state: bool
    archive: str
    slice: IntervalSlice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """What a restore brings back: the state of an application from one savepoint, its own or that of ``source_application_id``. Without a ``savepoint_id``
    nothing is loaded, and the application builds its state again from the input. ``point`` is the moment that it is brought to, None for that of the savepoint.
    ``single`` are topics that are brought back alone, None if the state is brought back. ``move`` says from which site to which the application goes, None if
    it stays. ``upgrade`` says which version goes on with the state that is there, None unless one does: then nothing is loaded or built again.
    """

    application_id: str
    source_application_id: str
    savepoint_id: str | None
    captured_at: int | None
    consistency: Consistency | None
    point: PointInTime | None = None
    single: SingleTopics | None = None
    move: SiteMove | None = None
    upgrade: VersionChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan(RestoreFacts):
    """A whole restore. ``strategy`` says how the inputs' offsets were chosen, as it was asked for; unless ``offsets_agree``, the restored state ends
    elsewhere. ``inputs_from`` is the savepoint whose archived inputs, globals and outputs are loaded before state is built from them, None if all of them are
    there. ``in_place`` is None unless its inputs are cut in the topics themselves. ``claimed`` topics could be the application's by their names but belong to
    another application: they stay as they are. ``evidence`` says of every internal topic that is there and goes why it is taken for the application's own.
    ``offsets_kept`` are inputs whose committed offsets the restore does not touch, whatever they are by then. A plan of ``single`` topics has no internal
    topic. Topics of a ``move`` are those of the other site. ``deploy`` is the command that is run before the start, empty where none is configured.
    ``archived`` is None unless inputs go on behind the savepoint, with what an archiver has copied, and ``state`` unless the state does.
    """

    safety: SafetyPolicy
    delete: tuple[TopicToDelete, ...]
    create: tuple[TopicToCreate, ...]
    offsets: tuple[OffsetToSet, ...]
    strategy: str
    offsets_agree: bool
    warnings: tuple[str, ...]
    observed: Observed
    in_place: InPlace | None = None
    claimed: tuple[ClaimedTopic, ...] = ()
    evidence: dict[str, Evidence] = field(default_factory=dict)
    inputs_from: str | None = None
    offsets_kept: tuple[TopicPartition, ...] = ()
    deploy: tuple[str, ...] = ()
    archived: ArchivedInput | None = None
    state: ArchivedState | None = None

    @property
    def pin(self) -> int | None:
        """See ``PinnedPlan``: the entry of the archive with the cut whose state it is of."""
        return None if self.state is None else self.state.entry

    @property
    def hash(self) -> str:
        """Identifies what the plan does; equal plans have equal hashes wherever they were made."""
        return hash_of(self._done())

    @property
    def parts(self) -> dict[str, object]:
        """See Approvable: what ``hash`` covers. A field that has no name here is not lost."""
        done = self._done()
        named = {name: [done.pop(field) for field in fields] for name, fields in _PARTS.items()}
        return {**named, "something else": done}

    def _done(self) -> dict[str, object]:
        done: dict[str, object] = {
            key: value for key, value in codec.encode(self).items() if key not in ("observed", "warnings", "offsets_agree", "evidence")
        }
        done["offsets"] = [codec.encode(item) if item.fixed else str(item.tp) for item in self.offsets]
        if self.point is not None:
            # Every savepoint extends the archive; as long as the same rows are taken it is the same plan.
            done["point"] = codec.encode(replace(self.point, archive=""))
        if self.upgrade is not None:
            done["upgrade"] = self.upgrade.done
        return done

    @property
    def rows(self) -> int:
        """Records to write, all topics together."""
        return sum(topic.rows for topic in self.create)

    @property
    def strategy_text(self) -> str:
        """Text for the evidence: how the inputs' offsets were chosen, and which inputs kept theirs."""
        kept = sorted({tp.topic for tp in self.offsets_kept})
        return f"{self.strategy}; kept: {', '.join(kept)}" if kept else self.strategy

    @property
    def from_input(self) -> bool:
        """True when no state is loaded."""
        return self.savepoint_id is None

    @property
    def loads(self) -> bool:
        """True when records are loaded, and have to be compared with those of a savepoint."""
        return not self.from_input or self.inputs_from is not None

    @property
    def written_by_others(self) -> frozenset[str]:
        """Inputs and globals that are made and that producers write to: a record in one may be the only copy there is. Copies that end at a moment, and
        single topics under another name, have names that no producer knows.
        """
        if self.single is not None and not self.single.in_place:
            return frozenset()
        if self.point is not None and self.in_place is None:
            return frozenset()
        return frozenset(step.name for step in self.create if step.role in (TopicRole.INPUT, TopicRole.GLOBAL))

    @property
    def deferred(self) -> dict[TopicPartition, int]:
        """Inputs of an interval of which the application first gets only so many records: those before the interval's first record. It gets the others once it
        has processed these. Empty if it has processed all records before, or if none come behind.

        A foreign-key join gives a result that is caused by the table the timestamp of the table's record, even when the other side's record is newer
        (``ForeignTableJoinProcessorSupplier`` of Kafka Streams). Both would be read at once otherwise, and results of the interval could come with a
        time from long before it.
        """
        processed = {item.tp: item.wanted.offset for item in self.offsets}
        cuts = {
            TopicPartition(topic.name, part.partition): (part.cut.rows, part.cut.slice.lead)
            for topic in self.create
            if topic.role is TopicRole.INPUT
            for part in topic.partitions
            if part.cut is not None and part.cut.slice is not None
        }
        if all(lead <= processed.get(tp, 0) for tp, (_, lead) in cuts.items()):
            return {}
        return {tp: lead for tp, (rows, lead) in cuts.items() if lead < rows}

    @property
    def own_records(self) -> int:
        """Input records of the interval that is processed again, 0 when it is none."""
        cuts = [part.cut for topic in self.create if topic.role is TopicRole.INPUT for part in topic.partitions]
        return sum(cut.slice.own for cut in cuts if cut is not None and cut.slice is not None)


def require_agreement(plan: RestorePlan, safeguards: Safeguards) -> None:
    """Raise ``Refused`` when the plan's offsets disagree with its state and no person has typed that this is intended."""
    if not plan.offsets_agree and safeguards.confirm != plan.application_id:
        raise Refused(
            f"offsets set by {plan.strategy!r} disagree with the state: {'; '.join(plan.warnings)}",
            next_step=f"nothing was changed; use exact, or in a rebuild all inputs, or type the application id {plan.application_id} to confirm it",
            strategy=plan.strategy,
        )


def check_plan(planned: RestorePlan, *, where: str) -> None:
    """Raise ``Damaged`` for a name that is not on the allow-list, a topic or partition that is in the plan twice, and a file that does not belong to
    the application of the savepoint.
    """
    check_names("application id", {planned.application_id, planned.source_application_id}, where=where)
    check_names("topic", [*(topic.name for topic in planned.create), *(topic.name for topic in planned.delete)], where=where)
    filled = planned.single.filled if planned.single is not None else {}
    for topic in planned.create:
        numbers = [part.partition for part in topic.partitions]
        if topic.name in filled:
            check_partitions("partitions", [TopicPartition(topic.name, number) for number in numbers], where=where)
        else:
            check_numbered(topic.name, numbers, where=where)
    check_partitions("offsets", [*(item.tp for item in planned.offsets), *planned.offsets_kept], where=where)
    if planned.single is not None:
        _check_single(planned.single, planned.create, where)
    if planned.in_place:
        check_later(planned.in_place.later, application_id=planned.source_application_id, where=where)
        by_group: dict[str, list[TopicPartition]] = {}
        for one in planned.in_place.groups:
            by_group.setdefault(one.group, []).append(one.tp)
        for group, partitions in by_group.items():
            check_partitions(f"offsets of group {group}", partitions, where=where)
    _check_files(planned.create, planned.source_application_id, where)


def _check_single(single: SingleTopics, create: Sequence[TopicToCreate], where: str) -> None:
    """A topic of which partitions are loaded is one of those that are loaded: it is altered by its name."""
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


def check_later(later: Sequence[LaterTopic], *, application_id: str, where: str) -> None:
    """Raise ``Damaged`` as ``check_plan`` does, for records that were removed from the application's inputs and are appended to them again."""
    check_names("topic", [topic.name for topic in later], where=where)
    check_partitions("records", [TopicPartition(topic.name, part.partition) for topic in later for part in topic.partitions], where=where)
    _check_files(later, application_id, where)


def _check_files(topics: Sequence[TopicToCreate] | Sequence[LaterTopic], application_id: str, where: str) -> None:
    for topic in topics:
        for part in topic.partitions:
            for key in part.files.keys:
                check_segment_key(key, application_id, TopicPartition(topic.name, part.partition), where=where)
