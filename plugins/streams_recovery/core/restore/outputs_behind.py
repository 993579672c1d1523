"""The records of outputs that the state of a savepoint has not caused: what an application writes again that goes on from it.

Of a savepoint by the names of transactions they are the records behind the end of its transactions in a log, and those of other transactions in between. Of
another one they are what is behind the end that the log had. An output that is loaded together with the state is loaded without them; one that is loaded by
itself with them, as nobody writes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from streams_recovery.core.jobs.spec import CutBy, OffsetSpan, RowCut
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import NamedLogCut
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage

FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsBehind:
    """The records of one log in numbers: ``offsets`` of them between ``first`` and ``last``. See ``OutputBehind``."""

    tp: TopicPartition
    exact: bool
    offsets: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBehind:
    """The records of one log, as ``spans`` of offsets in their order; transaction markers between records are in them. ``exact``: there are no others, and all
    of these are such records; else there may be more of them.
    """

    tp: TopicPartition
    exact: bool
    spans: tuple[OffsetSpan, ...]

    @property
    def offsets(self) -> int:
        """The number of their offsets."""
        return sum(one.last - one.first + 1 for one in self.spans)

    @property
    def facts(self) -> ResultsBehind:
        """Without the single spans."""
        return ResultsBehind(tp=self.tp, exact=self.exact, offsets=self.offsets, first=self.spans[0].first, last=self.spans[-1].last)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsBehind:
    """The records of all outputs that stay where they are while an application goes on from ``savepoint_id``, as its restore stores them."""

    format_version: int
    restore_id: str
    savepoint_id: str
    outputs: tuple[OutputBehind, ...]


class StateEnd(NamedTuple):
    """Where the state ends in a log of an output: below ``start`` all is in it, and between there and ``end`` all but ``out``."""

    start: int
    end: int
    out: tuple[OffsetSpan, ...]
    named: bool

    @classmethod
    def of(cls, manifest: Manifest, name: str, image: PartitionImage) -> StateEnd:
        """``name`` is that of the topic in the savepoint."""
        log = named_log(manifest, name, image)
        if log is None:
            return cls(image.end, image.end, (), named=False)
        return cls(log.start, log.end, out_of(log), named=True)

    def behind(self, upto: int) -> tuple[OffsetSpan, ...]:
        """The spans that the state has not caused, of a log that ends at ``upto``."""
        rest = (OffsetSpan(first=self.end, last=upto - 1),) if upto > self.end else ()
        return joined((*self.out, *rest))


def named_log(manifest: Manifest, name: str, image: PartitionImage) -> NamedLogCut | None:
    """What the proof by names says of a log, None if it says nothing."""
    names = manifest.proof.names
    return None if names is None else names.logs.get(TopicPartition(name, image.partition))


def out_of(log: NamedLogCut) -> tuple[OffsetSpan, ...]:
    """Committed records that are not in the cut."""
    return joined(OffsetSpan(first=one.first, last=one.last) for one in log.excluded if not one.aborted)


def joined(spans: Iterator[OffsetSpan] | tuple[OffsetSpan, ...]) -> tuple[OffsetSpan, ...]:
    """The ``spans``, those that follow each other as one."""
    found: list[OffsetSpan] = []
    for one in spans:
        if found and found[-1].last + 1 == one.first:
            found[-1] = OffsetSpan(first=found[-1].first, last=one.last)
        else:
            found.append(one)
    return tuple(found)


def outputs_behind(manifest: Manifest, topics: Mapping[str, TopicImage], ends: Mapping[TopicPartition, int]) -> tuple[OutputBehind, ...]:
    """What lies behind the state in outputs, by their names here, that stay and end at ``ends``. Logs without such records are left out."""
    proven = manifest.consistency is Consistency.EXACT and manifest.guarantee is Guarantee.EXACTLY_ONCE_V2
    found = []
    for name, topic in topics.items():
        for image in topic.partitions if topic.role is TopicRole.OUTPUT else ():
            tp, end = TopicPartition(name, image.partition), StateEnd.of(manifest, topic.name, image)
            if spans := end.behind(ends.get(tp, 0)):
                # While it works, its outputs are read after the cut and may have more by then.
                exact = proven and (end.named or manifest.proof.mode is not QuiesceMode.LIVE)
                found.append(OutputBehind(tp=tp, exact=exact, spans=spans))
    return tuple(found)


def in_state(manifest: Manifest, topic: TopicImage, image: PartitionImage) -> RowCut | None:
    """The rows of an archived output that the state of a savepoint has caused, None if all of its rows are such."""
    log = named_log(manifest, topic.name, image) if topic.role is TopicRole.OUTPUT else None
    if log is None or not log.left_out or not image.ranges.facts.rows:
        return None
    return RowCut(
        by=CutBy.POSITION,
        moment=manifest.captured_at,
        first_later=None,
        rows=image.rows - log.left_out,
        late=0,
        left_out=out_of(log),
    )
