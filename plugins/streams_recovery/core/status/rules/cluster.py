"""Rules about the cluster and the application that runs on it: topics, inputs, transactions, lag, disks, the consumer group and the instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streams_recovery.core.checks.check import Occasion, Severity
from streams_recovery.core.checks.runs import MEMBERS, REFUSED, ROOM, MemberFacts, Refusals, Room
from streams_recovery.core.checks.savepoints import HANGING, UNATTRIBUTED, AttributionGaps, HangingFacts
from streams_recovery.core.group_members import roll
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.remedies.groups import see_members
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.remedies.transactions import OpenTransaction, wait
from streams_recovery.core.status.facts import (
    BROKER,
    ClusterFacts,
    InputState,
    InstanceFacts,
    Measured,
    ObservedApplication,
    PartName,
    Rule,
    daily_growth,
    finding,
    found_in_look,
    per_second,
)
from streams_recovery.core.status.limits import HOUR, Limits
from streams_recovery.core.status.report import DiskStatus, StatusFinding, TopicStatus
from streams_recovery.core.words import command, first_names, size, span

# Problems, partitions or members in a text.
_NAMED: Final = 3

MISSING = "topic-missing"


def _find_topics(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    yield from _missing(observed)
    yield from _refused(observed)
    topics = observed.cluster.unattributed if observed.cluster else ()
    yield from found_in_look(UNATTRIBUTED, AttributionGaps(name=observed.name, application_id=observed.application_id, topics=topics))


def _refused(observed: ObservedApplication) -> Iterator[StatusFinding]:
    facts = Refusals(
        why=observed.cluster.refused if observed.cluster else (),
        what="a restore of the newest exact savepoint would be refused: ",
        commands=(command("restore", observed.name, "--replace", "--plan"), command("backup", observed.name)),
    )
    yield from found_in_look(REFUSED, facts)


def _missing(observed: ObservedApplication) -> Iterator[StatusFinding]:
    """One finding for all of them: a cluster that is gone is one cause, however many topics it had. Without a subject it stays that cause while topics
    come and go.
    """
    missing = observed.cluster.missing if observed.cluster else ()
    if not missing:
        return
    one = len(missing) == 1
    yield finding(
        MISSING,
        Severity.CRITICAL,
        f"{first_names(missing)} {'is' if one else 'are'} not on the cluster: "
        f"the configuration or the newest exact savepoint has {'it' if one else 'them'}",
        remedies=[command("restore", observed.name, "--replace", "--plan")],
        numbers={"topics": len(missing)},
    )


SOON, LOST, UNREAD = "input-expires", "input-lost", "input-lost-unread"


def _find_input_retention(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for topic in observed.cluster.inputs if observed.cluster else ():
        remedies = [command("backup", observed.name)]
        if topic.unread:
            yield finding(
                UNREAD,
                Severity.CRITICAL,
                f"{topic.topic}: {topic.unread:,} offsets were deleted before the application had read them",
                subject=topic.topic,
                numbers={"offsets": float(topic.unread)},
            )
        if topic.lost:
            yield finding(
                LOST,
                Severity.CRITICAL,
                f"{topic.topic}: {topic.lost:,} offsets that a restore of the newest exact savepoint needs were deleted, and no savepoint has them",
                subject=topic.topic,
                remedies=remedies,
                numbers={"offsets": float(topic.lost)},
            )
        elif (left := _left(observed, topic)) is not None and left < limits.retention_margin:
            yield finding(
                SOON,
                Severity.WARNING,
                f"{topic.topic}: retention begins to delete input that neither a savepoint nor the archive has {f'in {span(left)}' if left > 0 else 'now'}",
                subject=topic.topic,
                remedies=remedies,
                numbers={"seconds_left": left, "limit_seconds": limits.retention_margin},
            )


def _left(observed: ObservedApplication, topic: InputState) -> float | None:
    if topic.needed_since is None or topic.retention_seconds is None:
        return None
    return topic.retention_seconds - observed.age(topic.needed_since)


LONG = "transaction-long"


def _find_transactions(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    if observed.cluster is None:
        return
    tools, several = observed.cluster.tools, observed.cluster.transactions
    hanging = tuple(hangs for one in several if (hangs := one.proven) is not None)
    # Its inputs are committed by others: a savepoint takes them up to where all is decided.
    waits_for = frozenset(topic.name for topic in observed.cluster.topics if topic.role not in (TopicRole.INPUT, TopicRole.GLOBAL))
    yield from found_in_look(HANGING, HangingFacts(tools=tools, hanging=hanging, waits_for=waits_for))
    known: dict[str, list[OpenTransaction]] = {}
    for one in several:
        if one.proven is None and one.transactional_id is not None:
            known.setdefault(one.transactional_id, []).append(one)
    for transactional_id, parts in known.items():
        ages = [one.age_seconds for one in parts if one.age_seconds is not None]
        if ages and max(ages) > limits.transaction_age:
            yield _long(tools, transactional_id, parts, max(ages), limits.transaction_age)


def _long(tools: KafkaTools, transactional_id: str, parts: Sequence[OpenTransaction], age: float, limit: float) -> StatusFinding:
    """One finding for all of its partitions. Its coordinator ends it as a whole: aborted on one partition alone, it could be committed on the others."""
    where = ", ".join(str(one.tp) for one in parts[:_NAMED]) + (" and others" if len(parts) > _NAMED else "")
    remedy = wait(tools, [transactional_id])
    return finding(
        LONG,
        Severity.WARNING,
        f"transaction {transactional_id} is open for {span(age)}, on {where}. {remedy.sentence}",
        subject=transactional_id,
        remedies=remedy.commands,
        numbers={"age_seconds": age, "limit_seconds": limit, "partitions": float(len(parts))},
    )


HIGH, GROWS = "lag-high", "lag-grows"
# Seconds of the history that say how the lag grows.
_WINDOW, _LEAST = HOUR, HOUR / 4


def _find_lag(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    if observed.cluster is None:
        return
    lag = observed.cluster.lag
    if limits.lag_records is not None and lag > limits.lag_records:
        yield finding(
            HIGH,
            Severity.WARNING,
            f"the application is {lag:,} offsets behind its inputs, the limit is {limits.lag_records:,}",
            numbers={"lag": float(lag), "limit": float(limits.lag_records)},
        )
    slope = per_second(observed, lambda point: point.lag, window=_WINDOW, least=_LEAST)
    hourly = slope * HOUR if slope is not None else 0.0
    if hourly > limits.lag_growth:
        yield finding(
            GROWS,
            Severity.WARNING,
            f"the application is {lag:,} offsets behind its inputs, and each hour {hourly:,.0f} more (measured over {span(_WINDOW)} at most)",
            numbers={"lag": float(lag), "per_hour": hourly, "limit_per_hour": float(limits.lag_growth)},
        )


LARGE, TOPIC_GROWS = "changelog-large", "changelogs-grow"
REPARTITION, REPARTITION_GROWS = "repartition-large", "repartition-grows"


def _find_topic_sizes(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    if observed.cluster is None or observed.disks is None:
        return
    for topic in observed.cluster.topics:
        yield from _large(topic, observed.disks.topic_bytes.get(topic.name, 0), limits)
    slower = "restores get slower, and disks fill"
    unread = "the application does not read, or may not delete what it has read"
    yield from _growth(observed, limits, TOPIC_GROWS, lambda point: point.changelog_bytes, "changelogs", slower)
    yield from _growth(observed, limits, REPARTITION_GROWS, lambda point: point.repartition_bytes, "repartition topics", unread)


def _large(topic: TopicStatus, found: int, limits: Limits) -> Iterator[StatusFinding]:
    if topic.role is TopicRole.CHANGELOG:
        kind, limit, why = LARGE, limits.changelog_bytes, "a restore has to load it"
    elif topic.role is TopicRole.REPARTITION:
        kind, limit, why = REPARTITION, limits.repartition_bytes, "the application deletes what it has read, so it should be small"
    else:
        return
    if limit is not None and found > limit:
        yield finding(
            kind,
            Severity.WARNING,
            f"{topic.name} has {size(found)} on the brokers' disks, the limit is {size(limit)}; {why}",
            subject=topic.name,
            numbers={"bytes": float(found), "limit_bytes": float(limit)},
        )


def _growth(observed: ObservedApplication, limits: Limits, kind: str, value: Measured, name: str, why: str) -> Iterator[StatusFinding]:
    found = daily_growth(observed, value, least=limits.growth_from_bytes, share=limits.changelog_growth)
    if found is not None:
        now, daily = found
        yield finding(
            kind,
            Severity.WARNING,
            f"the {name} have {size(now)} on the brokers' disks and grow by {size(daily)} a day: {why}",
            numbers={"bytes": float(now), "bytes_per_day": daily, "limit_per_day": limits.changelog_growth},
        )


def _stays(observed: ObservedApplication, _found: StatusFinding) -> bool:
    return observed.disks is not None and not observed.disks.brokers_seen


DISK_FULL_SOON = "disk-full-soon"


def _find_disk_space(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for disk in observed.disks.disks if observed.disks else ():
        left = seconds_left(observed, disk)
        if left is not None and left < limits.disk_full_within:
            yield finding(
                DISK_FULL_SOON,
                Severity.CRITICAL,
                f"the disk of {disk.name} is full in {span(left)} if it fills as it did lately; {size(disk.free_bytes)} are free",
                subject=disk.name,
                numbers={"seconds_left": left, "limit_seconds": limits.disk_full_within, "free_bytes": float(disk.free_bytes)},
            )
        else:
            yield from found_in_look(ROOM, Room.of_disk(disk.name, disk.free_bytes, disk.total_bytes, limits.disk_free))


def seconds_left(observed: ObservedApplication, disk: DiskStatus) -> float | None:
    """Until the disk is full, None when nothing tells, or it does not fill."""
    slope = per_second(observed, lambda point: point.free_bytes.get(disk.name))
    return None if slope is None or slope >= 0 else disk.free_bytes / -slope


def _disk_stays(observed: ObservedApplication, found: StatusFinding) -> bool:
    return found.subject.startswith(BROKER) and _stays(observed, found)


EMPTY, ERROR, SOME_GONE = "group-empty", "instance-in-error", "instances-gone"
_WORKING = ("RUNNING", "REBALANCING")
_FAILED = ("ERROR", "PENDING_ERROR")


def _find_instances(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    if observed.cluster is None or observed.application is None:
        return
    instances = observed.application
    for one in instances:
        if one.streams_state in _FAILED:
            yield finding(ERROR, Severity.CRITICAL, f"instance {one.name} is in state {one.streams_state}", subject=one.name)
    gone = [one.name for one in instances if one.state == "gone"]
    if gone and len(gone) < len(instances) and not _held(observed):
        yield finding(
            SOME_GONE,
            Severity.WARNING,
            f"{', '.join(gone)} of {len(instances)} instances do not run",
            numbers={"gone": float(len(gone)), "instances": float(len(instances))},
        )
    yield from _group(observed, observed.cluster, instances)


def _group(observed: ObservedApplication, cluster: ClusterFacts, instances: tuple[InstanceFacts, ...]) -> Iterator[StatusFinding]:
    group, look = cluster.group, see_members(observed.name, cluster.group.group_id)
    working = [one.name for one in instances if one.streams_state in _WORKING]
    if group.empty and working and not _held(observed):
        yield finding(
            EMPTY,
            Severity.CRITICAL,
            f"{', '.join(working)} say that they run, and the consumer group {group.group_id} is {group.state if group.kind != 'absent' else 'absent'}: "
            "they are another application's, or in another cluster",
            remedies=look.commands,
        )
    if not group.empty and instances and all(one.state == "gone" for one in instances):
        found = roll(group.members, (), threads=None)
        facts = MemberFacts(name=observed.name, group_id=group.group_id, roll=found, refused=False, state=group.state)
        yield from found_in_look(MEMBERS, facts)


def _held(observed: ObservedApplication) -> bool:
    """A run that has the lock may just have stopped or paused them."""
    return observed.repository is None or observed.repository.lock is not None


RULES: Final = (
    Rule(kinds=(MISSING, *UNATTRIBUTED.kinds(Occasion.LOOK), *REFUSED.kinds(Occasion.LOOK)), parts=(PartName.CLUSTER,), find=_find_topics),
    Rule(kinds=(SOON, LOST, UNREAD), parts=(PartName.CLUSTER,), find=_find_input_retention),
    Rule(kinds=(*HANGING.kinds(Occasion.LOOK), LONG), parts=(PartName.CLUSTER,), find=_find_transactions),
    Rule(kinds=(HIGH, GROWS), parts=(PartName.CLUSTER,), find=_find_lag),
    Rule(
        kinds=(LARGE, TOPIC_GROWS, REPARTITION, REPARTITION_GROWS),
        parts=(PartName.CLUSTER, PartName.DISKS),
        find=_find_topic_sizes,
        stays=_stays,
    ),
    Rule(kinds=(DISK_FULL_SOON, *ROOM.kinds(Occasion.LOOK)), parts=(PartName.DISKS,), find=_find_disk_space, stays=_disk_stays),
    Rule(
        kinds=(EMPTY, *MEMBERS.kinds(Occasion.LOOK), ERROR, SOME_GONE), parts=(PartName.CLUSTER, PartName.APPLICATION), find=_find_instances
    ),
)
