"""The beginning and the end of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies.base import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Earliest(Strategy):
    """The first offset that is still there."""

    KIND: ClassVar = "earliest"
    FORM: ClassVar = "earliest"
    PATTERN: ClassVar = "earliest"
    HELP: ClassVar = "at the first offset that is still there"
    REBUILD_HELP: ClassVar = HELP
    FROM_LOG: ClassVar = True
    FROM_START: ClassVar = True

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The start of the log."""
        return logs.starts[tp], False


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest(Strategy):
    """The end, so that nothing is read again."""

    KIND: ClassVar = "latest"
    FORM: ClassVar = "latest"
    PATTERN: ClassVar = "latest"
    HELP: ClassVar = "at the end"
    REBUILD_HELP: ClassVar = HELP
    FROM_LOG: ClassVar = True

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The last stable offset. Behind it are records of transactions that are still open: to begin at the high watermark would skip them unread."""
        return logs.stable[tp], False
