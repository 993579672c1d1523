"""Single topics brought back from a savepoint while the application's state stays as it is: which ones may be, and where the application reads on.

A topic that is deleted takes the committed offsets on it along, in every group. The state in the changelogs does not go back with the topic, so the application
must go on exactly where that state ends. A savepoint knows only how far the application had read when it was taken. It has read at least that much.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.names import internal_role
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.survival import RowsBelow, require_archived, translate
from streams_recovery.core.restore.point_in_time import AsOf, CountRows, LogCut, rank, read_up_to

_NAMED = 5
# What a copy does not take over: it keeps every record with its own time, until its owner says otherwise.
_EXPIRY: Final = frozenset(
    {"cleanup.policy", "delete.retention.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio", "min.compaction.lag.ms"}
)
_UNLIMITED: Final = str(2**63 - 1)


class ReadOn(enum.StrEnum):
    """The place to read on in an input when nothing proves how far the application had read. ``proven``: nowhere, the restore is refused.
    ``savepoint``: where the savepoint says, so some records may be processed twice. ``end``: behind all of it, so some may never be processed.
    """

    PROVEN = "proven"
    SAVEPOINT = "savepoint"
    END = "end"


class HowKnown(enum.StrEnum):
    """The reason an offset is the one at which the application's state ends, or that a person has chosen it."""

    COMMITTED = "its group has it: the topic is still the one of the savepoint"
    ALL_READ = "all that is archived had been read"
    UNMOVED = "nothing of the application has moved since the savepoint"
    CHOSEN = "chosen, not proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherReader:
    """Knowledge of another group and a partition that is brought back. ``before`` is its committed offset: what the cluster still has of it, or, with
    ``saved``, what was kept with the savepoint. ``there`` is where the same record is afterwards, None if the archive does not tell. Both are None of a live
    group that reads the topic and has committed nothing. A restore does not move the group.
    """

    group: str
    tp: TopicPartition
    before: int | None
    there: int | None
    saved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTopics:
    """The part of a plan that brings single topics back. ``names`` has for each name that is loaded the topic of the savepoint. Unless they are ``in_place``
    they are copies under another name, of no concern to the application. ``partitions`` are the only ones that are loaded, all when it is empty.
    ``filled`` topics are there already, with the id that each must have, and ``begins`` are the ends of their partitions that are empty. ``as_of`` is the
    moment at which they are cut, and ``later`` how many archived records are left out for it. With ``wipes`` local state is removed, because a store is
    restored from one of these topics, and notes offsets of the old log. ``known`` says for each input offset why it is that one.
    """

    names: dict[str, str]
    in_place: bool
    partitions: tuple[int, ...] = ()
    filled: dict[str, str] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    as_of: AsOf | None = None
    later: int = 0
    wipes: bool = False
    known: dict[TopicPartition, HowKnown] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopics:
    """Topics that a person has asked for, and how: under ``new_name``, empty for their own, and only these ``partitions``, all when it is empty."""

    topics: tuple[str, ...]
    new_name: str = ""
    partitions: tuple[int, ...] = ()


def chosen_topics(manifest: Manifest, wanted: WantedTopics, declared: Collection[str]) -> tuple[TopicImage, ...]:
    """The images of these topics in a savepoint. ``declared`` are the topics that the configuration names. Raises ``Refused`` with all problems at once: topics
    of the state, which is one piece; topics without saved records; partitions that do not exist; a name of the application's for a copy.
    """
    images = {topic.name: topic for topic in manifest.topics}
    problems = [*_name_problems(manifest, wanted, {*declared, *images})]
    found = []
    for name in dict.fromkeys(wanted.topics):
        why = _why_not(name, images.get(name), manifest, wanted.partitions)
        if why is None:
            found.append(images[name])
        else:
            problems.append(why)
    if not wanted.topics:
        problems.append("no topic is named")
    if problems:
        raise Refused(
            f"these topics cannot be restored by themselves: {'; '.join(problems)}",
            next_step="nothing was changed; restore the whole application if its state is lost, choose another savepoint, or archive the topic from now on "
            "(backup.survive_cluster_loss, or topics.include)",
            problems=problems,
            topics=sorted({*wanted.topics} - {topic.name for topic in found}),
        )
    return tuple(found)


