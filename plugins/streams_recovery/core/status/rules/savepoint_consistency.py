"""The label of the newest savepoint."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding

NOT_EXACT = "newest-not-exact"


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    newest = observed.newest
    if newest is None or newest.consistency in (Consistency.EXACT, Consistency.EDITED):
        return
    yield finding(
        NOT_EXACT,
        Severity.CRITICAL if newest.consistency is Consistency.DAMAGED else Severity.WARNING,
        f"the newest savepoint {newest.savepoint_id} is labelled {newest.consistency}, so it is not restored by default",
        remedies=[command("savepoints", "show", observed.name, newest.savepoint_id), command("backup", observed.name)],
    )


RULE = Rule(kinds=(NOT_EXACT,), parts=(PartName.REPOSITORY,), find=_find)
