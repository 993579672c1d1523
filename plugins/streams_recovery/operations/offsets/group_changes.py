"""Setting and deleting the offsets of groups, and deleting groups: plan, proof that nothing reads in them, a snapshot of what is there, then the change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import ApplicationRunning, Damaged, NotFound, RecoveryError, Refused
from streams_recovery.core.kafka_types import ListedGroup, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.group_changes import (
    GroupAction,
    GroupChangeDone,
    GroupChangePlan,
    GroupNow,
    GroupPlan,
    GroupRequest,
    PartitionScope,
    plan_deletion,
    plan_reset,
    plan_rollback,
    scoped_partitions,
)
from streams_recovery.core.offsets.reset_options import FromFile
from streams_recovery.core.offsets.strategies import Latest, Logs, Strategy
from streams_recovery.core.preflight.checks import brokers_with_group_trap
from streams_recovery.core.waiting import WaitNotice
from streams_recovery.core.words import new_id
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import is_of_streams
from streams_recovery.operations.offsets import snapshots
from streams_recovery.operations.renewed_lock import HeldLock, held_lock, require_lock
from streams_recovery.operations.unfinished import refuse_if_unfinished

_EMPTY_SECONDS = 5.0
_EVERYTHING = PartitionScope(topics={}, everything=True)


def plan(recovery: RecoveryContext, request: GroupRequest) -> GroupChangePlan:
    """Plan the change. Changes nothing. Raises ``NotFound`` for what does not exist, and ``Refused`` for what cannot be done."""
    return _plan(recovery, request, settled=False)


def carry_out(recovery: RecoveryContext, request: GroupRequest, *, approved_hash: str, run_id: str, requested_by: str) -> GroupChangeDone:
    """Carry out the change, under the application's lock, after what is there has been kept in a snapshot.

    Raises ``PlanChanged`` when it is not what was approved, and ``ApplicationRunning`` unless the groups are empty and stay so, and for the application's own
    group unless its instances are gone too. The offsets of a group are changed all or none; an error names the groups that were changed before it.
    """
    # Which groups these are is part of what is approved: the plan is made again below, and another choice of groups is refused there.
    groups = [group.group_id for group in plan(recovery, request).groups]
    with empty_groups(recovery, groups, purpose=f"{request.action.value} of {', '.join(groups)}"[:500], run_id=run_id) as held:
        # Planned again only now: no member can move these offsets any more.
        planned = _plan(recovery, request, settled=True)
        check_approved(planned, approved_hash)
        changing = {
            group.group_id: None if request.action is GroupAction.DELETE else {change.tp.topic for change in group.moving}
            for group in planned.groups
            if group.moving
        }
        before = None
        if changing:
            reason = f"before groups {request.action.value}: {planned.what}"[:500]
            before = keep_present(recovery, changing, run_id=run_id, requested_by=requested_by, reason=reason)
        done: dict[str, int] = {}
        for group in planned.groups:
            try:
                # Many groups take long.
                require_lock(recovery, held)
                _change(recovery, request.action, group)
            except RecoveryError as error:
                raise _half_done(error, done, before) from error
            done[group.group_id] = len(group.moving)
    return GroupChangeDone(action=request.action, before=before, moved=done)


@contextmanager
def empty_groups(recovery: RecoveryContext, groups: Sequence[str], *, purpose: str, run_id: str) -> Iterator[HeldLock]:
    """Hold the application's lock while the offsets of groups are changed, all of which are proven empty. Raises ``LockHeld`` and ``ApplicationRunning``."""
    with held_lock(recovery, f"{purpose.split(' ', 1)[0]} {run_id}", purpose=purpose) as held:
        if recovery.application_id in groups:
            refuse_if_unfinished(recovery)
            _check_gone(recovery)
        # One wait in which an evicted member would come back is enough for all: each is looked at before it and after it.
        for group_id in groups[:-1]:
            recovery.groups.wait_empty(
                group_id, _EMPTY_SECONDS, settle=0.0, waiting=WaitNotice(f"group {group_id} to become empty").waiting
            )
        for number, group_id in enumerate(reversed(groups)):
            notice = WaitNotice(f"group {group_id} to become empty")
            recovery.groups.wait_empty(group_id, _EMPTY_SECONDS, settle=0.0 if number else 2.0, waiting=notice.waiting)
        yield held


