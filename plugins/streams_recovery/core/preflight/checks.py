"""Checks what is unsafe or impossible on this cluster before a savepoint or a restore. Reports everything at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streams_recovery.core.application_kind import Dialect
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.preflight.facts import BROKER_DEFAULTS, ApplicationFacts, BrokerFacts, TopicFacts
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity, warning
from streams_recovery.core.preflight.topic_checks import (
    partitions,
    replaced_times,
    too_few_brokers,
    too_few_replicas,
    too_large,
    weak_topics,
)
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.core.savepoint.topology import Declared
from streams_recovery.core.words import first_names

# Levels of metadata.version of the releases 4.1 and 4.2 (MetadataVersion). The defect is in 4.1.x and 4.2.0, and is fixed in 4.2.1.
_LEVELS_41, _LEVELS_42 = range(26, 28), range(28, 30)


def before_backup(cluster: BrokerFacts, topics: Iterable[TopicFacts], application: ApplicationFacts) -> tuple[PreflightFinding, ...]:
    """Findings before a savepoint of these topics. Only the internal topics and the inputs are needed."""
    internal = [topic for topic in topics if topic.role.internal]
    settings = {topic.name: topic.settings for topic in internal}
    replicas = {topic.name: topic.replication_factor for topic in internal}
    return (
        *weak_topics(cluster, replicas, settings),
        *replaced_times({topic.name: topic.settings for topic in internal if topic.role is TopicRole.CHANGELOG}),
        *_strangers(application),
    )


def stopped_by_default(application_id: str, no_pause_because: str | None) -> tuple[PreflightFinding, ...]:
    """A warning if the configuration does not say how the application is held and it cannot be paused, so that it is stopped for every savepoint."""
    if no_pause_because is None:
        return ()
    what = f"{application_id} is closed and started again for every savepoint, because it cannot be paused: {no_pause_because}"
    return (
        warning(
            "hold",
            what,
            "set backup.consistency.mode to stop if that is intended; otherwise use live, or make it possible to pause the application",
        ),
    )


def unattributed(application_id: str, topics: Sequence[str]) -> tuple[PreflightFinding, ...]:
    """A warning if there are internal topics that may be another application's. ``topics`` are their names."""
    if not topics:
        return ()
    what = (
        f"nothing but the name says that {first_names(topics)} {'is' if len(topics) == 1 else 'are'} {application_id}'s: no restore and no rebuild deletes or "
        "replaces what is not proven to be"
    )
    return (
        warning(
            "unattributed",
            what,
            f"name the stores of {application_id} under `stores`, its other topics under topics.owned, and those of another application under topics.foreign",
        ),
    )


def lost_with_cluster(application_id: str, declared: Declared) -> tuple[PreflightFinding, ...]:
    """A warning if savepoints do not survive the loss of the cluster."""
    roles = dict.fromkeys(declared.globals, TopicRole.GLOBAL) | dict.fromkeys(declared.inputs, TopicRole.INPUT)
    absent = [name for name, role in roles.items() if not declared.archives(name, role)]
    if not absent:
        return ()
    what = f"savepoints of {application_id} do not survive the loss of the cluster: the records of {first_names(absent)} are not in them"
    return (warning("cluster-loss", what, "set backup.survive_cluster_loss: true, unless these topics are kept safe in another way"),)


def loses_unread(application_id: str, dialect: Dialect) -> tuple[PreflightFinding, ...]:
    """A warning for a kind of application that a restore is not the last danger to: it ends with a start without local state."""
    if not dialect.loses_unread:
        return ()
    what = f"{dialect.product} by itself may leave out unread input, and count other input twice, when {application_id} starts without local state"
    return (warning("unread-input", what, f"give the application what it needs: {dialect.loses_unread}"),)


def before_restore(
    cluster: BrokerFacts,
    manifest: Manifest,
    made: Mapping[str, TopicImage],
    existing: Iterable[TopicFacts],
    application: ApplicationFacts,
    *,
    replacing: bool = False,
) -> tuple[PreflightFinding, ...]:
    """Findings before a restore of ``manifest``. ``made`` are the topics that it creates, by their new names. ``existing`` are those of them that
    already exist. ``replacing``: existing topics may be replaced.
    """
    settings = {name: _created_settings(cluster, image) for name, image in made.items()}
    replicas = {name: image.replication_factor for name, image in made.items()}
    severity = PreflightSeverity.WARNING if replacing else PreflightSeverity.BLOCKING
    return (
        *partitions(manifest, made, {topic.name: topic for topic in existing}, severity),
        *too_few_brokers(cluster, replicas),
        *too_few_replicas(replicas, settings),
        *too_large(made, settings),
        *_group_trap(cluster, manifest, application),
        *weak_topics(cluster, replicas, settings),
        *replaced_times({name: settings[name] for name, image in made.items() if image.role is TopicRole.CHANGELOG}),
        *_strangers(application),
    )


