"""No state: the application builds it again from its input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import OutputPolicy
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.lost_input import lost_input
from streams_recovery.operations.restore.rebuild_plan import RebuildSource
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild(RestoreStrategy):
    """No state: the application builds it again from its input. With ``accept_gap`` also where older input is gone. Inputs, globals and outputs that the
    cluster has lost are made from the savepoint ``inputs_from`` first, an id or ``latest``; empty is for none.
    """

    KIND: ClassVar = "rebuild"
    DAG: ClassVar = "streams_restore_rebuild"
    COMMAND: ClassVar = "rebuild"
    offsets: OffsetStrategy
    outputs: OutputPolicy = OutputPolicy.KEEP
    accept_gap: bool = False
    inputs_from: str = ""

    def resolve(self, recovery: RecoveryContext) -> RebuildSource:
        """See Strategy. Raises what ``lost_input`` does."""
        archived = lost_input(recovery, self.inputs_from, self.outputs) if self.inputs_from else None
        return RebuildSource(archived=archived, offsets=self.offsets, outputs=self.outputs, accept_gap=self.accept_gap)

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        """See Strategy."""
        return replace(self, inputs_from=named(self.inputs_from, planned.inputs_from))
