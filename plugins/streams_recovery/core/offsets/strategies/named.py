"""Offsets that a person names. Inputs that are not named stay exact."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.given_offsets import parse_list
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies.base import ReadOffsets, Strategy
from streams_recovery.core.words import first_names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named(Strategy):
    given: Mapping[TopicPartition, int]

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The offset that was named, else the exact one."""
        return self.given.get(tp, exact), True

    def check_inputs(self, inputs: Collection[TopicPartition], repartition: Collection[str]) -> tuple[str, ...]:
        """Raise ``Refused`` for named partitions that are no inputs."""
        refused = [tp for tp in self.given if tp not in inputs and not self._passes_over(tp, repartition)]
        if refused:
            raise Refused(
                f"offsets are named for partitions that are no inputs: {first_names(refused)}",
                next_step="name inputs of the application only; repartition topics always get their exact offsets",
                partitions=[str(tp) for tp in refused],
            )
        passed_over = sum(tp not in inputs for tp in self.given)
        if not passed_over:
            return ()
        return (f"{passed_over} offsets of repartition topics in the file are not used: those are always exact",)

    def _passes_over(self, tp: TopicPartition, repartition: Collection[str]) -> bool:
        return False

    def check_rebuild(
        self, begun: Collection[TopicPartition], inputs: Collection[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Raise ``Refused`` for partitions that are not named, or are named and no inputs: without state nothing is exact."""
        named, wanted = set(self.given), set(begun)
        problems = [f"no offset is named for {first_names(wanted - named)}"] if wanted - named else []
        problems += [f"{first_names(named - set(inputs))} is no input that begins anew"] if named - set(inputs) else []
        if problems:
            raise Refused(
                "; ".join(problems), next_step="name every partition of the inputs that begin anew, and no other", strategy=self.text
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Specific(_Named):
    """Named in the strategy itself."""

    KIND: ClassVar = "specific"
    FORM: ClassVar = "specific:orders:0=17,orders:1=42"
    PATTERN: ClassVar = "specific:.+"
    HELP: ClassVar = "at these offsets; partitions that are not named stay exact"
    REBUILD_HELP: ClassVar = "at these offsets; every partition must be named"

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """Offsets in one line."""
        return cls(text=text, given=parse_list(argument))


@dataclass(frozen=True, slots=True, kw_only=True)
class File(_Named):
    """Named in a file. An export of the group has repartition topics too, which are passed over."""

    KIND: ClassVar = "file"
    FORM: ClassVar = "file:offsets.csv"
    # No path: a configuration and a run name files of one directory.
    PATTERN: ClassVar = r"file:[^/\\]+"
    HELP: ClassVar = "at the offsets in this file; partitions that are not named stay exact"
    REBUILD_HELP: ClassVar = "at the offsets in this file; every partition must be named"

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """The name of a file, which is read."""
        return cls(text=text, given=read(argument))

    def _passes_over(self, tp: TopicPartition, repartition: Collection[str]) -> bool:
        return tp.topic in repartition