def outputs_transferred(last: OwnershipEntry, application_id: str, source: str, against: Collection[str]) -> tuple[PreflightFinding, ...]:
    """A blocking finding if an application must not be restored: because its clone writes its outputs, or because it is a live clone and the state is
    that of the application it replaced. ``against`` is what contradicts the entry: then it keeps nobody from a restore, unless both might write.
    """
    said = f"{application_id} is on record as {last.role} towards {last.other} (run {last.run}), which is not so: {'; '.join(against)}"
    if against and last.role is Role.RETIRED:
        return (warning("outputs-transferred", said, "find out who wrote the log"),)
    if against:
        remedy = f"find out which of the two is to write the outputs, stop the other one, then cut over or roll back {application_id}"
        return (PreflightFinding(severity=PreflightSeverity.BLOCKING, kind="outputs-transferred", text=said, remedy=remedy),)
    if last.role is not Role.RETIRED and not (last.role is Role.LIVE and source == last.other):
        return ()
    if last.role is Role.RETIRED:
        text = f"{application_id} transferred its outputs to {last.other} and cannot be started"
    else:
        text = f"{application_id} writes the outputs of {last.other}: a state of that one would take back what it has done since"
    return (
        PreflightFinding(severity=PreflightSeverity.BLOCKING, kind="outputs-transferred", text=text, remedy="roll the clone back first"),
    )


def written_again(outputs: Mapping[str, TopicImage], ends: Mapping[TopicPartition, int]) -> tuple[PreflightFinding, ...]:
    """Outputs, by name, that have grown since the cut: the input behind these records will be processed again. ``ends`` are the present ends."""
    since = {
        tp: (image.end, ends[tp])
        for name, topic in outputs.items()
        for image in topic.partitions
        if ends.get(tp := TopicPartition(name, image.partition), 0) > image.end
    }
    if not since:
        return ()
    spans = first_names([f"{tp} offsets {start} to {end - 1}" for tp, (start, end) in since.items()])
    records = sum(end - start for start, end in since.values())
    what = f"outputs were written to since the savepoint ({spans}; {records} offsets in all), and their input is processed again"
    return (warning("outputs", what, "tell those who read them: the same results come twice, behind those that are there"),)


def _created_settings(cluster: BrokerFacts, topic: TopicImage) -> dict[str, str]:
    defaults = {name: cluster.settings[setting] for name, setting in BROKER_DEFAULTS.items() if setting in cluster.settings}
    return defaults | topic.config


def brokers_with_group_trap(metadata_level: int | None) -> tuple[PreflightSeverity, str] | None:
    """Whether setting offsets for a group that does not exist can hurt on brokers of this level: it creates a classic group, and if a streams application
    then takes that over, a coordinator of these releases can fail to load its partition, with the offsets of every group in it (KAFKA-20254).
    """
    if metadata_level in _LEVELS_41:
        return PreflightSeverity.BLOCKING, "Kafka 4.1, which has"
    if metadata_level in _LEVELS_42:
        return PreflightSeverity.WARNING, "Kafka 4.2, whose 4.2.0 has (and 4.2.1 has not)"
    return None


def _group_trap(cluster: BrokerFacts, manifest: Manifest, application: ApplicationFacts) -> list[PreflightFinding]:
    found = brokers_with_group_trap(cluster.metadata_level)
    if manifest.group_type != "streams" or application.group_kind == "streams" or found is None:
        return []
    severity, which = found
    return [
        PreflightFinding(
            severity=severity,
            kind="group-trap",
            text=f"the group of {manifest.application_id} used the streams protocol, and {application.application_id} is {application.group_kind} "
            f"now; the brokers run {which} defect KAFKA-20254: after offsets were set for such a group its coordinator may fail to load",
            remedy="use brokers of 4.2.1 or newer; or start the application once, stop it and delete its internal topics, so that its group is there",
        )
    ]


def _strangers(application: ApplicationFacts) -> list[PreflightFinding]:
    """More member processes than known instances. All threads of one process share a client id prefix (StreamThread#create)."""
    processes = {client.rsplit("-StreamThread-", 1)[0] for client in application.client_ids if "-StreamThread-" in client}
    if len(processes) <= len(application.instances):
        return []
    return [
        warning(
            "instances",
            f"the group has members of {len(processes)} processes, and {len(application.instances)} instances run here as far as is known: one "
            "that is not known is not held or stopped, and its local state is not wiped, which Kafka Streams takes up without an error",
            "add every instance to the configuration, or wait until the sessions of those that died have timed out",
        )
    ]
