"""The plan of a restore, from a savepoint and what is on the cluster now. Changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from streams_recovery.core.approval import pin_of
from streams_recovery.core.archive.log import goes_into_archive
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs.spec import RowSlice
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import Logs
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.repository.survival import ARCHIVE_OUTPUTS, empty_outputs
from streams_recovery.core.restore.estimate import estimate
from streams_recovery.core.restore.failover import fewer_replicas
from streams_recovery.core.restore.input_offsets import ChosenOffsets, begun_by_savepoint, choose_offsets, input_images
from streams_recovery.core.restore.parts import RestorePart
from streams_recovery.core.restore.parts.moment import CutPart, MomentPart
from streams_recovery.core.restore.parts.upgrade import UpgradePart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import Observed, OffsetToSet
from streams_recovery.core.restore.point_in_time import CUT_ROLES, LaterTopic
from streams_recovery.core.restore.rebuild import Placed, place, target_name
from streams_recovery.core.restore.request import Safeguards, SafetyPolicy
from streams_recovery.core.restore.topic_settings import setting_warnings
from streams_recovery.core.topic_holds.compaction_guard import MIN_COMPACTION_LAG
from streams_recovery.core.topic_settings import compacts
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import attributions, input_partitions
from streams_recovery.operations.preflight import required_for_restore
from streams_recovery.operations.restore.checks import (
    check_confirmed,
    check_whole,
    proven,
    refuse_existing_inputs,
    refuse_existing_state,
    refuse_foreign_topics,
    refuse_joined_inputs,
    refuse_lost_settings,
    refuse_unwanted,
    spans,
    unknown_topics,
    warnings,
    without_copies,
)
from streams_recovery.operations.restore.in_place import later_topics, look
from streams_recovery.operations.restore.inputs_there import check_kept, joined_inputs
from streams_recovery.operations.restore.placing import (
    RestoreSource,
    TopicsSource,
    UpgradeSource,
    partition_load,
    present_topics,
    same_input,
    target_of,
    target_settings,
    topic_to_create,
)
from streams_recovery.operations.restore.rebuild_plan import RebuildSource, archived_input, plan_rebuild
from streams_recovery.operations.restore.report import earlier_restores, sizes_of
from streams_recovery.operations.restore.strategies import Failover, FromSavepoint, RestoreRequest, Undo, UpgradeInPlace
from streams_recovery.operations.restore.topics_plan import plan_topics
from streams_recovery.operations.unfinished import newest_restore, plan_of, refuse_if_unfinished
from streams_recovery.segments.queries import rows_below

_NAMED = 5
_HOUR_MS = 3_600_000


def plan(recovery: RecoveryContext, request: RestoreRequest, *, mine: Mapping[str, set[str]] | None = None) -> RestorePlan:
    """Plan what this restore would do now. Changes nothing. ``mine`` has the ids of topics that an earlier attempt of the same restore created; those count as
    absent.

    Raises ``Refused`` for a missing confirmation, then as the request's strategy, and as ``_plan_source``, ``plan_rebuild`` or ``plan_topics``.
    """
    check_confirmed(recovery, request.safeguards)
    source = request.resolve(recovery)
    if isinstance(source, TopicsSource):
        # Nothing is started then.
        return plan_topics(recovery, source)
    if isinstance(source, UpgradeSource):
        planned = _plan_version(recovery, request.safeguards, source)
    elif isinstance(source, RebuildSource):
        planned = plan_rebuild(recovery, request.safeguards, source)
    else:
        planned = _plan_source(recovery, request.safeguards, source, mine or {})
    deploy = request.deployment(recovery, planned)
    otherwise = () if isinstance(request, Undo | UpgradeInPlace) else _deployed_otherwise(recovery, deploy)
    return replace(planned, deploy=deploy, warnings=(*planned.warnings, *otherwise))


def as_approved(request: RestoreRequest, approved: str | None) -> RestoreRequest:
    """The request with the cut of which an approval says that the plan is of its state, whatever cuts there are since."""
    entry = pin_of(approved or "")
    if entry is not None and isinstance(request, FromSavepoint | Failover) and request.state_entry is None:
        return replace(request, state_entry=entry)
    return request


def _deployed_otherwise(recovery: RecoveryContext, deploy: tuple[str, ...]) -> tuple[str, ...]:
    """The configuration still deploys a version that was taken back, until a person changes it."""
    last = newest_restore(recovery) if deploy else None
    try:
        before = () if last is None else plan_of(recovery, last).deploy
    except (Damaged, NotFound):
        return ()
    if before in ((), deploy):
        return ()
    return (
        f"restore {last} deployed by `{shlex.join(before)}`, and this one deploys by `{shlex.join(deploy)}`: see that this is the version that is to run",
    )


def _plan_version(recovery: RecoveryContext, safeguards: Safeguards, source: UpgradeSource) -> RestorePlan:
    """The plan of an upgrade in place. Raises ``Refused`` after a restore that failed, and for what would be in the way of it or of the way back; and
    ``NotFound`` for inputs that the new version would not find.
    """
    refuse_if_unfinished(recovery)
    inputs = set(input_partitions(recovery))
    # The way back replaces all of the state.
    found = required_for_restore(recovery, source.manifest, replace(safeguards, replace=True))
    before = {tp: known.offset for tp, known in recovery.groups.last_committed(recovery.application_id).items() if tp in inputs}
    return RestorePlan(
        application_id=recovery.application_id,
        source_application_id=recovery.application_id,
        savepoint_id=None,
        captured_at=None,
        consistency=None,
        safety=SafetyPolicy.REQUIRED,
        delete=(),
        create=(),
        offsets=(),
        strategy="kept",
        offsets_agree=True,
        warnings=tuple(f"for the way back: {one}" for one in found),
        observed=Observed(
            instances=tuple(f"{i.name} ({i.detail})" for i in not_gone(recovery)),
            offsets_replaced={},
            offsets_before=before,
            records_to_catch_up=0,
        ),
        offsets_kept=tuple(sorted(before)),
        part=UpgradePart(upgrade=source.change),
    )


def _plan_source(recovery: RecoveryContext, safeguards: Safeguards, source: RestoreSource, mine: Mapping[str, set[str]]) -> RestorePlan:
    """The plan of a restore that begins from ``source``. Blocking findings of the preflight are refused first, all at once.

    Raises ``TargetNotEmpty`` for internal topics that hold records and may not be replaced, and ``Refused`` for topics that cannot be placed.
    """
    safeguards = replace(safeguards, delete=(*safeguards.delete, *source.deletes))
    fewer, _ = fewer_replicas(source.manifest, factor=recovery.config.restore.replication_factor, brokers=None)
    source = replace(source, manifest=fewer)
    proven_inputs = source.part.move.kept if source.part.move is not None else ()
    later = later_topics(source) if source.in_place else ()
    names = {topic.name for topic in later}
    found = required_for_restore(recovery, source.manifest, safeguards, cut=names)
    source, left = _with_archived(recovery, source, mine)
    manifest = source.manifest
    present = present_topics(recovery, manifest, mine)
    filled = spans(recovery, present)
    placed = place(manifest, target_of(recovery, manifest, _staying(recovery, source, present, names), filled, source.part.move))
    saved = {one.name: one.image.evidence for one in placed if one.image.role.internal and one.image.evidence is not None}
    whose = attributions(recovery, saved)
    # A savepoint may have another application's topics, from when nothing showed that they are.
    stays = {name: attribution.claim for name, attribution in whose.items() if attribution.claim is not None}
    stays = {one.name: stays[one.name] for one in placed if one.name in stays}
    placed = tuple(one for one in placed if one.name not in stays)
    if source.part.archive is not None and not source.in_place:
        refuse_existing_inputs(placed)
    refuse_foreign_topics(recovery, placed)
    made = [one.image for one in placed if one.made]
    check_whole(made)
    held = {one.name: filled[one.name] for one in placed if one.made and one.name in filled}
    if not safeguards.replace:
        refuse_existing_state(recovery, held)
    unknown = unknown_topics(recovery, manifest, {one.name for one in placed}, whose, safeguards)
    going = {one.name for one in placed if one.image.role.internal and one.name in present} | {topic.name for topic in unknown}
    evidence = proven(recovery, going, whose, safeguards, brought_back={one.name for one in placed if one.made})
    there = target_settings(recovery, [one for one in placed if one.made])
    anew = {one.name: one.image for one in placed if one.made and not same_input(one, present.get(one.name))}
    refuse_lost_settings(recovery, anew, there)
    created = tuple(topic_to_create(one, present.get(one.name), source, recovery.config.dialect, there) for one in placed if one.made)
    refuse_unwanted(recovery, created)
    joined = joined_inputs(recovery, manifest, begun_by_savepoint(placed))
    if source.part.archive is not None:
        refuse_joined_inputs(joined)
    logs = _logs(recovery, placed, source, joined)
    chosen = _offsets(recovery, placed, source, logs, joined)
    kept = check_kept(recovery, [one for one in placed if one.name not in proven_inputs], present, source.offsets, manifest.proof.past_end)
    planned = RestorePlan(
        application_id=recovery.application_id,
        source_application_id=manifest.application_id,
        savepoint_id=manifest.savepoint_id,
        captured_at=manifest.captured_at,
        consistency=manifest.consistency,
        safety=safeguards.safety,
        delete=unknown,
        create=created,
        offsets=chosen.offsets,
        strategy=source.offsets.text,
        offsets_agree=chosen.agree,
        warnings=(
            *source.warnings,
            *left,
            *_warnings(recovery),
            *(f"{claim.topic} is in the savepoint and stays as it is: {claim.why}" for claim in stays.values()),
            *chosen.warnings,
            *kept,
            *warnings(recovery, manifest, made),
            *setting_warnings(anew, there),
            *moment_warnings(source, placed),
            *_emptied(source, placed),
            *found,
        ),
        observed=_observe(recovery, source, chosen.offsets, placed, joined, held, logs),
        # Last, and right before what it is about: the longest look, which has to hold until then.
        part=_looked_at(recovery, source, present, later),
        claimed=tuple(one.claim for one in whose.values() if one.claim is not None),
        evidence=evidence,
    )
    expected = estimate(sizes_of(planned), earlier_restores(recovery), recovery.config.restore.throttle)
    return replace(planned, observed=replace(planned.observed, estimate=expected))


def _emptied(source: RestoreSource, placed: Sequence[Placed]) -> tuple[str, ...]:
    """Outputs that are gone and come back empty. At another site the move tells of them, and for a moment they are to be empty."""
    if source.part.move is not None or source.part.archive is not None:
        return ()
    found = empty_outputs({one.name: one.image for one in placed if one.made})
    return tuple(f"{text}. {ARCHIVE_OUTPUTS}" for text in found)


def _with_archived(recovery: RecoveryContext, source: RestoreSource, mine: Mapping[str, set[str]]) -> tuple[RestoreSource, tuple[str, ...]]:
    """The source with its inputs and globals that are gone extended by the archive, and the reasons why archived input is not used."""
    manifest = source.manifest
    if source.part.archive is not None or source.archive_entry == 0:
        return source, ()
    present = present_topics(recovery, manifest, mine)
    topic_map, dialect = recovery.config.restore.topic_map, recovery.config.dialect
    gone = {
        topic.name
        for topic in manifest.topics
        if goes_into_archive(topic) and target_name(topic, manifest, recovery.application_id, topic_map, dialect) not in present
    }
    behind = archived_input(recovery, manifest, gone, upto=source.archive_entry)
    return replace(source, manifest=behind.manifest, part=source.part.with_archived(behind.archived)), behind.left


def _looked_at(
    recovery: RecoveryContext, source: RestoreSource, present: Mapping[str, TopicDescription], later: tuple[LaterTopic, ...]
) -> RestorePart:
    if source.may_move is None or not isinstance(source.part, MomentPart):
        return source.part
    return replace(source.part, in_place=look(recovery, source.may_move, source, present, later))


def _staying(
    recovery: RecoveryContext, source: RestoreSource, present: dict[str, TopicDescription], cut: set[str]
) -> dict[str, TopicDescription]:
    """Topics that are there and are not made again, inputs and outputs only: copies are made for each restore, and inputs that are cut are."""
    if source.in_place:
        images = {topic.name: topic.topic_id for topic in source.manifest.topics}
        return {name: found for name, found in present.items() if name not in cut or found.topic_id != images.get(name)}
    return present if source.part.archive is None else without_copies(recovery, present)


def _warnings(recovery: RecoveryContext) -> tuple[str, ...]:
    unlogged = [name for name, store in recovery.config.stores.items() if not store.logged]
    return tuple(f"store {name} has no changelog: it begins empty, and fills only with what is processed from now on" for name in unlogged)


def _logs(recovery: RecoveryContext, placed: Sequence[Placed], source: RestoreSource, joined: Iterable[TopicPartition]) -> Logs:
    cluster, inputs = recovery.cluster, input_images(placed)
    kept = [*(tp for tp, (one, _) in inputs.items() if not one.made), *joined]
    # What is made begins at 0 and ends behind the rows that will be loaded.
    new = {tp: partition_load(one.image, image, source).rows for tp, (one, image) in inputs.items() if one.made}
    return Logs(
        starts=dict.fromkeys(new, 0) | cluster.log_starts(kept),
        stable=new | cluster.last_stable_offsets(kept),
        ends=new | cluster.high_watermarks(kept),
        at_time={} if (moment := source.offsets.moment(recovery.clock())) is None else cluster.offsets_for_times(kept, moment),
    )


def _offsets(
    recovery: RecoveryContext, placed: Sequence[Placed], source: RestoreSource, logs: Logs, joined: Mapping[TopicPartition, int]
) -> ChosenOffsets:
    reset = recovery.config.application.auto_offset_reset
    return choose_offsets(
        placed, source.offsets, logs, auto_offset_reset=reset, rows_below=lambda f, c: rows_below(recovery.repository, f, c), joined=joined
    )


def _observe(
    recovery: RecoveryContext,
    source: RestoreSource,
    offsets: tuple[OffsetToSet, ...],
    placed: Sequence[Placed],
    joined: Iterable[TopicPartition],
    held: dict[str, int],
    logs: Logs,
) -> Observed:
    inputs = {*(one.name for one in placed if one.image.role is TopicRole.INPUT), *(tp.topic for tp in joined)}
    wanted = [item for item in offsets if item.tp.topic in inputs]
    before = recovery.groups.last_committed(recovery.application_id)
    return Observed(
        instances=(
            *source.running,
            *(f"{i.name} ({i.detail})" for i in not_gone(recovery)),
        ),
        offsets_replaced=held,
        offsets_before={item.tp: before[item.tp].offset for item in offsets if item.tp in before},
        records_to_catch_up=sum(logs.lag(item.tp, item.wanted.offset).behind for item in wanted),
    )


def moment_warnings(begin: RestoreSource, placed: Sequence[Placed]) -> tuple[str, ...]:
    """The warnings before a restore to a moment: where the archive just ends, where it may have holes, and which globals are not of the moment."""
    if not isinstance(begin.part, CutPart):
        return ()
    point = begin.part.point
    copied = {one.image.name for one in placed if one.made and one.image.role is TopicRole.INPUT}
    ends = () if point.slice is not None else begin.cuts.items()
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
            f"the input is that of savepoint {point.archive}, and what newer savepoints have of it is not looked at: {begin.passed_archive}"
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
    return compacts(topic.config) and int(topic.config.get(MIN_COMPACTION_LAG, "0")) < _HOUR_MS
