"""What in the repository is not as it should be: savepoints that cannot be read, ids of a time that has not come, forged records, and no seals at all."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.repository.seal import NOT_SEALED, forged_text
from streams_recovery.core.status.facts import ObservedApplication, PartName, RepositoryFacts
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding

DAMAGED, AHEAD, FORGED, NO_SEALS = "savepoints-unreadable", "ids-ahead", "records-forged", "not-sealed"
_NAMED = 3


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    damaged = observed.repository.damaged if observed.repository else ()
    if damaged:
        more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
        yield finding(
            DAMAGED,
            Severity.CRITICAL,
            f"these savepoints cannot be read: {', '.join(damaged[-_NAMED:])}{more}",
            remedies=[command("verify", observed.name, "--level", "full")],
            numbers={"savepoints": float(len(damaged))},
        )
    ahead = observed.repository.ahead if observed.repository else ()
    if ahead:
        more = f" and {len(ahead) - _NAMED} more" if len(ahead) > _NAMED else ""
        yield finding(
            AHEAD,
            Severity.WARNING,
            f"these savepoints and restores have a time that has not come: {', '.join(ahead[-_NAMED:])}{more}",
            remedies=[command("verify", observed.name)],
            numbers={"ids": float(len(ahead))},
        )
    if observed.repository is not None:
        yield from _seals(observed.name, observed.repository)


def _seals(name: str, facts: RepositoryFacts) -> Iterator[StatusFinding]:
    if not facts.sealed:
        yield finding(NO_SEALS, Severity.INFO, NOT_SEALED, remedies=[command("seal-key", "seal.key")])
    if facts.forged_count:
        named = "; ".join(f"{one.key} ({one.why})" for one in facts.forged[:_NAMED])
        more = f"; and {facts.forged_count - _NAMED} more" if facts.forged_count > _NAMED else ""
        yield finding(
            FORGED,
            Severity.CRITICAL,
            f"{forged_text(facts.forged_count)}: {named}{more}",
            remedies=[command("verify", name), command("seal", name, "--plan")],
            numbers={"records": float(facts.forged_count)},
        )


RULE = Rule(kinds=(DAMAGED, AHEAD, FORGED, NO_SEALS), parts=(PartName.REPOSITORY,), find=_find)
