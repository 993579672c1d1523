"""The plan of a restore that brings back a state: the cluster is looked at once, and the topics, their settings and the offsets are decided on that. Changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.archive.log import goes_into_archive
from streams_recovery.core.kafka_types import ClaimedTopic, Evidence, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import Logs
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.restore.estimate import estimate
from streams_recovery.core.restore.failover import fewer_replicas
from streams_recovery.core.restore.input_offsets import ChosenOffsets, begun_by_savepoint, choose_offsets, input_images
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import Observed, TopicToCreate, TopicToDelete
from streams_recovery.core.restore.rebuild import Placed, place, target_name
from streams_recovery.core.restore.request import Safeguards
from streams_recovery.core.restore.topic_settings import setting_warnings
from streams_recovery.core.savepoint.topology import Attribution
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import attributions
from streams_recovery.operations.preflight import required_for_restore
from streams_recovery.operations.restore.checks import (
    check_whole,
    proven,
    refuse_existing_state,
    refuse_foreign_topics,
    refuse_lost_settings,
    refuse_unwanted,
    spans,
    unknown_topics,
    warnings,
)
from streams_recovery.operations.restore.evidence import earlier_restores
from streams_recovery.operations.restore.inputs_there import check_kept, joined_inputs
from streams_recovery.operations.restore.placing import (
    RestoreSource,
    partition_load,
    present_topics,
    same_input,
    target_of,
    target_settings,
    topic_to_create,
)
from streams_recovery.operations.restore.rebuild_plan import archived_input
from streams_recovery.segments.queries import rows_below


def plan_state(recovery: RecoveryContext, safeguards: Safeguards, source: RestoreSource, mine: Mapping[str, set[str]]) -> RestorePlan:
    """The plan of a restore that begins from ``source``. Blocking findings of the preflight are refused first, all at once.

    Raises ``TargetNotEmpty`` for internal topics that hold records and may not be replaced, and ``Refused`` for topics that cannot be placed.
    """
    safeguards = replace(safeguards, delete=(*safeguards.delete, *source.deletes))
    fewer, _ = fewer_replicas(source.manifest, factor=recovery.config.restore.replication_factor, brokers=None)
    source = replace(source, manifest=fewer, with_state=True)
    later = source.later()
    cut = {*(topic.name for topic in later), *source.again}
    found = required_for_restore(recovery, source.manifest, safeguards, cut={*cut, *source.renumbered})
    present = present_topics(recovery, source.manifest, mine)
    source, left = _with_archived(recovery, source, present)
    seen = _look(recovery, source, present, cut)
    _check_placed(recovery, safeguards, source, seen)
    going = _going(recovery, safeguards, source, seen)
    made = _made(recovery, source, seen)
    inputs = _inputs(recovery, source, seen)
    planned = RestorePlan(
        application_id=recovery.application_id,
        source_application_id=source.manifest.application_id,
        savepoint_id=source.manifest.savepoint_id,
        captured_at=source.manifest.captured_at,
        consistency=source.manifest.consistency,
        safety=safeguards.safety,
        delete=going.unknown,
        create=made.create,
        offsets=inputs.chosen.offsets,
        strategy=source.offsets.text,
        offsets_agree=inputs.chosen.agree,
        warnings=(
            *source.warnings,
            *left,
            *_unlogged(recovery),
            *(f"{claim.topic} is in the savepoint and stays as it is: {claim.why}" for claim in seen.stays),
            *inputs.chosen.warnings,
            *inputs.kept,
            *warnings(recovery, source.manifest, seen.made),
            *made.warnings,
            *source.warnings_about(seen.placed),
            *found,
        ),
        observed=_observe(recovery, source, seen, inputs),
        # Last, and right before what it is about.
        part=source.whole_part(recovery, present, later),
        claimed=tuple(one.claim for one in seen.whose.values() if one.claim is not None),
        evidence=going.evidence,
    )
    expected = estimate(planned.sizes, earlier_restores(recovery), recovery.config.restore.throttle)
    return replace(planned, observed=replace(planned.observed, estimate=expected))


def _with_archived(
    recovery: RecoveryContext, source: RestoreSource, present: Mapping[str, TopicDescription]
) -> tuple[RestoreSource, tuple[str, ...]]:
    """The source with its inputs and globals that are gone extended by the archive, and the reasons why archived input is not used."""
    manifest = source.manifest
    if source.archive_entry == 0:
        return source, ()
    topic_map, dialect = recovery.config.restore.topic_map, recovery.config.dialect
    gone = {
        topic.name
        for topic in manifest.topics
        if goes_into_archive(topic) and target_name(topic, manifest, recovery.application_id, topic_map, dialect) not in present
    }
    behind = archived_input(recovery, manifest, gone, upto=source.archive_entry)
    return replace(source, manifest=behind.manifest, part=source.part.with_archived(behind.archived)), behind.left


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The topics of the savepoint on this cluster."""

    # Those that are there, by their names here.
    present: Mapping[str, TopicDescription]
    # How many offsets each of these spans that holds any.
    filled: Mapping[str, int]
    placed: tuple[Placed, ...]
    # Whose each internal topic of the cluster is.
    whose: Mapping[str, Attribution]
    # Topics of the savepoint that are another application's, from when nothing showed that they are.
    stays: tuple[ClaimedTopic, ...]

    @property
    def made(self) -> list[TopicImage]:
        """The images of the topics that are made."""
        return [one.image for one in self.placed if one.made]

    @property
    def held(self) -> dict[str, int]:
        """Topics that are made again although they hold something, with how many offsets they span."""
        return {one.name: self.filled[one.name] for one in self.placed if one.made and one.name in self.filled}

    @property
    def anew(self) -> dict[str, TopicImage]:
        """The images of the topics that are made, but for inputs that are cut, by the names that they get."""
        return {one.name: one.image for one in self.placed if one.made and not same_input(one, self.present.get(one.name))}


