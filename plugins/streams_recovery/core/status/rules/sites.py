"""Other sites of an application: one that it could not fail over to, and one that was left without a proof that nothing runs there."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

NOT_READY, FENCED, RUNS = "standby-not-ready", "site-fenced", "runs-at-two-sites"


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    for standby in observed.sites.standbys:
        if standby.problem is not None or standby.lacks:
            what = (
                f"could not be looked at: {standby.problem}"
                if standby.problem is not None
                else f"lacks {len(standby.lacks)}: {'; '.join(standby.lacks)}"
            )
            yield finding(
                NOT_READY,
                Severity.WARNING,
                f"{observed.application_id} could not fail over to the site {standby.site}, which {what}",
                subject=standby.site,
                remedies=[command("preflight", observed.name, "--site", standby.site)],
                numbers={"age_seconds": observed.age(standby.looked_at), "lacks": float(len(standby.lacks))},
            )
    for fence in observed.sites.fences:
        age = {"age_seconds": observed.age(fence.since)}
        if fence.running:
            why = "" if fence.problem is None else f"; it is not stopped, because {fence.problem}"
            yield finding(
                RUNS,
                Severity.CRITICAL,
                f"{observed.application_id} belongs to the site {observed.sites.belongs} and runs at {fence.site} "
                f"({', '.join(fence.running)}), so the same input may be processed twice{why}",
                subject=fence.site,
                remedies=[command("sites", observed.name)],
                numbers={**age, "running": float(len(fence.running))},
            )
        else:
            yield finding(
                FENCED,
                Severity.WARNING,
                f"the site {fence.site} was left {span(age['age_seconds'])} ago without a proof that nothing runs there, by {fence.run}"
                + ("" if fence.problem is None else f": {fence.problem}"),
                subject=fence.site,
                remedies=[command("sites", observed.name)],
                numbers=age,
            )


RULE = Rule(kinds=(NOT_READY, FENCED, RUNS), find=_find)
