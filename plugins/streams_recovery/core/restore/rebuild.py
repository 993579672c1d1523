"""Decides where an application begins in its inputs when its state is rebuilt from them. Pure: uses the present logs and group offsets.

There is no restored state that the offsets could match. Metadata is never set, because stream time begins again with the state. Inputs that are left out
keep offset and metadata: nobody touches them.
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
    """The start of each input. Every partition is in ``offsets`` or in ``kept``: those keep what is committed. ``agree`` is False where the state will lack
    input that lies before a kept offset.
    """

    offsets: tuple[OffsetToSet, ...]
    kept: tuple[TopicPartition, ...]
    agree: bool
    warnings: tuple[str, ...]


def rebuild_start(
    logs: Logs,
    strategy: OffsetStrategy,
    committed: Mapping[TopicPartition, int],
    *,
    written_by_application: Collection[str],
    accept_gap: bool,
    topics: Collection[str] = (),
    archived: Mapping[TopicPartition, int] | None = None,
) -> RebuildStart:
    """An offset for every partition of ``topics``, empty for all inputs; those of other inputs are kept. ``committed`` are the group's present offsets.
    Topics that are ``written_by_application`` begin at their end, whatever the strategy, because the application writes their contents again.
    ``archived`` are the partitions that are created from an archive, with the first offset from which it is complete. Offsets of the old log; the new
    log begins at 0.

    Raises ``Refused``, for all partitions at once: for topics that are no inputs; for a strategy that means nothing without state; for offsets outside the
    logs, also for kept ones; for a strategy that reads from the start if records at the beginning of a log are gone, unless ``accept_gap``; and, if
    inputs are created, for any other strategy and for those of them that are left out.
    """
    archived = archived or {}
    kept = _left_out(logs.starts, topics, archived)
    begun = logs.starts.keys() - kept
    again = {tp for tp in begun if tp.topic in written_by_application}
    strategy.check_rebuild(begun - again, begun, committed)
    _check_made(strategy, archived)
    offsets = tuple(
        _at_end(tp, logs) if tp in again else _placed(tp, committed.get(tp, logs.starts[tp]), strategy, logs) for tp in sorted(begun)
    )
    _check_reach({item.tp: item.wanted.offset for item in offsets}, logs, "choose offsets within the logs")
    held = {tp: committed[tp] for tp in kept if tp in committed}
    _check_reach(held, logs, "these inputs keep their offsets and have no such records any more: let them begin anew too")
    begins = {**logs.starts, **archived}
    gap = {tp: begins[tp] for tp in sorted(begun - again) if begins[tp] > 0}
    if strategy.FROM_START and gap and not accept_gap:
        raise Refused(
            f"the beginning of the input is gone: {_starts(gap)}; the state needs all of it, from offset 0",
            next_step="restore the state from a savepoint; rebuild from archived input in separate topics; or, if no store needs the missing "
            "records (expired windows), set accept_gap",
            gap={str(tp): start for tp, start in gap.items()},
        )
    lacking = {tp: offset for tp, offset in held.items() if offset > 0}
    moved = [item.tp for item in offsets if not item.fixed and item.tp not in again]
    return RebuildStart(
        offsets=offsets,
        kept=tuple(sorted(kept)),
        agree=not lacking,
        warnings=(
            *_lacking(lacking),
            *_nowhere(kept - held.keys()),
            *_partial(strategy, offsets, logs, again),
            *strategy.cut_off(moved),
            *_gap(gap),
            *_again(again),
        ),
    )


def check_all_go(application_id: str, internal: Collection[str], named: Collection[str]) -> None:
    """Raise ``Refused`` unless ``named`` are all ``internal`` topics of the application, and no other. Without any nothing is said, and all of them go."""
    if not named:
        return
    if strange := sorted(set(named) - set(internal)):
        raise Refused(
            f"these are no internal topics of {application_id}: {first_names(strange)}; it has: {first_names(internal) or 'none'}",
            next_step="nothing was changed; name its internal topics, or none for all of them",
            topics=strange,
        )
    if staying := sorted(set(internal) - set(named)):
        raise Refused(
            f"these internal topics of {application_id} would stay: {first_names(staying)}. They contain the results of input that is processed again, so it "
            "would be counted twice",
            next_step="nothing was changed; name these too, or none for all of them. Name those of another application under topics.foreign in the "
            "configuration. To change one store only, use state-write",
            topics=staying,
        )


def _left_out(
    inputs: Collection[TopicPartition], topics: Collection[str], archived: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    known = {tp.topic for tp in inputs}
    if strange := sorted(set(topics) - known):
        raise Refused(
            f"these are no inputs: {first_names(strange)}; the inputs are: {first_names(known)}",
            next_step="nothing was changed; name inputs of the configuration (topics.inputs), or none for all of them",
            topics=strange,
        )
    kept = frozenset(tp for tp in inputs if topics and tp.topic not in topics)
    if made := sorted(kept.intersection(archived)):
        raise Refused(
            f"inputs that are created from a savepoint have no offset to keep: {first_names(made)}",
            next_step="nothing was changed; name these inputs too, or none for all of them",
            partitions=[str(tp) for tp in made],
        )
    return kept


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


def _check_reach(offsets: Mapping[TopicPartition, int], logs: Logs, next_step: str) -> None:
    outside = [
        f"{tp}: offset {offset} is outside [{logs.starts[tp]}, {logs.ends[tp]}]"
        for tp, offset in sorted(offsets.items())
        if not logs.starts[tp] <= offset <= logs.ends[tp]
    ]
    if outside:
        raise Refused("; ".join(outside), next_step=next_step, problems=outside)


def _lacking(lacking: Mapping[TopicPartition, int]) -> list[str]:
    if not lacking:
        return []
    count, where = sum(lacking.values()), first_names(lacking)
    return [
        f"inputs keep their offsets, and the new state lacks up to {count:,} records before these: {where}; joins and counts of them will be wrong"
    ]


def _nowhere(without: Collection[TopicPartition]) -> list[str]:
    return [f"nothing is committed on these, so they begin by auto.offset.reset: {first_names(without)}"] if without else []


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
