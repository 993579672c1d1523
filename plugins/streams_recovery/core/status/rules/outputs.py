"""Rules about the writer of the outputs: there is none, or there are two, by what a cut-over has written down or by what runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.status.facts import InstanceFacts, ObservedApplication, OwnershipState, PartName, Rule, finding
from streams_recovery.core.status.limits import HOUR, Limits
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.core.words import command, span

UNOWNED, BOTH, RETIRED_RUNS = "outputs-unowned", "outputs-owned-twice", "retired-runs"
NOTHING_RUNS, STALLED = "application-down", "application-stalled"
# States of a running process in which Kafka Streams processes nothing, and which it does not leave by itself for one in which it does.
_IDLE: Final = ("PAUSED", "PENDING_SHUTDOWN", "NOT_RUNNING")
# A rebalance, and the restore of large stores after one, is over by then.
_STALLED_SECONDS: Final = 1_800.0


def _owners(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts = observed.repository
    owned = facts.ownership if facts else None
    # A cut-over holds the locks of both until it is over.
    if facts is None or owned is None or facts.lock is not None:
        return
    age = observed.age(owned.since)
    numbers = {"age_seconds": age}
    if owned.problem:
        text = f"the record of who writes the outputs cannot be read, so nobody is started: {owned.problem}"
        yield finding(UNOWNED, Severity.CRITICAL, text, remedies=[command("verify", observed.name)])
    elif _unowned(observed, owned):
        retired, standby = (observed.application_id, owned.other) if owned.role is Role.RETIRED else (owned.other, observed.application_id)
        yield finding(
            UNOWNED,
            Severity.CRITICAL,
            f"nobody writes the outputs: run {owned.run} retired {retired} for {standby}, and {standby} is not on record as live; the cut-over or "
            f"roll-back of {span(age)} ago was not finished, and neither of the two is started",
            remedies=_both_ways(observed, owned),
            numbers=numbers,
        )
    elif owned.role is Role.LIVE and (owned.theirs is Role.LIVE or (owned.clone and owned.theirs is None)):
        yield finding(
            BOTH,
            Severity.CRITICAL,
            f"{observed.application_id} and {owned.other} are both on record as the one that writes the outputs",
            remedies=_both_ways(observed, owned),
            numbers=numbers,
        )


def _unowned(observed: ObservedApplication, owned: OwnershipState) -> bool:
    if owned.role is Role.RETIRED:
        return owned.theirs is not Role.LIVE
    return owned.role is Role.STANDBY and owned.theirs is Role.RETIRED and owned.theirs_towards == observed.application_id


def _both_ways(observed: ObservedApplication, owned: OwnershipState) -> list[str]:
    """Both are commands of the clone: of another application its name is not known here."""
    if not owned.clone:
        return []
    return [command(step, observed.name, "--reason", "REASON") for step in ("cut-over", "roll-back")]


def _retired_runs(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts, cluster = observed.repository, observed.cluster
    owned = facts.ownership if facts else None
    if facts is None or cluster is None or owned is None or facts.lock is not None:
        return
    if owned.role is Role.RETIRED and owned.theirs is Role.LIVE and not cluster.group.empty:
        yield finding(
            RETIRED_RUNS,
            Severity.CRITICAL,
            f"{observed.application_id} transferred its outputs to {owned.other} (run {owned.run}), and its consumer group has members: both may write "
            "the same outputs",
            numbers={"members": float(len(cluster.group.members))},
        )


def _down(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    facts, cluster, instances = observed.repository, observed.cluster, observed.application
    if facts is None or cluster is None or instances is None or not _expected(observed):
        return
    paused = bool(instances) and all(one.state == "running" and one.streams_state == "PAUSED" for one in instances)
    if not (cluster.group.empty or paused) or not all(_idle(one) for one in instances):
        return
    between = observed.schedules.runs
    seconds = HOUR if between is None else between + limits.overdue_after
    more = _grown(observed, seconds, whole=between is not None)
    if between is not None and not more:
        return
    why = "all instances are paused" if paused else f"no instance processes, and the consumer group {cluster.group.group_id} has no member"
    yield finding(
        NOTHING_RUNS,
        Severity.CRITICAL if more else Severity.WARNING,
        f"{why}; {cluster.lag:,} offsets of the inputs wait"
        + (f", {more:,} more than at the least in the last {span(seconds)}" if more else ""),
        remedies=[command("preflight", observed.name, "--for", "backup")],
        numbers={"lag": float(cluster.lag), "grown": float(more), "instances": float(len(instances))},
    )


def _stalled(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    """Input comes and the group commits nothing, whatever the instances say of themselves."""
    cluster, instances = observed.cluster, observed.application
    if cluster is None or not observed.used_before or not _expected(observed):
        return
    if instances is not None and all(_idle(one) for one in instances):
        return
    seconds, waits, more = _uncommitted(observed)
    if waits < _STALLED_SECONDS or not more:
        return
    said = ", ".join(f"{one.name} {one.streams_state or 'in no known state'}" for one in instances or ()) or "nothing"
    group = cluster.group
    yield finding(
        STALLED,
        Severity.CRITICAL,
        f"nothing was committed for {span(seconds)}, and {more:,} more offsets of the inputs wait, {cluster.lag:,} now. The consumer group is "
        f"{group.state if group.kind != 'absent' else 'absent'}, with {len(group.members):,} members; the instances say: {said}",
        remedies=[command("preflight", observed.name, "--for", "backup")],
        numbers={"lag": float(cluster.lag), "grown": float(more), "seconds": seconds},
    )


def _uncommitted(observed: ObservedApplication) -> tuple[float, float, int]:
    """For how many seconds, up to the newest look, no committed offset has changed while the lag never fell; since when, of these, input has come that
    waits; and by how many offsets the lag has grown since. Input that comes seldom may have come a second ago.
    """
    known = [point for point in observed.history if point.lag is not None and point.committed is not None and point.at <= observed.now]
    if not known:
        return 0.0, 0.0, 0
    first = known[-1]
    for point in reversed(known[:-1]):
        if point.committed != first.committed or (point.lag or 0) > (first.lag or 0):
            break
        first = point
    waiting = next((point for point in known if point.at > first.at and (point.lag or 0) > (first.lag or 0)), known[-1])
    last = known[-1]
    return (last.at - first.at) / 1000, (last.at - waiting.at) / 1000, (last.lag or 0) - (first.lag or 0)


def _expected(observed: ObservedApplication) -> bool:
    """True unless it is to be down, or another finding says why it is: a run works on it, has left it so, or failed half way through a restore."""
    facts = observed.repository
    if facts is None or facts.lock is not None or facts.quiesce is not None or any(one.destroyed for one in facts.restores):
        return False
    # A clone that was never cut over, and an application that its clone has replaced, write no outputs that anybody reads.
    return facts.ownership is None or facts.ownership.role is Role.LIVE


def _idle(one: InstanceFacts) -> bool:
    return one.state != "running" or one.streams_state in _IDLE


def _grown(observed: ObservedApplication, seconds: float, *, whole: bool) -> int:
    """By how many offsets the lag is above the least of the last ``seconds``: input has come that was not processed. With ``whole`` 0 unless it is known
    for all of that time and never fell in it.
    """
    since = observed.now - seconds * 1000
    points = [(point.at, point.lag) for point in observed.history if point.lag is not None and point.at <= observed.now]
    known = [lag for at, lag in points if at >= since]
    if not known or (whole and (points[0][0] > since or known != sorted(known))):
        return 0
    return known[-1] - min(known)


RULES: Final = (
    Rule(kinds=(UNOWNED, BOTH), parts=(PartName.REPOSITORY,), find=_owners),
    Rule(kinds=(RETIRED_RUNS,), parts=(PartName.REPOSITORY, PartName.CLUSTER), find=_retired_runs),
    Rule(kinds=(NOTHING_RUNS,), parts=(PartName.REPOSITORY, PartName.CLUSTER, PartName.APPLICATION), find=_down),
    Rule(kinds=(STALLED,), parts=(PartName.REPOSITORY, PartName.CLUSTER), find=_stalled),
)
