"""Strategies for the offsets at which a group goes on: an application in its inputs after a restore, or any group that a person resets.

For a restore a person asks for one in a line of text, the same in a configuration, a run's params and on the command line. ``OffsetStrategy`` is the list of
these, and patterns, help texts and the schema come from it. For a reset they have the names of Kafka's own options: see ``reset_options``. No strategy needs
anything in the records themselves.

The two uses differ in two things on purpose. A restore goes on at the last stable offset at most, because what is behind it belongs to transactions that are
still open and would be skipped; Kafka's tools go to the end of the log (``Logs.behind_open``). And an offset that a file names is refused by a restore where
it is outside the log; Kafka's tools take the nearest end (``BOUNDED``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self, get_args

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import Lag
from streams_recovery.core.offsets.given_offsets import ReadFile, parse_file, parse_list
from streams_recovery.core.words import first_names, milliseconds, parse_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """First offsets, last stable offsets, ends, and for a strategy by time the first offset at or after that time, None if there is no such record.
    ``behind_open`` tells that a group may go on behind transactions that are still open.
    """

    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    at_time: Mapping[TopicPartition, int | None]
    behind_open: bool = False

    def last(self, tp: TopicPartition) -> int:
        """The last offset at which a group may go on."""
        return (self.ends if self.behind_open else self.stable)[tp]

    def within(self, tp: TopicPartition, offset: int) -> int:
        """The offset, or the nearer end of the log if it is outside."""
        return max(self.starts[tp], min(offset, self.last(tp)))

    def lag(self, tp: TopicPartition, offset: int) -> Lag:
        """The lag of a group that is given this offset."""
        return Lag(committed=offset, start=self.starts[tp], stable=self.stable[tp], end=self.ends[tp])


ReadOffsets = Callable[[str], Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to choose the offsets. ``text`` is how it was asked for: ``KIND`` alone, or with a colon and an argument behind it.

    ``FORM`` is an example of it, ``PATTERN`` is what a configuration and a run's params may say, whole. ``HELP`` and ``REBUILD_HELP`` complete "the inputs
    go on ..." for a restore and for a rebuild, which has no state. A strategy without ``REBUILD_HELP`` has no meaning there, and refuses it.
    ``FROM_LOG`` tells that the log has the offset, and not a person or a savepoint. ``FROM_START`` tells that all of the input is read. ``BOUNDED`` tells that
    an offset outside the log becomes its nearest end.
    """

    KIND: ClassVar[str]
    FORM: ClassVar[str]
    PATTERN: ClassVar[str]
    HELP: ClassVar[str]
    REBUILD_HELP: ClassVar[str]
    FROM_LOG: ClassVar[bool] = False
    FROM_START: ClassVar[bool] = False
    BOUNDED: ClassVar[bool] = False
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

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int | None:
        """The offset that is asked for, None if there is nothing to count from. ``known`` is the offset of the restored state; in a rebuild and a reset it is
        the present committed offset, None if there is none.
        """

    def place(self, tp: TopicPartition, exact: int, logs: Logs) -> tuple[int, bool]:
        """The offset for an input partition, and True if this number was asked for, and not a place in a log that moves. ``exact`` is the offset of the state,
        in a rebuild the present committed offset.
        """
        asked = self.wanted(tp, exact, logs)
        wanted = exact if asked is None else asked
        offset = logs.within(tp, wanted) if self.BOUNDED else wanted
        return offset, not self.FROM_LOG and offset == wanted

    @property
    def partitions(self) -> Mapping[TopicPartition, int] | None:
        """The partitions that the strategy itself names, None if it names none."""
        return None

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

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int:
        """The known offset, also one outside the log; the end where there is none."""
        return logs.last(tp) if known is None else known

    def check_rebuild(
        self, begun: Collection[TopicPartition], inputs: Collection[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> None:
        raise Refused(
            "exact offsets belong to a savepoint's state, and a rebuild begins without state",
            next_step="choose earliest, or restore from a savepoint",
            strategy=self.text,
        )


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

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int:
        return logs.starts[tp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest(Strategy):
    """The end, so that nothing is read again."""

    KIND: ClassVar = "latest"
    FORM: ClassVar = "latest"
    PATTERN: ClassVar = "latest"
    HELP: ClassVar = "at the end"
    REBUILD_HELP: ClassVar = HELP
    FROM_LOG: ClassVar = True

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int:
        return logs.last(tp)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByTime(Strategy):
    FROM_LOG: ClassVar = True

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int:
        """The first offset at that time or later, the end where there is none."""
        found = logs.at_time[tp]
        return logs.last(tp) if found is None else found

    def check_made(self, topics: Sequence[str]) -> None:
        """Raise ``Refused`` for inputs whose records are not there yet."""
        if topics:
            raise Refused(
                f"an offset by time cannot be found in inputs that are created from the savepoint: {', '.join(topics)}",
                next_step="restore with exact offsets, or name offsets",
                topics=topics,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timestamp(_ByTime):
    """``at`` in milliseconds."""

    KIND: ClassVar = "timestamp"
    FORM: ClassVar = "timestamp:2026-11-21T12:00:00Z"
    PATTERN: ClassVar = "timestamp:.{1,80}"
    HELP: ClassVar = "at the first record of that time or later"
    REBUILD_HELP: ClassVar = HELP

    at: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        at = parse_moment(argument)
        if at < 0:
            raise ConfigInvalid(f"{argument[:80]!r} is before 1970", next_step="use earliest for the beginning of the log")
        return cls(text=text, at=at)

    def moment(self, now: int) -> int:
        return self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(_ByTime):
    """``back`` in milliseconds."""

    KIND: ClassVar = "duration"
    FORM: ClassVar = "duration:P1DT2H30M"
    PATTERN: ClassVar = "duration:P[0-9DTHMS]{1,40}"
    HELP: ClassVar = "at the first record of that moment or later, this long before the plan is made"
    REBUILD_HELP: ClassVar = HELP

    back: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        return cls(text=text, back=milliseconds(argument))

    def moment(self, now: int) -> int:
        return max(0, now - self.back)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Strategy):
    """``by`` counts offsets, and is negative for those before."""

    KIND: ClassVar = "shift"
    FORM: ClassVar = "shift:-100"
    PATTERN: ClassVar = r"shift:[+-]?\d{1,18}"
    HELP: ClassVar = "this many offsets before or after the exact one, within the log"
    REBUILD_HELP: ClassVar = "this many offsets before or after the committed one, within the log"
    BOUNDED: ClassVar = True

    by: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        if not re.fullmatch(r"[+-]?\d{1,18}", argument):
            raise ConfigInvalid(f"{argument[:80]!r} is not a number of offsets", next_step="write it like shift:-100 or shift:100")
        return cls(text=text, by=int(argument))

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int | None:
        return None if known is None else known + self.by

    def cut_off(self, moved: Collection[TopicPartition]) -> tuple[str, ...]:
        return (f"the shift is limited to the start and end of the logs: {first_names(moved)}",) if moved else ()

    def check_rebuild(
        self, begun: Collection[TopicPartition], inputs: Collection[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Raise ``Refused`` where no offset is committed to shift from."""
        if without := set(begun) - set(committed):
            raise Refused(
                f"no committed offset to shift from: {first_names(without)}",
                next_step="choose earliest, a time, or specific offsets",
                strategy=self.text,
                partitions=sorted(map(str, without)),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOffset(Strategy):
    """``at`` is the offset of every input partition."""

    KIND: ClassVar = "offset"
    FORM: ClassVar = "offset:1000"
    PATTERN: ClassVar = r"offset:\d{1,18}"
    HELP: ClassVar = "at this offset in every partition, within the log"
    REBUILD_HELP: ClassVar = HELP
    BOUNDED: ClassVar = True

    at: int

    @classmethod
    def parse(cls, text: str, argument: str, read: ReadOffsets) -> Self:
        if not re.fullmatch(r"\d{1,18}", argument):
            raise ConfigInvalid(f"{argument[:80]!r} is not an offset", next_step="write it like offset:1000, or shift:-100 for a distance")
        return cls(text=text, at=int(argument))

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int:
        return self.at

    def cut_off(self, moved: Collection[TopicPartition]) -> tuple[str, ...]:
        return (f"offset {self.at} is limited to the start and end of the logs: {first_names(moved)}",) if moved else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named(Strategy):
    given: Mapping[TopicPartition, int]

    @property
    def partitions(self) -> Mapping[TopicPartition, int]:
        return self.given

    def wanted(self, tp: TopicPartition, known: int | None, logs: Logs) -> int | None:
        """The offset that was named, else the known one."""
        return self.given.get(tp, known)

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
        return cls(text=text, given=read(argument))

    def _passes_over(self, tp: TopicPartition, repartition: Collection[str]) -> bool:
        return tp.topic in repartition


OffsetStrategy = Exact | Earliest | Latest | Timestamp | Duration | Shift | OneOffset | Specific | File
STRATEGIES: Final[tuple[type[OffsetStrategy], ...]] = get_args(OffsetStrategy)
PATTERN: Final = "|".join(strategy.PATTERN for strategy in STRATEGIES)
HELP: Final = "; ".join(f"{strategy.FORM} ({strategy.HELP})" for strategy in STRATEGIES)
REBUILD_HELP: Final = "; ".join(f"{strategy.FORM} ({strategy.REBUILD_HELP})" for strategy in STRATEGIES if strategy.REBUILD_HELP)
EXACT: Final = Exact(text=Exact.FORM)
_BY_KIND: Final = {strategy.KIND: strategy for strategy in STRATEGIES}
_NEXT_STEP: Final = f"use one of {'; '.join(strategy.FORM for strategy in STRATEGIES)}"


def parse(text: str, *, group: str, read: ReadFile) -> OffsetStrategy:
    """The strategy that ``text`` names; ``read`` is asked for the content of a file, and lines of other groups than ``group`` are passed over in it.
    Raises ``ConfigInvalid``.
    """
    return _parse(text, lambda name: parse_file(read(name), where=name, group=group))


def checked(text: str) -> str:
    """``text`` itself when a configuration may say it, as far as can be told without its file. Raises ``ConfigInvalid``."""
    _parse(text, lambda _: {})
    if not re.fullmatch(PATTERN, text):
        raise ConfigInvalid(f"{text[:80]!r} is not a strategy for offsets that a configuration may name", next_step=_NEXT_STEP)
    return text


def _parse(text: str, read: ReadOffsets) -> OffsetStrategy:
    kind, colon, argument = text.partition(":")
    strategy = _BY_KIND.get(kind)
    if strategy is None:
        raise ConfigInvalid(f"{text[:80]!r} is no strategy for offsets", next_step=_NEXT_STEP)
    alone = strategy.FORM == strategy.KIND
    if alone == bool(colon) or (not alone and not argument):
        raise ConfigInvalid(f"{text[:80]!r} is not a whole strategy for offsets", next_step=_NEXT_STEP)
    return strategy.parse(text, argument, read)