def keep_present(
    recovery: RecoveryContext, groups: Mapping[str, Collection[str] | None], *, run_id: str, requested_by: str, reason: str
) -> str:
    """Keep what each group has committed on its topics here, or wherever it has (None), also that it is nothing. Returns the snapshot's id. Raises
    ``Damaged``.
    """
    snapshot_id = new_id(recovery.clock(), run_id)
    taken = [
        snapshots.take(
            recovery, [group_id], snapshot_id=snapshot_id, topics=topics, requested_by=requested_by, reason=reason, without_offsets=True
        )
        for group_id, topics in groups.items()
    ]
    if unread := {group_id: why for one in taken for group_id, why in one.unread.items()}:
        problems = "; ".join(f"group {group_id}: {why}" for group_id, why in unread.items())
        raise Damaged(f"the offsets that are there cannot be kept: {problems}", next_step="nothing was changed; try again")
    snapshots.keep(recovery, replace(taken[0], groups=tuple(group for one in taken for group in one.groups)))
    return snapshot_id


def export(recovery: RecoveryContext, request: GroupRequest) -> dict[str, dict[TopicPartition, int]]:
    """The offsets that groups have committed now, in the partitions of the scope. Groups with members are read too."""
    listed = recovery.groups.listed()
    groups = [_now(recovery, group_id, listed, settled=False) for group_id in _named(recovery, request, listed)]
    topics = _topics(recovery, request.scope, groups)
    found = {}
    for group in groups:
        chosen = scoped_partitions(request.scope or _EVERYTHING, group, _inputs(recovery, request, group), topics)
        found[group.group_id] = {tp: known.offset for tp, known in sorted(group.committed.items()) if tp in chosen}
    return found


def _plan(recovery: RecoveryContext, request: GroupRequest, *, settled: bool) -> GroupChangePlan:
    listed = recovery.groups.listed()
    named = _named(recovery, request, listed)
    if request.action in (GroupAction.RESET, GroupAction.ROLLBACK):
        _check_kinds(named, listed)
    else:
        _check_there(named, listed)
    groups = [_now(recovery, group_id, listed, settled=settled) for group_id in named]
    left_out = tuple(group.group_id for group in groups if group.live) if request.all_groups else ()
    groups = [group for group in groups if group.group_id not in left_out]
    planned = _planned(recovery, request, groups)
    if request.action in (GroupAction.RESET, GroupAction.DELETE_OFFSETS):
        planned = _with_offsets(request, planned)
    if not planned:
        raise NotFound("there is no group to change", next_step="nothing was changed; streams-recovery groups list has them all")
    scenario, scope = request.scenario.text if request.scenario else "", request.scope.text if request.scope else ""
    return GroupChangePlan(
        application_id=recovery.application_id,
        action=request.action,
        what=request.snapshot or " ".join(part for part in (scenario, scope, "--all-groups" if request.all_groups else "") if part),
        groups=tuple(_with_trap(recovery, group, request.action) for group in planned),
        left_out=left_out,
    )


def _planned(recovery: RecoveryContext, request: GroupRequest, groups: Sequence[GroupNow]) -> list[GroupPlan]:
    if request.snapshot is not None:
        return _rollbacks(recovery, request.snapshot, groups)
    return _resets(recovery, request, groups) if request.scenario is not None else _deletions(recovery, request, groups)


