"""Conditions of an application that one can wait for. Each function looks once, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streams_recovery.application.port import InstanceState
from streams_recovery.core import codec
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import unread
from streams_recovery.core.scheduled_run import Reading, next_hop
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lag import RecordLag, own_partitions

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionState:
    """The result of a look. ``message`` is for people, also when it is not ``done``. ``facts`` are for the next look, besides those that this one was given."""

    done: bool
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)


Condition = Callable[[RecoveryContext, Mapping[str, Any]], ConditionState]


def ends_reached(recovery: RecoveryContext, facts: Mapping[str, Any]) -> ConditionState:
    """Every record of the inputs below ``ends`` (offsets by partition) is processed, and every record that they caused in topics that the
    application writes for itself; or the moment ``until``, in milliseconds, has come. With a moment, only the moment counts.
    """
    until = facts.get("until")
    if until is not None:
        left = int(until) - recovery.clock()
        return ConditionState(done=left <= 0, message=f"{max(0, left) // 1000} s are left")
    ends = codec.decode(dict[TopicPartition, int], facts["ends"], where="the ends to reach")
    first = Reading(targets=ends, hop=0, lag={})
    reading = codec.decode(Reading, facts["reading"], where="what was read so far") if "reading" in facts else first
    return _read_on(recovery, ends, reading)


def _read_on(recovery: RecoveryContext, ends: Mapping[TopicPartition, int], reading: Reading) -> ConditionState:
    own = own_partitions(recovery)
    # Read before the ends of its own topics: what the input below these offsets has caused is in them by then.
    committed = recovery.groups.committed(recovery.application_id, [*ends, *own])
    own_ends = recovery.cluster.high_watermarks(own) if own else {}
    lag = RecordLag(recovery, reading.lag)
    newer = lag.look({**ends, **own_ends}, committed)
    if not newer:
        return ConditionState(done=True, message=f"{len(ends) + len(own)} partitions are read")
    left = unread(lag.known, reading.targets)
    now = reading if left else next_hop(reading, own_ends)
    if now is None:
        return ConditionState(
            done=True, message=f"{len(ends)} partitions are read, with all that they caused; {len(newer)} have newer records"
        )
    late = sorted((left or newer).items())
    named = ", ".join(f"{tp} by {behind}" for tp, behind in late[:_NAMED])
    return ConditionState(
        done=False,
        message=f"{len(late)} of {len(now.targets)} partitions are behind: {named}",
        facts={"reading": codec.encode(replace(now, lag=dict(lag.known)))},
    )


def group_empty(recovery: RecoveryContext, facts: Mapping[str, Any]) -> ConditionState:  # noqa: ARG001
    """The application's group has no member."""
    group = recovery.groups.describe(recovery.application_id)
    members = ", ".join(member.client_id for member in group.members[:_NAMED])
    return ConditionState(
        done=group.empty, message=f"group {recovery.application_id} is {group.state}" + (f": {members}" if members else "")
    )


def application_state(recovery: RecoveryContext, facts: Mapping[str, Any]) -> ConditionState:
    """Every instance reports the Kafka Streams state ``state``; or, for ``GONE``, none is left. No instance at all has no state but that one."""
    wanted = str(facts["state"])
    statuses = recovery.application.status()
    message = ", ".join(f"{i.name} {i.state} {i.streams_state}" for i in statuses) or "there is no instance"
    if wanted == InstanceState.GONE.name:
        return ConditionState(done=all(i.state is InstanceState.GONE for i in statuses), message=message)
    return ConditionState(done=bool(statuses) and all(i.streams_state == wanted for i in statuses), message=message)


def restoration_done(recovery: RecoveryContext, facts: Mapping[str, Any]) -> ConditionState:  # noqa: ARG001
    """Every instance is RUNNING, which Kafka Streams is only when no store of an active task is being read from its changelog any more, and none
    reports records that are left. How many are left is told where an instance reports it. No instance at all has restored nothing. Raises ``Refused`` for an
    instance that has no way to tell.
    """
    statuses = recovery.application.status()
    if silent := [one.name for one in statuses if one.silent]:
        raise Refused(
            f"{', '.join(silent)} of {recovery.application_id} cannot say whether their stores are restored",
            next_step="wait for ends_reached: input is processed only behind that",
            instances=silent,
        )
    done = bool(statuses) and all(i.streams_state == "RUNNING" and not i.restoring for i in statuses)
    message = ", ".join(f"{i.name} {i.streams_state or i.state}, {_left(i.restoring)}" for i in statuses) or "there is no instance"
    return ConditionState(done=done, message=message)


def _left(restoring: int | None) -> str:
    return "it does not tell what is left to restore" if restoring is None else f"{restoring} records left to restore"


WATCHES: dict[str, Condition] = {watch.__name__: watch for watch in (ends_reached, group_empty, application_state, restoration_done)}
