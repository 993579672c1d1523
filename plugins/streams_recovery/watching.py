"""Things about an application that one can wait for, each as one look. Nothing is changed by looking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streams_recovery.application.port import InstanceState
from streams_recovery.core.increments import remaining
from streams_recovery.core.model import spaced_partition
from streams_recovery.workbench import Workbench

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen. ``told`` is for people, also when it is not ``done``."""

    done: bool
    told: str


Watch = Callable[[Workbench, Mapping[str, Any]], Look]


def ends_reached(bench: Workbench, facts: Mapping[str, Any]) -> Look:
    """Every input is committed up to ``ends`` (offsets by ``<topic> <partition>``); or the moment ``until``, in milliseconds, has come. One of them is
    enough, and without any end only the moment counts.
    """
    ends = {spaced_partition(name): int(end) for name, end in facts.get("ends", {}).items()}
    until = facts.get("until")
    if until is not None:
        left = int(until) - bench.clock()
        return Look(done=left <= 0, told=f"{max(0, left) // 1000} s are left")
    behind = remaining(ends, bench.groups.committed(bench.application_id, list(ends)))
    unread = ", ".join(f"{tp}" if count is None else f"{tp} by {count}" for tp, count in sorted(behind.items())[:_NAMED])
    return Look(
        done=not behind,
        told=f"{len(behind)} of {len(ends)} partitions are behind: {unread}" if behind else f"{len(ends)} partitions are read",
    )


def group_empty(bench: Workbench, facts: Mapping[str, Any]) -> Look:  # noqa: ARG001
    """The application's group has no member."""
    group = bench.groups.describe(bench.application_id)
    members = ", ".join(member.client_id for member in group.members[:_NAMED])
    return Look(done=group.empty, told=f"group {bench.application_id} is {group.state}" + (f": {members}" if members else ""))


def application_state(bench: Workbench, facts: Mapping[str, Any]) -> Look:
    """Every instance reports the Kafka Streams state ``state``; or, for ``GONE``, none is left. No instance at all has no state but that one."""
    wanted = str(facts["state"])
    statuses = bench.application.status()
    told = ", ".join(f"{i.name} {i.state} {i.streams_state}" for i in statuses) or "there is no instance"
    if wanted == InstanceState.GONE.name:
        return Look(done=all(i.state is InstanceState.GONE for i in statuses), told=told)
    return Look(done=bool(statuses) and all(i.streams_state == wanted for i in statuses), told=told)


def restoration_done(bench: Workbench, facts: Mapping[str, Any]) -> Look:  # noqa: ARG001
    """Every instance is RUNNING, which Kafka Streams is only when no store of an active task is being read from its changelog any more, and none
    reports records that are left. How many are left is told where an instance reports it. No instance at all has restored nothing.
    """
    statuses = bench.application.status()
    done = bool(statuses) and all(i.streams_state == "RUNNING" and not i.restoring for i in statuses)
    told = ", ".join(f"{i.name} {i.streams_state or i.state}, {_left(i.restoring)}" for i in statuses) or "there is no instance"
    return Look(done=done, told=told)


def _left(restoring: int | None) -> str:
    return "it does not tell what is left to restore" if restoring is None else f"{restoring} records left to restore"


WATCHES: dict[str, Watch] = {watch.__name__: watch for watch in (ends_reached, group_empty, application_state, restoration_done)}
