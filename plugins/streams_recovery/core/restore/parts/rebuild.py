"""No state: the application builds it again from its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.restore.parts.part import EMPTY, TOPICS, RestoreOutcome
from streams_recovery.core.restore.parts.state import StatePart, topic_row
from streams_recovery.core.restore.planned import ArchivedInput, PlannedRestore


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPart(StatePart):
    """A rebuild. What the cluster has lost of inputs, globals and outputs comes from the savepoint ``inputs_from`` first."""

    KIND: ClassVar = "rebuild"
    inputs_from: str | None = None
    archived: ArchivedInput | None = None

    @classmethod
    def is_stored(cls, stored: Mapping[str, Any]) -> bool:
        return stored.get("savepoint_id") is None

    @property
    def with_state(self) -> bool:
        return False

    @property
    def loads(self) -> bool:
        return self.inputs_from is not None

    def head(self, plan: PlannedRestore) -> list[Markdown]:
        comes = (
            md("Without a savepoint")
            if self.inputs_from is None
            else md("Lost inputs, globals and outputs come from savepoint {}", code(self.inputs_from))
        )
        return [
            md("### Rebuild the state of {} from its input", code(plan.application_id)),
            EMPTY,
            md("{}. Plan {}.", comes, code(plan.hash[:12])),
        ]

    def replaced(self, plan: PlannedRestore) -> list[Markdown]:
        if not self.loads:
            return [*_emptied(plan), EMPTY, md("4. **Prove** that no internal topic is left.")]
        return [
            md(
                "3. **Delete** {} internal topics, **create and load** {} topics with {:,} records:",
                len(plan.delete),
                len(plan.create),
                plan.rows,
            ),
            EMPTY,
            *TOPICS,
            *(md("| {} | internal | - | - | - | deleted |", topic.name) for topic in plan.delete),
            *(topic_row(topic, plan) for topic in plan.create),
            EMPTY,
            md("4. **Verify** every record against the savepoint, and **prove** that no internal topic is left."),
        ]

    def catching_up(self, plan: PlannedRestore) -> Markdown:
        return md("{:,} input records are processed", plan.observed.records_to_catch_up)

    def elsewhere(self, _plan: PlannedRestore) -> list[Markdown]:
        return []

    def outcome(self, restored: RestoreOutcome) -> str:
        return f"rebuilt from the input: {restored.offsets} offsets set, and the input processed up to its end"


def _emptied(plan: PlannedRestore) -> list[Markdown]:
    gone = [(topic.name, "deleted") for topic in plan.delete] + [(topic.name, "created again, empty") for topic in plan.create]
    outputs = md(" and **empty** {} outputs:", len(plan.create)) if plan.create else md(":")
    return [
        md("3. **Delete** {} internal topics{}", len(plan.delete), outputs),
        EMPTY,
        md("| topic | offsets in it | then |"),
        md("|---|---:|---|"),
        *(md("| {} | {:,} | {} |", name, plan.observed.offsets_replaced.get(name, 0), then) for name, then in gone),
    ]
