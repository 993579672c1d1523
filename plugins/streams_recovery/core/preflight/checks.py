"""Unsafe and impossible things before a savepoint, a restore or a failover, beside those that the checks of ``core.checks`` find: the group and its members,
outputs, inputs and disk space. All of it is reported at once. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streams_recovery.core.application_kind import Dialect
from streams_recovery.core.checks.catalogue import before_run
from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.facts import BrokerFacts, Facts, TopicFacts
from streams_recovery.core.checks.runs import PARTITIONS, PartitionFacts
from streams_recovery.core.checks.savepoints import CLUSTER_LOSS, ClusterLoss
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.names import matches_any
from streams_recovery.core.preflight.findings import (
    ApplicationFacts,
    PreflightFinding,
    PreflightSeverity,
    as_findings,
    blocking_finding,
    warning,
)
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.remedies.restores import (
    avoid_group_trap,
    carry_inputs,
    guard_unread_input,
    tell_readers,
)
from streams_recovery.core.remedies.savepoints import (
    correct_pattern,
    own_guarantee,
)
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.outputs_behind import OutputBehind
from streams_recovery.core.restore.topic_settings import TargetSettings, restored_overrides
from streams_recovery.core.savepoint.cut import works_at_least_once
from streams_recovery.core.savepoint.topology import Declared
from streams_recovery.core.topic_settings import topic_defaults
from streams_recovery.core.words import first_names

# Levels of metadata.version of the releases 4.1 and 4.2 (MetadataVersion). The defect is in 4.1.x and 4.2.0, and is fixed in 4.2.1.
_LEVELS_41, _LEVELS_42 = range(26, 28), range(28, 30)


def before_restore(
    facts: Facts,
    manifest: Manifest,
    made: Mapping[str, TopicImage],
    existing: Iterable[TopicFacts],
    application: ApplicationFacts,
    *,
    replacing: bool = False,
) -> tuple[PreflightFinding, ...]:
    """Findings before a restore of ``manifest``. ``made`` are the topics that it creates, by their new names, and those of ``facts``. ``existing`` are those of
    them that already exist. ``replacing``: existing topics may be replaced.
    """
    internal = PartitionFacts(
        savepoint_id=manifest.savepoint_id,
        there={topic.name: topic.partitions for topic in existing},
        saved={name: len(image.partitions) for name, image in made.items() if image.role.internal},
        replacing=replacing,
    )
    return (
        *as_findings(PARTITIONS.ask(Occasion.RESTORE, internal)),
        *as_findings(before_run(Occasion.RESTORE, facts)),
        *_group_trap(facts.brokers, manifest, application),
    )


def to_be_made(name: str, image: TopicImage, brokers: BrokerFacts) -> TopicFacts:
    """A topic as a restore makes it, with the settings that it gets there."""
    defaults = topic_defaults(brokers.settings) if brokers.settings else {}
    return TopicFacts.of(name, image, defaults | restored_overrides(image, TargetSettings(defaults=defaults)))


def lost_with_cluster(application_id: str, declared: Declared) -> tuple[PreflightFinding, ...]:
    """A warning if savepoints do not survive the loss of the cluster."""
    roles = dict.fromkeys(declared.globals, TopicRole.GLOBAL) | dict.fromkeys(declared.inputs, TopicRole.INPUT)
    absent = [name for name, role in roles.items() if not declared.archives(name, role)]
    if not absent:
        return ()
    lost = (f"the records of {first_names(absent)} are not in them",)
    facts = ClusterLoss(what=f"savepoints of {application_id} do", lost=lost, promised=declared.all_read, commands=())
    return as_findings(CLUSTER_LOSS.ask(Occasion.SAVEPOINT, facts))


def unmatched(declared: Declared, committed: Collection[str]) -> tuple[PreflightFinding, ...]:
    """A warning for patterns that mean none of the application's topics. ``committed`` are topics on which its group has offsets."""
    names = {*declared.inputs, *declared.outputs, *declared.globals, *committed}
    idle = [one for one in declared.include if not any(matches_any(topic, (one,)) for topic in names)]
    if not idle:
        return ()
    text = f"topics.include has {first_names(idle)}, and no input, output or global of the application is called so: nothing is archived for it"
    return (warning("include", text, correct_pattern()),)


