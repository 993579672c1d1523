"""A new version that goes on with the state that is there."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.restore.parts.part import EMPTY, PlanPart, RestoreOutcome, deployed, instances, table, warnings
from streams_recovery.core.restore.planned import PlannedRestore
from streams_recovery.core.rollout.compatibility import CompatibilityFinding, CompatibilityVerdict
from streams_recovery.core.rollout.upgrade import VersionChange, Watched
from streams_recovery.core.words import first_names, span


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePart(PlanPart):
    """An upgrade in place: nothing is loaded or built again."""

    KIND: ClassVar = "upgrade"
    KEPT: ClassVar = ("upgrade",)
    TITLE: ClassVar = "Upgrade"
    NO_SAVEPOINT: ClassVar = "none: the state stayed as it was"
    upgrade: VersionChange

    @property
    def with_state(self) -> bool:
        return False

    @property
    def new_version(self) -> VersionChange:
        return self.upgrade

    @property
    def loads(self) -> bool:
        return False

    @property
    def approved(self) -> dict[str, object]:
        return {"upgrade": self.upgrade.done}

    def text(self, plan: PlannedRestore) -> list[Markdown]:
        upgrade = self.upgrade
        made = [md("The new version makes the topics {}. The way back deletes them.", first_names(upgrade.new_topics)), EMPTY]
        return [
            md("### Upgrade {} in place", code(plan.application_id)),
            EMPTY,
            md(
                "**{}**: the new version was compared with savepoint {}. Plan {}.",
                upgrade.verdict,
                code(upgrade.compared_with),
                code(plan.hash[:12]),
            ),
            EMPTY,
            *_findings(upgrade),
            *warnings(plan),
            *(md("{}. {}", number, one) for number, one in enumerate(_steps(plan, upgrade), 1)),
            EMPTY,
            *(made if upgrade.new_topics else []),
            md(
                "**When it fails** the old version comes back by itself: {} deploys it, and `undo` restores the state of step 2. What the new version has "
                "processed is processed again, so its results come twice.",
                code(shlex.join(upgrade.roll_back)),
            ),
            md("Where only the deployment fails, the old version is deployed again and started, and nothing is restored."),
        ]

    def headline(self, _verdict: Markdown, restored: RestoreOutcome) -> list[Markdown]:
        """The state stayed where it was, so there is nothing to compare it with."""
        upgrade = self.upgrade
        return [
            md(
                "**Upgraded.** A new version goes on with the state that was there: **{}**, compared with savepoint {}.",
                upgrade.verdict,
                code(upgrade.compared_with),
            ),
            *(
                md("- {}: {}: {}{}", one.subject, one.kind, one.text, " (it was said that this may go)" if one.accepted else "")
                for one in upgrade.findings
            ),
            EMPTY,
            _seen(restored.watched),
        ]

    def outcome(self, restored: RestoreOutcome) -> str:
        watched = restored.watched or Watched()
        return f"upgraded: {self.upgrade.verdict}; watched for {span(watched.seconds)}, and {watched.behind:,} input records are left"


def _steps(plan: PlannedRestore, upgrade: VersionChange) -> list[Markdown]:
    inputs = len({tp.topic for tp in plan.offsets_kept})
    wiped = [md("**Wipe** the local state of every instance: subtopologies have other numbers, so it is restored from the changelogs.")]
    lag = EMPTY if upgrade.watch.max_lag is None else md(", or when it stays more than {:,} records behind", upgrade.watch.max_lag)
    return [
        md("**Stop** {} and prove that they are stopped.", instances(plan)),
        md("**Save** the state as a safety savepoint, and compare the new version with it once more."),
        *(wiped if upgrade.wipes else []),
        md(
            "{}**Start**, and wait until its input is processed. It reads on in {} inputs where the old version stopped.",
            deployed(plan),
            inputs,
        ),
        md(
            "**Watch** it for **{}**. It fails when an instance ends, when nothing is committed for {} although records are left{}.",
            span(upgrade.watch.seconds),
            span(upgrade.watch.patience),
            lag,
        ),
    ]


def _findings(upgrade: VersionChange) -> list[Markdown]:
    if not upgrade.findings and not upgrade.not_compared:
        return []
    rows = [md("| {} | {} | {}{} |", one.subject, one.kind, one.text, _said(one)) for one in upgrade.findings]
    return [
        *([*table([md("| what | finding | what it means |"), md("|---|---|---|")], rows), EMPTY] if rows else []),
        *(md("Not compared: {}.", one) for one in upgrade.not_compared),
        *([EMPTY] if upgrade.not_compared else []),
    ]


def _said(one: CompatibilityFinding) -> Markdown:
    if not one.accepted:
        return EMPTY
    return md(" **A person has looked at this.**") if one.verdict is CompatibilityVerdict.DOUBT else md(" **This may go.**")


def _seen(watched: Watched | None) -> Markdown:
    if watched is None:
        return md("It was not watched.")
    return md(
        "It was watched for {}, {:,} looks: no instance ended. It was {:,} input records behind at most, and {:,} at the end.",
        span(watched.seconds),
        watched.looks,
        watched.most_behind,
        watched.behind,
    )
