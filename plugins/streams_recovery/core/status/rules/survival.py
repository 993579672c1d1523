"""Whether the newest exact savepoint is enough when the whole cluster is lost."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding

LOST = "lost-with-cluster"


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts, newest = observed.repository, observed.newest_exact
    if facts is None or newest is None or newest.survives_cluster_loss:
        return
    why = f": {facts.lost_with_cluster[0]}" if facts.lost_with_cluster else ""
    promised = ", although backup.survive_cluster_loss is true" if observed.promised else ""
    yield finding(
        LOST,
        Severity.CRITICAL if observed.promised else Severity.INFO,
        f"the newest exact savepoint does not survive the loss of the cluster{promised}{why}",
        remedies=[command("savepoints", "show", observed.name, newest.savepoint_id)],
        numbers={"reasons": float(len(facts.lost_with_cluster))},
    )


RULE = Rule(kinds=(LOST,), parts=(PartName.REPOSITORY,), find=_find)
