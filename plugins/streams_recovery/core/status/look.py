"""Parts of a look at an application: its history, its inputs, the run that works on it, and its consumer group. Pure.

The history gets thinner with age, so that a year of looks fits into one small object. An application that is not in use is no finding: the target of a
clone or of a point in time is configured long before anything of it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.kafka_types import GroupDescription, GroupMember, TopicPartition, TopicRole
from streams_recovery.core.lag import Lag
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.status.facts import ClusterFacts, InputState, ObservedApplication, RepositoryFacts
from streams_recovery.core.status.report import HistoryPoint, SavepointSummary
from streams_recovery.core.topic_settings import deletes_after
from streams_recovery.core.words import is_id, run_suffix

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
# Up to which age (ms) one point is kept of each so many milliseconds.
TIERS: Final = ((3 * _HOUR, 5 * _MINUTE), (2 * _DAY, 30 * _MINUTE), (14 * _DAY, 3 * _HOUR), (366 * _DAY, _DAY))
# Each tier may have begun a step, and its last one may not be over; and the newest point is always there.
MOST: Final = sum(age // step + 2 for age, step in TIERS) + 1


def thinned(points: Iterable[HistoryPoint], *, now: int) -> tuple[HistoryPoint, ...]:
    """The points in the order of time, the first of each step of their tier, and the newest one. Points that are too old go, and those of a time that has
    not come.
    """
    ordered = sorted((point for point in points if point.at <= now), key=lambda point: point.at)
    kept: dict[tuple[int, int], HistoryPoint] = {}
    for point in ordered:
        step = next((step for age, step in TIERS if now - point.at <= age), None)
        if step is not None:
            kept.setdefault((step, point.at // step), point)
    found = sorted(kept.values(), key=lambda point: point.at)
    return (*found, ordered[-1]) if ordered and (not found or found[-1].at < ordered[-1].at) else tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLogs:
    """The logs of one topic by partition, with what the group has committed there. ``first_times`` are timestamps (ms) of the records at
    ``first_unsaved``, as far as they are known.
    """

    lags: Mapping[int, Lag]
    first_times: Mapping[int, int] = field(default_factory=dict)


def _needed_from(image: TopicImage) -> dict[int, int]:
    """The offset from which on a restore of a savepoint needs the topic, by partition: behind the archived records, or else behind those that were read."""
    if image.archived:
        return {part.partition: part.end for part in image.partitions}
    return _read_at(image)


def first_unsaved(logs: InputLogs, image: TopicImage | None) -> dict[int, int]:
    """The first offset that no savepoint has and that is still to be read, by partition: of an archived topic by a restore behind the archive, of another
    one by the application or a restore. Partitions without such an offset are left out, and so are those in which nothing was ever committed: where the
    application begins there is not known.
    """
    needed = _needed_from(image) if image is not None else {}
    archived = needed if image is not None and image.archived else {}
    known = {
        partition: [archived[partition]]
        if partition in archived
        else [offset for offset in (needed.get(partition), lag.committed) if offset is not None]
        for partition, lag in logs.lags.items()
    }
    first = {partition: replace(logs.lags[partition], committed=min(offsets)) for partition, offsets in known.items() if offsets}
    return {partition: lag.position for partition, lag in first.items() if lag.left}


def retention_seconds(settings: Mapping[str, str]) -> float | None:
    """After how long a topic with these settings deletes records, None when it does not, or by size only."""
    kept = deletes_after(settings)
    return None if kept is None else kept / 1000


def input_state(topic: str, logs: InputLogs, settings: Mapping[str, str], image: TopicImage | None, captured_at: int) -> InputState:
    """``image`` is the topic in the newest exact savepoint, captured at ``captured_at``; None without one, or when the topic was made again since."""
    needed = _from(logs, _needed_from(image) if image is not None else {})
    read = _from(logs, _read_at(image) if image is not None else {})
    return InputState(
        topic=topic,
        retention_seconds=retention_seconds(settings),
        needed_since=_needed_since(logs, image, captured_at),
        lost=sum(lag.gone for lag in needed),
        unread=sum(lag.gone for lag in logs.lags.values()),
        since_savepoint=sum(lag.behind for lag in read),
    )


def _from(logs: InputLogs, offsets: Mapping[int, int]) -> list[Lag]:
    """The lag of a reader that begins at these offsets."""
    return [replace(lag, committed=offsets[partition]) for partition, lag in logs.lags.items() if partition in offsets]


def _needed_since(logs: InputLogs, image: TopicImage | None, captured_at: int) -> int | None:
    first = first_unsaved(logs, image)
    # Retention goes by the times of records, which may be older than the savepoint. For a record that could not be read the time of the savepoint is taken.
    otherwise = {} if image is None else dict.fromkeys(first, captured_at)
    return min((otherwise | {partition: at for partition, at in logs.first_times.items() if partition in first}).values(), default=None)


def _read_at(image: TopicImage) -> dict[int, int]:
    return {part.partition: part.committed.offset for part in image.partitions if part.committed is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAmount:
    """Records of one input, about. None when that is not known."""

    topic: str
    records: int | None


class Positions:
    """Up to where inputs were processed at a moment: measured at savepoints, between two of them in proportion to the time, behind the last at its rate."""

    def __init__(self, savepoints: Sequence[SavepointSummary]) -> None:
        known = ((one.captured_at, one.input_positions) for one in savepoints if one.input_positions is not None)
        self._known = sorted(known, key=lambda one: one[0])

    def between(self, inputs: Sequence[str], begin: int, end: int) -> tuple[InputAmount, ...]:
        """Records of each input between two moments."""
        return tuple(InputAmount(topic=topic, records=self._amount(topic, begin, end)) for topic in inputs)

    def _amount(self, topic: str, begin: int, end: int) -> int | None:
        first, last = self._at(topic, begin), self._at(topic, end)
        return None if first is None or last is None else max(0, round(last - first))

    def _at(self, topic: str, moment: int) -> float | None:
        known = [(at, positions[topic]) for at, positions in self._known if topic in positions]
        if not known or moment < known[0][0]:
            return None
        for (at, position), (next_at, next_position) in pairwise(known):
            if at <= moment < next_at:
                return position + (next_position - position) * (moment - at) / (next_at - at)
        return _behind(known, moment)


def _behind(known: Sequence[tuple[int, int]], moment: int) -> float | None:
    at, position = known[-1]
    if moment == at:
        return position
    earlier = next(((before, was) for before, was in reversed(known[:-1]) if before < at), None)
    if earlier is None:
        return None
    return position + max(0, position - earlier[1]) * (moment - at) / (at - earlier[0])


def seen_in_use(observed: ObservedApplication) -> bool:
    """True when something of the application was seen now: a schedule, a savepoint, a run, a consumer group, an internal topic or an instance."""
    return (
        observed.schedules.savepoints is not None
        or observed.newest is not None
        or (observed.repository is not None and _stored(observed.repository))
        or (observed.cluster is not None and _on_the_cluster(observed.cluster))
        or any(instance.state == "running" for instance in observed.application or ())
    )


def unused(observed: ObservedApplication) -> bool:
    """True when all was looked at and nothing of the application was found, now or in earlier looks. What existed once and is gone was lost."""
    if observed.used_before or observed.repository is None or observed.cluster is None or observed.application is None:
        return False
    return not seen_in_use(observed) and all(instance.state == "gone" for instance in observed.application)


def _stored(facts: RepositoryFacts) -> bool:
    return any((facts.damaged, facts.forged, facts.restores, facts.quarantines, facts.holds, facts.last_run, facts.lock, facts.quiesce))


def _on_the_cluster(facts: ClusterFacts) -> bool:
    return facts.group.kind != "absent" or any(topic.role.internal for topic in facts.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """``owner`` has the application's lock since ``since`` (ms) for ``purpose``. ``jobs`` are Spark jobs of that run that are not over, in the order of
    their last reports.
    """

    owner: str
    purpose: str
    since: int
    jobs: tuple[JobProgress, ...]


def artifacts_of(held: LockRecord, directories: Iterable[str]) -> str | None:
    """The lock holder's directory of run artifacts: the newest that its run has created, or that of the restore that it resumes. None before it has created
    one.
    """
    # An owner is a run, or a word and a run. Ids end with a digest of the run.
    suffixes = {run_suffix(held.owner), run_suffix(held.owner.partition(" ")[2])}
    ids = sorted(name for name in directories if is_id(name))
    made = [name for name in ids if name.partition("-")[2] in suffixes]
    resumed = [name for name in ids if name in held.purpose.replace(",", "").split()]
    return next(reversed(made or resumed), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition that the group reads, with its numbers as ``core.lag.Lag`` has them. ``committed`` is None when it has committed nothing there, ``role``
    when the group is not the application's, or the topic none of its topics. ``client`` is that of the member that reads it, None if there is none.
    """

    topic: str
    partition: int
    role: TopicRole | None
    committed: int | None
    start: int
    stable: int
    end: int
    behind: int
    undecided: int
    gone: int
    client: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """The group, its members, and every partition that it reads."""

    group_id: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]
    partitions: tuple[PartitionLag, ...]

    @property
    def behind(self) -> int:
        """Offsets of all partitions together."""
        return sum(one.behind for one in self.partitions)


def group_lag(group: GroupDescription, roles: Mapping[TopicPartition, TopicRole], lags: Mapping[TopicPartition, Lag]) -> GroupLag:
    """The lag of ``group`` in each of these partitions."""
    clients = {tp: member.client_id for member in group.members for tp in member.assigned}
    return GroupLag(
        group_id=group.group_id,
        kind=group.kind,
        state=group.state,
        members=group.members,
        partitions=tuple(
            PartitionLag(
                topic=tp.topic,
                partition=tp.partition,
                role=roles.get(tp),
                committed=lag.committed,
                start=lag.start,
                stable=lag.stable,
                end=lag.end,
                behind=lag.behind,
                undecided=lag.undecided,
                gone=lag.gone,
                client=clients.get(tp),
            )
            for tp, lag in sorted(lags.items())
        ),
    )
