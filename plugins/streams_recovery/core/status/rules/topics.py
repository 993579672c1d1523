"""Topics that should be there, topics that may be somebody else's, and those for which a restore would be refused."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import first_names

MISSING, UNATTRIBUTED, REFUSED = "topic-missing", "topics-unattributed", "restore-refused"
_NAMED = 3


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    yield from _missing(observed, limits)
    yield from _unattributed(observed)
    yield from _refused(observed)


def _refused(observed: ObservedApplication) -> Iterator[StatusFinding]:
    why = observed.cluster.refused if observed.cluster else ()
    if why:
        more = f"; and {len(why) - _NAMED} more" if len(why) > _NAMED else ""
        yield finding(
            REFUSED,
            Severity.CRITICAL,
            f"a restore of the newest exact savepoint would be refused: {'; '.join(why[:_NAMED])}{more}",
            remedies=[command("restore", observed.name, "--plan"), command("backup", observed.name)],
            numbers={"problems": float(len(why))},
        )


def _unattributed(observed: ObservedApplication) -> Iterator[StatusFinding]:
    topics = observed.cluster.unattributed if observed.cluster else ()
    if topics:
        yield finding(
            UNATTRIBUTED,
            Severity.INFO,
            f"nothing but the name says that {first_names(topics)} {'is' if len(topics) == 1 else 'are'} {observed.application_id}'s",
            remedies=[command("preflight", observed.name, "--for", "backup")],
            numbers={"topics": len(topics)},
        )


def _missing(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
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
        remedies=[command("restore", observed.name, "--plan")],
        numbers={"topics": len(missing)},
    )


RULE = Rule(kinds=(MISSING, UNATTRIBUTED, REFUSED), parts=(PartName.CLUSTER,), find=_find)
