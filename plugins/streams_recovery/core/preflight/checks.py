"""What can be seen before a savepoint or a restore to be unsafe or impossible on this cluster: all of it at once, from facts alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding, Severity, findings_text
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.core.savepoint.topology import Declared

MIN_IN_SYNC, UNCLEAN, TIMESTAMP_TYPE, MAX_MESSAGE = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.timestamp.type",
    "max.message.bytes",
)
AUTO_CREATE = "auto.create.topics.enable"
# What a topic without an override has, by the name of the broker's setting.
BROKER_DEFAULTS = {
    MIN_IN_SYNC: MIN_IN_SYNC,
    UNCLEAN: UNCLEAN,
    TIMESTAMP_TYPE: "log.message.timestamp.type",
    MAX_MESSAGE: "message.max.bytes",
}
LOG_APPEND = "LogAppendTime"

# Levels of metadata.version that the releases 4.1 and 4.2 know (MetadataVersion). The defect is in 4.1.x and 4.2.0 and is gone in 4.2.1.
_LEVELS_41, _LEVELS_42 = range(26, 28), range(28, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """``brokers`` counts those that are up. ``settings`` are broker settings, empty when they may not be read. ``metadata_level`` is the highest
    level of ``metadata.version`` that the broker knows, which dates its release; None when it does not tell.
    """

    brokers: int
    settings: Mapping[str, str]
    metadata_level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic that exists. ``settings`` are those in force, defaults included; empty when they may not be read."""

    name: str
    role: TopicRole
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """``application_id`` is the target's and ``group_kind`` as in ``GroupDescription``. ``client_ids`` are those of the group's members,
    ``instances`` those that are not gone.
    """

    application_id: str
    group_kind: str
    client_ids: tuple[str, ...]
    instances: tuple[str, ...]


def before_backup(cluster: ClusterFacts, topics: Iterable[TopicFacts], application: ApplicationFacts) -> tuple[PreflightFinding, ...]:
    """What blocks or weakens a savepoint of these topics. ``topics`` need not hold more than the internal ones and the inputs."""
    internal = [topic for topic in topics if topic.role.internal]
    settings = {topic.name: topic.settings for topic in internal}
    replicas = {topic.name: topic.replication_factor for topic in internal}
    return (
        *_weak_topics(cluster, replicas, settings),
        *_replaced_times({topic.name: topic.settings for topic in internal if topic.role is TopicRole.CHANGELOG}),
        *_strangers(application),
    )


def stopped_by_default(application_id: str, no_pause_because: str | None) -> tuple[PreflightFinding, ...]:
    """What to say of an application that nobody has said of how it is held: one that cannot be paused is stopped for every savepoint."""
    if no_pause_because is None:
        return ()
    what = f"{application_id} is closed and started again for every savepoint, because it cannot be paused: {no_pause_because}"
    return (_warning("hold", what, "write backup.consistency.mode: stop if that is meant; else live, or let it be paused"),)


def lost_with_cluster(application_id: str, declared: Declared) -> tuple[PreflightFinding, ...]:
    """What to say when savepoints are no help against the loss of the cluster."""
    roles = dict.fromkeys(declared.globals, TopicRole.GLOBAL) | dict.fromkeys(declared.inputs, TopicRole.INPUT)
    absent = [name for name, role in roles.items() if not declared.archives(name, role)]
    if not absent:
        return ()
    what = f"savepoints of {application_id} do not survive the loss of the cluster: the records of {findings_text(absent)} are not in them"
    return (_warning("cluster-loss", what, "set backup.survive_cluster_loss: true, unless these topics are kept safe in another way"),)


def before_restore(
    cluster: ClusterFacts,
    manifest: Manifest,
    made: Mapping[str, TopicImage],
    existing: Iterable[TopicFacts],
    application: ApplicationFacts,
    *,
    replacing: bool = False,
) -> tuple[PreflightFinding, ...]:
    """What blocks or weakens a restore of ``manifest``. ``made`` are the topics that it makes, by the names they get; ``existing`` those
    of them that the cluster has. ``replacing`` tells whether those may be replaced by the savepoint's.
    """
    settings = {name: _created_settings(cluster, image) for name, image in made.items()}
    replicas = {name: image.replication_factor for name, image in made.items()}
    severity = Severity.WARNING if replacing else Severity.BLOCKING
    return (
        *_partitions(manifest, made, {topic.name: topic for topic in existing}, severity),
        *_too_few_brokers(cluster, replicas),
        *_too_few_replicas(replicas, settings),
        *_too_large(made, settings),
        *_group_trap(cluster, manifest, application),
        *_weak_topics(cluster, replicas, settings),
        *_replaced_times({name: settings[name] for name, image in made.items() if image.role is TopicRole.CHANGELOG}),
        *_strangers(application),
    )


