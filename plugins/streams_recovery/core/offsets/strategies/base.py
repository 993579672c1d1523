"""What every strategy for input offsets says of itself, and decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.logs import Logs

ReadOffsets = Callable[[str], Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to choose the offsets at which an application goes on in its inputs. ``text`` is how it was asked for: ``KIND`` alone, or with a colon and
    an argument behind it.

    ``FORM`` is an example of it, ``PATTERN`` is what a configuration and a run's params may say, whole. ``HELP`` and ``REBUILD_HELP`` complete "the inputs
    go on ..." for a restore and for a rebuild, which has no state. A strategy without ``REBUILD_HELP`` has no meaning there, and refuses it.
    ``FROM_LOG`` tells that the log has the offset, and not a person or a savepoint. ``FROM_START`` tells that all of the input is read.
    """

    KIND: ClassVar[str]
    FORM: ClassVar[str]
    PATTERN: ClassVar[str]
    HELP: ClassVar[str]
    REBUILD_HELP: ClassVar[str]
    FROM_LOG: ClassVar[bool] = False
    FROM_START: ClassVar[bool] = False
    NEXT_STEP_OUTSIDE: ClassVar[str] = "choose offsets within the logs"

    text: str

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        """The strategy that ``text`` names, of which ``argument`` is what is behind the colon. ``read`` gives the offsets in a file.
        Raises ``ConfigInvalid``.
        """
        return cls(text=text)

    @classmethod
    def short_form(cls) -> str:
        """Its kind, and whether something has to follow."""
        return cls.KIND if cls.FORM == cls.KIND else f"{cls.KIND}:..."

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The offset for an input partition. ``exact`` is the one of the state, in a rebuild the one that is committed now.

        And whether it is this number that was asked for, and not a place in a log that moves.
        """

    def moment(self, now: int) -> int | None:
        """The time in milliseconds that is looked for in the logs when a plan is made at ``now``, None for a strategy that looks for none."""
        return None

    def cut_off(self, moved: Collection[TopicPartition]) -> tuple[str, ...]:
        """Warnings of a restore about the partitions whose offset is not the number that was asked for."""
        return ()

    def check_made(self, topics: Sequence[str]) -> None:
        """Raise ``Refused`` where it means nothing for inputs that a restore will make from the savepoint."""

    def check_inputs(self, inputs: Collection[TopicPartition], repartition: Collection[str]) -> tuple[str, ...]:
        """Raise ``Refused`` where it does not fit the inputs of a restore, or the topics named ``repartition``. Returns warnings."""
        return ()

    def check_rebuild(
        self, begun: Collection[TopicPartition], inputs: Collection[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Raise ``Refused`` where it means nothing without state. ``begun`` are those of ``inputs`` whose offset it chooses."""