def _rollbacks(recovery: RecoveryContext, snapshot_id: str, groups: Sequence[GroupNow]) -> list[GroupPlan]:
    snapshot, cluster = snapshots.find(recovery, snapshot_id), recovery.cluster
    if snapshot.cluster_id != cluster.cluster_id():
        raise Refused(
            f"snapshot {snapshot.snapshot_id} was taken of cluster {snapshot.cluster_id}, this is {cluster.cluster_id()}",
            next_step="offsets of one cluster mean nothing on another; choose a snapshot of this one",
        )
    topics = cluster.describe_topics(sorted({name for group in groups for name in snapshot.group(group.group_id).topics}))
    there = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
    starts, ends = (cluster.log_starts(there), cluster.high_watermarks(there)) if there else ({}, {})
    return [plan_rollback(group, snapshot, topics, {tp: (starts[tp], ends[tp]) for tp in there}) for group in groups]


def _named(recovery: RecoveryContext, request: GroupRequest, listed: Mapping[str, ListedGroup]) -> list[str]:
    if request.all_groups:
        return [group_id for group_id, one in listed.items() if one.commits]
    return sorted(set(request.groups)) or [recovery.application_id]


def _check_kinds(named: Collection[str], listed: Mapping[str, ListedGroup]) -> None:
    wrong = {group_id: listed[group_id] for group_id in named if group_id in listed and not listed[group_id].commits}
    if wrong:
        kinds = ", ".join(f"{group_id} ({one.kind} group for {one.protocol or 'sharing'})" for group_id, one in sorted(wrong.items()))
        raise Refused(
            f"these groups have no committed offsets: {kinds}", next_step="nothing was changed; leave them out", groups=sorted(wrong)
        )


def _check_there(named: Collection[str], listed: Mapping[str, ListedGroup]) -> None:
    _check_kinds(named, listed)
    if missing := sorted({*named} - listed.keys()):
        raise NotFound(
            f"there is no group {', '.join(missing)}",
            next_step="nothing was changed; streams-recovery groups list has the names",
            groups=missing,
        )


def _now(recovery: RecoveryContext, group_id: str, listed: Mapping[str, ListedGroup], *, settled: bool) -> GroupNow:
    group = recovery.groups.describe(group_id)
    committed = recovery.groups.last_committed(group_id) if group_id in listed else {}
    if settled and committed:
        found = recovery.groups.committed(group_id, list(committed))
        committed = {tp: known for tp, known in found.items() if known is not None}
    streams = group.kind == "streams" or group_id == recovery.application_id or (group_id in listed and is_of_streams(recovery, group_id))
    # Another application's kind is not known, and only Kafka Streams' groups are recognized as such.
    dialect = recovery.config.dialect if group_id == recovery.application_id else ApplicationKind.KAFKA_STREAMS.dialect
    return GroupNow(
        group_id=group_id,
        kind=group.kind,
        live=not group.empty,
        streams=streams,
        committed=committed,
        repartition={tp.topic for tp in committed if streams and dialect.role(tp.topic, group_id) is TopicRole.REPARTITION},
    )


def _topics(recovery: RecoveryContext, scope: PartitionScope | None, groups: Collection[GroupNow]) -> dict[str, TopicDescription]:
    names = {*(scope.topics if scope else ())} | {tp.topic for group in groups for tp in group.committed}
    return recovery.cluster.describe_topics(sorted(names)) if names else {}


def _inputs(recovery: RecoveryContext, request: GroupRequest, group: GroupNow) -> Collection[str] | None:
    """The inputs of a group, where they are wanted: by its topology or, for the application's own, by its configuration."""
    if request.scope is None or not request.scope.inputs:
        return None
    found = recovery.groups.input_topics(group.group_id) if group.kind == "streams" else None
    return recovery.topics.inputs if found is None and group.group_id == recovery.application_id else found


def _resets(recovery: RecoveryContext, request: GroupRequest, groups: Sequence[GroupNow]) -> list[GroupPlan]:
    scenarios = {group.group_id: _of_group(request, group.group_id) for group in groups}
    topics = _topics(recovery, request.scope, groups)
    chosen: dict[str, set[TopicPartition]] = {}
    for group in groups:
        given = scenarios[group.group_id].partitions
        scope = request.scope if given is None else PartitionScope.of(given)
        there = topics if given is None else recovery.cluster.describe_topics({tp.topic for tp in given})
        chosen[group.group_id] = scoped_partitions(scope or _EVERYTHING, group, _inputs(recovery, request, group), there)
    logs = _logs(recovery, request.scenario, set().union(*chosen.values()))
    return [plan_reset(group, scenarios[group.group_id], chosen[group.group_id], logs) for group in groups]