def _why_not(name: str, image: TopicImage | None, manifest: Manifest, partitions: Sequence[int]) -> str | None:
    role = internal_role(name, manifest.application_id) if image is None else image.role
    if role is not None and role.internal:
        return f"{name} is a {role} topic, a part of the state, and state is one piece"
    if image is None:
        return f"savepoint {manifest.savepoint_id} does not know {name}"
    if not image.archived:
        return f"the records of {name} are not archived in savepoint {manifest.savepoint_id}"
    there = {one.partition for one in image.partitions}
    if missing := sorted(set(partitions) - there):
        return f"{name} has {len(there)} partitions, and no {', '.join(map(str, missing))}"
    if not sum(one.rows for one in image.partitions if not partitions or one.partition in partitions):
        return f"savepoint {manifest.savepoint_id} has no record of {name}" + (" in these partitions" if partitions else "")
    return None


def _name_problems(manifest: Manifest, wanted: WantedTopics, taken: Collection[str]) -> Iterable[str]:
    if not wanted.new_name:
        return
    if len(set(wanted.topics)) > 1:
        yield "only one topic at a time gets another name"
    if wanted.new_name in taken:
        yield f"{wanted.new_name} is a topic of {manifest.application_id} itself"
    if internal_role(wanted.new_name, manifest.application_id) is not None:
        yield f"{wanted.new_name} would be taken for state of {manifest.application_id}"


def copy_config(config: Mapping[str, str]) -> dict[str, str]:
    """The settings of a copy. No application looks after a copy, so nothing in it expires or is compacted until its owner says so."""
    kept = {key: value for key, value in config.items() if key not in _EXPIRY}
    times = {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _UNLIMITED,
        "message.timestamp.after.max.ms": _UNLIMITED,
    }
    return {**kept, **times, "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNow:
    """The application as it is now: its internal topics and outputs that exist, the ends of their partitions, and the committed offsets of its group."""

    topics: Mapping[str, TopicDescription]
    internal: Collection[str]
    ends: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]


def moved_since(manifest: Manifest, now: StateNow, restored: Collection[str]) -> tuple[str, ...]:
    """Signs that an application has processed something since an exact savepoint, or that this is unknown; empty if it has processed nothing. ``restored``
    topics do not count: they are what was lost.

    Processing that matters leaves a trace: state in a changelog, a record in a repartition topic or an output, an offset on another input.
    """
    if manifest.consistency is not Consistency.EXACT:
        return (f"savepoint {manifest.savepoint_id} is {manifest.consistency}",)
    watched = [topic for topic in manifest.topics if (topic.role.internal or topic.role is TopicRole.OUTPUT) and topic.name not in restored]
    if not watched:
        return ("there is no state and no output by which it could be told",)
    found = [f"{name} was created" for name in sorted(set(now.internal) - {topic.name for topic in watched})]
    for topic in watched:
        here = now.topics.get(topic.name)
        if here is None or here.topic_id != topic.topic_id:
            found.append(f"{topic.name} is {'gone' if here is None else 'another topic'}")
            continue
        ends = {tp: (image.end, now.ends.get(tp)) for image in topic.partitions for tp in [TopicPartition(topic.name, image.partition)]}
        found += [f"{tp} ended at {then} and ends at {end}" for tp, (then, end) in ends.items() if end != then]
    before = {tp: committed.offset for tp, committed in manifest.committed().items() if tp.topic not in restored}
    found += [
        f"{tp} was read to {then} and is read to {now.committed.get(tp, 'nothing')}"
        for tp, then in sorted(before.items())
        if now.committed.get(tp) != then
    ]
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReads:
    """Knowledge of how far the application has read a partition. ``committed`` is what its group has now, None unless the topic is still the one of the
    savepoint. ``newest`` is the partition in the newest savepoint that knows this topic. With ``unmoved`` nothing was processed since that one.
    """

    committed: CommittedOffset | None
    newest: PartitionImage
    unmoved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """The position up to which the application has read the old log, with the metadata that belongs to that, and why this is known."""

    offset: int
    metadata: str
    known: HowKnown


