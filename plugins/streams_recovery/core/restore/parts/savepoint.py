"""The state of a savepoint, as it is: also what an undo brings back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.restore.parts.part import EMPTY
from streams_recovery.core.restore.parts.state import StatePart, source
from streams_recovery.core.restore.planned import ArchivedInput, ArchivedState, PlannedRestore
from streams_recovery.core.words import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedPart(StatePart):
    """A restore from a savepoint whose inputs, and whose state, may go on in the archive behind it."""

    archived: ArchivedInput | None = None
    state: ArchivedState | None = None

    def with_archived(self, archived: ArchivedInput | None) -> Self:
        return replace(self, archived=archived)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPart(ArchivedPart):
    """A restore from a savepoint, and nothing else."""

    KIND: ClassVar = "savepoint"

    @classmethod
    def is_stored(cls, stored: Mapping[str, Any]) -> bool:
        return stored.get("savepoint_id") is not None

    def head(self, plan: PlannedRestore) -> list[Markdown]:
        return [
            md("### Restore {} from savepoint {}{}", code(plan.application_id), code(plan.savepoint_id), source(plan)),
            EMPTY,
            md("{}, consistency **{}**. Plan {}.", captured(plan, self.state), plan.consistency, code(plan.hash[:12])),
        ]


def captured(plan: PlannedRestore, state: ArchivedState | None) -> Markdown:
    """The time that the state is of."""
    if state is None:
        return md("Captured **{}**", moment(plan.captured_at or 0))
    return md("State of **{}**, when the archiver took an exact cut behind the savepoint", moment(state.at))
