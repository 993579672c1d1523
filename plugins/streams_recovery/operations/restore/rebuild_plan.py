"""The plan of a rebuild: internal topics deleted, inputs begun where a person says, and the application builds its state again. Changes nothing.

Where the cluster has lost inputs, they are made from a savepoint first, if one was named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.application.port import InstanceState
from streams_recovery.core.kafka_types import Profile, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.repository.segment_files import SegmentFiles
from streams_recovery.core.restore.plan import (
    Observed,
    PartitionLoad,
    RestorePlan,
    TopicToCreate,
    TopicToDelete,
)
from streams_recovery.core.restore.rebuild import RebuildStart, check_all_go, rebuild_start
from streams_recovery.core.restore.request import OutputPolicy, Safeguards
from streams_recovery.core.savepoint.topology import Attribution, Topology, attributed, topology_of
from streams_recovery.core.timestamps import moment
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import known
from streams_recovery.operations.preflight import required_for_rebuild
from streams_recovery.operations.restore.lost_input import Archived
from streams_recovery.operations.restore.target_checks import proven, refuse_existing_state, spans


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
        create=(*(archived.create if archived else ()), *outputs),
        offsets=begun.offsets,
        strategy=source.offsets.text,
        offsets_agree=begun.agree,
        warnings=(*warnings, *begun.warnings, *_about_archive(archived), *_about_outputs(recovery, found, outputs, held)),
        observed=_observe(recovery, begun, found, logs, held),
        claimed=found.inventory.claimed,
        evidence=evidence,
        inputs_from=archived.behind.manifest.savepoint_id if archived else None,
        archived=archived.behind.archived if archived else None,
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
    behind, left = archived.behind, list(archived.behind.left)
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
        instances=tuple(f"{i.name} ({i.detail})" for i in recovery.application.status() if i.state is not InstanceState.GONE),
        offsets_replaced=held,
        offsets_before=before,
        records_to_catch_up=sum(logs.lag(tp, offset).behind for tp, offset in from_here.items()),
    )
