"""Decides where an application begins in its inputs when its state is rebuilt from them. Pure: uses the present logs and group offsets.

There is no restored state that the offsets could match. Metadata is never set, because stream time begins again with the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.plan import OffsetToSet
from streams_recovery.core.words import first_names

_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildStart:
    """The start of each input. ``offsets`` has an entry for every partition."""

    offsets: tuple[OffsetToSet, ...]
    warnings: tuple[str, ...]


def rebuild_start(
    logs: Logs,
    strategy: OffsetStrategy,
    committed: Mapping[TopicPartition, int],
    *,
    written_by_application: Collection[str],
    accept_gap: bool,
    archived: Mapping[TopicPartition, int] | None = None,
) -> RebuildStart:
    """An offset for every partition of ``logs``. ``committed`` are the group's present offsets. Topics that are ``written_by_application`` begin at their
    end, whatever the strategy, because the application writes their contents again. ``archived`` are the partitions that are created from an archive,
    with the first offset from which it is complete. Offsets of the old log; the new log begins at 0.

    Raises ``Refused``, for all partitions at once: for a strategy that means nothing without state; for offsets outside the logs; for one that reads from
    the start if records at the beginning of a log are gone, unless ``accept_gap``; and for any other if inputs are created.
    """
    archived = archived or {}
    again = {tp for tp in logs.starts if tp.topic in written_by_application}
    strategy.check_rebuild(set(logs.starts) - again, logs.starts, committed)
    _check_made(strategy, archived)
    offsets = tuple(
        _at_end(tp, logs) if tp in again else _placed(tp, committed.get(tp, logs.starts[tp]), strategy, logs) for tp in sorted(logs.starts)
    )
    _check_reach(offsets, logs)
    begins = {**logs.starts, **archived}
    gap = {tp: begins[tp] for tp in sorted(logs.starts) if tp not in again and begins[tp] > 0}
    if strategy.FROM_START and gap and not accept_gap:
        raise Refused(
            f"the beginning of the input is gone: {_starts(gap)}; the state needs all of it, from offset 0",
            next_step="restore the state from a savepoint; rebuild from archived input in separate topics; or, if no store needs the missing "
            "records (expired windows), set accept_gap",
            gap={str(tp): start for tp, start in gap.items()},
        )
    return RebuildStart(offsets=offsets, warnings=(*_partial(strategy, offsets, logs, again), *_gap(gap), *_again(again)))


def _check_made(strategy: OffsetStrategy, archived: Mapping[TopicPartition, int]) -> None:
    if archived and not strategy.FROM_START:
        raise Refused(
            f"inputs that are created from a savepoint begin at their start, not by {strategy.text!r}: {first_names(archived)}",
            next_step="choose earliest",
            strategy=strategy.text,
            archived=[str(tp) for tp in archived],
        )


def _placed(tp: TopicPartition, committed: int, strategy: OffsetStrategy, logs: Logs) -> OffsetToSet:
    offset, fixed = strategy.place(tp, committed, logs)
    return OffsetToSet(tp=tp, wanted=CommittedOffset(offset=offset, metadata=""), fixed=fixed)


def _at_end(tp: TopicPartition, logs: Logs) -> OffsetToSet:
    return OffsetToSet(tp=tp, wanted=CommittedOffset(offset=logs.stable[tp], metadata=""), fixed=False)


def _check_reach(offsets: Collection[OffsetToSet], logs: Logs) -> None:
    outside = [
        f"{item.tp}: offset {item.wanted.offset} is outside [{logs.starts[item.tp]}, {logs.ends[item.tp]}]"
        for item in offsets
        if not logs.starts[item.tp] <= item.wanted.offset <= logs.ends[item.tp]
    ]
    if outside:
        raise Refused("; ".join(outside), next_step="choose offsets within the logs", problems=outside)


def _partial(strategy: OffsetStrategy, offsets: Collection[OffsetToSet], logs: Logs, again: Collection[TopicPartition]) -> list[str]:
    skipped = {
        item.tp: item.wanted.offset - logs.starts[item.tp]
        for item in offsets
        if item.tp not in again and item.wanted.offset > logs.starts[item.tp]
    }
    if not skipped:
        return []
    return [
        f"inputs begin by `{strategy.text}`: the state will not contain up to {sum(skipped.values()):,} earlier input records, in {first_names(skipped)}"
    ]


def _gap(gap: Mapping[TopicPartition, int]) -> list[str]:
    return [f"input that the state may need is gone: {_starts(gap)}"] if gap else []


def _again(again: Collection[TopicPartition]) -> list[str]:
    return [f"read and written by the application itself, so these begin at the end: {first_names(again)}"] if again else []


def _starts(gap: Mapping[TopicPartition, int]) -> str:
    shown = ", ".join(f"{tp} starts at {start}" for tp, start in list(gap.items())[:_NAMED])
    return shown if len(gap) <= _NAMED else f"{shown} and {len(gap) - _NAMED} more"
