"""Topics that should be there."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.status.facts import Observed, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.text.next_command import command

MISSING = "topic-missing"


def _find(observed: Observed, _limits: Limits) -> Iterator[StatusFinding]:
    for name in observed.cluster.missing if observed.cluster else ():
        yield finding(
            MISSING,
            Severity.CRITICAL,
            f"{name} is not on the cluster: the configuration or the newest exact savepoint has it",
            subject=name,
            remedies=[command("restore", observed.name, "--plan")],
        )


RULE = Rule(kinds=(MISSING,), parts=(PartName.CLUSTER,), find=_find)
