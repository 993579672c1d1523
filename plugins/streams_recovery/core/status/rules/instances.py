"""The consumer group and the instances, which should agree."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import shell
from streams_recovery.core.status.facts import InstanceFacts, ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding

EMPTY, UNKNOWN, ERROR, SOME_GONE = "group-empty", "group-members-unknown", "instance-in-error", "instances-gone"
_WORKING = ("RUNNING", "REBALANCING")
_FAILED = ("ERROR", "PENDING_ERROR")


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
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
    yield from _group(observed, instances)


def _group(observed: ObservedApplication, instances: tuple[InstanceFacts, ...]) -> Iterator[StatusFinding]:
    group = observed.cluster.group if observed.cluster else None
    if group is None:
        return
    servers = observed.cluster.bootstrap_servers if observed.cluster else ""
    words = ["kafka-consumer-groups.sh", "--bootstrap-server", servers, "--describe", "--group", observed.application_id, "--members"]
    working = [one.name for one in instances if one.streams_state in _WORKING]
    if group.empty and working and not _held(observed):
        yield finding(
            EMPTY,
            Severity.CRITICAL,
            f"{', '.join(working)} say that they run, and the consumer group {group.group_id} is {group.state if group.kind != 'absent' else 'absent'}: "
            "they are another application's, or in another cluster",
            remedies=[shell(*words)],
        )
    if not group.empty and instances and all(one.state == "gone" for one in instances):
        named = ", ".join(f"{member.client_id} on {member.host}" for member in group.members[:3]) or f"a group in state {group.state}"
        yield finding(
            UNKNOWN,
            Severity.WARNING,
            f"no configured instance runs, and the consumer group {group.group_id} has members: {named}",
            remedies=[shell(*words)],
            numbers={"members": float(len(group.members))},
        )


def _held(observed: ObservedApplication) -> bool:
    """A run that has the lock may just have stopped or paused them."""
    return observed.repository is None or observed.repository.lock is not None


RULE = Rule(kinds=(EMPTY, UNKNOWN, ERROR, SOME_GONE), parts=(PartName.CLUSTER, PartName.APPLICATION), find=_find)
