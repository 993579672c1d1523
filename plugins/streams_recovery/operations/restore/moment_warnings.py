"""What to say before a restore to a moment: where its archive just ends, and what is not of the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streams_recovery.core.jobs.spec import RowSlice
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.restore.placement import Placed
from streams_recovery.core.restore.point_in_time import CUT_ROLES
from streams_recovery.core.topic_holds.held_value import MIN_COMPACTION_LAG
from streams_recovery.operations.restore.source import RestoreSource

_NAMED = 5
_HOUR_MS = 3_600_000


def moment_warnings(begin: RestoreSource, placed: Sequence[Placed]) -> tuple[str, ...]:
    """What to say before a restore to a moment: where the archive just ends, where it may have holes, and which globals are not of the moment."""
    if begin.point is None:
        return ()
    copied = {one.image.name for one in placed if one.made and one.image.role is TopicRole.INPUT}
    ends = () if begin.point.slice is not None else begin.cuts.items()
    whole = sorted(tp for tp, cut in ends if tp.topic in copied and cut.rows.first_later is None)
    living = sorted(one.name for one in placed if one.image.role is TopicRole.GLOBAL and not one.made)
    warnings = []
    if whole:
        named = ", ".join(map(str, whole[:_NAMED])) + (f" and {len(whole) - _NAMED} more" if len(whole) > _NAMED else "")
        warnings.append(
            f"nothing later than the moment is archived of {named}: all of it is taken, and what came after the savepoint is not in it"
        )
    ahead = {tp: cut.rows.ahead for tp, cut in sorted(begin.cuts.items()) if cut.rows.ahead}
    if ahead:
        warnings.append(
            f"{sum(ahead.values()):,} records are dated later than the moment, but savepoints of before it show that they had been written: they are "
            f"taken. They are in {_counted(ahead)}"
        )
    warnings += _of_interval({tp: part for tp, cut in sorted(begin.cuts.items()) if (part := cut.rows.slice) is not None})
    behind = {tp: cut.rows.behind for tp, cut in sorted(begin.cuts.items()) if cut.rows.behind}
    if behind:
        warnings.append(
            f"by position, {sum(behind.values()):,} records of the moment or earlier come after the first later record of their partition and are left "
            f"out: {_counted(behind)}. By timestamp they are taken"
        )
    cleaned = sorted(one.image.name for one in placed if one.image.role in CUT_ROLES and one.made and _compacted_early(one.image))
    if cleaned:
        warnings.append(
            f"a version of a key that was replaced soon may have been compacted away before a savepoint copied it, in {', '.join(cleaned)}: give "
            f"them a {MIN_COMPACTION_LAG} longer than the time between savepoints"
        )
    if begin.passed_archive:
        warnings.append(
            f"the input is that of savepoint {begin.point.archive}, and what newer savepoints have of it is not looked at: {begin.passed_archive}"
        )
    if begin.unreadable:
        warnings.append(f"savepoints that could not be read, and their archive may reach further: {', '.join(begin.unreadable[:_NAMED])}")
    if living:
        warnings.append(f"global topics are read as they are now, not as of the moment: {', '.join(living)}")
    return tuple(warnings)


def _of_interval(slices: Mapping[TopicPartition, RowSlice]) -> list[str]:
    warnings = []
    wrong = {tp: part.wrong for tp, part in slices.items() if part.wrong}
    if wrong:
        warnings.append(
            f"{sum(wrong.values()):,} records are dated later than they were written, as savepoints show: their clocks were wrong, so they are left out, "
            f"and the records behind them are read. They are in {_counted(wrong)}"
        )
    for what, late in (
        ("of the interval", {tp: part.left for tp, part in slices.items() if part.left}),
        ("around the interval", {tp: part.around for tp, part in slices.items() if part.around}),
    ):
        if late:
            warnings.append(
                f"{sum(late.values()):,} records {what} come behind a record that is later than lateness allows, and are left out. They are in "
                f"{_counted(late)}"
            )
    return warnings


def _counted(records: Mapping[TopicPartition, int]) -> str:
    named = ", ".join(f"{tp} ({count:,})" for tp, count in list(records.items())[:_NAMED])
    return named + (f" and {len(records) - _NAMED} more partitions" if len(records) > _NAMED else "")


def _compacted_early(topic: TopicImage) -> bool:
    return "compact" in topic.config.get("cleanup.policy", "") and int(topic.config.get(MIN_COMPACTION_LAG, "0")) < _HOUR_MS
