"""Computes every committed offset of a restored application, from the strategy, the manifest and the present logs. Pure: the same arguments give the
same result.

Metadata contains the stream time at which everything below the offset was processed. It is kept only with the exact offset. At an earlier offset,
repeated records would lie before stream time: they would be counted again, but nothing would be emitted for them. At a later offset it would cover
records that were never processed. Kafka's own tools always omit the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import Logs, OffsetStrategy
from streams_recovery.core.repository.manifest import PartitionImage
from streams_recovery.core.repository.survival import RowsBelow, translate
from streams_recovery.core.restore.planned import OffsetToSet
from streams_recovery.core.restore.rebuild import Placed
from streams_recovery.core.words import first_names


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOffsets:
    """One offset for every partition on which the application commits. ``agree`` is True if all of them match the restored state."""

    offsets: tuple[OffsetToSet, ...]
    agree: bool
    warnings: tuple[str, ...]


def input_images(placed: Sequence[Placed]) -> dict[TopicPartition, tuple[Placed, PartitionImage]]:
    """Every partition whose offset the strategy chooses, by its name in the target."""
    return {
        TopicPartition(one.name, image.partition): (one, image)
        for one in placed
        if one.image.role is TopicRole.INPUT
        for image in one.image.partitions
    }


def begun_by_savepoint(placed: Sequence[Placed]) -> frozenset[str]:
    """Topics for which the savepoint says where the application goes on, or that are made anew. Not a topic that the application only wrote then and reads now:
    the savepoint has no offset on it, and a later offset would skip records that the restored state has not read.
    """
    return frozenset(one.name for one in placed if one.made or one.image.role is TopicRole.INPUT)


def choose_offsets(
    placed: Sequence[Placed],
    strategy: OffsetStrategy,
    logs: Logs,
    *,
    auto_offset_reset: str,
    rows_below: RowsBelow,
    joined: Mapping[TopicPartition, int] | None = None,
) -> ChosenOffsets:
    """The offsets to commit: inputs by ``strategy``, repartition topics always exact, because their loaded records are counted from zero. ``joined`` are
    inputs that the savepoint does not have, with where its state goes on there.

    A partition without a commit also gets an offset, where ``auto_offset_reset`` would begin. A table that is restored from its source topic is read
    up to the committed offset, and without one it would stay empty. Raises ``Refused`` for offsets outside the logs, and for listed partitions that
    are not inputs of the application, all at once.
    """
    strategy.check_made([one.name for one in placed if one.made and one.image.role is TopicRole.INPUT])
    joined = joined or {}
    exact = {tp: _to_set(tp, _exact(one, image, auto_offset_reset, rows_below), image) for tp, (one, image) in input_images(placed).items()}
    exact |= {tp: OffsetToSet(tp=tp, wanted=CommittedOffset(offset=offset, metadata="")) for tp, offset in joined.items()}
    unused = strategy.check_inputs(exact, {one.name for one in placed if one.image.role is TopicRole.REPARTITION})
    chosen = {tp: _chosen(tp, known, strategy, logs) for tp, known in exact.items()}
    _check_reach(strategy, exact, chosen, logs)
    agree = all(item.wanted.offset == exact[tp].wanted.offset for tp, item in chosen.items())
    offsets = (*(_by_rule(item, joined.get(tp)) for tp, item in chosen.items()), *_repartition(placed, rows_below))
    warnings = (
        *_joined(joined, auto_offset_reset),
        *_without_commit(placed, auto_offset_reset),
        *_disagreement(strategy, exact, chosen),
        *unused,
    )
    return ChosenOffsets(offsets=tuple(sorted(offsets, key=lambda item: item.tp)), agree=agree, warnings=warnings)


def _to_set(tp: TopicPartition, offset: int, image: PartitionImage) -> OffsetToSet:
    metadata = image.committed.metadata if image.committed else ""
    return OffsetToSet(tp=tp, wanted=CommittedOffset(offset=offset, metadata=metadata))


def _exact(placed: Placed, image: PartitionImage, auto_offset_reset: str, rows_below: RowsBelow) -> int:
    if placed.made and image.committed is not None:
        return _in_new_log(placed, image, rows_below)
    if image.committed is not None:
        return image.committed.offset
    first, last = (0, image.rows) if placed.made else (image.log_start, image.end)
    return last if auto_offset_reset == "latest" else first


def _repartition(placed: Sequence[Placed], rows_below: RowsBelow) -> list[OffsetToSet]:
    return [
        _to_set(TopicPartition(one.name, image.partition), _in_new_log(one, image, rows_below), image)
        for one in placed
        if one.image.role is TopicRole.REPARTITION
        for image in one.image.partitions
    ]


def _in_new_log(placed: Placed, image: PartitionImage, rows_below: RowsBelow) -> int:
    # The topic is created empty, so the first restored row gets offset 0. Without a commit nothing was read: begin at the first row.
    tp = TopicPartition(placed.image.name, image.partition)
    return 0 if image.committed is None else translate(tp, image.committed.offset, image, 0, rows_below)


def _chosen(tp: TopicPartition, exact: OffsetToSet, strategy: OffsetStrategy, logs: Logs) -> OffsetToSet:
    offset, fixed = strategy.place(tp, exact.wanted.offset, logs)
    same = offset == exact.wanted.offset
    wanted = exact.wanted if same else CommittedOffset(offset=offset, metadata="")
    return OffsetToSet(tp=tp, wanted=wanted, fixed=fixed)


def _by_rule(item: OffsetToSet, begins: int | None) -> OffsetToSet:
    """The offset of an input that the savepoint does not have is known from the log alone, whose beginning moves while a person reads the plan: the rule is
    approved, not the number.
    """
    return replace(item, fixed=False) if item.wanted.offset == begins else item


def _check_reach(
    strategy: OffsetStrategy, exact: Mapping[TopicPartition, OffsetToSet], chosen: Mapping[TopicPartition, OffsetToSet], logs: Logs
) -> None:
    beyond = {tp: item.wanted.offset for tp, item in chosen.items() if not logs.starts[tp] <= item.wanted.offset <= logs.ends[tp]}
    outside = [
        f"{tp}: {'committed offset' if offset == exact[tp].wanted.offset else 'offset'} {offset} is outside [{logs.starts[tp]}, {logs.ends[tp]}]"
        for tp, offset in beyond.items()
    ]
    if outside:
        raise Refused(
            f"records would be skipped, or all be read again: {'; '.join(outside)}",
            next_step=strategy.NEXT_STEP_OUTSIDE,
            problems=outside,
            offsets={str(tp): offset for tp, offset in beyond.items()},
            logs={str(tp): (logs.starts[tp], logs.ends[tp]) for tp in beyond},
        )


def _joined(joined: Mapping[TopicPartition, int], auto_offset_reset: str) -> tuple[str, ...]:
    names = sorted({tp.topic for tp in joined})
    # Nothing else tells where it was then, and a producer may date its records as it likes.
    where = "at the time of the savepoint, by the dates of their records," if auto_offset_reset == "latest" else "at their beginnings"
    return (
        (
            f"read since the savepoint, whose state has nothing of them, so these begin {where} unless the strategy says otherwise: {first_names(names)}",
        )
        if names
        else ()
    )


def _without_commit(placed: Sequence[Placed], auto_offset_reset: str) -> tuple[str, ...]:
    where = "at the end it had at the savepoint" if auto_offset_reset == "latest" else "at the start it had at the savepoint"
    missing = [tp for tp, (_, image) in input_images(placed).items() if image.committed is None]
    return (
        (f"without a committed offset at the savepoint, so these begin {where} unless the strategy says otherwise: {first_names(missing)}",)
        if missing
        else ()
    )


def _disagreement(
    strategy: OffsetStrategy, exact: Mapping[TopicPartition, OffsetToSet], chosen: Mapping[TopicPartition, OffsetToSet]
) -> tuple[str, ...]:
    again = {
        tp: exact[tp].wanted.offset - item.wanted.offset for tp, item in chosen.items() if item.wanted.offset < exact[tp].wanted.offset
    }
    skipped = {
        tp: item.wanted.offset - exact[tp].wanted.offset for tp, item in chosen.items() if item.wanted.offset > exact[tp].wanted.offset
    }
    warnings = []
    if again or skipped:
        warnings.append(
            f"offsets are set by `{strategy.text}` and disagree with the restored state on {len(again) + len(skipped)} partitions"
        )
    if again:
        warnings.append(f"up to {sum(again.values()):,} input records are counted a second time: {first_names(again)}")
    if skipped:
        warnings.append(f"up to {sum(skipped.values()):,} input records are never counted: {first_names(skipped)}")
    dropped = [tp for tp in (*again, *skipped) if exact[tp].wanted.metadata]
    if dropped:
        warnings.append(f"stream time begins again on {len(dropped)} partitions: results of closed windows can be emitted again")
    return (*warnings, *strategy.cut_off([tp for tp, item in chosen.items() if not item.fixed]))