def read_position(image: PartitionImage, known: KnownReads, auto_offset_reset: str, wanted: ReadOn) -> ReadPosition | None:
    """The position in a partition whose archive is ``image``, at most the end of that. None if nothing proves it and the request does not choose it."""
    said = known.newest.committed
    metadata = "" if said is None else said.metadata
    if known.committed is not None:
        return ReadPosition(offset=min(known.committed.offset, image.end), metadata=known.committed.metadata, known=HowKnown.COMMITTED)
    read = max(read_up_to(known.newest, auto_offset_reset), image.archived_from if said is None else 0)
    if read >= image.end:
        return ReadPosition(offset=image.end, metadata=metadata, known=HowKnown.ALL_READ)
    if known.unmoved:
        return ReadPosition(offset=read, metadata=metadata, known=HowKnown.UNMOVED)
    if wanted is ReadOn.SAVEPOINT:
        return ReadPosition(offset=read, metadata=metadata, known=HowKnown.CHOSEN)
    if wanted is ReadOn.END:
        # What it was emitted for before is not known, so no stream time is claimed.
        return ReadPosition(offset=image.end, metadata="", known=HowKnown.CHOSEN)
    return None


def offset_in_copy(
    tp: TopicPartition, offset: int, image: PartitionImage, cut: LogCut | None, t0: int, *, below: RowsBelow, count: CountRows
) -> int:
    """The offset in the log that is brought back at which the application goes on after ``offset`` of the old one. ``t0`` is that of the first record.

    Raises like ``require_archived``, and ``Refused`` where the application had read records that are later than the moment: its state has them.
    """
    if cut is None:
        return translate(tp, offset, image, t0, below)
    require_archived(tp, offset, image)
    first_later = cut.rows.first_later
    if first_later is not None and first_later < offset:
        raise Refused(
            f"the application has processed {tp} up to {offset}, and the record at {first_later} is later than the moment: its state has what would "
            "be left out",
            next_step="nothing was changed; bring the topic back as a copy under another name, choose a later moment, or restore the application to the moment",
            partition=str(tp),
            read=offset,
            first_later=first_later,
        )
    return t0 + rank(cut, offset, count)


def refuse_unproven(spans: Mapping[TopicPartition, tuple[int, int]], why: Sequence[str]) -> None:
    """Raise ``Refused`` for partitions where it is unknown how far the application has read: from and up to each of ``spans``. ``why`` are the reasons why the
    state does not tell.
    """
    if spans:
        listed = ", ".join(f"{tp} offsets {start} to {end - 1}" for tp, (start, end) in list(spans.items())[:_NAMED])
        raise Refused(
            f"nothing proves how far the application had read when the topic was deleted ({listed} may be processed or not): {'; '.join(why[:_NAMED])}",
            next_step="nothing was changed; restore the whole application from the savepoint, which goes back to it with all topics; or choose: read on at the "
            "savepoint (these records may be counted twice) or at the end (they may never be counted)",
            spans={str(tp): span for tp, span in spans.items()},
            moved=list(why),
        )


def gap_warnings(images: Mapping[TopicPartition, PartitionImage]) -> tuple[str, ...]:
    """Warnings about what is missing in the archive of these partitions, each gap by its offsets, and about what came before the archive."""
    gaps = [f"offsets {gap.start} to {gap.end - 1} of {tp} ({gap.reason})" for tp, image in images.items() for gap in image.gaps]
    late = [f"{tp} below {image.archived_from}" for tp, image in images.items() if image.rows and image.archived_from > image.log_start]
    return (
        *([f"records are missing from the archive, and will be missing from the topic: {'; '.join(gaps)}"] if gaps else []),
        *([f"the archive begins later than the log did: {'; '.join(late)} is not in it"] if late else []),
    )