def outputs_transferred(last: OwnershipEntry | None, application_id: str, source: str) -> tuple[PreflightFinding, ...]:
    """What an application must not be given a state for: one whose clone writes its outputs; and a live clone, that of the application it replaced."""
    if last is None or (last.role is not Role.RETIRED and not (last.role is Role.LIVE and source == last.other)):
        return ()
    if last.role is Role.RETIRED:
        text = f"{application_id} transferred its outputs to {last.other} and cannot be started"
    else:
        text = f"{application_id} writes the outputs of {last.other}: a state of that one would take back what it has done since"
    return (PreflightFinding(severity=Severity.BLOCKING, kind="outputs-transferred", text=text, remedy="roll the clone back first"),)


def written_again(outputs: Mapping[str, TopicImage], ends: Mapping[TopicPartition, int]) -> tuple[PreflightFinding, ...]:
    """Outputs, by name, that have grown since the cut: the input that made them grow is processed once more. ``ends`` are those of now."""
    since = {
        tp: (image.end, ends[tp])
        for name, topic in outputs.items()
        for image in topic.partitions
        if ends.get(tp := TopicPartition(name, image.partition), 0) > image.end
    }
    if not since:
        return ()
    spans = findings_text([f"{tp} offsets {start} to {end - 1}" for tp, (start, end) in since.items()])
    records = sum(end - start for start, end in since.values())
    what = f"outputs were written to since the savepoint ({spans}; {records} offsets in all), and their input is processed again"
    return (_warning("outputs", what, "tell those who read them: the same results come twice, behind those that are there"),)


def _created_settings(cluster: ClusterFacts, topic: TopicImage) -> dict[str, str]:
    defaults = {name: cluster.settings[setting] for name, setting in BROKER_DEFAULTS.items() if setting in cluster.settings}
    return defaults | topic.config


def _partitions(
    manifest: Manifest, made: Mapping[str, TopicImage], existing: Mapping[str, TopicFacts], severity: Severity
) -> list[PreflightFinding]:
    return [
        PreflightFinding(
            severity=severity,
            kind="partitions",
            text=f"internal topic {name} has {found.partitions} partitions, {len(image.partitions)} in savepoint {manifest.savepoint_id}; "
            "the application that made it would stop at the restored one with `Existing internal topic has invalid partitions`",
            remedy="deploy the version of the application that the savepoint was taken of, and let the topic be replaced; or choose another savepoint",
        )
        for name, image in made.items()
        if image.role.internal and (found := existing.get(name)) is not None and found.partitions != len(image.partitions)
    ]


def _too_few_brokers(cluster: ClusterFacts, replicas: Mapping[str, int]) -> list[PreflightFinding]:
    wanted = max(replicas.values(), default=0)
    if wanted <= cluster.brokers:
        return []
    names = [name for name, factor in replicas.items() if factor > cluster.brokers]
    return [
        PreflightFinding(
            severity=Severity.BLOCKING,
            kind="replication",
            text=f"{findings_text(names)} had up to {wanted} replicas, and {cluster.brokers} brokers are up",
            remedy=f"bring up {wanted - cluster.brokers} more",
        )
    ]


