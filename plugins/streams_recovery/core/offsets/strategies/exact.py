from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies.base import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Strategy):
    """The only one that agrees with the restored state."""

    KIND: ClassVar = "exact"
    FORM: ClassVar = "exact"
    PATTERN: ClassVar = "exact"
    HELP: ClassVar = "at the offset committed at the savepoint"
    REBUILD_HELP: ClassVar = ""
    NEXT_STEP_OUTSIDE: ClassVar = (
        "restore into another cluster with the inputs, rebuild from the input, or choose another strategy for the offsets"
    )

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The offset of the state."""
        return exact, True

    def check_rebuild(
        self, begun: Collection[TopicPartition], inputs: Collection[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Raise ``Refused``: there is no state."""
        raise Refused(
            "exact offsets belong to a savepoint's state, and a rebuild begins without state",
            next_step="choose earliest, or restore from a savepoint",
            strategy=self.text,
        )