def loses_unread(application_id: str, dialect: Dialect) -> tuple[PreflightFinding, ...]:
    """A warning for a kind of application that a restore is not the last danger to: it ends with a start without local state."""
    if not dialect.loses_unread:
        return ()
    what = f"{dialect.product} by itself may leave out unread input, and count other input twice, when {application_id} starts without local state"
    return (warning("unread-input", what, guard_unread_input(dialect.loses_unread)),)


def written_again(behind: Sequence[OutputBehind]) -> tuple[PreflightFinding, ...]:
    """Outputs with records ``behind`` the state of a savepoint: their input will be processed again."""
    if not behind:
        return ()
    spans = first_names([f"{one.tp} offsets {one.spans[0].first} to {one.spans[-1].last}" for one in behind])
    records = sum(one.offsets for one in behind)
    what = f"outputs were written to since the savepoint ({spans}; {records} offsets in all), and their input is processed again"
    return (warning("outputs", what, tell_readers()),)


def brokers_with_group_trap(metadata_level: int | None) -> tuple[PreflightSeverity, str] | None:
    """The danger of setting offsets for a group that does not exist, on brokers of this level; None without any. It creates a classic group. If a streams
    application then takes that over, a coordinator of these releases can fail to load its partition, with the offsets of every group in it (KAFKA-20254).
    """
    if metadata_level in _LEVELS_41:
        return PreflightSeverity.BLOCKING, "Kafka 4.1, which has"
    if metadata_level in _LEVELS_42:
        return PreflightSeverity.WARNING, "Kafka 4.2, whose 4.2.0 has (and 4.2.1 has not)"
    return None


def inputs_there(
    tools: KafkaTools,
    images: Mapping[str, TopicImage],
    described: Mapping[str, TopicDescription],
    unseen: Collection[str],
    ends: Mapping[TopicPartition, int],
) -> tuple[PreflightFinding, ...]:
    """Inputs and global topics, by their names there, that could not be read there: gone without being in savepoints, or with other partitions. Those that are
    ``unseen`` may be there. ``ends`` are the present ends there.
    """
    read = {name: image for name, image in images.items() if image.role in (TopicRole.INPUT, TopicRole.GLOBAL)}
    gone = [name for name, image in read.items() if name not in described and name not in unseen and not image.archived]
    there = {name: found.partitions for name, found in described.items()}
    findings = []
    if gone:
        text = f"{first_names(gone)} {'is' if len(gone) == 1 else 'are'} not there, and the records are in no savepoint"
        findings.append(blocking_finding("inputs", text, carry_inputs()))
    inputs = PartitionFacts(
        there=there,
        saved={name: len(image.partitions) for name, image in read.items() if image.role is TopicRole.INPUT},
        tools=tools,
        unwritten=frozenset(name for name, count in there.items() if not any(ends.get(TopicPartition(name, at), 1) for at in range(count))),
    )
    return (*findings, *as_findings(PARTITIONS.ask(Occasion.RESTORE, inputs)))


def bytes_to_make(images: Mapping[str, TopicImage], described: Collection[str]) -> int:
    """About how many bytes a restore would write there, replicas included: state, and what is in the savepoint of inputs that are not ``described``. Rather
    too much than too little.
    """
    made = [image for name, image in images.items() if image.archived and (image.role.internal or name not in described)]
    return sum(
        image.replication_factor * facts.rows * facts.payload_a_row
        for image in made
        for facts in (partition.ranges.facts for partition in image.partitions)
    )


def _group_trap(brokers: BrokerFacts, manifest: Manifest, application: ApplicationFacts) -> list[PreflightFinding]:
    found = brokers_with_group_trap(brokers.metadata_level)
    if manifest.group_type != "streams" or application.group_kind == "streams" or found is None:
        return []
    severity, which = found
    return [
        PreflightFinding(
            severity=severity,
            kind="group-trap",
            text=f"the group of {manifest.application_id} used the streams protocol, and {application.application_id} is {application.group_kind} "
            f"now; the brokers run {which} defect KAFKA-20254: after offsets were set for such a group its coordinator may fail to load",
            remedy=avoid_group_trap(certain=severity is PreflightSeverity.BLOCKING),
        )
    ]


def not_exactly_once(changelogs: Collection[TopicPartition], *, refused: bool) -> tuple[PreflightFinding, ...]:
    """A finding if the program works at least once, whatever its configuration says. ``refused``: only an exact savepoint is wanted, and none would be."""
    if not changelogs:
        return ()
    text = f"{works_at_least_once(changelogs)}, so a savepoint that pauses it or leaves it running is not exact"
    return ((blocking_finding if refused else warning)("guarantee", text, own_guarantee()),)