def _too_few_replicas(replicas: Mapping[str, int], settings: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    names = [name for name, factor in replicas.items() if _number(settings[name], MIN_IN_SYNC, 1) > factor]
    if not names:
        return []
    return [
        PreflightFinding(
            severity=Severity.BLOCKING,
            kind="min-insync",
            text=f"{findings_text(names)} would need more replicas in sync ({MIN_IN_SYNC}) than there are replicas: nothing could be written",
            remedy=f"lower {MIN_IN_SYNC} of the brokers, or restore a savepoint taken with enough replicas",
        )
    ]


def _too_large(topics: Mapping[str, TopicImage], settings: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    """No file's largest record, which a manifest does not have, is smaller than its average. A broker judges records as they are sent,
    compressed: what zstd could not make fit, the lz4 of a restore will not either; of the rest one can only warn.
    """
    found = []
    for name, topic in topics.items():
        limit = _number(settings[name], MAX_MESSAGE, 0)
        facts = [partition.ranges.facts for partition in topic.partitions]
        plain = max((one.payload_a_row for one in facts), default=0)
        packed = max((one.bytes_a_row for one in facts), default=0)
        if limit and plain > limit:
            fits = packed <= limit
            found.append(
                PreflightFinding(
                    severity=Severity.WARNING if fits else Severity.BLOCKING,
                    kind="record-size",
                    text=f"{name} has records of {plain} bytes and more, and will take {limit} ({MAX_MESSAGE})"
                    + (": they fit only as far as they can be compressed" if fits else ""),
                    remedy="raise message.max.bytes of the brokers",
                )
            )
    return found


def _group_trap(cluster: ClusterFacts, manifest: Manifest, application: ApplicationFacts) -> list[PreflightFinding]:
    """Offsets for a group that does not exist make a classic one. A streams application takes it over, and a coordinator of these releases
    can fail to load its partition afterwards, with the offsets of every group in it (KAFKA-20254).
    """
    if manifest.group_type != "streams" or application.group_kind == "streams" or cluster.metadata_level is None:
        return []
    if cluster.metadata_level in _LEVELS_41:
        severity, which = Severity.BLOCKING, "Kafka 4.1, which has"
    elif cluster.metadata_level in _LEVELS_42:
        severity, which = Severity.WARNING, "Kafka 4.2, whose 4.2.0 has (and 4.2.1 has not)"
    else:
        return []
    return [
        PreflightFinding(
            severity=severity,
            kind="group-trap",
            text=f"the group of {manifest.application_id} used the streams protocol, and {application.application_id} is {application.group_kind} "
            f"now; the brokers run {which} defect KAFKA-20254: after offsets were set for such a group its coordinator may fail to load",
            remedy="use brokers of 4.2.1 or newer; or start the application once, stop it and delete its internal topics, so that its group is there",
        )
    ]


def _weak_topics(cluster: ClusterFacts, replicas: Mapping[str, int], settings: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    """What could lose acknowledged records of these topics, or bring wrong topics into being."""

    def having(holds: Callable[[str], bool]) -> list[str]:
        return [name for name in replicas if holds(name)]

    single = having(lambda name: replicas[name] == 1 and cluster.brokers > 1)
    thin = having(lambda name: replicas[name] > 1 and _number(settings[name], MIN_IN_SYNC, 2) == 1)
    unclean = having(lambda name: settings[name].get(UNCLEAN) == "true")
    checks = (
        (single, "has one replica: its state is lost with one disk", "raise replication.factor of the application's internal topics"),
        (thin, f"counts a record as written with one replica ({MIN_IN_SYNC}=1)", f"set {MIN_IN_SYNC}=2"),
        (unclean, f"may lose acknowledged records ({UNCLEAN}=true)", f"set {UNCLEAN}=false"),
    )
    found = [_warning("durability", f"{findings_text(names)} {what}", remedy) for names, what, remedy in checks if names]
    if cluster.settings.get(AUTO_CREATE) == "true":
        found.append(
            _warning(
                AUTO_CREATE,
                "the brokers create topics on first use: a client that comes too early makes one with the wrong partitions and settings",
                f"set {AUTO_CREATE}=false",
            )
        )
    return found


def _replaced_times(changelogs: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    names = [name for name, settings in changelogs.items() if settings.get(TIMESTAMP_TYPE) == LOG_APPEND]
    if not names:
        return []
    what = f"{findings_text(names)} replaces the times of records ({TIMESTAMP_TYPE}={LOG_APPEND}), and times are part of the state"
    return [_warning("timestamps", what, f"set {TIMESTAMP_TYPE}=CreateTime")]


def _strangers(application: ApplicationFacts) -> list[PreflightFinding]:
    """A process of the application has one name in front of all its threads' (StreamThread#create)."""
    processes = {client.rsplit("-StreamThread-", 1)[0] for client in application.client_ids if "-StreamThread-" in client}
    if len(processes) <= len(application.instances):
        return []
    return [
        _warning(
            "instances",
            f"the group has members of {len(processes)} processes, and {len(application.instances)} instances run here as far as is known: one "
            "that is not known is not held or stopped, and its local state is not wiped, which Kafka Streams takes up without an error",
            "add every instance to the configuration, or wait until the sessions of those that died have timed out",
        )
    ]


def _warning(kind: str, text: str, remedy: str) -> PreflightFinding:
    return PreflightFinding(severity=Severity.WARNING, kind=kind, text=text, remedy=remedy)


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else default
