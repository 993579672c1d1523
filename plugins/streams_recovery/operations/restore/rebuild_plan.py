"""The plan of a rebuild: internal topics deleted, inputs begun where a person says, and the application builds its state again. Changes nothing.

Where the cluster has lost inputs, they are made first from a savepoint, if one was named, and from what is archived behind it. The checks at the end hold while
a rebuild is carried out: nothing goes that was not shown, and what was to go is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.archive.log import goes_into_archive
from streams_recovery.core.errors import Damaged, NotFound, PlanChanged, TargetNotEmpty
from streams_recovery.core.kafka_types import Profile, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import Logs, OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.repository.survival import archive_begins
from streams_recovery.core.restore.input_offsets import input_images
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import ArchivedInput, Observed, PartitionLoad, TopicToCreate, TopicToDelete
from streams_recovery.core.restore.rebuild import RebuildStart, check_all_go, place, rebuild_start
from streams_recovery.core.restore.request import OutputPolicy, Safeguards
from streams_recovery.core.restore.topic_settings import setting_warnings
from streams_recovery.core.savepoint.topology import Attribution, Topology, attributed, topology_of
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.words import LATEST, moment
from streams_recovery.operations.archive import archived_behind
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import internal_topics, known
from streams_recovery.operations.preflight import required_for_rebuild
from streams_recovery.operations.restore.checks import (
    check_files,
    check_published,
    pieces_of,
    proven,
    refuse_existing_state,
    refuse_lost_settings,
    refuse_unwanted,
    spans,
)
from streams_recovery.operations.restore.placing import (
    RestoreSource,
    empty_source,
    present_topics,
    target_of,
    target_settings,
    topic_to_create,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindSavepoint:
    """A savepoint, read with its ranges. ``archived`` is the archived input behind it with which its inputs and globals go on, None if there is none. ``left``
    says why archived input is not used.
    """

    manifest: Manifest
    archived: ArchivedInput | None = None
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """Inputs, globals and outputs that the cluster has lost, as they are made from a savepoint and what is archived ``behind`` it. ``begins`` has for each
    partition of the inputs among them the offset, in the log that is gone, from which all its records are there; ``settings`` what to
    tell of theirs.
    """

    behind: BehindSavepoint
    create: tuple[TopicToCreate, ...]
    begins: Mapping[TopicPartition, int]
    settings: tuple[str, ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The ends of the inputs among them, once they are loaded."""
        rows = {TopicPartition(step.name, part.partition): part.rows for step in self.create for part in step.partitions}
        return {tp: rows[tp] for tp in self.begins}


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildSource:
    """No state, and inputs that begin where ``offsets`` says, with ``accept_gap`` also where older input is gone. ``archived`` is what is made from a
    savepoint first, None for nothing. ``input_topics`` are the inputs that begin anew, empty for all; ``internal_topics`` what is expected to go.
    """

    archived: Archived | None
    offsets: OffsetStrategy
    outputs: OutputPolicy
    accept_gap: bool
    input_topics: tuple[str, ...]
    internal_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The application as it is: its topics described, and what its group has committed. Those that are ``made`` are not there yet, or are empty."""

    inventory: Topology
    whose: Mapping[str, Attribution]
    topics: Mapping[str, TopicDescription]
    committed: Mapping[TopicPartition, int]
    made: frozenset[str]

    @property
    def internal(self) -> list[str]:
        """The internal topics, all of which go."""
        return [name for name in self.inventory.names(TopicRole.CHANGELOG, TopicRole.REPARTITION) if name in self.topics]

    def names(self, role: TopicRole) -> list[str]:
        """The topics with this role that stay as they are."""
        return [name for name in self.inventory.names(role) if name not in self.made]

    def partitions(self, role: TopicRole) -> list[TopicPartition]:
        """Every partition of these."""
        return [TopicPartition(name, number) for name in self.names(role) for number in range(self.topics[name].partitions)]


def plan_rebuild(recovery: RecoveryContext, safeguards: Safeguards, source: RebuildSource) -> RestorePlan:
    """The plan of a rebuild that begins from ``source``.

    Raises ``NotFound`` for declared topics that do not exist, ``TargetNotEmpty`` for internal topics that hold records and may not be replaced or
    are not known to be the application's, and ``Refused`` for offsets that cannot be.
    """
    archived = source.archived
    warnings = required_for_rebuild(recovery, safeguards, archived.behind.manifest if archived else None)
    found = _look(recovery, archived)
    check_all_go(recovery.application_id, found.internal, source.internal_topics)
    named = replace(safeguards, delete=(*safeguards.delete, *source.internal_topics))
    evidence = proven(recovery, found.internal, found.whose, named)
    gone = tuple(TopicToDelete(name=name, topic_id=found.topics[name].topic_id) for name in evidence)
    outputs = _outputs(found) if source.outputs is OutputPolicy.RECREATE else ()
    create = (*(archived.create if archived else ()), *outputs)
    refuse_unwanted(recovery, create)
    held = spans(recovery, {name: found.topics[name] for name in (*(topic.name for topic in gone), *(topic.name for topic in outputs))})
    if not safeguards.replace:
        refuse_existing_state(recovery, held)
    logs = _logs(recovery, found, source)
    both = {name for name in recovery.config.topics.outputs if recovery.config.topics.reads(name)}
    begun = rebuild_start(
        logs,
        source.offsets,
        found.committed,
        written_by_application=both,
        accept_gap=source.accept_gap,
        topics=source.input_topics,
        archived=archived.begins if archived else None,
    )
    return RestorePlan(
        application_id=recovery.application_id,
        source_application_id=recovery.application_id,
        savepoint_id=None,
        captured_at=None,
        consistency=None,
        safety=safeguards.safety,
        delete=gone,
        create=create,
        offsets=begun.offsets,
        strategy=source.offsets.text,
        offsets_agree=begun.agree,
        warnings=(*warnings, *begun.warnings, *_about_archive(archived), *_about_outputs(recovery, found, outputs, held)),
        observed=_observe(recovery, begun, found, logs, held),
        claimed=found.inventory.claimed,
        evidence=evidence,
        part=RebuildPart(
            inputs_from=archived.behind.manifest.savepoint_id if archived else None, archived=archived.behind.archived if archived else None
        ),
        offsets_kept=begun.kept,
    )


def _look(recovery: RecoveryContext, archived: Archived | None) -> _Found:
    committed = recovery.groups.committed_partitions(recovery.application_id)
    made = frozenset(step.name for step in archived.create) if archived else frozenset()
    names = {*recovery.cluster.topic_names(), *made}
    wanted = recovery.config.declared(Profile.FULL, names)
    read = {tp.topic for tp in committed}
    here = known(recovery, names, read)
    inventory = topology_of(here, wanted, names, read)
    offsets = recovery.groups.committed(recovery.application_id, list(committed)) if committed else {}
    return _Found(
        inventory=inventory,
        whose={name: found for name in names if (found := attributed(name, here)) is not None},
        topics=recovery.cluster.describe_topics(inventory.names()),
        committed={tp: last.offset for tp, last in offsets.items() if last is not None},
        made=made,
    )


def _outputs(found: _Found) -> tuple[TopicToCreate, ...]:
    described = [found.topics[name] for name in found.names(TopicRole.OUTPUT)]
    return tuple(
        TopicToCreate(
            name=topic.name,
            role=TopicRole.OUTPUT,
            replication_factor=topic.replication_factor,
            held_config=owner_config(topic.config),
            final_config=owner_config(topic.config),
            replaces=topic.topic_id,
            partitions=tuple(PartitionLoad(partition=number, files=SegmentFiles.of(())) for number in range(topic.partitions)),
        )
        for topic in described
    )


def _logs(recovery: RecoveryContext, found: _Found, source: RebuildSource) -> Logs:
    cluster, inputs = recovery.cluster, found.partitions(TopicRole.INPUT)
    moment = source.offsets.moment(recovery.clock())
    # What is made begins at 0 and ends behind the rows that will be loaded.
    made = source.archived.ends if source.archived else {}
    return Logs(
        starts=dict.fromkeys(made, 0) | cluster.log_starts(inputs),
        stable=made | cluster.last_stable_offsets(inputs),
        ends=made | cluster.high_watermarks(inputs),
        at_time={} if moment is None else cluster.offsets_for_times(inputs, moment),
    )


def _about_archive(archived: Archived | None) -> list[str]:
    if archived is None:
        return []
    behind, left = archived.behind, [*archived.behind.left, *archived.settings]
    if not archived.begins:
        return left
    if behind.archived is not None:
        return [*left, f"inputs end where the archive ends, {moment(behind.archived.safe_at)}: what came to them after it is lost"]
    return [*left, f"inputs end where savepoint {behind.manifest.savepoint_id} ends: what came to them after it is lost"]


def _about_outputs(recovery: RecoveryContext, found: _Found, outputs: tuple[TopicToCreate, ...], held: Mapping[str, int]) -> list[str]:
    names = found.inventory.names(TopicRole.OUTPUT)
    if not names:
        return []
    if not outputs:
        return [f"results come once more, behind those that are there, in {', '.join(names)}"]
    lost = [f"{topic.name} ({held.get(topic.name, 0):,} offsets)" for topic in outputs]
    groups = "consumers that have committed on them begin again by their auto.offset.reset"
    declared = recovery.config.declared(Profile.FULL)
    unsaved = [topic.name for topic in outputs if not declared.archives(topic.name, topic.role)]
    kept = f", and no savepoint has what was in {', '.join(unsaved)}" if unsaved else ""
    return [f"outputs are emptied: {', '.join(lost)}; {groups}{kept}; `undo` does not bring their records back"]


def _observe(recovery: RecoveryContext, begun: RebuildStart, found: _Found, logs: Logs, held: dict[str, int]) -> Observed:
    wanted = {item.tp: item.wanted.offset for item in begun.offsets}
    before = {tp: found.committed[tp] for tp in (*wanted, *begun.kept) if tp in found.committed}
    from_here = wanted | {tp: before[tp] for tp in begun.kept if tp in before}
    return Observed(
        instances=tuple(f"{i.name} ({i.detail})" for i in not_gone(recovery)),
        offsets_replaced=held,
        offsets_before=before,
        records_to_catch_up=sum(logs.lag(tp, offset).behind for tp, offset in from_here.items()),
    )


def lost_input(recovery: RecoveryContext, savepoint: str, outputs: OutputPolicy, *, upto: int | None) -> Archived:
    """The topics that a rebuild has to make from a savepoint, an id or ``latest``, and the archive; ``upto`` as for ``read_archive``. Raises what
    ``_choose_archive`` and ``archived_input`` do.
    """
    manifest = _choose_archive(recovery, savepoint, outputs)
    present = present_topics(recovery, manifest, {})
    target = target_of(recovery, manifest, present, spans(recovery, present))
    gone = {one.image.name for one in place(manifest, target) if one.made and goes_into_archive(one.image)}
    behind = archived_input(recovery, manifest, gone, upto=upto)
    placed = [one for one in place(behind.manifest, target) if one.made]
    source = RestoreSource(manifest=behind.manifest)
    there = target_settings(recovery, placed)
    made = {one.name: one.image for one in placed}
    refuse_lost_settings(recovery, made, there)
    return Archived(
        behind=behind,
        create=tuple(topic_to_create(one, present.get(one.name), source, recovery.config.dialect, there) for one in placed),
        settings=setting_warnings(made, there),
        begins={tp: archive_begins(image) for tp, (_, image) in input_images(placed).items()},
    )


def _choose_archive(recovery: RecoveryContext, savepoint: str, outputs: OutputPolicy) -> Manifest:
    """The savepoint whose inputs, globals and outputs a rebuild begins with, without its state; outputs that are to be empty are. Its label says nothing
    about these. Raises ``NotFound``, and ``Damaged`` as ``choose`` does.
    """
    store = recovery.savepoints
    manifest = store.latest() if savepoint == LATEST else store.read(savepoint)
    if manifest is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint in {recovery.repository.location}",
            next_step="rebuild from inputs that are there, or check the storage section of the configuration",
            application_id=recovery.application_id,
        )
    check_published(recovery, store, manifest.savepoint_id)
    empty = outputs is OutputPolicy.RECREATE
    topics = tuple(
        empty_source(topic) if topic.role is TopicRole.OUTPUT and empty else topic for topic in manifest.topics if not topic.role.internal
    )
    check_files(recovery, manifest, pieces_of(topics))
    return replace(manifest, topics=topics)


def archived_input(recovery: RecoveryContext, manifest: Manifest, gone: Collection[str], *, upto: int | None) -> BehindSavepoint:
    """The input archived behind ``manifest`` of the topics that are ``gone``, by their names in it; ``upto`` as for ``read_archive``. Raises ``Damaged`` where
    its files are not all there.
    """
    try:
        found = archived_behind(recovery, manifest, upto=upto, topics=gone) if gone else None
    except Damaged as error:
        # The savepoint can be brought back all the same. The plan tells its approver what is missing.
        why = f"input that was archived behind the savepoint is not used, because the archive cannot be read: {error.reason}"
        return BehindSavepoint(manifest=manifest, left=(why,))
    if found is None:
        return BehindSavepoint(manifest=manifest)
    if found.left:
        newest = recovery.savepoints_of(manifest.application_id).ids()[-1:] == [manifest.savepoint_id]
        left = tuple(f"input that was archived behind the savepoint is not used: {why}" for why in found.left if newest)
        return BehindSavepoint(manifest=manifest, left=left)
    check_files(recovery, found.manifest, pieces_of(topic for topic in found.manifest.topics if topic.name in gone))
    archived = ArchivedInput(entry=found.number, safe_at=found.recorded_safe_at, records=found.records)
    return BehindSavepoint(manifest=found.manifest, archived=archived)


def check_still_planned(recovery: RecoveryContext, planned: RestorePlan, created: Mapping[str, set[str]]) -> None:
    """Raise ``PlanChanged`` when a topic that would be deleted is not the one in the plan, or is an input that was empty in the plan and is not any more.
    ``created`` has the ids of topics that this rebuild created itself.
    """
    shown = {gone.name: gone.topic_id for gone in planned.delete} | {step.name: step.replaces for step in planned.create}
    there = recovery.cluster.describe_topics({*internal_topics(recovery), *shown})
    filled = spans(recovery, there)
    other = sorted(
        name
        for name, found in there.items()
        # One that is empty may have been made by an attempt that died before it could write that down.
        if found.topic_id not in (shown.get(name), *created.get(name, ())) and (name not in created or name in filled)
    )
    if other:
        raise PlanChanged(
            f"topics of {planned.application_id} were created since the plan was approved: {', '.join(other)}",
            next_step="find out who writes there, then trigger the rebuild again and approve the new plan",
            topics=other,
        )
    late = sorted(name for name in planned.written_by_others & set(filled) if there[name].topic_id not in created.get(name, ()))
    if late:
        raise PlanChanged(
            f"inputs of {planned.application_id} that were empty when the plan was approved hold records now: {', '.join(late)}",
            next_step="they were not touched; stop their producers, copy these records if somebody needs them, delete the topics, and go on: resume this "
            "rebuild if it can be resumed, else begin it again",
            topics=late,
        )


def check_cleared(recovery: RecoveryContext, planned: RestorePlan) -> tuple[str, ...]:
    """The internal topics that were to be deleted, proven gone. Raises ``TargetNotEmpty`` for those that are still, or again, there."""
    there = internal_topics(recovery)
    if there:
        raise TargetNotEmpty(
            f"internal topics of {recovery.application_id} are still there, or there again: {', '.join(there)}",
            next_step="find out who creates them, stop that, and resume this rebuild",
            topics=there,
        )
    return tuple(topic.name for topic in planned.delete)


def offsets_to_remove(recovery: RecoveryContext, planned: RestorePlan) -> list[TopicPartition]:
    """Partitions of which the group has committed an offset that the plan neither sets nor keeps: offsets on topics that are gone would be past the end of
    those that come.
    """
    wanted = {*(item.tp for item in planned.offsets), *planned.offsets_kept}
    return sorted(set(recovery.groups.committed_partitions(recovery.application_id)) - wanted)
