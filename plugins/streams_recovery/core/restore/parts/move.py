"""The state of a savepoint at another site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.parts.part import EMPTY, RestoreOutcome
from streams_recovery.core.restore.parts.savepoint import ArchivedPart, captured
from streams_recovery.core.restore.planned import PlannedRestore


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePart(ArchivedPart):
    """A restore from a savepoint that takes the application to another site. Topics, offsets and local state are those of that site."""

    KIND: ClassVar = "move"
    KEPT: ClassVar = ("move",)
    move: SiteMove

    @property
    def replaced_ends(self) -> Mapping[TopicPartition, int]:
        return self.move.replaced

    def head(self, plan: PlannedRestore) -> list[Markdown]:
        move = self.move
        left = (
            md("**It is left on your word that it cannot be reached.** What is left there is stopped as soon as it answers again.")
            if move.lost
            else md("It is stopped there first, and that is proven.")
        )
        kept = (
            [md("Inputs that are there already: {}. It reads on where the same records stand.", ", ".join(move.kept))] if move.kept else []
        )
        return [
            md("### Move {} from the site {} to {}", code(plan.application_id), code(move.before), code(move.to)),
            EMPTY,
            md(
                "With savepoint {}. {}, consistency **{}**. Plan {}.",
                code(plan.savepoint_id),
                captured(plan, self.state),
                plan.consistency,
                code(plan.hash[:12]),
            ),
            left,
            *kept,
            md(
                "Topics, offsets and local state below are those of the site {}. From step 3 on the application belongs there.",
                code(move.to),
            ),
        ]

    def facts(self) -> list[tuple[str, str]]:
        return [("moved", f"from the site {self.move.before} to {self.move.to}")]

    def outcome(self, restored: RestoreOutcome) -> str:
        return (
            f"moved from {self.move.before} to {self.move.to} with savepoint {restored.savepoint_id}: "
            f"{restored.rows:,} records compared, all equal"
        )

    def way_home(self, name: str) -> tuple[str, ...]:
        return ("failover", name, "--to", self.move.before)