def _with_offsets(request: GroupRequest, planned: list[GroupPlan]) -> list[GroupPlan]:
    """Plans of groups with a partition to change. All groups that were named must have one."""
    empty = [group.group_id for group in planned if not group.changes]
    if empty and not request.all_groups:
        raise NotFound(
            f"group {', '.join(empty)} has no offset there",
            next_step="nothing was changed; streams-recovery groups describe shows the offsets of a group",
            groups=empty,
        )
    return [group for group in planned if group.changes]


def _of_group(request: GroupRequest, group_id: str) -> Strategy:
    if request.scenario is None:
        raise AssertionError(request.action)
    scenario = request.scenario
    return scenario.of_group(group_id, several=request.several) if isinstance(scenario, FromFile) else scenario


def _deletions(recovery: RecoveryContext, request: GroupRequest, groups: Sequence[GroupNow]) -> list[GroupPlan]:
    if request.action is GroupAction.DELETE:
        return [plan_deletion(group, group.committed) for group in groups]
    topics = _topics(recovery, request.scope, groups)
    return [
        plan_deletion(group, scoped_partitions(request.scope or _EVERYTHING, group, _inputs(recovery, request, group), topics))
        for group in groups
    ]


def _logs(recovery: RecoveryContext, scenario: Strategy | None, partitions: Collection[TopicPartition]) -> Logs:
    if not partitions:
        return Logs(starts={}, stable={}, ends={}, at_time={})
    wanted, cluster = sorted(partitions), recovery.cluster
    at = scenario.moment(recovery.clock()) if scenario else None
    ends = cluster.high_watermarks(wanted)
    return Logs(
        starts=cluster.log_starts(wanted),
        stable=cluster.last_stable_offsets(wanted) if isinstance(scenario, Latest) else ends,
        ends=ends,
        at_time={} if at is None else cluster.offsets_for_times(wanted, at),
        behind_open=True,
    )


def _with_trap(recovery: RecoveryContext, group: GroupPlan, action: GroupAction) -> GroupPlan:
    """A group of the streams protocol cannot be made by setting offsets: who goes back after its deletion makes a classic one."""
    risky = (
        group.kind == "absent"
        if action in (GroupAction.RESET, GroupAction.ROLLBACK)
        else group.kind == "streams" and action is GroupAction.DELETE
    )
    found = brokers_with_group_trap(recovery.cluster.facts().metadata_level) if risky else None
    if found is None:
        return group
    text = f"the brokers run {found[1]} defect KAFKA-20254: if offsets are set for {group.group_id} while it does not exist, and an application of the "
    return replace(group, warnings=(*group.warnings, f"{text}streams protocol takes it over, its coordinator may fail to load"))


def _change(recovery: RecoveryContext, action: GroupAction, group: GroupPlan) -> None:
    if action is GroupAction.DELETE:
        recovery.groups.delete(group.group_id)
    elif group.moving:
        recovery.groups.set_offsets(group.group_id, {change.tp: change.after for change in group.moving})


def _half_done(error: RecoveryError, done: Mapping[str, int], before: str | None) -> RecoveryError:
    if not done:
        return error
    return type(error)(
        f"{error.reason}. Groups that were changed before that: {', '.join(done)}",
        next_step=f"{error.next_step}. Snapshot {before} has what was there",
        **{**error.facts, "changed": list(done), "snapshot": before},
    )


def _check_gone(recovery: RecoveryContext) -> None:
    alive = [f"{i.name} ({i.detail})" for i in not_gone(recovery)]
    if alive:
        raise ApplicationRunning(
            f"instances of {recovery.application_id} run: {', '.join(alive)}",
            next_step="nothing was changed; stop them first",
            instances=alive,
        )