def _look(recovery: RecoveryContext, source: RestoreSource, present: dict[str, TopicDescription], cut: Iterable[str]) -> _Seen:
    filled = spans(recovery, present)
    target = target_of(recovery, source.manifest, source.staying(recovery, present, cut), filled, source.part.move)
    placed = place(source.manifest, target)
    saved = {one.name: one.image.evidence for one in placed if one.image.role.internal and one.image.evidence is not None}
    whose = attributions(recovery, saved)
    claims = {name: found.claim for name, found in whose.items() if found.claim is not None}
    return _Seen(
        present=present,
        filled=filled,
        placed=tuple(one for one in placed if one.name not in claims),
        whose=whose,
        stays=tuple(claims[one.name] for one in placed if one.name in claims),
    )


def _check_placed(recovery: RecoveryContext, safeguards: Safeguards, source: RestoreSource, seen: _Seen) -> None:
    source.refuse_placed(seen.placed)
    refuse_foreign_topics(recovery, seen.placed)
    check_whole(seen.made)
    if not safeguards.replace:
        refuse_existing_state(recovery, seen.held)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaving:
    """Topics that go because the savepoint does not know them, and the evidence for all internal topics that go."""

    unknown: tuple[TopicToDelete, ...]
    evidence: dict[str, Evidence]


def _going(recovery: RecoveryContext, safeguards: Safeguards, source: RestoreSource, seen: _Seen) -> _Leaving:
    unknown = unknown_topics(recovery, source.manifest, {one.name for one in seen.placed}, seen.whose, safeguards)
    replaced = {one.name for one in seen.placed if one.image.role.internal and one.name in seen.present}
    going = replaced | {topic.name for topic in unknown}
    brought_back = {one.name for one in seen.placed if one.made}
    return _Leaving(unknown=unknown, evidence=proven(recovery, going, seen.whose, safeguards, brought_back=brought_back))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The topics that are made, and what is to be told of their settings."""

    create: tuple[TopicToCreate, ...]
    warnings: tuple[str, ...]


def _made(recovery: RecoveryContext, source: RestoreSource, seen: _Seen) -> _Made:
    placed = [one for one in seen.placed if one.made]
    there = target_settings(recovery, placed)
    refuse_lost_settings(recovery, seen.anew, there)
    create = tuple(topic_to_create(one, seen.present.get(one.name), source, recovery.config.dialect, there) for one in placed)
    refuse_unwanted(recovery, create)
    return _Made(create=create, warnings=setting_warnings(seen.anew, there))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """The places where the application goes on in its inputs. ``joined`` are inputs that the savepoint does not have, with their offsets; ``kept`` says what is
    to be known of those that stay.
    """

    joined: Mapping[TopicPartition, int]
    logs: Logs
    chosen: ChosenOffsets
    kept: tuple[str, ...]


def _inputs(recovery: RecoveryContext, source: RestoreSource, seen: _Seen) -> _Inputs:
    joined = joined_inputs(recovery, source.manifest, begun_by_savepoint(seen.placed))
    source.refuse_joined(joined)
    logs = _logs(recovery, source, seen, joined)
    chosen = choose_offsets(
        seen.placed,
        source.offsets,
        logs,
        auto_offset_reset=recovery.config.application.auto_offset_reset,
        rows_below=lambda file, offset: rows_below(recovery.repository, file, offset),
        joined=joined,
    )
    unproven = [one for one in seen.placed if one.name not in source.proven_inputs]
    kept = check_kept(recovery, unproven, seen.present, source.offsets, source.manifest.proof.past_end)
    return _Inputs(joined=joined, logs=logs, chosen=chosen, kept=tuple(kept))


def _logs(recovery: RecoveryContext, source: RestoreSource, seen: _Seen, joined: Iterable[TopicPartition]) -> Logs:
    cluster, inputs = recovery.cluster, input_images(seen.placed)
    kept = [*(tp for tp, (one, _) in inputs.items() if not one.made), *joined]
    # What is made begins at 0 and ends behind the rows that will be loaded.
    new = {tp: partition_load(one.image, image, source).rows for tp, (one, image) in inputs.items() if one.made}
    return Logs(
        starts=dict.fromkeys(new, 0) | cluster.log_starts(kept),
        stable=new | cluster.last_stable_offsets(kept),
        ends=new | cluster.high_watermarks(kept),
        at_time={} if (moment := source.offsets.moment(recovery.clock())) is None else cluster.offsets_for_times(kept, moment),
    )


def _unlogged(recovery: RecoveryContext) -> tuple[str, ...]:
    unlogged = [name for name, store in recovery.config.stores.items() if not store.logged]
    return tuple(f"store {name} has no changelog: it begins empty, and fills only with what is processed from now on" for name in unlogged)


def _observe(recovery: RecoveryContext, source: RestoreSource, seen: _Seen, inputs: _Inputs) -> Observed:
    offsets = inputs.chosen.offsets
    names = {*(one.name for one in seen.placed if one.image.role is TopicRole.INPUT), *(tp.topic for tp in inputs.joined)}
    before = recovery.groups.last_committed(recovery.application_id)
    return Observed(
        instances=(*source.running, *(f"{i.name} ({i.detail})" for i in not_gone(recovery))),
        offsets_replaced=seen.held,
        offsets_before={item.tp: before[item.tp].offset for item in offsets if item.tp in before},
        records_to_catch_up=sum(inputs.logs.lag(item.tp, item.wanted.offset).behind for item in offsets if item.tp.topic in names),
    )
