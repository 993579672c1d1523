"""Plans to change consumer groups: setting their offsets, deleting offsets, deleting groups, going back to a snapshot. Pure.

The results are those of Kafka's own group tools, which have no snapshots. What those do without a word (an offset outside a log becomes its nearest end,
metadata goes, a Kafka Streams application keeps its state) is said in the plan.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core import codec
from streams_recovery.core.approval import hash_of
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition
from streams_recovery.core.offsets.snapshot import OffsetChange, OffsetSnapshot
from streams_recovery.core.offsets.strategies import Exact, Latest, Logs, Strategy
from streams_recovery.core.words import first_names

_SCOPED = re.compile(r"([a-zA-Z0-9._-]{1,249}):(\d{1,10}(?:,\d{1,10})*)", re.ASCII)
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
# What is approved of an offset that the log has: it is another one a moment later.
_BY_RULE = "by the rule"
# So many of the offsets that a log limits are named.
_SHOWN = 5


class GroupAction(enum.StrEnum):
    """An action on groups."""

    RESET = "reset"
    DELETE_OFFSETS = "delete-offsets"
    DELETE = "delete"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScope:
    """Partitions to change: all that the group has offsets for, those of its inputs, or these topics; of a topic only some partitions unless it is None."""

    topics: Mapping[str, frozenset[int] | None]
    everything: bool = False
    inputs: bool = False

    @classmethod
    def parse(cls, topics: Iterable[str], *, everything: bool = False, inputs: bool = False) -> PartitionScope:
        """Topics as Kafka's tools take them: ``orders``, or ``orders:0,1``. Raises ``ConfigInvalid``."""
        found: dict[str, frozenset[int] | None] = {}
        for text in topics:
            scoped = _SCOPED.fullmatch(text)
            if scoped is None and not _NAME.fullmatch(text):
                raise ConfigInvalid(f"{text[:80]!r} is not a topic, or a topic with partitions", next_step="write orders, or orders:0,1")
            name = scoped[1] if scoped else text
            before = found.get(name, frozenset())
            found[name] = None if scoped is None or before is None else before | {int(number) for number in scoped[2].split(",")}
        return cls(topics=found, everything=everything, inputs=inputs)

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> PartitionScope:
        found: dict[str, frozenset[int] | None] = {}
        for tp in partitions:
            found[tp.topic] = (found.get(tp.topic) or frozenset()) | {tp.partition}
        return cls(topics=found)

    @property
    def text(self) -> str:
        """The options as they were given."""
        named = [
            name if numbers is None else f"{name}:{','.join(map(str, sorted(numbers)))}" for name, numbers in sorted(self.topics.items())
        ]
        options = [("--all-topics", self.everything), ("--all-input-topics", self.inputs)]
        return " ".join([*(f"--topic {one}" for one in named), *(option for option, given in options if given)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """A person's request. Without ``groups`` the application's own is meant, unless it is ``all_groups``. ``snapshot`` is the id of one to go back to."""

    action: GroupAction
    groups: tuple[str, ...] = ()
    all_groups: bool = False
    scope: PartitionScope | None = None
    scenario: Strategy | None = None
    snapshot: str | None = None

    @property
    def several(self) -> bool:
        """True when offsets are shown, and read from a file, with their groups."""
        return self.all_groups or len(self.groups) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNow:
    """A group as it is: ``live`` if it has members. ``committed`` are its offsets. ``streams`` tells that it is of a Kafka Streams application, and
    ``repartition`` has those of its topics that are repartition topics.
    """

    group_id: str
    kind: str
    live: bool
    streams: bool
    committed: Mapping[TopicPartition, CommittedOffset]
    repartition: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan for one group. ``changes`` has the partitions in the order of their names. ``by_rule`` are those whose offset the log decides."""

    group_id: str
    kind: str
    streams: bool
    changes: tuple[OffsetChange, ...]
    by_rule: tuple[TopicPartition, ...]
    warnings: tuple[str, ...]

    @property
    def moving(self) -> tuple[OffsetChange, ...]:
        """The changes that change anything."""
        return tuple(change for change in self.changes if not change.same)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChangePlan:
    """The plan for all of them. ``what`` is how it was asked for. ``left_out`` are groups with members, which are left as they are because all groups were
    asked for.
    """

    application_id: str
    action: GroupAction
    what: str
    groups: tuple[GroupPlan, ...]
    left_out: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of all groups, and of those that are left out."""
        out = (f"groups with members are left as they are: {first_names(self.left_out)}",) if self.left_out else ()
        return (*out, *(warning for group in self.groups for warning in group.warnings))

    @property
    def hash(self) -> str:
        """SHA-256 of what the plan does. The groups' present offsets are not part of it, and neither is an offset that the log decides."""
        return hash_of(self.parts)

    @property
    def parts(self) -> dict[str, object]:
        return {
            "the application": self.application_id,
            "what is done": [self.action.value, self.what],
            "the groups (`--group`)": [group.group_id for group in self.groups],
            "the offsets": [[group.group_id, *_approved(group, self.action)] for group in self.groups],
        }

    def offsets(self) -> dict[str, dict[TopicPartition, int]]:
        """The offsets that the groups will have, by group."""
        return {
            group.group_id: {change.tp: change.after.offset for change in group.changes if change.after is not None}
            for group in self.groups
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChangeDone:
    """The result. ``before`` is the snapshot of the previous offsets, so that they can be restored; None if there were none. ``moved`` counts changed offsets
    by group.
    """

    action: GroupAction
    before: str | None
    moved: dict[str, int]


def scoped_partitions(
    scope: PartitionScope, group: GroupNow, inputs: Collection[str] | None, topics: Mapping[str, TopicDescription]
) -> set[TopicPartition]:
    """The partitions that a scope means for a group. ``topics`` are those of the scope and of the group that exist. Raises ``NotFound`` naming what does
    not exist, and ``Refused`` for a group whose inputs are not known.
    """
    chosen = set[TopicPartition]()
    missing = []
    for name, numbers in scope.topics.items():
        there = range(topics[name].partitions) if name in topics else range(0)
        missing += [name] if name not in topics else [f"{name}-{number}" for number in sorted(numbers or ()) if number not in there]
        chosen |= {TopicPartition(name, number) for number in (there if numbers is None else numbers)}
    if missing:
        raise NotFound(f"these do not exist: {first_names(missing, 20)}", next_step="nothing was changed; check the names", missing=missing)
    if scope.inputs and inputs is None:
        raise Refused(
            f"the inputs of group {group.group_id} are not known: it is neither the application's own nor of the streams protocol",
            next_step="nothing was changed; name its topics with --topic, or use --all-topics",
            group=group.group_id,
        )
    committed = {tp for tp in group.committed if tp.topic in topics and tp.partition < topics[tp.topic].partitions}
    if scope.everything:
        chosen |= committed
    return chosen | {tp for tp in committed if scope.inputs and inputs is not None and tp.topic in inputs}


def plan_reset(group: GroupNow, scenario: Strategy, chosen: Collection[TopicPartition], logs: Logs) -> GroupPlan:
    """New offsets for the ``chosen`` partitions of a group. An offset that does not move keeps its metadata. An offset that moves has none, because metadata
    belongs to the old offset. Raises ``Refused`` if a scenario has nothing to count from.
    """
    wanted: dict[TopicPartition, int] = {}
    without = []
    for tp in sorted(chosen):
        known = group.committed.get(tp)
        found = scenario.wanted(tp, known.offset if known else None, logs)
        if found is None:
            without.append(tp)
        else:
            wanted[tp] = found
    if without:
        raise Refused(
            f"group {group.group_id} has no committed offset to shift: {first_names(without)}",
            next_step="nothing was changed; leave these partitions out, or choose another scenario",
            group=group.group_id,
            partitions=[str(tp) for tp in without],
        )
    bounded = {tp: logs.within(tp, offset) if scenario.BOUNDED else offset for tp, offset in wanted.items()}
    limited = {tp: asked for tp, asked in wanted.items() if bounded[tp] != asked}
    # The end of a log that has no offset yet, too: it is the log's to say.
    by_rule = {tp for tp in wanted if scenario.FROM_LOG or tp in limited or (isinstance(scenario, Exact) and tp not in group.committed)}
    changes = tuple(_set(tp, group.committed.get(tp), offset) for tp, offset in bounded.items())
    return GroupPlan(
        group_id=group.group_id,
        kind=group.kind,
        streams=group.streams,
        changes=changes,
        by_rule=tuple(sorted(by_rule)),
        warnings=(
            *_of_group(group, changes),
            *([f"the logs of {group.group_id} limit {len(limited)} offsets: {_limits(limited, bounded)}"] if limited else []),
            *_of_logs(scenario, bounded, logs),
        ),
    )


def plan_deletion(group: GroupNow, chosen: Collection[TopicPartition]) -> GroupPlan:
    """The offsets of the ``chosen`` partitions go. Those without one stay without."""
    changes = tuple(
        OffsetChange(tp=tp, before=group.committed[tp].offset, after=None, same=False) for tp in sorted(chosen) if tp in group.committed
    )
    return GroupPlan(
        group_id=group.group_id, kind=group.kind, streams=group.streams, changes=changes, by_rule=(), warnings=_of_group(group, changes)
    )


def plan_rollback(
    group: GroupNow, snapshot: OffsetSnapshot, topics: Mapping[str, TopicDescription], spans: Mapping[TopicPartition, tuple[int, int]]
) -> GroupPlan:
    """The way back of a group to a snapshot: offsets and metadata as they were, and none where there was none on these topics. ``topics`` are those of the
    snapshot that still exist, ``spans`` the ``[start, end]`` of their logs. Raises ``Refused`` for offsets that have no meaning any more, all at once: those of
    topics that are gone or were created again, and those outside their logs.
    """
    wanted = snapshot.group(group.group_id)
    problems = [_topic_problem(name, topic_id, topics.get(name)) for name, topic_id in sorted(wanted.topics.items())]
    found = [problem for problem in problems if problem] or [
        f"{tp} at {item.offset} is outside [{spans[tp][0]}, {spans[tp][1]}]" if tp in spans else f"{tp} is gone"
        for tp, item in sorted(wanted.offsets.items())
        if tp not in spans or not spans[tp][0] <= item.offset <= spans[tp][1]
    ]
    if found:
        raise Refused(
            f"group {group.group_id} cannot go back to snapshot {snapshot.snapshot_id}: {'; '.join(found[:20])}",
            next_step="nothing was changed; choose a newer snapshot, or set offsets with streams-recovery groups reset",
            problems=found,
        )
    now = {tp: known for tp, known in group.committed.items() if tp.topic in wanted.topics}
    changes = tuple(_back(tp, now.get(tp), wanted.offsets.get(tp)) for tp in sorted({*wanted.offsets, *now}))
    return GroupPlan(
        group_id=group.group_id, kind=group.kind, streams=group.streams, changes=changes, by_rule=(), warnings=_of_group(group, changes)
    )


def _topic_problem(name: str, topic_id: str, found: TopicDescription | None) -> str | None:
    if found is None:
        return f"topic {name} is gone"
    return None if found.topic_id == topic_id else f"topic {name} was created again (id {topic_id} became {found.topic_id})"


def _back(tp: TopicPartition, known: CommittedOffset | None, wanted: CommittedOffset | None) -> OffsetChange:
    same = known is not None and wanted is not None and (known.offset, known.metadata) == (wanted.offset, wanted.metadata)
    return OffsetChange(tp=tp, before=known.offset if known else None, after=wanted, same=same)


def _approved(group: GroupPlan, action: GroupAction) -> list[object]:
    rule = set(group.by_rule)
    if action is GroupAction.ROLLBACK:
        # Metadata comes from the snapshot, too.
        return [[str(change.tp), codec.encode(change.after)] for change in group.changes]
    return [
        [str(change.tp), _BY_RULE if change.tp in rule else None if change.after is None else change.after.offset]
        for change in group.changes
    ]


def _set(tp: TopicPartition, known: CommittedOffset | None, offset: int) -> OffsetChange:
    same = known is not None and known.offset == offset
    after = known if same else CommittedOffset(offset=offset, metadata="")
    return OffsetChange(tp=tp, before=known.offset if known else None, after=after, same=same)


def _of_group(group: GroupNow, changes: Collection[OffsetChange]) -> tuple[str, ...]:
    name = group.group_id
    found = []
    moving = [change for change in changes if not change.same]
    if group.live:
        found.append(f"group {name} has members: this is refused until they are gone")
    if group.kind == "absent":
        found.append(f"group {name} does not exist: it is created as a classic group")
    if group.streams and moving:
        found.append(f"only offsets change: the state of {name} stays as it is, and counts input twice or never from here on")
        between = {change.tp.topic for change in moving} & {*group.repartition}
        if between:
            found.append(f"repartition topics of {name} are among them: {first_names(between)}. --all-input-topics leaves them out")
    return tuple(found)


def _of_logs(scenario: Strategy, wanted: Mapping[TopicPartition, int], logs: Logs) -> list[str]:
    found = []
    outside = [tp for tp, offset in wanted.items() if not logs.starts[tp] <= offset <= logs.ends[tp]]
    if outside:
        found.append(f"the present offset is outside the log, and stays there: {first_names(outside)}")
    if late := [tp for tp in wanted if tp in logs.at_time and logs.at_time[tp] is None]:
        found.append(f"no record is of that time or later, so that it is the end of the log: {first_names(late)}")
    if isinstance(scenario, Latest) and (open_ones := [tp for tp in wanted if logs.stable[tp] < logs.ends[tp]]):
        found.append(f"records of transactions that are still open are before the end, and are skipped: {first_names(open_ones)}")
    return found


def _limits(limited: Mapping[TopicPartition, int], bounded: Mapping[TopicPartition, int]) -> str:
    shown = ", ".join(f"{tp} gets {bounded[tp]} in place of {asked}" for tp, asked in sorted(limited.items())[:_SHOWN])
    return shown + (f" and {len(limited) - _SHOWN} more" if len(limited) > _SHOWN else "")
